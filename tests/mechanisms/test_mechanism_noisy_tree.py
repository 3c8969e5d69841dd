"""The noisy tree: sensitivities, measurements, what follows from them, and bad data."""

import base64
import json
import math

import numpy as np
import pytest
from making import RecordingNoise, clusters, make_spec
from scipy import stats

from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.central.noisy_tree import MOST_ROOT_LEVELS, NoisyTree, root_levels
from privmix.mechanisms.shared.partitions import bisect_to_resolution
from privmix.mixture import em
from privmix.privacy.accounting import Budget, gaussian_mu
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import Decomposition, Gaussian, Laplace, Ledger
from privmix.privacy.privtree import TreeShape, count_within, path_loss

BUDGET = Budget(1.0, 1e-6)
QUICK = NoisyTree(searches=1)
LEVELS = [("record", 1, "add_remove"), ("record", 1, "replace_one")]
LEVELS += [("person", 4, "add_remove"), ("person", 4, "replace_one")]


def _spec(unit="record", records=1, relation="add_remove", **more):
    return make_spec(unit=unit, relation=relation, max_records=records, **more)


def _released(points, spec, source, mechanism=QUICK):
    """Return the content of the transcript."""
    return mechanism.measure(Records(points), spec, BUDGET, source, Ledger()).released


def _exact_counts(points, spec, released):
    """The counts of the leaves without noise."""
    halving = bisect_to_resolution(spec.domain.lower, spec.domain.upper, spec.domain.resolution)
    leaves = TreeShape.unpacked(released["roots"], released["splits"]).leaves()
    return count_within(np.sort(halving.codes(points)), halving.depth, *leaves)


def _noisy_counts(released):
    return np.frombuffer(base64.b64decode(released["counts"]))


@pytest.mark.parametrize(("unit", "records", "relation"), LEVELS)
def test_no_unit_moves_the_leaf_counts_further_than_their_sensitivity(unit, records, relation):
    """Any shape, and persons with up to m records, in one leaf or in many; the bound is reached."""
    spec = _spec(unit, records, relation)
    generator = np.random.Generator(np.random.PCG64(2))
    common = clusters(200)
    released = _released(common, spec, seeded_randomness(3, "shape").noise)
    bound = spec.neighbours.difference(1.0, opposed=True), spec.neighbours.difference(1.0, opposed=False)
    worst = np.zeros(2)
    for _ in range(200):
        held, other = (
            np.repeat(generator.uniform(-0.7, 0.7, (1, 2)), records, axis=0)
            if generator.random() < 0.5
            else generator.uniform(-0.7, 0.7, (generator.integers(1, records + 1), 2))
            for _ in range(2)
        )
        second = np.vstack([common, other]) if relation == "replace_one" else common
        change = _exact_counts(np.vstack([common, held]), spec, released) - _exact_counts(
            second, spec, released
        )
        worst = np.maximum(worst, [np.abs(change).sum(), np.linalg.norm(change)])
    assert worst == pytest.approx(bound)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("unit", "records", "relation"), LEVELS)
