"""Attributes of central mechanisms: the table of components by values, its noise, its cost, and the shares from it."""

import itertools
import math

import numpy as np
import pytest
from making import PRIVATE, clusters, make_domain
from scipy import stats

from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.shared import attribute_counts
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget, account, compose_run, gaussian_mu
from privmix.privacy.ledger import Gaussian, Laplace, Ledger, Selection
from privmix.privacy.sensitivity import Neighbours
from privmix.privacy.sensitivity import attribute_counts as reach_of

CENTRAL = [method for method in PRIVATE if registry.method_class(method).trust == "central"]
LEVELS = [("record", 1), ("person", 3)]
RELATIONS = ["add_remove", "replace_one"]
ATTRIBUTES = [("sex", ("f", "m")), ("dog", ("no", "yes", "both")), ("one", ("only",))]
APART = Mixture(
    np.array([0.5, 0.5]), np.array([[-0.4, 0.0], [0.4, 0.0]]), np.array([np.eye(2) * 1e-4, np.eye(2) * 1e-4])
)
CLOSE = Mixture(
    np.array([0.2, 0.3, 0.5]),
    np.array([[-0.1, 0.0], [0.0, 0.1], [0.1, 0.0]]),
    np.array([np.eye(2) * 0.04] * 3),
)


def make_spec(attributes=ATTRIBUTES, rows=400, components=3, unit="record", held=1, relation="replace_one"):
    domain = make_domain(rows=rows, attributes=attributes, unit=unit, max_records=held, relation=relation)
    return Spec(domain, components)


def make_records(spec, rows, seed=1):
    """Make clusters whose attributes depend on the side of the first coordinate."""
    rng, points = np.random.default_rng(seed), clusters(rows)
    side = (points[:, 0] > 0).astype(int)
    codes = {
        each.name: np.where(
            rng.random(rows) < 0.8, side % len(each.values), rng.integers(len(each.values), size=rows)
        )
        for each in spec.domain.attributes
    }
    return Records(points, codes, np.arange(rows, dtype=np.uint64))


def build(method, **parameters):
    if "searches" in registry.method_class(method).__dataclass_fields__:
        parameters = {"searches": 1, **parameters}
    if "attributes" in registry.method_class(method).__dataclass_fields__:
        parameters = {"attributes": "after", **parameters}
    return registry.build(method, parameters)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
@pytest.mark.parametrize("exact", [False, True])
def test_no_unit_moves_the_table_further_than_its_sensitivity(unit, held, relation, exact):
    """Random units, and two units at opposite ends, which reach the bound."""
    spec = make_spec(unit=unit, held=held, relation=relation)
    bound, rng = reach_of(spec.neighbours, attributes=3), np.random.default_rng(3)
    sizes = [len(each.values) for each in spec.domain.attributes]

    def table(points, codes, mixture):
        coded = {each.name: codes[:, a] for a, each in enumerate(spec.domain.attributes)}
        return attribute_counts.count_table(Records(points, coded), mixture, spec, exact=exact)

    farthest = [0.0, 0.0]
    for trial in range(60):
        mixture = APART if trial % 2 else CLOSE
        units = []
        for end in (-1, 1):
            number = held if trial % 3 else int(rng.integers(1, held + 1))
            points = (
                np.tile([0.4 * end, 0.0], (number, 1)) if trial % 2 else rng.uniform(-0.7, 0.7, (number, 2))
            )
            codes = np.column_stack([rng.integers(size, size=number) for size in sizes])
            if trial % 2:
                codes = np.tile([min(size - 1, max(end, 0)) for size in sizes], (number, 1))
            units.append(table(points, codes, mixture))
        moved = units[0] - units[1] if relation == "replace_one" else units[0]
        farthest = [max(farthest[0], np.abs(moved).sum()), max(farthest[1], np.linalg.norm(moved))]
    slack = 1e-4 if exact else 1e-9  # each responsibility is rounded to a step of 2^-20
    assert bound.l1 * 0.999 <= farthest[0] <= bound.l1 + slack
    assert bound.l2 * 0.999 <= farthest[1] <= bound.l2 + slack


