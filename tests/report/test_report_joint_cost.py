"""The cost of publishing several models of the same records, on the page."""

import dataclasses

import made_up_run
import pytest
from made_up_run import CHECKINS, SURVEY

from privmix.privacy.accounting import gaussian_epsilon, gaussian_mu
from privmix.report.sections.ledger import joint_cost

MU = gaussian_mu(1.0, 1e-6)


def with_ledgers(run, **changes):
    """Return the run with these changes in the privacy statement of every private model."""
    outcomes = tuple(
        dataclasses.replace(
            outcome,
            model=outcome.model.model_copy(
                update={"privacy": outcome.model.privacy.model_copy(update=changes)}
            ),
        )
        if outcome.private and outcome.model
        else outcome
        for outcome in run.outcomes
    )
    return dataclasses.replace(run, outcomes=outcomes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("together")
    mechanisms = ("non_private", "dp_em_exact", "dp_em_linear", "planar_5km")
    return made_up_run.load(root, made_up_run.write_run(root, (CHECKINS,), mechanisms, (1.0,), failing=()))[0]


def plain_words(cost):
    return " ".join((cost.short, *cost.details)).replace("\u00a0", " ")


def test_gaussian_measurements_compose_to_one_gaussian(run):
    row = {"kind": "gaussian", "label": "moments", "count": 1, "noise_multiplier": 1 / MU}
    words = plain_words(joint_cost(with_ledgers(run, epsilon=1.0, delta=1e-6, ledger=(row,)), "checkins"))
    two, six = gaussian_epsilon(MU * 2**0.5, 2e-6), gaussian_epsilon(MU * 6**0.5, 6e-6)
    assert (
        f"per mechanism at ε = 1 (2 models) would cost at most ε = {two:.3g}, δ = 2·10⁻⁶ for one record"
        in words
    )
    assert (
        f"(6 models), would cost at most ε = {six:.3g}, δ = 6·10⁻⁶ for one record replaced by any other"
        in words
    )
    assert "(the sum of their ε is 6)" in words
    assert (
        f"(2 models) would cost ε = {two:.3g} in total. All 6 models of this run would cost ε = {six:.3g}."
        in words
    )
    assert "planar_5km is not included" in words


@pytest.mark.parametrize("kind", ["sampled_gaussian", "of tomorrow"])
def test_ledgers_that_compose_slowly_count_with_their_claim(run, kind):
    row = {"kind": kind, "label": "gradient", "count": 9, "noise_multiplier": 9.0, "rate": 0.1}
    words = plain_words(joint_cost(with_ledgers(run, epsilon=1.0, delta=1e-6, ledger=(row,)), "checkins"))
    assert "(2 models) would cost at most ε = 2, δ = 2·10⁻⁶ for one record replaced by any other. An" in words


def test_the_joint_cost_names_unit_and_relation(run):
    changed = with_ledgers(run, unit="person", relation="add_remove", epsilon=1.0, delta=0.0, ledger=())
    assert "for all records of one person added or removed" in plain_words(joint_cost(changed, "checkins"))


def with_relation(run, mechanism, relation):
    """The run, the models of one mechanism with this relation."""
    changed = with_ledgers(run, relation=relation)
    outcomes = tuple(
        new if old.mechanism == mechanism else old
        for old, new in zip(run.outcomes, changed.outcomes, strict=True)
    )
    return dataclasses.replace(run, outcomes=outcomes)


def test_the_sum_is_in_the_same_relation_as_the_total(run):
    row = {"kind": "gaussian", "label": "moments", "count": 1, "noise_multiplier": 1 / MU}
    alike = with_ledgers(run, epsilon=1.0, delta=1e-6, ledger=(row,))
    words = plain_words(joint_cost(with_relation(alike, "dp_em_exact", "add_remove"), "checkins"))
    two = gaussian_epsilon(MU * 5**0.5, 2e-6)  # one of the two moves twice as far: 1 + 4
    assert f"(2 models) would cost at most ε = {two:.3g}" in words
    assert (
        "(1 of them is for one record added or removed, which doubles their ε here; the sum of all ε is then 3)"
        in words
    )
    assert "the sum of all ε is then 9)" in words
    assert "the sum of their ε" not in words


def test_a_claim_that_conversion_makes_larger_still_has_a_finite_total(run):
    row = {"kind": "of tomorrow", "label": "gradient", "count": 1}
    alike = with_ledgers(run, epsilon=1.0, delta=1e-6, ledger=(row,))
    words = plain_words(joint_cost(with_relation(alike, "dp_em_exact", "add_remove"), "checkins"))
    assert "(2 models) would cost at most ε = 3, δ = 4.72·10⁻⁶ for one record replaced by any other" in words


def test_the_joint_cost_is_in_the_ledger_section(rendered):
    section = rendered.html[rendered.html.index('id="ledger"') : rendered.html.index('id="results"')]
    assert section.count("Cost of publishing several models.") == 2


def test_a_single_model_has_no_joint_cost(tmp_path):
    configuration = made_up_run.write_run(
        tmp_path, (SURVEY,), ("non_private", "dp_em_exact"), (1.0,), replicates=1, failing=()
    )
    assert joint_cost(made_up_run.load(tmp_path, configuration)[0], "survey") is None
