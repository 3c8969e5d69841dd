import subprocess
import sys
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment

from privmix.errors import UserError
from privmix.mixture.distance import distance
from privmix.mixture.model import Mixture


def random_mixture(k: int, d: int, seed: int, weights: np.ndarray | None = None) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.4
    covariances = factors @ np.swapaxes(factors, 1, 2) + 1e-3 * np.eye(d)
    weights = rng.dirichlet(np.ones(k)) if weights is None else weights
    return Mixture(weights, rng.normal(size=(k, d)), covariances)


def rearranged(mixture: Mixture, order: np.ndarray) -> Mixture:
    return Mixture(mixture.weights[order], mixture.means[order], mixture.covariances[order])


def gaussian_distance(one: Mixture, i: int, other: Mixture, j: int) -> float:
    """2-Wasserstein distance of two Gaussians by the textbook formula."""
    root = sqrtm(one.covariances[i])
    middle = sqrtm(root @ other.covariances[j] @ root)
    spread = np.trace(one.covariances[i] + other.covariances[j] - 2 * middle)
    return float(np.sqrt(np.square(one.means[i] - other.means[j]).sum() + spread.real))


mixtures = st.builds(random_mixture, k=st.integers(1, 5), d=st.just(2), seed=st.integers(0, 2**32 - 1))


