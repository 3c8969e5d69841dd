"""A box that is mostly empty: the noise of empty parts must not make the mixture wide or less correlated."""

import numpy as np
import pytest
from making import make_mechanism, make_spec

from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.central.noisy_moments import _reduce_to
from privmix.mechanisms.central.noisy_tree import NoisyTree
from privmix.mechanisms.shared.joint_moments import hold_in_box
from privmix.mechanisms.shared.synopsis import BLOCK, allocate_downwards, project_to_simplex
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.privtree import TreeShape

BUDGET = Budget(1.0, 1e-6)
KM = np.sqrt(0.5) / 30  # the box of `make_spec` is ± 30 km
UNIFORM = 1 / np.sqrt(6)  # standard deviation of the uniform distribution on that box


def _town(seed):
    """Return a dense town, two suburbs and a thin background, as `cases.city` of the benchmarks."""
    rng = np.random.default_rng(seed)
    town = rng.multivariate_normal((0, 0), [[2.25, 2.475], [2.475, 4.84]], 47_500)
    suburbs = [rng.normal(centre, 0.4, (750, 2)) for centre in ((7, 6), (-6, -7))]
    return np.concatenate([town, *suburbs, rng.uniform(-30, 30, (150, 2))]) * KM


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("noisy_tree", {"searches": 2}), ("tree_then_moments", {"searches": 2}), ("noisy_moments", {})],
)
def test_the_mixture_is_as_wide_and_as_correlated_as_the_records(method, parameters):
    """Seeded, three runs. Before the allocation and the prior of the box, the deviations were 15 to 45 % too large."""
    correlations, widths = [], []
    for seed in range(3):
        points = _town(seed)
        spec = make_spec(10, rows=len(points), relation="replace_one")
        release = make_mechanism(method, **parameters).fit(
            Records(points), spec, BUDGET, seeded_randomness(seed, "tails")
        )
        made = spec.inside(release.mixture.sample(50_000, np.random.default_rng(seed)))
        correlations.append(np.corrcoef(made.T)[0, 1] - np.corrcoef(points.T)[0, 1])
        widths.append(made.std(axis=0) / points.std(axis=0) - 1)
    assert abs(np.mean(correlations)) <= 0.08
    assert np.abs(np.mean(widths, axis=0)).max() <= 0.12


def _even_tree(levels):
    """Return a tree whose leaves are all nodes of one level."""
    return TreeShape(levels, (np.zeros(1 << levels, dtype=bool),))


def test_allocated_counts_are_non_negative_and_have_the_sum():
    rng = np.random.default_rng(1)
    splits = (np.array([True, False, True, True]), rng.random(6) < 0.5)
    shape = TreeShape(2, (*splits, np.zeros(2 * int(splits[1].sum()), dtype=bool)))
    counts = rng.normal(3, 5, len(shape.leaves()[0]))
    allocated = allocate_downwards(shape, counts, 40.0)
    assert allocated.min() >= 0
    assert allocated.sum() == pytest.approx(40)


def test_non_negative_counts_with_the_right_sum_stay():
    shape, counts = _even_tree(8), np.random.default_rng(1).uniform(1, 9, 256)
    assert allocate_downwards(shape, counts, counts.sum()) == pytest.approx(counts)


def test_leaves_of_every_depth_keep_their_own_counts():
    """The leaves are in the order of their levels, the allocation in the order of their places."""
    last = np.zeros(128, dtype=bool)
    shape = TreeShape(6, (np.arange(64) % 2 == 0, np.arange(64) % 3 == 0, last[: 2 * 22]))
    counts = np.arange(1.0, len(shape.leaves()[0]) + 1)
    assert len(counts) > BLOCK
    assert allocate_downwards(shape, counts, counts.sum()) == pytest.approx(counts)


def test_few_leaves_are_made_non_negative_by_norm_sub():
    counts = np.random.default_rng(1).normal(2, 5, BLOCK)
    allocated = allocate_downwards(_even_tree(BLOCK.bit_length() - 1), counts, 50.0)
    assert allocated == pytest.approx(50 * project_to_simplex(counts / 50))