def test_the_noise_has_the_scale_of_the_sensitivity():
    """Both laws on empty tables: the right scale is within 6 standard errors, 3 % less is not."""
    size = 100_000
    spec = make_spec(attributes=[("many", tuple(map(str, range(size))))], components=2)
    neighbours, empty = spec.neighbours, Records(np.zeros((0, 2)), {"many": np.zeros(0, dtype=int)})
    for event, law in [
        (Laplace(ATTRIBUTE_COUNTS, 0.5), stats.laplace),
        (Gaussian(ATTRIBUTE_COUNTS, 4.0), stats.norm),
    ]:
        plan = attribute_counts.AttributePlan(event, Budget(1.0, 1e-6))
        scale = 2 / 0.5 if isinstance(event, Laplace) else 4 * math.sqrt(2)
        allowed = 6 * math.sqrt(1 / law.expect(np.abs) ** 2 * law.var() - 1) / math.sqrt(2 * size)
        for source in (seeded_randomness(3).noise, exact_randomness().noise):
            noisy = attribute_counts.measure(empty, APART, plan, spec, neighbours, source, Ledger()).ravel()
            assert stats.kstest(noisy / scale, law.cdf).pvalue > 1e-6
            spread = np.abs(noisy / scale).mean() / law.expect(np.abs)
            assert abs(spread - 1) < allowed < abs(0.97 * spread - 1)
        assert plan.deviation(spec, neighbours) == pytest.approx(law.std(scale=scale))


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_central_mechanism_measures_the_attributes_within_its_budget(method, relation):
    spec = make_spec(relation=relation)
    release = mechanism_run.run(
        build(method), make_records(spec, 400), spec, Budget(1.0, 1e-6), seeded_randomness(2)
    )
    assert release.events[-1].label == ATTRIBUTE_COUNTS
    assert sum(event.label == ATTRIBUTE_COUNTS for event in release.events) == 1
    assert 0.99 < release.claim.epsilon <= 1 + 1e-9
    assert release.claim.delta <= 1e-6
    again = compose_run(release.events, 1e-6, build(method).accountant)
    assert (again.epsilon, again.delta) == (pytest.approx(release.claim.epsilon), release.claim.delta)
    assert set(release.transcript[-1]) == {"attributes"}
    mixed = MixedMixture(release.mixture, release.shares)  # checks that the shares are distributions
    assert {name: values.shape[1] for name, values in mixed.shares.items()} == {"sex": 2, "dog": 3, "one": 1}


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_ledger_of_many_attributes_adds_up_to_the_claim(method, relation):
    """Twenty attributes have Gaussian noise, which composes exactly with other Gaussian noise and with nothing else."""
    spec = make_spec(attributes=[(f"a{n}", ("no", "yes")) for n in range(20)], relation=relation)
    release = mechanism_run.run(
        build(method), make_records(spec, 400), spec, Budget(1.0, 1e-6), seeded_randomness(2)
    )
    assert isinstance(release.events[-1], Gaussian)
    again = compose_run(release.events, 1e-6, build(method).accountant)
    assert (again.epsilon, again.delta) == (pytest.approx(release.claim.epsilon), release.claim.delta)
    assert 0.99 < release.claim.epsilon <= 1 + 1e-9


@pytest.mark.parametrize("method", CENTRAL)
def test_no_share_means_no_table_and_no_cost(method):
    spec = make_spec()
    release = mechanism_run.run(
        build(method, attribute_share=0),
        make_records(spec, 400),
        spec,
        Budget(1.0, 1e-6),
        seeded_randomness(2),
    )
    assert release.shares == {}
    assert all(event.label != ATTRIBUTE_COUNTS for event in release.events)


def test_without_delta_the_noise_is_laplace():
    spec = make_spec()
    for method in ("noisy_tree", "noisy_grid"):
        release = mechanism_run.run(
            build(method), make_records(spec, 400), spec, Budget(1.0, 0.0), seeded_randomness(2)
        )
        assert release.events[-1] == Laplace(ATTRIBUTE_COUNTS, 0.2)
        assert (release.claim.epsilon, release.claim.delta) == (pytest.approx(1.0), 0.0)


def test_many_attributes_have_gaussian_noise_because_it_is_smaller():
    for number, kind in [(1, Laplace), (2, Laplace), (20, Gaussian)]:
        spec = make_spec(attributes=[(f"a{n}", ("no", "yes")) for n in range(number)])
        plan = attribute_counts.make_plan(build("noisy_tree"), spec, Budget(1.0, 1e-6))
        assert isinstance(plan.event, kind)
        deviations = {
            Laplace: math.sqrt(2) * 2 * number / 0.2,
            Gaussian: math.sqrt(2 * number) / gaussian_mu(0.2, 0.5e-6),
        }
        assert plan.deviation(spec, spec.neighbours) == pytest.approx(min(deviations.values()))


def test_the_cost_of_a_run_adds_up():
    moments = [Gaussian("m", 5.0)] * 3
    table, choice = Gaussian(ATTRIBUTE_COUNTS, 8.0), Selection("k", 0.1)
    joint = account([*moments, table], 1e-6, "exact")
    assert compose_run([choice, *moments, table], 1e-6, "exact").epsilon == pytest.approx(0.1 + joint.epsilon)
    tree, pure = Laplace("leaf counts", 0.7), Laplace(ATTRIBUTE_COUNTS, 0.2)
    claim = compose_run([tree, pure], 1e-6, "linear")
    assert (claim.epsilon, claim.delta) == (pytest.approx(0.9), 0.0)
    claim = compose_run([tree, table], 1e-6, "linear")
    alone = account([table], 0.5e-6, "exact")
    assert (claim.epsilon, claim.delta) == (pytest.approx(0.7 + alone.epsilon), 0.5e-6)


