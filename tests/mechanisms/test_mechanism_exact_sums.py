"""In a release, one unit moves the sums before noise by its own contribution and nothing else, to the last bit."""

import numpy as np
import pytest
from making import clusters, make_spec, quick_mechanism

from privmix.audit.recording import RecordingNoise
from privmix.mechanisms.base import Randomness, Records
from privmix.mechanisms.central import dp_em, dp_sgd, output_noise
from privmix.mechanisms.shared import joint_moments
from privmix.mixture import em, kernel, standardised_moments
from privmix.mixture.model import Mixture
from privmix.mixture.moments import compress, observe
from privmix.mixture.standardised_moments import standardised_pass
from privmix.privacy import noise
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import STEP, ExactNoise, quantise
from privmix.privacy.noise_distributions import GaussianNoise
from privmix.privacy.sensitivity import Neighbours

BUDGET = Budget(1.0, 1e-6)


def _mixture(dimensions, components=5):
    """Narrow components, as a small resolution makes them: there log-densities lose most digits."""
    generator = np.random.Generator(np.random.PCG64(4))
    means = generator.uniform(-0.5, 0.5, (components, dimensions)) / np.sqrt(dimensions)
    scales = np.exp(generator.uniform(-5, -1, (components, dimensions)))
    weights = np.append(generator.dirichlet(np.ones(components - 1)), 0.0)
    return Mixture(weights, means, np.stack([np.diag(scale**2) for scale in scales]))


def _joint(points, mixture):
    return joint_moments.exact_weighted_vector(points, mixture, joint_moments.scheme(mixture.dimensions))


def _fast_joint(points, mixture):
    shape = joint_moments.scheme(mixture.dimensions)
    return joint_moments.weighted_vector(standardised_pass(points, mixture, shape.radius), shape)


def _plain(points, mixture, moments=dp_em.exact_moments):
    found = moments(points, mixture)
    upper = np.triu_indices(mixture.dimensions)
    return np.concatenate([found.counts, found.sums.ravel(), found.squares[:, *upper].ravel()])


def _fast_plain(points, mixture):
    return _plain(points, mixture, kernel.em_pass)


def _gradient(points, mixture, exact=True):
    points = points.points.repeat(points.weights.astype(int), axis=0)
    units = dp_sgd._Units(points, np.arange(len(points)), exact=exact)
    return units.total(mixture, 3.0, np.arange(len(points)))


def _fast_gradient(points, mixture):
    return _gradient(points, mixture, exact=False)


