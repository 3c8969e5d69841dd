"""Local mechanisms with a person as the unit: every person gives the same number of reports, whatever they hold.

A comparison fails by chance with a probability below 1e-6 over seeds.
"""

import itertools
import math

import numpy as np
import pytest
from making import LOCAL, clusters, make_domain, make_mechanism, make_spec
from scipy import stats

from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local.base import expected_units, responses_per_person
from privmix.mechanisms.local.randomized_response import RandomizedResponse
from privmix.mechanisms.run import run
from privmix.mechanisms.shared import contribution_sampling
from privmix.privacy import shuffle
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import SeededNoise, stream

ATTRIBUTES = (("night", ("no", "yes")), ("colour", ("red", "green", "blue")))
ALPHA = 1e-6


def source(seed=1):
    return SeededNoise(stream(seed, "people"))


def people(limit=3, epsilon=1.0, rows=900, attributes=()):
    """Return the public values for persons with at most `limit` records, and a budget."""
    return make_spec(unit="person", max_records=limit, rows=rows, attributes=attributes), Budget(
        epsilon, 1e-6
    )


def holdings(counts):
    """Return the person of each record, for persons with these numbers of records."""
    return np.repeat(np.arange(len(counts)), counts)


def codes_for(rows):
    return {"night": np.arange(rows) % 2, "colour": np.arange(rows) % 3}


# Which records answer.


def test_every_unit_answers_with_the_same_number_of_its_own_rows():
    units_of = np.array([2, 0, 1, 2, 2, 0, 2, 2])
    rows = shuffle.pick_rows(units_of, shuffle.random_keys(8, source=source()), 3)
    assert rows.shape == (3, 3)
    assert np.array_equal(units_of[rows], np.repeat([[0], [1], [2]], 3, axis=1))
    assert len(set(rows[2])) == 3  # of five, without replacement
    assert set(rows[0]) == {1, 5}  # of two: both, one of them again
    assert set(rows[1]) == {2}


@pytest.mark.parametrize("each", [1, 2, 5])
def test_every_pick_is_uniform_over_the_units_own_rows(each):
    copies, held = 6000, 4
    keys = shuffle.random_keys(copies * held, source=source(2))
    rows = shuffle.pick_rows(np.repeat(np.arange(copies), held), keys, each) % held
    for place in range(each):
        counts = np.bincount(rows[:, place], minlength=held)
        assert stats.chisquare(counts).pvalue > ALPHA


def test_pairs_of_picks_are_uniform_without_replacement():
    rows = (
        shuffle.pick_rows(np.repeat(np.arange(6000), 3), shuffle.random_keys(18_000, source=source(3)), 2) % 3
    )
    pairs = np.bincount(3 * rows[:, 0] + rows[:, 1], minlength=9)
    assert (pairs[[0, 4, 8]] == 0).all()
    assert stats.chisquare(np.delete(pairs, [0, 4, 8])).pvalue > ALPHA


def numbered(persons):
    """Return records that identify themselves."""
    number = np.arange(len(persons))
    return Records(number[:, None] / 1.0, {"number": number}, persons)


def in_parts(records, cuts):
    return [records.select(rows) for rows in np.split(np.arange(len(records)), cuts)]


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("part", [20, 200, 10_000])
def test_picks_do_not_depend_on_the_parts_of_the_records(each, part, monkeypatch):
    """The same keys give the same records of every person, although records that cannot be picked are dropped."""
    monkeypatch.setattr(contribution_sampling, "PART", part)
    rng = np.random.default_rng(5)
    persons = rng.permutation(holdings(rng.integers(1, 6, 300))) + 2**60
    records = numbered(persons)
    rows = shuffle.pick_rows(persons, shuffle.random_keys(len(persons), source=source(7)), each).ravel()
    for cuts in ([], [1, 1, 500], range(40, len(persons), 40)):
        made = list(contribution_sampling.sample_records(in_parts(records, cuts), each, source=source(7)))
        assert all(len(some) <= part for some in made)
        assert np.array_equal(Records.concatenate(made).codes["number"], rows)
        assert np.array_equal(Records.concatenate(made).points[:, 0], rows)
        assert np.array_equal(Records.concatenate(made).persons, persons[rows])