@given(mixture=mixtures, seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_the_order_of_components_does_not_matter(mixture, seed):
    order = np.random.default_rng(seed).permutation(mixture.n_components)
    assert distance(mixture, rearranged(mixture, order)) < 1e-7


@given(one=mixtures, other=mixtures, third=mixtures)
@settings(max_examples=50, deadline=None)
def test_it_is_a_metric(one, other, third):
    assert distance(other, one) == pytest.approx(distance(one, other), rel=1e-9, abs=1e-7)
    assert distance(one, third) <= distance(one, other) + distance(other, third) + 1e-7


def test_mixtures_that_differ_in_weight_mean_or_covariance_alone_are_apart():
    mixture = random_mixture(2, 2, seed=1)
    weights, means, covariances = mixture.weights, mixture.means, mixture.covariances
    turned = covariances * [[1, -1], [-1, 1]]
    assert distance(mixture, Mixture(weights[::-1], means, covariances)) > 0.1
    assert distance(mixture, Mixture(weights, means[::-1], covariances)) > 0.1
    assert distance(mixture, Mixture(weights, means, covariances[::-1])) > 0.1
    assert distance(mixture, Mixture(weights, means, turned)) > 0.1


def test_a_component_split_into_halves_is_the_same_distribution():
    whole = random_mixture(3, 2, seed=1)
    order = np.array([2, 0, 1, 0])
    halves = Mixture(whole.weights[order] * [1, 0.5, 1, 0.5], whole.means[order], whole.covariances[order])
    assert distance(whole, halves) < 1e-7
    other = random_mixture(2, 2, seed=2)
    assert distance(halves, other) == pytest.approx(distance(whole, other), rel=1e-9)


def test_a_component_without_weight_does_not_count_however_far_it_is():
    mixture, other = random_mixture(8, 2, seed=1), random_mixture(8, 2, seed=2)
    idle = Mixture(
        [*mixture.weights, 0.0], [*mixture.means, [1e9, 0.0]], [*mixture.covariances, np.eye(2) * 1e6]
    )
    assert distance(mixture, idle) < 1e-7
    assert distance(idle, other) == pytest.approx(distance(mixture, other), rel=1e-6)


@pytest.mark.parametrize(("shift", "spread"), [(3.0, 0.0), (0.0, 1.5), (2.0, 7.0), (1e-9, 0.0), (0.0, 1e-9)])
def test_of_two_gaussians_on_a_line_it_is_pythagoras_of_mean_and_deviation(shift, spread):
    one = Mixture([1.0], [[5.0]], [[[4.0]]])
    other = Mixture([1.0], [[5.0 + shift]], [[[(2.0 + spread) ** 2]]])
    assert distance(one, other) == pytest.approx(np.hypot(shift, spread), rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_of_two_gaussians_it_is_the_wasserstein_distance(d):
    one, other = random_mixture(1, d, seed=1), random_mixture(1, d, seed=2)
    assert distance(one, other) == pytest.approx(gaussian_distance(one, 0, other, 0), rel=1e-9)


def test_of_narrow_components_it_is_the_transport_of_points():
    narrow = np.full((3, 1, 1), 1e-20)
    one = Mixture([0.5, 0.25, 0.25], [[0.0], [1.0], [4.0]], narrow)
    other = Mixture([0.25, 0.75], [[-1.0], [2.0]], narrow[:2])
    # On a line mass keeps its order: 1/4 goes 0 → -1, 1/4 goes 0 → 2, 1/4 goes 1 → 2, 1/4 goes 4 → 2.
    assert distance(one, other) == pytest.approx(np.sqrt((1 + 4 + 1 + 4) / 4), rel=1e-9)


def test_with_equal_weights_it_is_the_best_pairing():
    equal = np.full(4, 0.25)
    one, other = random_mixture(4, 3, seed=1, weights=equal), random_mixture(4, 3, seed=2, weights=equal)
    pairs = np.array([[gaussian_distance(one, i, other, j) ** 2 for j in range(4)] for i in range(4)])
    best = min(pairs[range(4), order].mean() for order in map(list, permutations(range(4))))
    assert distance(one, other) == pytest.approx(np.sqrt(best), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_with_any_weights_and_numbers_it_is_the_best_pairing_of_equal_parts(seed):
    rng = np.random.default_rng(seed)
    shares = [rng.multinomial(24 - k, np.full(k, 1 / k)) + 1 for k in rng.integers(1, 9, size=2)]
    one, other = (
        random_mixture(len(share), 2, seed=seed + 10 * i, weights=share / 24)
        for i, share in enumerate(shares)
    )
    pairs = np.array(
        [
            [gaussian_distance(one, i, other, j) ** 2 for j in np.repeat(range(len(shares[1])), shares[1])]
            for i in np.repeat(range(len(shares[0])), shares[0])
        ]
    )
    best = pairs[linear_sum_assignment(pairs)].mean()
    assert distance(one, other) == pytest.approx(np.sqrt(best), rel=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_it_scales_with_the_units_and_does_not_see_a_shift(scale):
    one, other = random_mixture(3, 2, seed=1), random_mixture(4, 2, seed=2)
    expected = distance(one, other)
    assert distance(one.normalise(0, scale), other.normalise(0, scale)) == pytest.approx(
        scale * expected, rel=1e-9, abs=0
    )
    assert distance(one.normalise(-50, 1), other.normalise(-50, 1)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shift", [1e-200, 1e200])
def test_squares_beyond_floating_point_do_no_harm(shift):
    one, other = Mixture([1.0], [[0.0]], [[[1e-300]]]), Mixture([1.0], [[shift]], [[[1e-300]]])
    assert distance(one, other) == pytest.approx(shift, rel=1e-9, abs=0)


@pytest.mark.parametrize("flatness", [1e-4, 1e-8, 1e-12])
def test_of_nearly_singular_components_it_is_accurate_near_zero(flatness):
    angle = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    covariance = angle @ np.diag([1.0, flatness]) @ angle.T
    one = Mixture([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], [covariance] * 2)
    assert distance(one, one) < 1e-9
    # A covariance multiplied by (1 + h)² moves each deviation by h of itself.
    wider = Mixture(one.weights, one.means, one.covariances * (1 + 1e-5) ** 2)
    assert distance(one, wider) == pytest.approx(1e-5 * np.sqrt(1 + flatness), rel=1e-3)


def test_equal_mixtures_with_near_duplicates_and_tiny_weights_are_near_zero():
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-12, 0, 25)
    means = rng.normal(size=(5, 2)).repeat(5, axis=0) + 1e-6 * rng.normal(size=(25, 2))
    covariances = (10.0 ** rng.uniform(-12, 0, (5, 1, 1)) * np.eye(2)).repeat(5, axis=0)
    mixture = Mixture(weights / weights.sum(), means, covariances)
    for _ in range(5):
        assert distance(mixture, rearranged(mixture, rng.permutation(25))) < 1e-7


def test_mixtures_of_different_dimensions_have_no_distance():
    with pytest.raises(UserError, match="2 and one of 3 dimensions"):
        distance(random_mixture(2, 2, seed=0), random_mixture(2, 3, seed=0))


def test_a_solver_that_fails_is_an_error_and_no_number(monkeypatch):
    monkeypatch.setattr(
        "scipy.optimize.linprog", lambda *_, **__: SimpleNamespace(x=None, message="lost its way")
    )
    with pytest.raises(UserError, match="lost its way"):
        distance(random_mixture(2, 2, seed=0), random_mixture(2, 2, seed=1))


def test_who_only_imports_it_does_not_load_scipy():
    code = "import sys, privmix.mixture.distance; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
