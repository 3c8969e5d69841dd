"""Noisy moments with attributes that take part in the clustering: sensitivity, exact sums, cost, and dependence."""

from unittest import mock

import numpy as np
import pytest
from making import make_domain

from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.central.noisy_moments import NoisyMoments
from privmix.mechanisms.shared import joint_moments
from privmix.mechanisms.shared.joint_moments import MomentMeasurement, mixed_vector, scheme, share_step
from privmix.mixture import standardised_moments
from privmix.mixture.coded import observe_codes
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.mixed_search import mixed_costs, reduce_mixed, split_attribute, split_axes
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget
from privmix.privacy.sensitivity import Neighbours

ATTRIBUTES = [("sex", ("f", "m")), ("dog", ("no", "yes", "both"))]
SIZES = {"sex": 2, "dog": 3}
APART = MixedMixture(
    Mixture(np.array([0.5, 0.5]), np.array([[-0.4, 0.0], [0.4, 0.0]]), np.array([np.eye(2) * 1e-4] * 2)),
    {"sex": np.array([[0.9, 0.1], [0.2, 0.8]]), "dog": np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])},
)
CLOSE = MixedMixture(
    Mixture(np.array([0.4, 0.6]), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.array([np.eye(2) * 0.04] * 2)),
    APART.shares,
)


def make_spec(rows=4000, components=4, unit="record", held=1, relation="replace_one", attributes=ATTRIBUTES):
    domain = make_domain(rows=rows, attributes=attributes, unit=unit, max_records=held, relation=relation)
    return Spec(domain, components)