def test_noise_has_the_scale_of_the_theorem(noise, unit, records, relation, recording):
    spec = _spec(unit, records, relation)
    mechanism = NoisyTree(noise=noise, shape_share=0.3, searches=1)
    _released(clusters(), spec, recording.noise, mechanism)
    *for_shape, (kind, scale, _) = recording.noise.asked
    assert {(k, s) for k, s, _ in for_shape} == {("laplace", path_loss(spec.neighbours) / 0.3)}
    assert kind == noise
    opposed, aligned = (spec.neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    wanted = opposed / 0.7 if noise == "laplace" else aligned / gaussian_mu(0.7, 1e-6)
    assert scale == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_claim_is_the_budget_and_comes_from_two_events(noise, delta, share, epsilon):
    mechanism = NoisyTree(noise=noise, shape_share=share, searches=1)
    release = mechanism.fit(
        Records(clusters(100)), _spec(rows=100), Budget(epsilon, 1e-6), seeded_randomness(1, share)
    )
    assert [type(event) for event in release.events] == [
        Decomposition,
        Laplace if noise == "laplace" else Gaussian,
    ]
    assert release.events[0].epsilon == pytest.approx(share * epsilon)
    assert release.claim.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert release.claim.delta == delta


def test_the_residuals_of_the_counts_are_laplace_noise_and_not_half_of_it():
    """Kolmogorov-Smirnov at 1e-6 over the leaves of some runs; noise of half the scale is detected."""
    spec, points, residuals = _spec(rows=3000), clusters(3000), []
    for run in range(8):
        released = _released(points, spec, seeded_randomness(run, "residuals").noise)
        residuals.append(_noisy_counts(released) - _exact_counts(points, spec, released))
    residuals = np.concatenate(residuals)
    assert len(residuals) > 1000
    assert stats.kstest(residuals, stats.laplace(scale=2.0).cdf).pvalue > 1e-6
    assert stats.kstest(residuals, stats.laplace(scale=1.0).cdf).pvalue < 1e-6


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_mixture_follows_from_the_transcript_and_public_values(noise, relation):
    spec, mechanism = _spec(relation=relation), NoisyTree(noise=noise, searches=2)
    randomness = seeded_randomness(5, noise, relation)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, randomness)
    (released,) = json.loads(json.dumps(release.transcript))
    assert set(released) == {"roots", "splits", "counts"}
    synopsis = mechanism.replay(released, spec, BUDGET)
    again, _ = synopsis.fit(spec, rng=seeded_randomness(5, noise, relation).search, searches=2)
    assert np.array_equal(again.mixture.means, release.mixture.means)
    assert (synopsis.size == 1000) == (relation == "replace_one")
    assert synopsis.weights().sum() == pytest.approx(synopsis.size)


def test_all_choices_before_the_noise_depend_only_on_public_values(recording):
    """Other records, or another number of them: the roots, the depth and the noise are the same."""
    spec = _spec(rows=5000)
    seen = []
    for points in (clusters(5000, seed=1), np.zeros((17, 2)), np.zeros((0, 2))):
        recording.noise.asked.clear()
        released = _released(points, spec, recording.noise)
        seen.append((released["roots"], {scale for _, scale, _ in recording.noise.asked}))
        assert recording.noise.asked[0][2] == (1 << seen[-1][0],)
    assert seen[0] == seen[1] == seen[2]


def test_the_least_count_that_is_split_follows_the_public_number_of_records():
    """Four of 200,000 expected records; that there are only 17 changes the counts and nothing else."""
    scores = []

    class Watched(RecordingNoise):
        def add_laplace(self, values, scale):
            scores.append(np.array(values))
            return super().add_laplace(values, scale)

    _released(np.zeros((17, 2)), _spec(rows=200_000), Watched())
    assert scores[0].max() == 17 - 4


def test_records_outside_the_box_count_as_on_its_edge():
    spec = _spec(rows=50)
    edge = np.tile(spec.domain.upper, (50, 1))
    far, near = (_released(points, spec, seeded_randomness(1, "edge").noise) for points in (edge * 40, edge))
    assert far == near


def test_the_order_of_records_does_not_matter():
    points = clusters()
    one, two = (
        _released(each, _spec(), seeded_randomness(1, "order").noise) for each in (points, points[::-1])
    )
    assert one == two


