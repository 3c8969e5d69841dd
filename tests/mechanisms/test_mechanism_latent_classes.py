"""Datasets with attributes only: the table of combinations, its sensitivity and noise, latent classes, and refusals."""

import itertools
import math

import numpy as np
import pytest
from making import PRIVATE, make_domain, make_mechanism
from scipy import stats

from privmix.audit import replay
from privmix.audit.canaries import canary_pairs
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.central import noisy_grid
from privmix.mechanisms.central.noisy_grid import NoisyGrid
from privmix.mechanisms.local import randomized_response
from privmix.mechanisms.local.randomized_response import RandomizedResponse
from privmix.mechanisms.shared.latent_classes import cell_codes, find_cells, parameters
from privmix.mixture.mixed import MixedMixture
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Laplace, Ledger
from privmix.privacy.oracles import BY_NAME

RELATIONS = ["add_remove", "replace_one"]
LEVELS = [("record", 1), ("person", 3)]
ATTRIBUTES = [
    ("smokes", ("no", "yes")),
    ("colour", ("red", "green", "blue")),
    ("level", ("a", "b", "c", "d")),
]


def make_spec(components=2, attributes=ATTRIBUTES, rows=4000, candidates=(), **domain):
    domain = make_domain(rows=rows, attributes=attributes, **domain).model_copy(update={"axes": ()})
    return Spec(domain, components, candidates)