@pytest.mark.parametrize("method", CENTRAL)
def test_a_large_budget_recovers_the_dependence(method):
    spec = make_spec(rows=4000)
    records = make_records(spec, 4000)
    release = mechanism_run.run(build(method), records, spec, Budget(50.0, 1e-6), seeded_randomness(4))
    points, codes = MixedMixture(release.mixture, release.shares).sample(40_000, np.random.default_rng(1))
    truth = np.corrcoef(records.points[:, 0] > 0, records.codes["sex"])[0, 1]
    assert np.corrcoef(points[:, 0] > 0, codes["sex"])[0, 1] == pytest.approx(truth, abs=0.1)
    shares = np.bincount(records.codes["dog"]) / len(records)
    assert np.bincount(codes["dog"]) / len(points) == pytest.approx(shares, abs=0.03)


def test_noise_alone_gives_the_shares_of_all_records():
    """Shrinkage: where the table holds nothing but noise, all components have the same shares."""
    spec = make_spec(attributes=[("many", tuple(map(str, range(500))))], rows=10_000)
    rng = np.random.default_rng(6)
    expected = np.outer(10_000 * CLOSE.weights, np.full(500, 1 / 500))
    table = expected + rng.normal(0, 200.0, expected.shape)
    shares = attribute_counts.estimate_shares(table, CLOSE.weights, spec.domain, 10_000.0, 200.0)["many"]
    without = attribute_counts.estimate_shares(table, CLOSE.weights, spec.domain, 10_000.0, 1e-9)["many"]
    apart = [np.abs(each - each.mean(axis=0)).sum() for each in (shares, without)]
    assert apart[0] < 0.2 * apart[1]


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1000.0])
@pytest.mark.parametrize("relation", RELATIONS)
def test_any_data_and_any_budget_give_distributions(rows, epsilon, relation):
    spec = make_spec(rows=max(rows, 1), relation=relation)
    release = mechanism_run.run(
        build("noisy_grid"),
        make_records(spec, rows),
        spec,
        Budget(epsilon, 1e-6),
        seeded_randomness(1, epsilon),
    )
    for shares in MixedMixture(release.mixture, release.shares).shares.values():
        assert np.allclose(shares.sum(axis=1), 1)


def test_persons_have_noise_for_all_their_records():
    one, three = (
        attribute_counts.make_plan(
            build("noisy_tree"), make_spec(unit="person", held=held, rows=400), Budget(1.0, 1e-6)
        )
        for held in (1, 3)
    )
    spec = make_spec()
    alone, together = (
        each.deviation(spec, Neighbours("person", "replace_one", m)) for each, m in ((one, 1), (three, 3))
    )
    assert together == pytest.approx(3 * alone)


@pytest.mark.parametrize("method", ["noisy_tree", "noisy_moments"])
@pytest.mark.parametrize("defect", ["twice", "fitted"])
def test_replay_finds_mistakes_in_the_table(method, defect, monkeypatch):
    """An attribute counted twice, and responsibilities of a mixture that depends on the records."""
    honest = attribute_counts.count_table

    def wrong(records, mixture, spec, *, exact):
        if defect == "twice":
            return 2 * honest(records, mixture, spec, exact=exact)
        nearest = records.points[[records.points[:, 0].argmax(), records.points[:, 0].argmin()]]
        fitted = Mixture(np.array([0.5, 0.5]), nearest, np.array([np.eye(2) * 1e-3] * 2))
        return honest(records, fitted, spec, exact=exact)

    mechanism, pairs = build(method), crafted_pairs(build(method), "record", "replace_one")
    budget = Budget(1.0, 1e-6)

    def verdict():
        return replay.replay_audit(mechanism, pairs, budget, lambda run: seeded_randomness(9, method, run))

    assert list(verdict().findings) == []
    monkeypatch.setattr(attribute_counts, "count_table", wrong)
    assert any("moves" in each or ATTRIBUTE_COUNTS in each for each in map(str, verdict().findings))


def test_shares_of_a_component_do_not_depend_on_the_order_of_records():
    spec = make_spec()
    records = make_records(spec, 300)
    shuffled = records.select(np.random.default_rng(1).permutation(300))
    tables = [attribute_counts.count_table(each, CLOSE, spec, exact=True) for each in (records, shuffled)]
    assert np.array_equal(*tables)
    assert tables[0].sum() == pytest.approx(3 * 300, abs=1e-3)
    assert [len(list(group)) for _, group in itertools.groupby(tables[0].shape)] == [1, 1]