def test_halves_share_a_difference_by_their_numbers_of_leaves():
    """A first half of one leaf, and a second half of 64: of 65 missing records the first gets one."""
    shape = TreeShape(1, (np.array([False, True]), *(np.full(1 << n, n < 6) for n in range(1, 7))))
    counts = np.full(65, 10.0)
    assert allocate_downwards(shape, counts, 715.0) == pytest.approx(np.full(65, 11.0))


def test_a_tree_allocates_its_counts_downwards():
    points = _town(1)[:5000]
    spec = make_spec(10, rows=len(points), relation="replace_one")
    source = seeded_randomness(1, "tails").noise
    synopsis = NoisyTree().measure(Records(points), spec, BUDGET, source, Ledger())
    shape = TreeShape.unpacked(synopsis.released["roots"], synopsis.released["splits"])
    assert np.array_equal(synopsis.weights(), allocate_downwards(shape, synopsis.counts, 5000.0))


def test_empty_parts_of_the_box_keep_little_noise():
    """1024 leaves of which the first 64 hold 100 records each: less than a third of what norm-sub leaves elsewhere."""
    rng = np.random.default_rng(1)
    left = []
    for _ in range(20):
        counts = rng.laplace(0, 4, 1024)
        counts[:64] += 100
        size = 6400.0
        fair, plain = (
            allocate_downwards(_even_tree(10), counts, size),
            size * project_to_simplex(counts / size),
        )
        left.append((fair[64:].sum(), plain[64:].sum()))
    fair, plain = np.mean(left, axis=0)
    assert fair < plain / 3


def test_without_noise_the_box_moves_no_component():
    spec = make_spec(2)
    means, covariances = np.array([[0.1, -0.2], [0.5, 0.5]]), np.array([np.eye(2), 1e-3 * np.eye(2)])
    held = hold_in_box(means, covariances, np.zeros(2), np.zeros(2), spec)
    assert held[0] == pytest.approx(means)
    assert held[1] == pytest.approx(covariances)


def test_only_a_component_as_wide_as_its_box_and_its_noise_moves():
    """Two components of the same noise: one wider than the box, with a correlation, and one of 300 m."""
    spec = make_spec(2)
    wide, narrow = UNIFORM**2 * np.array([[3.0, 1.5], [1.5, 3.0]]), (0.3 * KM) ** 2 * np.eye(2)
    means = np.array([[0.4, 0.3], [0.4, 0.3]])
    noise = np.full(2, 5.0)
    moved, covariances = hold_in_box(means, np.array([wide, narrow]), noise, noise, spec)
    assert np.abs(moved[0]).max() < 0.05
    assert covariances[0] == pytest.approx(UNIFORM**2 * np.eye(2), rel=0.2, abs=0.02)
    assert moved[1] == pytest.approx(means[1], abs=0.01)
    assert covariances[1] == pytest.approx(narrow)


def test_the_mean_of_a_wide_component_is_the_posterior_mean():
    """One axis by an independent formula: prior variance 1 - a, noise variance τ² a, in units of the box."""
    spec, a, tau = make_spec(1), 0.5, 0.7
    covariances = a * UNIFORM**2 * np.eye(2)[None]
    moved, kept = hold_in_box(np.array([[0.3, 0.0]]), covariances, np.array([tau]), np.array([tau]), spec)
    assert moved[0] == pytest.approx([0.3 * (1 - a) / (1 - a + tau**2 * a), 0.0])
    assert kept == pytest.approx(covariances)


def test_a_wide_mixture_leaves_no_component_on_the_edge_of_the_box():
    spec = make_spec(3)
    sizes = np.array([0.01, 0.01, 0.01, 1.0])[:, None, None]
    wide = Mixture(np.array([0.3, 0.3, 0.3, 0.1]), np.zeros((4, 2)), sizes * np.eye(2))
    fewer = _reduce_to(wide, 3, spec, np.random.default_rng(1))
    assert np.abs(fewer.means).max() < 0.6 * spec.domain.upper[0]