def test_a_synopsis_is_measured_into_a_given_ledger():
    ledger, spec = Ledger(), _spec()
    synopsis = QUICK.measure(Records(clusters()), spec, Budget(0.4, 0.0), seeded_randomness(1).noise, ledger)
    assert ledger.events == [Decomposition("tree", 0.2), Laplace("leaf counts", 0.2)]
    assert synopsis.deviation == pytest.approx(math.sqrt(2) / 0.2)
    sides = np.prod(synopsis.upper - synopsis.lower, axis=1)
    assert sides.sum() == pytest.approx(np.prod(spec.domain.upper - spec.domain.lower))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_mixture_is_found_far_better_than_one_gaussian(dimensions):
    points, held_out = clusters(6000, dimensions, seed=4)[:5000], clusters(6000, dimensions, seed=4)[5000:]
    spec = _spec(rows=5000, dimensions=dimensions)
    mixture = (
        NoisyTree(searches=3).fit(Records(points), spec, BUDGET, seeded_randomness(2, dimensions)).mixture
    )
    reached = mixture.log_density(held_out).mean()
    best = em.fit(points, 3, floor=spec.floor, rng=np.random.default_rng(1)).mixture
    single = em.fit(points, 1, floor=spec.floor, rng=np.random.default_rng(1)).mixture
    assert reached > best.log_density(held_out).mean() - 0.3
    assert reached > single.log_density(held_out).mean() + 0.3


@pytest.mark.parametrize(
    "points",
    [np.zeros((0, 2)), np.zeros((1, 2)), np.full((50, 2), 0.3), clusters(200)],
    ids=["none", "one", "one place", "some"],
)
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 1000.0])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, relation):
    spec = _spec(rows=max(len(points), 1), relation=relation)
    release = QUICK.fit(Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon))
    mixture = release.mixture
    assert np.isfinite(mixture.log_density(clusters(20))).all()
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()
    if epsilon < 0.1:
        assert any("mostly noise" in note for note in release.notes)


def test_a_note_says_if_fewer_components_were_fitted():
    release = QUICK.fit(
        Records(np.zeros((1, 2))), _spec(n_components=500, rows=1), Budget(1e-3, 0.0), seeded_randomness(1)
    )
    assert any("of the 500 requested components" in note for note in release.notes)


def test_too_many_coordinates_and_a_missing_delta_are_refused_with_advice():
    with pytest.raises(MechanismFailure, match="use `noisy_moments`"):
        QUICK.fit(Records(np.zeros((5, 4))), make_spec(dimensions=4), BUDGET, seeded_randomness(1))
    with pytest.raises(UserError, match="delta"):
        NoisyTree(noise="gaussian").fit(Records(clusters()), _spec(), Budget(1.0, 0.0), seeded_randomness(1))


def test_exact_noise_serves_both_measurements():
    randomness = Randomness(ExactNoise(), np.random.default_rng(1))
    release = QUICK.fit(Records(clusters(300)), _spec(rows=300), BUDGET, randomness)
    assert release.claim.epsilon == pytest.approx(1.0)
    steps = _noisy_counts(release.transcript[0]) * 2**20
    assert np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 10.0, 1e9])
def test_roots_are_few_at_little_budget_and_never_more_than_fit(epsilon):
    spec = _spec(rows=10**6)
    levels = root_levels(spec, spec.neighbours, epsilon, 30)
    assert 0 <= levels <= MOST_ROOT_LEVELS
    assert levels <= root_levels(spec, spec.neighbours, 2 * epsilon, 30)
    assert root_levels(spec, spec.neighbours, epsilon, 3) <= 3


def test_the_halving_reaches_the_resolution_and_its_boxes_hold_their_points():
    lower, upper = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.1, 2.5])
    resolution = np.array([0.02, 0.02, 1.0])
    halving = bisect_to_resolution(lower, upper, resolution)
    assert np.bincount(halving.axes, minlength=3).tolist() == [7, 3, 0]
    generator = np.random.Generator(np.random.PCG64(1))
    points = np.vstack([lower, upper, generator.uniform(lower, upper, (200, 3))])
    codes = halving.codes(points)
    for depth in (0, 4, halving.depth):
        low, high = halving.boxes(codes >> (halving.depth - depth), np.full(len(codes), depth))
        assert (points >= low - 1e-12).all()
        assert (points <= high + 1e-12).all()
    assert (high - low <= np.minimum(upper - lower, resolution) + 1e-12).all()
