"""Posterior samples and DP-SGD with attributes in the clustering: sensitivity, noise, cost, replay and dependence."""

import math

import numpy as np
import pytest
from test_mechanism_mixed_moments import APART, CLOSE, make_spec, same_place_records

from privmix.artefacts.domain import Attribute
from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.central.dp_sgd import DpSgd, _Units, value_columns
from privmix.mechanisms.central.posterior_sample import NoisyPosterior, PosteriorSample
from privmix.mechanisms.shared import joint_moments
from privmix.mechanisms.shared.joint_moments import MomentMeasurement, mixed_vector
from privmix.mixture import gradient
from privmix.mixture.coded import side_by_side
from privmix.mixture.mixed import MixedMixture
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget
from privmix.privacy.calibration import noise_multipliers_by_share

METHODS = ["posterior_sample", "dp_sgd"]
RELATIONS = ["add_remove", "replace_one"]
LEVELS = [("record", 1), ("person", 3)]
BUDGET = Budget(1.0, 1e-6)


def random_unit(rng, held, end):
    """Make the records of one unit: at random, or all equal at one end, with values that the other end lacks."""
    if rng.random() < 0.5:
        points = np.tile([0.4 * (2 * end - 1), 0.5], (held, 1))
        return Records(points, {"sex": np.full(held, end), "dog": np.full(held, 2 * end)})
    number = int(rng.integers(1, held + 1))
    codes = {"sex": rng.integers(2, size=number), "dog": rng.integers(3, size=number)}
    return Records(rng.uniform(-0.7, 0.7, (number, 2)), codes)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