def test_records_that_cannot_be_picked_are_dropped(monkeypatch):
    """Ten persons with 2,000 records each, in parts of 100: never more than a few parts are held."""
    monkeypatch.setattr(contribution_sampling, "PART", 100)
    held, joined = [], Records.concatenate
    monkeypatch.setattr(
        Records, "concatenate", lambda parts: held.append(sum(map(len, parts))) or joined(parts)
    )
    records = numbered(np.tile(np.arange(10), 2000))
    [made] = contribution_sampling.sample_records(
        in_parts(records, range(100, 20_000, 100)), 2, source=source()
    )
    assert len(made) == 20
    assert max(held) <= 200


def test_no_persons_give_no_reports():
    assert list(contribution_sampling.sample_records([], 2, source=source())) == []


def test_every_order_of_the_rows_is_as_likely_as_any_other():
    orders = [tuple(shuffle.random_order(3, source=source(seed))) for seed in range(3000)]
    counts = [orders.count(each) for each in itertools.permutations(range(3))]
    assert stats.chisquare(counts).pvalue > ALPHA


# How many reports, and what they cost.


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 8.0, 20.0, 100.0])
def test_the_number_of_responses_minimises_the_variance(epsilon):
    def variance(j):
        e = math.exp(epsilon / j)
        return (0.25 + 4 * e / (e - 1) ** 2) / j

    for limit in (1, 3, 10):
        chosen = responses_per_person(epsilon, limit)
        assert 1 <= chosen <= limit
        assert variance(chosen) == pytest.approx(min(variance(j) for j in range(1, limit + 1)))
    assert epsilon > 5 or responses_per_person(epsilon, 10) == 1
    assert epsilon < 20 or responses_per_person(epsilon, 10) > 1


def test_the_number_of_persons_is_public_or_at_least_what_the_limit_allows():
    assert expected_units(make_domain(rows=1000)) == 1000
    domain = make_domain(rows=1000, unit="person", max_records=3)
    assert expected_units(domain) == 334
    assert expected_units(domain.model_copy(update={"persons": 700})) == 700


@pytest.mark.parametrize("epsilon", [1.0, 30.0])
@pytest.mark.parametrize("attributes", [(), ATTRIBUTES], ids=["alone", "with attributes"])
@pytest.mark.parametrize("method", LOCAL)
def test_the_reports_of_a_person_cost_the_budget_together(method, attributes, epsilon):
    """A person with one record gives as many reports as one with the most; the ledger has all of them."""
    spec, budget = people(4, epsilon, attributes=attributes)
    mechanism = make_mechanism(method)
    plan = mechanism.plan(spec, budget)
    each = mechanism.reports_per_person(epsilon, 4)
    assert plan.per_person == each
    assert plan.reports == each * math.ceil(900 / 4)
    assert each * (plan.budget.epsilon + len(attributes) * plan.attribute_epsilon) == pytest.approx(epsilon)
    assert each * plan.budget.delta == pytest.approx(budget.delta)
    persons = holdings(np.tile([1, 4, 2, 1], 40))
    codes = codes_for(len(persons)) if attributes else {}
    records = Records(clusters(len(persons)), codes, persons)
    reports = mechanism.privatise(records, spec, budget, seeded_randomness(1))
    assert len(reports) == 160 * each
    assert reports.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert reports.claim.delta <= budget.delta * (1 + 1e-6)
    labels = [event.label for event in reports.events]
    assert all(labels.count(label) % each == 0 for label in labels)
    for attribute, _ in attributes:
        assert labels.count(f"a_{attribute}") == each
    notes = mechanism.fit(reports, spec, budget, seeded_randomness(2)).notes
    said = "one report" if each == 1 else f"{each} reports, at ε/{each} each"
    assert any(said in note for note in notes)


def test_randomized_response_asks_several_times_at_a_large_budget_and_others_once():
    assert RandomizedResponse().reports_per_person(30.0, 4) > 1
    assert registry.build("laplace_input", {}).reports_per_person(30.0, 4) == 1