def same_place_records(rows, seed=1):
    """Make one cloud: those of sex 1 lie higher, and nothing but their sex tells that there are two groups."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=rows)
    points = rng.normal(0, 0.1, (rows, 2)) + np.column_stack([np.zeros(rows), 0.15 * sex - 0.075])
    codes = {"sex": sex, "dog": rng.integers(3, size=rows)}
    return Records(np.clip(points, -0.7, 0.7), codes, np.arange(rows, dtype=np.uint64))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("unit", "held"), [("record", 1), ("person", 3)])
@pytest.mark.parametrize("exact", [False, True])
def test_no_unit_moves_the_measurement_further_than_its_sensitivity(unit, held, relation, exact):
    """Random units, and two units at opposite ends that have no value in common, which nearly reach the bound."""
    shape, rng = scheme(2, 2, 0.2), np.random.default_rng(3)
    bound, farthest = shape.sensitivity(Neighbours(unit, relation, held)), 0.0
    for trial in range(60):
        mixture, units = (APART if trial % 2 else CLOSE), []
        for end in (0, 1):
            number = held if trial % 3 else int(rng.integers(1, held + 1))
            far = np.tile([0.4 * (2 * end - 1), 0.5], (number, 1))
            points = far if trial % 2 else rng.uniform(-0.7, 0.7, (number, 2))
            codes = {name: rng.integers(size, size=number) for name, size in SIZES.items()}
            if trial % 2:
                codes = {name: np.full(number, end) for name in SIZES}
            units.append(mixed_vector(observe_codes(points, codes, SIZES), mixture, shape, exact=exact))
        moved = units[0] - units[1] if relation == "replace_one" else units[0]
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert 0.999 * bound <= farthest <= bound + (1e-4 if exact else 1e-9)


def test_attributes_have_their_share_of_the_squared_norm():
    alone, shape = scheme(3), scheme(3, 2, 0.2)
    add = Neighbours("record", "add_remove")
    assert 2 * shape.value**2 == pytest.approx(0.2 * shape.sensitivity(add) ** 2)
    assert alone.sensitivity(add) == pytest.approx(np.sqrt(0.8) * shape.sensitivity(add))


@pytest.mark.parametrize("compiled", [False, True])
def test_all_passes_agree_with_the_density(monkeypatch, compiled):
    """The numpy pass, the compiled one and the exact one give the counts of `MixedMixture.responsibilities`."""
    monkeypatch.setattr("privmix.mixture.standardised_moments.WORTH_COMPILING", 0 if compiled else np.inf)
    records, shape = same_place_records(700), scheme(2, 2, 0.3)
    data = observe_codes(records.points, records.codes, SIZES)
    shares = CLOSE.responsibilities(records.points, records.codes)
    expected = [
        np.bincount(records.codes[name], own, size) for own in shares.T for name, size in SIZES.items()
    ]
    fast, exact = (mixed_vector(data, CLOSE, shape, exact=each) for each in (False, True))
    assert fast[-10:] / shape.value == pytest.approx(np.concatenate(expected))
    assert fast[:2] / shape.count == pytest.approx(shares.sum(axis=0))
    assert exact == pytest.approx(fast, abs=700 * 2.0**-20)


def test_exact_contributions_do_not_depend_on_the_other_records():
    records, shape = same_place_records(301), scheme(2, 2, 0.3)

    def vector(rows):
        some = records.select(rows)
        return mixed_vector(observe_codes(some.points, some.codes, SIZES), CLOSE, shape, exact=True)

    everyone = vector(np.arange(301))
    for row in range(0, 301, 43):
        rest = np.delete(np.arange(301), row)
        assert (everyone - vector(rest) == vector(np.array([row]))).all()


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_table_is_measured_and_the_claim_is_the_budget(relation):
    spec = make_spec(relation=relation)
    release = mechanism_run.run(
        NoisyMoments(attributes="together"),
        same_place_records(4000),
        spec,
        Budget(1.0, 1e-6),
        seeded_randomness(2),
    )
    assert all(event.label != ATTRIBUTE_COUNTS for event in release.events)
    assert 0.99 < release.claim.epsilon <= 1 + 1e-9
    assert list(release.shares) == ["sex", "dog"]
    assert all("attributes" in entry for entry in release.transcript)


def test_groups_at_one_place_are_found():
    """Clusters of the coordinates do not separate the two sexes; joint clusters do."""
    spec, records = make_spec(20_000), same_place_records(20_000)
    truth = np.corrcoef(records.points[:, 1], records.codes["sex"])[0, 1]
    found = {}
    for attributes in ("together", "after"):
        release = mechanism_run.run(
            NoisyMoments(attributes=attributes), records, spec, Budget(2.0, 1e-6), seeded_randomness(4)
        )
        points, codes = MixedMixture(release.mixture, release.shares).sample(40_000, np.random.default_rng(1))
        found[attributes] = np.corrcoef(points[:, 1], codes["sex"])[0, 1] / truth
    assert found["together"] > 0.9 > found["after"]


def test_public_values_decide_whether_attributes_take_part():
    few, many = make_spec(), make_spec(attributes=[("many", tuple(map(str, range(7))))])
    mechanism = registry.build("noisy_moments", {})
    assert mechanism.takes_part(few)
    assert not mechanism.takes_part(many)  # 6 free numbers, and a Gaussian in the plane has 5
    assert NoisyMoments(attributes="together").takes_part(many)
    assert not NoisyMoments(attributes="after").takes_part(few)
    assert not NoisyMoments(attribute_share=0, attributes="together").takes_part(few)
    assert (mechanism.table_share(few), mechanism.table_share(many)) == (0.0, 0.2)


@pytest.mark.parametrize("source", ["exact", "seeded"])
def test_a_dataset_without_records_does_not_fail(source):
    empty = Records(np.empty((0, 2)), {name: np.empty(0, dtype=int) for name in SIZES}, np.empty(0))
    rng = exact_randomness() if source == "exact" else seeded_randomness(1)
    release = mechanism_run.run(
        NoisyMoments(attributes="together"), empty, make_spec(relation="add_remove"), Budget(1.0, 1e-6), rng
    )
    assert np.isfinite(release.mixture.means).all()


def test_shares_follow_the_counts_without_noise_and_stay_with_much():
    counts = np.array([100.0, 300.0])
    table = np.array([[80.0, 20.0, 50.0, 50.0, 0.0], [30.0, 270.0, 100.0, 100.0, 100.0]])
    for deviation, expected in ((1e-9, [0.8, 0.1]), (1e6, [0.9, 0.2])):
        released = MomentMeasurement(
            counts, np.zeros((2, 2)), np.zeros((2, 2, 2)), 1.0, 1.0, 1.0, table, deviation
        )
        new = share_step(APART.shares, released, counts)
        blur = np.clip(joint_moments.BLUR * deviation / counts, joint_moments.LEAST_SHARE, 0.5)
        assert (new["sex"][:, 0] - blur / 2) / (1 - blur) == pytest.approx(expected, abs=1e-3)
        assert all(each.min() > 0 for each in new.values())


def test_splits_and_merges_keep_the_overall_mixture():
    floor = np.full(2, 1e-9)
    for more in (
        split_axes(CLOSE, 2, floor),
        split_attribute(CLOSE, 2, floor, "sex"),
        reduce_mixed(CLOSE, 1),
    ):
        assert more.gaussians.weights @ more.gaussians.means == pytest.approx(
            CLOSE.gaussians.weights @ CLOSE.gaussians.means
        )
        for name in SIZES:
            assert more.marginal(name) == pytest.approx(CLOSE.marginal(name))
    parted = split_attribute(CLOSE, 2, floor, "dog")
    assert parted.gaussians.means[:2] == pytest.approx(parted.gaussians.means[2:])
    assert np.abs(parted.shares["dog"][:2] - parted.shares["dog"][2:]).max() > 0.5


@pytest.mark.parametrize("mixture", [APART, CLOSE])
def test_merge_costs_bound_the_divergence(mixture):
    points, codes = mixture.sample(100_000, np.random.default_rng(5))
    merged = reduce_mixed(mixture, 1)
    lost = mixture.log_density(points, codes) - merged.log_density(points, codes)
    assert mixed_costs(mixture)[0, 1] > lost.mean() - 5 * lost.std() / np.sqrt(len(lost))


def test_merging_components_at_one_place_with_one_attribute_costs_nothing():
    same = Mixture(np.array([0.5, 0.5]), np.zeros((2, 2)), np.array([np.eye(2) * 0.01] * 2))
    both = MixedMixture(same, {"sex": np.array([[1.0, 0.0], [0.0, 1.0]])})
    assert mixed_costs(both)[0, 1] == pytest.approx(0, abs=1e-9)


def _counted_twice(observations, mixture, shape, *, exact):
    right = mixed_vector(observations, mixture, shape, exact=exact)
    values = mixture.n_components * sum(table.shape[1] for table in mixture.shares.values())
    return np.concatenate([right[:-values], 2 * right[-values:]])


def _shares_of_the_data(observations, mixture, shape, *, exact):
    """Compute responsibilities from the shares that the records have, which no measurement covers."""
    column, shares = 0, {}
    for number, (name, table) in enumerate(mixture.shares.items()):
        size = table.shape[1]
        codes = observations.combinations[observations.kinds, number] - column
        counts = np.bincount(codes, observations.weights, size) + 1e-3
        weighted = table * np.arange(1, len(table) + 1)[:, None] + 5 * np.eye(len(table), size) * counts
        shares[name] = weighted / weighted.sum(axis=1, keepdims=True)
        column += size
    return mixed_vector(observations, MixedMixture(mixture.gaussians, shares), shape, exact=exact)


def _rounded_after_clipping(observations, mixture, shape, *, exact):
    """Round places away from zero after they were clipped, so that they may leave the ball."""
    clip = standardised_moments.clip_places

    def clip_first(places, radius):
        clipped = clip(places, radius)
        return np.sign(clipped) * np.ceil(np.abs(clipped))

    with mock.patch.object(standardised_moments, "clip_places", clip_first):
        return mixed_vector(observations, mixture, shape, exact=True)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("mistake", [None, _counted_twice, _shares_of_the_data, _rounded_after_clipping])
def test_the_replay_finds_mistakes_and_nothing_else(monkeypatch, relation, mistake):
    """The budget allows two components. With one, all responsibilities are 1 and shares do not matter."""
    mechanism = NoisyMoments(attributes="together")
    pairs = crafted_pairs(mechanism, "record", relation)
    if mistake is not None:
        monkeypatch.setattr(joint_moments, "mixed_vector", mistake)
    audit = replay.replay_audit(
        mechanism, pairs, Budget(50.0, 1e-6), lambda run: seeded_randomness(9, "moments", run)
    )
    assert bool(audit.findings) == (mistake is not None)