@pytest.mark.parametrize("exact", [False, True])
def test_no_unit_moves_the_moments_of_posterior_samples_further_than_their_sensitivity(
    unit, held, relation, exact
):
    """With the records, the weights and the sensitivity that the mechanism uses; the bound is nearly reached."""
    mechanism, spec = PosteriorSample(), make_spec(unit=unit, held=held, relation=relation)
    shape, rng = mechanism.scheme(spec), np.random.default_rng(3)
    bound, farthest = shape.sensitivity(mechanism.relation(spec)), 0.0
    for trial in range(120):
        own = [random_unit(rng, held, end) for end in (0, 1)]
        one, other = (
            mixed_vector(
                mechanism.observations(each.points, each, spec), (APART, CLOSE)[trial % 2], shape, exact=exact
            )
            for each in own
        )
        moved = one - other if relation == "replace_one" else one
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert shape.attributes == 2
    assert 0.99 * bound <= farthest <= bound + (1e-4 if exact else 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
@pytest.mark.parametrize("exact", [False, True])
def test_no_unit_moves_the_gradient_further_than_its_clip(unit, held, relation, exact):
    """C for a unit added or removed, reached; 2C for one replaced, over coordinates and attributes together."""
    mechanism, spec = DpSgd(clip=1.2), make_spec(unit=unit, held=held, relation=relation)
    bound, rng, farthest = mechanism.reach(spec), np.random.default_rng(4), 0.0
    common = same_place_records(6)
    for trial in range(120):
        totals = []
        for end in (0, 1):
            all_records = Records.concatenate([common, random_unit(rng, held, end)])
            owner = np.minimum(np.arange(len(all_records)), 6)
            values = value_columns(all_records.codes, spec.domain)
            units = _Units(all_records.points, owner, values, exact=exact)
            model = (APART, CLOSE)[trial % 2]
            totals.append(units.total(model, mechanism.norm(spec), np.arange(7)))
            without = units.total(model, mechanism.norm(spec), np.arange(6))
        moved = totals[0] - totals[1] if relation == "replace_one" else totals[1] - without
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert mechanism.size(spec) == 4 * (6 + 5)
    assert (0.99 if relation == "add_remove" else 0.7) * bound <= farthest
    assert farthest <= bound + (1e-4 if exact else 1e-9)


def test_gradients_are_those_of_the_joint_density():
    """By central differences along the weights and the logits of the shares."""
    records, k, step = same_place_records(9), 2, 1e-5
    values = value_columns(records.codes, make_spec().domain)
    found = gradient.gradients(records.points, CLOSE, values=values)
    exact = gradient.gradients(records.points, CLOSE, values=values, rowwise=True)
    assert exact == pytest.approx(found, abs=1e-12)

    def density(logits):
        table = side_by_side(CLOSE.shares) * np.exp(logits.reshape(k, 5))
        shares = {
            name: part / part.sum(axis=1, keepdims=True)
            for name, part in zip(CLOSE.shares, np.split(table, [2], axis=1), strict=True)
        }
        return MixedMixture(CLOSE.gaussians, shares).log_density(records.points, records.codes)

    numeric = [(density(step * unit) - density(-step * unit)) / (2 * step) for unit in np.eye(k * 5)]
    assert found[gradient.size(k, 2) :] == pytest.approx(np.array(numeric), abs=1e-6)
    owned = CLOSE.responsibilities(records.points, records.codes).T
    assert found[:k] == pytest.approx(owned - CLOSE.gaussians.weights[:, None], abs=1e-12)


def test_an_exact_gradient_depends_on_its_own_record_alone():
    records = same_place_records(301)
    values = value_columns(records.codes, make_spec().domain)
    everyone = gradient.gradients(records.points, CLOSE, values=values, rowwise=True)
    for row in range(0, 301, 43):
        alone = gradient.gradients(
            records.points[row : row + 1], CLOSE, values=values[row : row + 1], rowwise=True
        )
        assert (everyone[:, row] == alone[:, 0]).all()


def test_a_small_step_climbs_and_shares_stay_distributions():
    records = same_place_records(4000)
    values = value_columns(records.codes, make_spec().domain)
    mean = gradient.gradients(records.points, CLOSE, values=values).mean(axis=1)
    shares = gradient.step_shares(CLOSE, mean[gradient.size(2, 2) :], rate=0.1, noise=0.0)
    moved = MixedMixture(CLOSE.gaussians, shares)  # checks that the shares are distributions
    before, after = (each.log_density(records.points, records.codes).mean() for each in (CLOSE, moved))
    assert after > before + 1e-4


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_the_noise_has_the_scale_of_the_theorem(method, relation):
    """On no records, all numbers are noise: the right scale is within 6 standard errors, 3 % less is not."""
    size = 100_000
    spec = make_spec(components=2, relation=relation, attributes=[("many", tuple(map(str, range(size))))])
    empty = Records(np.empty((0, 2)), {"many": np.empty(0, dtype=int)}, np.empty(0))
    allowed = 6 / math.sqrt(2 * 2 * size)
    if method == "posterior_sample":
        mechanism = PosteriorSample(iterations=1, samples=0, attributes="together")
        released = mechanism_run.run(mechanism, empty, spec, BUDGET, seeded_randomness(3)).transcript[1]
        shape = mechanism.scheme(spec)
        noisy = np.array(released["attributes"]).ravel() * shape.value
        multiplier = noise_multipliers_by_share([0.5, 0.5], BUDGET)[1]
        scale = multiplier * shape.sensitivity(spec.neighbours)
    else:
        mechanism = DpSgd(steps=1, clip=2.0, reference_share=0.0, attributes="together")
        released = mechanism_run.run(mechanism, empty, spec, BUDGET, seeded_randomness(3)).transcript[1]
        noisy = np.array(released["gradient"])
        scale = mechanism.noise_multipliers(spec, BUDGET)[1] * (2.0 if relation == "add_remove" else 4.0)
        assert len(noisy) == mechanism.size(spec)
    spread = float(np.sqrt(np.square(noisy / scale).mean()))
    assert abs(spread - 1) < allowed < abs(0.97 * spread - 1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", ["exact", "seeded"])
def test_no_table_is_measured_and_the_claim_is_the_budget(method, relation, source):
    spec = make_spec(500, relation=relation)
    rng = exact_randomness() if source == "exact" else seeded_randomness(2)
    release = mechanism_run.run(registry.build(method, {}), same_place_records(500), spec, BUDGET, rng)
    assert all(event.label != ATTRIBUTE_COUNTS for event in release.events)
    assert 0.99 < release.claim.epsilon <= 1 + 1e-9
    assert list(release.shares) == ["sex", "dog"]
    empty = Records(np.empty((0, 2)), {"sex": np.empty(0, int), "dog": np.empty(0, int)}, np.empty(0))
    assert list(mechanism_run.run(registry.build(method, {}), empty, spec, BUDGET, rng).shares) == [
        "sex",
        "dog",
    ]


@pytest.mark.parametrize("method", METHODS)
def test_groups_at_one_place_are_found(method):
    """Clusters of the coordinates do not separate the two sexes; joint clusters do."""
    spec, records, found = make_spec(20_000), same_place_records(20_000), {}
    truth = np.corrcoef(records.points[:, 1], records.codes["sex"])[0, 1]
    for attributes in ("together", "after"):
        kept = []
        for seed in range(3):
            mechanism = registry.build(method, {"attributes": attributes})
            release = mechanism_run.run(mechanism, records, spec, Budget(2.0, 1e-6), seeded_randomness(seed))
            made = MixedMixture(release.mixture, release.shares).sample(40_000, np.random.default_rng(1))
            kept.append(np.corrcoef(made[0][:, 1], made[1]["sex"])[0, 1] / truth)
        found[attributes] = np.mean(kept)
    assert found["together"] > 1.2 * found["after"]


@pytest.mark.parametrize("method", METHODS)
def test_public_values_decide_whether_attributes_take_part(method):
    few, many = make_spec(), make_spec(attributes=[("many", tuple(map(str, range(7))))])
    mechanism, together = registry.build(method, {}), registry.build(method, {"attributes": "together"})
    assert mechanism.takes_part(few)
    assert not mechanism.takes_part(many)  # 6 free numbers, and a Gaussian in the plane has 5
    assert together.takes_part(many)
    assert not registry.build(method, {"attributes": "after"}).takes_part(few)
    assert not registry.build(method, {"attribute_share": 0, "attributes": "together"}).takes_part(few)
    assert not mechanism.takes_part(make_spec(attributes=()))
    assert (mechanism.table_share(few), mechanism.table_share(many)) == (0.0, 0.2)
    state = Attribute(name="v1 is", description="", values=("given", "blank"), state_of=("v1",))
    lacking = Spec(few.domain.model_copy(update={"attributes": (*few.domain.attributes, state)}), 4)
    assert not mechanism.takes_part(lacking)
    with pytest.raises(MechanismFailure, match="attributes: after"):
        together.takes_part(lacking)


def test_shares_follow_the_counts_without_noise_and_stay_with_much():
    table = np.array([[80.0, 20.0, 50.0, 50.0, 0.0], [30.0, 270.0, 100.0, 100.0, 100.0]])
    for deviation, expected in ((1e-9, [0.8, 0.1]), (1e9, [0.9, 0.2])):
        released = MomentMeasurement(
            np.array([100.0, 300.0]), np.zeros((2, 2)), np.zeros((2, 2, 2)), 1.0, 1.0, 1.0, table, deviation
        )
        belief = NoisyPosterior(APART, released, make_spec(components=2))
        assert belief.mean_shares["sex"][:, 0] == pytest.approx(expected, abs=0.01)
    assert NoisyPosterior(APART.gaussians, released, make_spec(components=2)).mean_shares == {}


def test_draws_of_shares_have_the_spread_of_the_posterior_and_of_the_noise():
    """A share of 0.8 of 1000 records: binomial variance plus that of the noise in its counts, within a tenth."""
    table = np.array([[800.0, 200.0, 500.0, 300.0, 200.0]] * 2)
    for deviation in (1e-9, 40.0):
        released = MomentMeasurement(
            np.full(2, 1000.0), np.zeros((2, 2)), np.zeros((2, 2, 2)), 1.0, 1.0, 1.0, table, deviation
        )
        belief = NoisyPosterior(APART, released, make_spec(components=2))
        drawn = np.array([each["sex"][0, 0] for each in belief.draw_shares(4000, np.random.default_rng(1))])
        # The noise of a share N₀/(N₀ + N₁) is ((1 - θ) z₀ - θ z₁)/N.
        variance = 0.8 * 0.2 / 1000 + deviation**2 * (0.2**2 + 0.8**2) / 1000**2
        assert drawn.mean() == pytest.approx(0.8, abs=0.01)
        assert drawn.std() == pytest.approx(math.sqrt(variance), rel=0.1)


def _counted_twice(observations, mixture, shape, *, exact):
    right = mixed_vector(observations, mixture, shape, exact=exact)
    values = mixture.n_components * sum(table.shape[1] for table in mixture.shares.values())
    return np.concatenate([right[:-values], 2 * right[-values:]])


def _attributes_not_clipped(vectors, norm):
    """Clip the coordinates only: the last four numbers are those of two values in two components."""
    coordinates = vectors[:-4] * (norm / np.maximum(np.linalg.norm(vectors[:-4], axis=0), norm))
    return np.concatenate([coordinates, vectors[-4:]])


def _start_from_the_data(monkeypatch, mechanism):
    """Start from shares that depend on the records, which no measurement covers."""
    kind, found = type(mechanism), []
    original = kind.fit

    def fit(self, view, spec, budget, rng):
        own = np.bincount(view.codes["answer"], minlength=len(spec.domain.attributes[0].values)) + 1.0
        rising = (np.arange(1, spec.n_components + 1)[:, None] + own) ** 3
        found.append(rising / rising.sum(axis=1, keepdims=True))
        return original(self, view, spec, budget, rng)

    monkeypatch.setattr(kind, "fit", fit)
    monkeypatch.setattr(
        kind, "with_shares", lambda self, mixture, spec: MixedMixture(mixture, {"answer": found[-1]})
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mistake", [None, "weight", "shares"])
def test_the_replay_finds_mistakes_and_nothing_else(monkeypatch, method, relation, mistake):
    clip = {"clip": 0.5} if method == "dp_sgd" else {}
    mechanism = registry.build(method, {"attributes": "together", **clip})
    pairs = crafted_pairs(mechanism, "record", relation)
    if mistake == "weight":
        monkeypatch.setattr(joint_moments, "mixed_vector", _counted_twice)
        monkeypatch.setattr(gradient, "clip_gradients", _attributes_not_clipped)
    if mistake == "shares":
        _start_from_the_data(monkeypatch, mechanism)
    audit = replay.replay_audit(
        mechanism, pairs, Budget(50.0, 1e-6), lambda run: seeded_randomness(9, method, run)
    )
    assert bool(audit.findings) == (mistake is not None)