def test_the_person_of_each_record_must_be_known():
    spec, budget = people()
    with pytest.raises(UserError, match="the person of each record"):
        RandomizedResponse().privatise(Records(clusters(30)), spec, budget, seeded_randomness(1))


# What all reports of one person may tell.


def law(mechanism, spec, budget, cells):
    """Return the exact distribution of all reports of a person with records in these cells, over tuples of reports."""
    plan = mechanism.plan(spec, budget)
    table = mechanism.channel(spec, plan)[1].probability_table()
    total, orders = 0.0, list(itertools.permutations(range(len(cells))))
    for permutation in orders:
        joint = np.ones(1)
        for report in range(plan.per_person):
            joint = np.multiply.outer(joint, table[cells[permutation[report % len(cells)]]]).ravel()
        total = total + joint / len(orders)
    return total


@pytest.mark.parametrize("oracle", ["grr", "subset", "hadamard"])
@pytest.mark.parametrize("epsilon", [1.0, 9.0])
def test_no_replaced_person_changes_the_law_of_the_reports_by_more_than_epsilon(oracle, epsilon):
    """All holdings of up to three records in a few cells against all others; and the bound is reached."""
    mechanism = RandomizedResponse(oracle=oracle)
    spec, budget = people(3, epsilon, rows=9)
    cells = mechanism.channel(spec, mechanism.plan(spec, budget))[0].cells
    some = range(min(cells, 3))
    held = [list(each) for size in (1, 2, 3) for each in itertools.combinations_with_replacement(some, size)]
    laws = np.array([law(mechanism, spec, budget, each) for each in held])
    assert laws.sum(axis=1) == pytest.approx(1.0)
    worst = math.log((laws.max(axis=0) / laws.min(axis=0)).max())
    assert worst == pytest.approx(epsilon, rel=1e-9)


def test_the_reports_have_that_law():
    """Several reports a person, through the whole of `privatise`: people in two cells, against the exact law."""
    mechanism, copies = RandomizedResponse(oracle="grr"), 40_000
    spec, budget = people(2, 6.5, rows=6)
    plan = mechanism.plan(spec, budget)
    grid, oracle = mechanism.channel(spec, plan)
    assert plan.per_person == 2
    lower, upper = grid.boxes()
    points = np.tile(((lower + upper) / 2)[:2], (copies, 1))
    records = Records(points, {}, np.repeat(np.arange(copies), 2))
    reports = (
        mechanism.privatise(records, spec, budget, seeded_randomness(3)).columns["cell"].reshape(copies, 2)
    )
    seen = np.bincount(oracle.categories * reports[:, 0] + reports[:, 1], minlength=oracle.categories**2)
    assert stats.chisquare(seen, copies * law(mechanism, spec, budget, [0, 1])).pvalue > ALPHA
    # The twin: people whose reports were drawn with replacement would have another law.
    single = law(mechanism, spec, budget, [0]).reshape(oracle.categories, -1).sum(axis=1)
    other = law(mechanism, spec, budget, [1]).reshape(oracle.categories, -1).sum(axis=1)
    mixed = np.outer((single + other) / 2, (single + other) / 2).ravel()
    assert stats.chisquare(seen, copies * mixed).pvalue < ALPHA


def test_persons_with_many_records_have_the_same_weight_as_persons_with_one():
    """Ninety of a hundred persons have one record on the left, the others have eight on the right."""
    counts = np.repeat([1, 8], [9000, 1000])
    persons = holdings(counts)
    points = np.where((persons < 9000)[:, None], -0.4, 0.4) * np.ones((1, 2))
    night = (persons >= 9000).astype(int)
    spec, budget = people(8, 8.0, rows=len(persons), attributes=ATTRIBUTES[:1])
    release = run(
        RandomizedResponse(), Records(points, {"night": night}, persons), spec, budget, seeded_randomness(4)
    )
    (share,) = [each for each in release.proportions if each.value == "yes"]
    assert abs(share.estimate - 0.1) < 5 * share.standard_error
    left = release.mixture.means[:, 0] < 0
    assert release.mixture.weights[left].sum() == pytest.approx(0.9, abs=0.05)
