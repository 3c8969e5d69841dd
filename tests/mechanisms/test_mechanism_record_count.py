"""The noisy count of records: one unit moves it by at most its sensitivity, and the budget pays for it."""

import dataclasses

import numpy as np
import pytest
from making import RecordingNoise, clusters, make_domain, make_mechanism, quick_mechanism

from privmix.audit import crafted_worlds
from privmix.audit.replay import replay_audit
from privmix.errors import UserError
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec, seeded_randomness
from privmix.mechanisms.run import fit
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, account, compose_ledgers
from privmix.privacy.ledger import Ledger, RecordCount

BUDGET = Budget(1.0, 1e-6)
SHARE = 0.1


def _spec(unit="person", relation="add_remove", limit=3):
    domain = make_domain(rows=1, unit=unit, relation=relation, max_records=limit)
    return Spec(domain, 2, count_share=SHARE)


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_one_unit_moves_the_count_by_no_more_than_its_sensitivity(unit, relation, monkeypatch):
    """Brute force: one unit with all, some or none of its records."""
    seen = []
    real = noise.record_count

    def watched(number, **how):
        seen.append((number, how["sensitivity"]))
        return real(number, **how)

    monkeypatch.setattr(noise, "record_count", watched)
    limit, spec = 3, _spec(unit, relation)
    persons = np.repeat(np.arange(40), 3)
    points = clusters(len(persons))
    for gone in (0, 1, 2, 3):  # records of the changed unit that the neighbour lacks
        kept = np.arange(len(persons)) >= min(gone, limit if unit == "person" else 1)
        records = Records(points[kept], persons=persons[kept])
        fit(make_mechanism("noisy_grid"), records, spec, BUDGET, seeded_randomness(1, gone))
    counts, sensitivities = zip(*seen, strict=True)
    largest = limit if unit == "person" else 1
    assert max(counts) - min(counts) == largest
    assert set(sensitivities) == {float(largest)}


def test_count_and_fit_together_cost_the_budget():
    records = Records(clusters(900), persons=np.arange(900) // 3)
    release = fit(make_mechanism("noisy_moments"), records, _spec(), BUDGET, seeded_randomness(2))
    assert release.events[0] == RecordCount("number of records", SHARE * BUDGET.epsilon)
    rest = account(release.events[1:], BUDGET.delta, "exact").epsilon
    assert release.claim.epsilon == pytest.approx(SHARE + rest, rel=1e-9)
    assert release.claim.epsilon == pytest.approx(BUDGET.epsilon, rel=1e-6)
    assert release.transcript[0]["rows"] > 0


def test_the_mechanism_sees_the_noisy_count_only():
    """Silent noise that adds 7: the mechanism gets the count plus 7."""

    class Seven(RecordingNoise):
        def add_laplace(self, values, scale):
            return np.asarray(values) + 7

    class Witness(Mechanism):
        def fit(self, view, spec, budget, rng):
            rows.append((spec.domain.rows, spec.count_share))
            return make_mechanism("noisy_grid").fit(view, spec, budget, rng)

    rows = []
    records = Records(clusters(300), persons=np.arange(300))
    fit(Witness(), records, _spec(), BUDGET, Randomness(Seven(), np.random.default_rng(1)))
    assert rows == [(307, 0.0)]


@pytest.mark.parametrize("records", [0, 1])
def test_few_records_give_a_count_of_at_least_one(records):
    view = Records(clusters(10)[:records], persons=np.arange(records))
    release = fit(make_mechanism("noisy_tree"), view, _spec(), BUDGET, seeded_randomness(4))
    assert release.transcript[0]["rows"] >= 1


def _pairs(mechanism, unit="person", relation="add_remove"):
    return [
        dataclasses.replace(pair, spec=dataclasses.replace(pair.spec, count_share=SHARE))
        for pair in crafted_worlds.crafted_pairs(mechanism, unit, relation)
    ]


def test_the_count_is_replayed_too():
    mechanism = quick_mechanism("noisy_grid")
    verdict = replay_audit(
        mechanism, _pairs(mechanism), BUDGET, lambda number: seeded_randomness(3, number), 3
    )
    assert verdict.findings == []
    assert 0 < verdict.used <= 1.001


def test_a_count_with_the_sensitivity_of_one_record_is_found_by_the_replay(monkeypatch):
    real = noise.record_count
    monkeypatch.setattr(
        noise, "record_count", lambda number, **how: real(number, **how | {"sensitivity": 1.0})
    )
    mechanism = quick_mechanism("noisy_grid")
    verdict = replay_audit(
        mechanism, _pairs(mechanism), BUDGET, lambda number: seeded_randomness(3, number), 3
    )
    assert any("number of records" in sentence for sentence in verdict.findings), verdict.findings


def test_a_ledger_whose_noise_follows_a_count_is_not_composed_anew():
    """The sampling rate of dp_sgd depends on the noisy count, so its parameters are not fixed in advance."""
    records = Records(clusters(600), persons=np.arange(600) // 3)
    release = fit(make_mechanism("dp_sgd"), records, _spec(), BUDGET, seeded_randomness(2))
    with pytest.raises(UserError, match="selection or count"):
        compose_ledgers([release.events], 1e-6)


@pytest.mark.parametrize(("factor", "rejected"), [(1.0, False), (0.97, True)])
def test_noise_that_is_three_per_cent_too_small_is_noticed(factor, rejected, monkeypatch):
    """The mean of |noise| / scale of 200,000 counts is 1 with a standard error of 0.0022: 5 of them are 1.1 %."""
    generator = np.random.default_rng(7)

    class Scaled(noise.SeededNoise):
        def add_laplace(self, values, scale):
            return values + generator.laplace(0.0, factor * scale, np.shape(values))

    source, ledger = Scaled(generator), Ledger()
    drawn = np.array(
        [
            noise.record_count(10**9, sensitivity=3, epsilon=1e-4, source=source, ledger=ledger, label="n")
            - 10**9
            for _ in range(200_000)
        ]
    )
    mean = np.abs(drawn).mean() / 3e4
    assert (abs(mean - 1) > 5 / np.sqrt(len(drawn))) == rejected