def _worlds(dimensions, seed):
    """One record replaced by another, and everything that may then be different: order, merging, blocks, lanes."""
    generator = np.random.Generator(np.random.PCG64(seed))
    common = clusters(int(generator.integers(3, 9000)), dimensions, seed)
    common = np.vstack([common, common[: len(common) // 3]])  # some records come twice
    one, other = clusters(2, dimensions, seed + 1)
    for record in (one, other):
        points = np.vstack([common, record])
        yield record[None], compress(observe(points[generator.permutation(len(points))]))


STATISTICS = [(_joint, _fast_joint), (_plain, _fast_plain), (_gradient, _fast_gradient)]


@pytest.mark.parametrize(("exact", "fast"), STATISTICS, ids=["joint", "plain", "gradient"])
@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_neighbours_differ_by_the_rounded_contribution_of_one_record_and_by_nothing_else(
    exact, fast, dimensions
):
    mixture = _mixture(dimensions)
    for seed in range(12):
        (one, mine), (other, neighbour) = _worlds(dimensions, seed)
        change = quantise(exact(mine, mixture)) - quantise(exact(neighbour, mixture))
        own = quantise(exact(observe(one), mixture)) - quantise(exact(observe(other), mixture))
        assert np.array_equal(change, own)


@pytest.mark.parametrize(("exact", "fast"), STATISTICS, ids=["joint", "plain", "gradient"])
def test_the_fast_pass_does_not_keep_that_promise_but_agrees_up_to_rounding(exact, fast):
    """The power twin: floating-point sums of neighbours differ by more than one record's own contribution."""
    mixture, spoiled = _mixture(2), 0
    for seed in range(12):
        (one, mine), (other, neighbour) = _worlds(2, seed)
        change = fast(mine, mixture) - fast(neighbour, mixture)
        own = fast(observe(one), mixture) - fast(observe(other), mixture)
        spoiled += not np.array_equal(change, own)
        records = mine.total_weight
        assert fast(mine, mixture) == pytest.approx(exact(mine, mixture), abs=records * STEP)
    assert spoiled == 12


@pytest.mark.parametrize("dimensions", [1, 2, 7])
def test_a_record_has_the_same_numbers_in_any_position(dimensions):
    mixture, points = _mixture(dimensions), clusters(5000, dimensions)
    shares, places = standardised_moments.standardise_records(points, mixture)
    assert shares == pytest.approx(mixture.responsibilities(points).T, abs=1e-9)
    assert np.all(shares.sum(axis=0) <= 1 + noise.COMPUTED / 4)
    generator = np.random.Generator(np.random.PCG64(1))
    for _ in range(20):
        rows = generator.permutation(5000)[: generator.integers(1, 400)]
        some, where = standardised_moments.standardise_records(points[rows], mixture)
        assert np.array_equal(some, shares[:, rows])
        assert np.array_equal(where, places[:, :, rows])


def test_the_exponential_is_one():
    values = -np.random.Generator(np.random.PCG64(1)).exponential(50.0, 100_000)
    assert standardised_moments.rowwise_exponential(values) == pytest.approx(np.exp(values), rel=1e-15)
    assert standardised_moments.rowwise_exponential(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert standardised_moments.rowwise_exponential(np.array([-np.inf]))[0] < 1e-300


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("records", [1, 4])
def test_no_unit_moves_the_sum_further_than_its_reach(relation, records):
    """Records at the edge of the ball, of one component: where the sensitivity of the joint vector is reached."""
    neighbours = Neighbours("person", relation, records)
    shape, mixture = joint_moments.scheme(2), _mixture(2)
    size = len(_joint(observe(np.zeros((1, 2))), mixture))
    reach = noise.with_rounding(
        shape.sensitivity(neighbours), size, 2, neighbours=neighbours, source=ExactNoise()
    )
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    worst = 0.0
    for one in circle:
        mine = _joint(observe(np.tile(one, (records, 1))), mixture)
        others = (
            [0.0]
            if relation == "add_remove"
            else [_joint(observe(np.tile(o, (records, 1))), mixture) for o in circle]
        )
        worst = max([worst, *(np.linalg.norm(mine - other) for other in others)])
    assert 0.97 * shape.sensitivity(neighbours) <= worst <= reach
    # Each of its records is rounded by half a step in every coordinate, on either side.
    assert reach >= shape.sensitivity(neighbours) + records * np.sqrt(size) * STEP
    assert reach <= shape.sensitivity(neighbours) + 2 * records * size * STEP


def test_a_block_is_fitted_alone():
    """The vectors of all other blocks are the same bits if a record of one block is changed or removed."""
    points = clusters(3000)
    assigned = np.random.Generator(np.random.PCG64(2)).integers(40, size=3000)
    about = em.public_start(np.full(2, -0.7), np.full(2, 0.7), 3, np.random.Generator(np.random.PCG64(3)))
    common = (40, about, np.full(2, 1e-6), 1.0)
    mine = output_noise.separate_vectors(points, assigned, *common)
    moved = points.copy()
    moved[0] = -moved[0]
    for other in (
        output_noise.separate_vectors(moved, assigned, *common),
        output_noise.separate_vectors(points[1:], assigned[1:], *common),
    ):
        same = [np.array_equal(a, b) for a, b in zip(mine, other, strict=True)]
        assert [number for number, equal in enumerate(same) if not equal] == [assigned[0]]
    together = output_noise.block_vectors(points, assigned, *common)
    assert mine == pytest.approx(together, abs=1e-8)


CENTRAL = ["dp_em", "noisy_tree", "noisy_grid", "noisy_moments", "tree_then_moments", "output_noise", "dp_sgd",
           "posterior_sample"]  # fmt: skip


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("method", CENTRAL)
def test_every_sum_of_a_release_lies_on_the_lattice_before_noise_is_added(method, relation):
    """Only a ratio of such sums may lie off it: DP-EM divides by measured counts."""
    spec = make_spec(rows=300, relation=relation)
    witness = RecordingNoise(ExactNoise())
    rng = Randomness(witness, np.random.Generator(np.random.PCG64(5)))
    quick_mechanism(method).fit(Records(clusters(300)), spec, BUDGET, rng)
    normal = [entry for entry in witness.recording.entries if isinstance(entry.law, GaussianNoise)]
    ratios = {"means", "second moments"} | ({"weights"} if relation == "replace_one" else set())
    sums_alone = [entry for entry in normal if method != "dp_em" or entry.event.label not in ratios]
    for entry in sums_alone:
        steps = np.asarray(entry.statistic) / STEP
        assert np.array_equal(steps, np.rint(steps)), entry.event.label
    assert normal or method in ("noisy_tree", "noisy_grid")