def make_records(rows=4000, seed=1, attributes=ATTRIBUTES):
    """Make two classes that differ in every attribute."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < 0.4
    codes = {
        name: np.where(
            first, rng.binomial(len(values) - 1, 0.1, rows), rng.binomial(len(values) - 1, 0.8, rows)
        )
        for name, values in attributes
    }
    return Records(np.empty((rows, 0)), codes, np.arange(rows, dtype=np.uint64))


def test_cells_are_all_combinations_in_order():
    spec = make_spec()
    every = list(itertools.product(range(2), range(3), range(4)))
    codes = {
        name: np.array(column) for (name, _), column in zip(ATTRIBUTES, zip(*every, strict=True), strict=True)
    }
    assert find_cells(codes, spec.domain).tolist() == list(range(24))
    back = cell_codes(np.arange(24), spec.domain)
    assert all((back[name] == codes[name]).all() for name in codes)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
def test_no_unit_moves_the_table_further_than_its_sensitivity(unit, held, relation, recording):
    """All pairs of random units, measured by the mechanism without noise: within the scale it asks for, and reached."""
    spec = make_spec(unit=unit, max_records=held, relation=relation)
    mechanism, rng, farthest = NoisyGrid(), np.random.default_rng(2), 0.0

    def table(records):
        return mechanism.measure_counts(records, spec, Budget(0.5, 0.0), recording.noise, Ledger())[1]

    common = make_records(50)
    without = table(common)
    worlds = [
        table(Records.concatenate([common, make_records(int(rng.integers(1, held + 1)), seed)]))
        for seed in range(30)
    ]
    worlds += [table(Records.concatenate([common, _equal_records(held, last)])) for last in (False, True)]
    for one, other in itertools.combinations([*worlds, without], 2):
        if relation == "add_remove":
            other = without
        farthest = max(farthest, float(np.abs(one - other).sum()))
    bound = {scale for _, scale, _ in recording.noise.asked}.pop() * 0.5
    assert farthest == bound == held * (1 if relation == "add_remove" else 2)


def _equal_records(number, last):
    codes = {name: np.full(number, len(values) - 1 if last else 0) for name, values in ATTRIBUTES}
    return Records(np.empty((number, 0)), codes, np.zeros(number, dtype=np.uint64))


def test_the_noise_has_the_scale_of_the_sensitivity():
    """On no records, all counts are noise: the right scale is within 6 standard errors, 3 % less is not."""
    many = [("one", tuple(map(str, range(300)))), ("two", tuple(map(str, range(400))))]
    spec = make_spec(attributes=many)
    empty = Records(np.empty((0, 0)), {"one": np.empty(0, dtype=int), "two": np.empty(0, dtype=int)})
    for source in (seeded_randomness(3).noise, exact_randomness().noise):
        noisy = NoisyGrid().measure_counts(empty, spec, Budget(0.5, 0.0), source, Ledger())[1] / (2 / 0.5)
        spread = np.abs(noisy).mean()
        assert stats.kstest(noisy, stats.laplace.cdf).pvalue > 1e-6
        assert abs(spread - 1) < 6 / math.sqrt(len(noisy)) < abs(0.97 * spread - 1)


@pytest.mark.parametrize("source", ["exact", "seeded"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_table_is_measured_with_all_of_epsilon(source, relation):
    spec, rng = (
        make_spec(relation=relation),
        exact_randomness() if source == "exact" else seeded_randomness(1),
    )
    release = mechanism_run.run(NoisyGrid(), make_records(), spec, Budget(0.7, 1e-6), rng)
    assert list(release.events) == [Laplace("cell counts", 0.7)]
    assert (release.claim.epsilon, release.claim.delta) == (pytest.approx(0.7), 0.0)
    assert release.transcript[0]["shape"] == [2, 3, 4]
    assert {name: each.shape for name, each in release.shares.items()} == {
        "smokes": (2, 2), "colour": (2, 3), "level": (2, 4),
    }  # fmt: skip
    empty = make_records(0)
    mechanism_run.run(NoisyGrid(), empty, spec, Budget(0.7, 1e-6), rng)  # does not fail: that would tell


@pytest.mark.parametrize("method", ["non_private", "noisy_grid", "randomized_response"])
def test_classes_keep_the_dependence_of_attributes(method):
    spec, records, fresh = make_spec(), make_records(), make_records(seed=9)
    epsilon = 4.0 if method == "randomized_response" else 1.0
    release = mechanism_run.run(
        make_mechanism(method), records, spec, Budget(epsilon, 1e-6), seeded_randomness(2)
    )
    mixed = MixedMixture(release.mixture, release.shares)
    _, codes = mixed.sample(50_000, np.random.default_rng(1))
    truth = np.corrcoef(records.codes["colour"], records.codes["level"])[0, 1]
    assert np.corrcoef(codes["colour"], codes["level"])[0, 1] == pytest.approx(truth, abs=0.05)
    alone = sum(
        np.log(np.bincount(records.codes[name], minlength=len(v)) / 4000)[fresh.codes[name]].mean()
        for name, v in ATTRIBUTES
    )
    assert mixed.log_density(fresh.points, fresh.codes).mean() > alone + 0.2


def test_with_little_noise_it_is_the_fit_without_privacy():
    spec, records = make_spec(), make_records()
    private, plain = (
        mechanism_run.run(make_mechanism(method), records, spec, Budget(1e4, 1e-6), seeded_randomness(2))
        for method in ("noisy_grid", "non_private")
    )
    one, other = (
        MixedMixture(each.mixture, each.shares).log_density(records.points, records.codes)
        for each in (private, plain)
    )
    assert one == pytest.approx(other, abs=0.02)


@pytest.mark.parametrize("method", ["non_private", "noisy_grid"])
def test_one_attribute_has_its_shares(method):
    listed = [("level", tuple("abcd"))]
    spec, records = make_spec(attributes=listed), make_records(attributes=listed)
    release = mechanism_run.run(
        make_mechanism(method), records, spec, Budget(2.0, 1e-6), seeded_randomness(2)
    )
    found = MixedMixture(release.mixture, release.shares).marginal("level")
    assert found == pytest.approx(np.bincount(records.codes["level"], minlength=4) / 4000, abs=0.01)


def test_the_criterion_chooses_the_number_of_classes():
    spec = make_spec(components=6, candidates=(1, 2, 6))
    for method in ("non_private", "noisy_grid"):
        release = mechanism_run.run(
            make_mechanism(method), make_records(), spec, Budget(2.0, 1e-6), seeded_randomness(4)
        )
        assert release.mixture.n_components == 2
        assert spec.choice_note(2) in release.notes
    assert parameters(2, spec.domain) == 1 + 2 * (1 + 2 + 3)


def test_subsets_are_fitted_like_datasets():
    spec, records = make_spec(), make_records(300)
    masks = [np.arange(300) < 200, np.arange(300) >= 100]
    found = make_mechanism("non_private").fit_many(records, masks, spec, seeded_randomness(1))
    assert [list(each.shares) for each in found] == [["smokes", "colour", "level"]] * 2


def test_too_many_combinations_are_refused_with_what_to_do():
    spec = make_spec(attributes=[(f"a{number}", tuple(map(str, range(20)))) for number in range(4)])
    with pytest.raises(MechanismFailure, match=r"160,000 combinations of values.*131,072 cells; leave out"):
        NoisyGrid().cell_shape(spec, 1.0)


@pytest.mark.parametrize("method", PRIVATE)
def test_mechanisms_that_need_coordinates_say_so(method):
    kind = registry.method_class(method)
    assert kind.fits(1)
    assert kind.fits(0) == (kind.min_coordinates == 0) == (method in ("noisy_grid", "randomized_response"))
    if kind.trust == "central" and not kind.fits(0):
        with pytest.raises(MechanismFailure, match="needs coordinates, but made has attributes only"):
            mechanism_run.run(
                make_mechanism(method), make_records(20), make_spec(), Budget(1.0, 1e-6), seeded_randomness(1)
            )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mistake", [False, True])
def test_the_replay_finds_records_that_are_counted_twice(monkeypatch, relation, mistake):
    spec = make_spec(rows=41, relation=relation)
    pairs = canary_pairs(make_records(40), spec, spec.neighbours)
    assert [pair.name for pair in pairs] == ["first values", "last values"]
    if mistake:
        monkeypatch.setattr(
            noisy_grid, "find_cells", lambda codes, domain: np.repeat(find_cells(codes, domain), 2)
        )
    audit = replay.replay_audit(
        NoisyGrid(searches=1), pairs, Budget(1.0, 1e-6), lambda run: seeded_randomness(9, "table", run)
    )
    assert bool(audit.findings) == mistake


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
def test_a_unit_reports_its_combination_with_all_of_epsilon(unit, held, relation):
    spec, mechanism = make_spec(unit=unit, max_records=held, relation=relation), RandomizedResponse()
    reports = mechanism.privatise(make_records(300), spec, Budget(9.0, 1e-6), seeded_randomness(1))
    each = mechanism.plan(spec, Budget(9.0, 1e-6)).per_person
    assert list(reports.columns) == ["cell"]
    assert [event.epsilon for event in reports.events] == [pytest.approx(9.0 / each)] * each
    assert (reports.claim.epsilon, reports.claim.delta) == (pytest.approx(9.0), 0.0)


@pytest.mark.parametrize("oracle", BY_NAME)
def test_every_oracle_asks_for_the_combination_at_all_of_epsilon(oracle):
    """The tests of `privacy.oracles` cover the likelihood ratio of each oracle."""
    spec, mechanism = make_spec(), RandomizedResponse(oracle=oracle)
    grid, channel = mechanism.channel(spec, mechanism.plan(spec, Budget(1.0, 0.0)))
    assert grid is None
    assert (channel.categories, channel.epsilon) == (24, pytest.approx(1.0))


def test_reports_are_true_as_often_as_epsilon_allows():
    """The share of true answers is within 6 standard errors of that at ε = 1, and not of that at 3 % more."""
    rows, spec = 2_000_000, make_spec(rows=2_000_000)
    records = make_records(rows)
    reports = RandomizedResponse(oracle="grr").privatise(
        records, spec, Budget(1.0, 0.0), seeded_randomness(1)
    )
    true = float((reports.columns["cell"] == find_cells(records.codes, spec.domain)).mean())
    right, more = (math.exp(each) / (math.exp(each) + 23) for each in (1.0, 1.03))
    allowed = 6 * math.sqrt(right * (1 - right) / rows)
    assert abs(true - right) < allowed < abs(true - more)


@pytest.mark.parametrize("mistake", [False, True])
def test_the_replay_finds_reports_that_depend_on_other_records(monkeypatch, mistake):
    spec = make_spec(rows=41)
    pairs = canary_pairs(make_records(40), spec, spec.neighbours)

    def of_all_records(codes, domain):
        cells = find_cells(codes, domain)
        return (cells + cells.sum()) % 24

    if mistake:
        monkeypatch.setattr(randomized_response, "find_cells", of_all_records)
    audit = replay.replay_audit(
        RandomizedResponse(searches=1),
        pairs,
        Budget(1.0, 1e-6),
        lambda run: seeded_randomness(9, "cells", run),
    )
    assert bool(audit.findings) == mistake
