"""Records known only as boxes: the moments of a pass, and the accuracy of a fit to counts in boxes.

Numeric integrals are the adaptive ones of scipy, over the log-density by its own formula.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from privmix.errors import UserError
from privmix.mixture import boxes, em
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import Mixture
from privmix.mixture.moments import estimate, observe, observe_boxes

LOWER = np.array([[-0.4, -0.1], [0.15, -0.05], [-0.7, 0.3]])
UPPER = np.array([[0.3, 0.35], [0.2, 0.05], [0.1, 0.7]])
WEIGHTS = np.array([2.0, 0.7, 1.3])
MIXTURE = Mixture(
    [0.4, 0.6],
    [[0.1, 0.2], [-0.2, 0.0]],
    [[[0.03, 0.018], [0.018, 0.05]], [[0.01, -0.003], [-0.003, 0.2]]],
)
FLOOR = np.full(2, 1e-6)


def mean_over(box: int, function) -> float:
    """Compute the mean of a function of (x, y) over a box."""
    (left, bottom), (right, top) = LOWER[box], UPPER[box]
    total, _ = dblquad(lambda y, x: function(x, y), left, right, bottom, top, epsabs=1e-13, epsrel=1e-13)
    return total / ((right - left) * (top - bottom))


def mean_log_densities(box: int) -> np.ndarray:
    """Compute E[log N_k] over a box."""
    components = [multivariate_normal(m, c) for m, c in zip(MIXTURE.means, MIXTURE.covariances, strict=True)]
    return np.array([mean_over(box, lambda x, y, n=n: n.logpdf([x, y])) for n in components])


def counted(points: np.ndarray, side: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the corners of the cells of an unbounded grid that hold records, and their counts."""
    cells, counts = np.unique(np.floor(points / side), axis=0, return_counts=True)
    return cells * side, (cells + 1) * side, counts.astype(float)


def cells_around_zero(deviation: float, side: float, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count a large sample of N(0, deviation² I) in cells. The mean is not on the border of a cell."""
    points = np.random.default_rng(0).normal(0, deviation, (100_000, d)) + 0.3 * side
    return counted(points, side)


def test_the_moments_of_boxes_are_numeric_integrals():
    one = Mixture([1.0], [[0.0, 0.1]], [np.eye(2)])
    moments = em_pass(observe_boxes(LOWER, UPPER, WEIGHTS), one)
    rows = range(len(WEIGHTS))
    first = [[mean_over(i, f) for f in (lambda x, y: x, lambda x, y: y)] for i in rows]
    second = [
        [
            [mean_over(i, lambda x, y: x * x), mean_over(i, lambda x, y: x * y)],
            [mean_over(i, lambda x, y: y * x), mean_over(i, lambda x, y: y * y)],
        ]
        for i in rows
    ]
    np.testing.assert_allclose(moments.counts, [WEIGHTS.sum()], rtol=1e-12)
    np.testing.assert_allclose(moments.sums[0], WEIGHTS @ np.array(first), rtol=1e-10)
    np.testing.assert_allclose(moments.squares[0], np.tensordot(WEIGHTS, second, axes=1), rtol=1e-10)


def test_the_objective_and_the_shares_of_boxes_are_numeric_integrals():
    joint = np.log(MIXTURE.weights)[:, None] + np.array([mean_log_densities(i) for i in range(3)]).T
    density = logsumexp(joint, axis=0)
    moments = em_pass(observe_boxes(LOWER, UPPER, WEIGHTS), MIXTURE)
    assert moments.log_likelihood == pytest.approx(WEIGHTS @ density, rel=1e-10)
    np.testing.assert_allclose(moments.counts, np.exp(joint - density) @ WEIGHTS, rtol=1e-10)


def test_the_objective_of_boxes_is_the_one_that_em_climbs():
    """Fisher's identity: the gradient of the objective in a mean is Σ_k⁻¹ (s_k - N_k μ_k)."""
    observations = observe_boxes(LOWER, UPPER, WEIGHTS)
    moments = em_pass(observations, MIXTURE)
    step = 1e-5
    for k in range(2):
        expected = np.linalg.solve(
            MIXTURE.covariances[k], moments.sums[k] - moments.counts[k] * MIXTURE.means[k]
        )
        for axis in range(2):
            reached = []
            for sign in (1, -1):
                means = MIXTURE.means.copy()
                means[k, axis] += sign * step
                moved = Mixture(MIXTURE.weights, means, MIXTURE.covariances)
                reached.append(em_pass(observations, moved).log_likelihood)
            assert (reached[0] - reached[1]) / (2 * step) == pytest.approx(expected[axis], rel=1e-6)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_cutting_a_box_keeps_its_weight_mean_and_covariance(parts):
    rows, variances = boxes.cut_boxes(LOWER, UPPER, WEIGHTS, parts)
    assert len(rows) == len(variances) == 3 * parts**2
    assert rows.total_weight == pytest.approx(WEIGHTS.sum(), rel=1e-12)
    for cut, whole in zip(rows.covariance(), observe_boxes(LOWER, UPPER, WEIGHTS).covariance(), strict=True):
        np.testing.assert_allclose(cut, whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        variances.reshape(3, -1, 2), np.repeat((UPPER - LOWER)[:, None] ** 2 / 12, parts**2, 1)
    )


def test_cuts_raise_the_objective_towards_the_mean_log_density():
    exact = WEIGHTS @ [mean_over(i, lambda x, y: MIXTURE.log_density([[x, y]])[0]) for i in range(3)]
    cuts = [boxes.cut_boxes(LOWER, UPPER, WEIGHTS, parts)[0] for parts in (1, 2, 4, 8, 32)]
    short = exact - np.array([em_pass(rows, MIXTURE).log_likelihood for rows in cuts])
    assert (np.diff(short) < 0).all()
    assert short[0] > 0.1
    # The gap falls with the square of the side of a part.
    assert short[3] / short[4] == pytest.approx(16, rel=0.05)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_em_on_boxes_never_lowers_the_objective(seed, parts, d):
    rng = np.random.default_rng(seed)
    centre, side = rng.uniform(-0.7, 0.7, (25, d)) ** 3, rng.exponential(0.1, (25, d))
    side[rng.random(25) < 0.2] = 0.0
    rows, _ = boxes.cut_boxes(centre - side / 2, centre + side / 2, rng.exponential(size=25), parts)
    mixture, floor = em.public_start(np.full(d, -0.5), np.full(d, 0.5), 3, rng), np.full(d, 1e-4)
    mixture = estimate(em_pass(rows, mixture), floor=floor)
    reached = -np.inf
    for _ in range(12):
        moments = em_pass(rows, mixture)
        assert moments.log_likelihood >= reached - 1e-9 * max(1.0, abs(reached))
        reached = moments.log_likelihood
        mixture = estimate(moments, floor=floor)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("ratio", [0.5, 1, 2])  # standard deviation over the side of a cell
def test_cells_widen_a_component_by_a_sixth_of_their_square_and_the_fit_removes_half(ratio, d):
    side, floor = 0.02 / ratio, np.full(d, 1e-8)
    lower, upper, counts = cells_around_zero(0.02, side, d)
    plain = em.fit(observe_boxes(lower, upper, counts), 1, floor=floor, rng=np.random.default_rng(0)).mixture
    fitted = boxes.fit(lower, upper, counts, 1, floor=floor, rng=np.random.default_rng(0)).mixture
    # Sheppard's h²/12 is exact to the order of exp(-2π²σ²/h²), 0.7 % at half a cell; the sample is exact to 0.5 %.
    np.testing.assert_allclose(np.diagonal(plain.covariances[0]), 0.02**2 + side**2 / 6, rtol=0.025)
    np.testing.assert_allclose(np.diagonal(fitted.covariances[0]), 0.02**2 + side**2 / 12, rtol=0.025)
    np.testing.assert_allclose(fitted.means[0], 0.3 * side, atol=0.02 * side)


def test_a_component_inside_one_box_is_as_wide_as_the_box_and_never_a_spike():
    lower, upper = np.array([[-0.5, 0.2], [0.3, 0.4]]), np.array([[-0.3, 0.3], [0.4, 0.8]])
    fitted = boxes.fit(lower, upper, [70.0, 30.0], 2, floor=FLOOR, rng=np.random.default_rng(0)).mixture
    order = np.argsort(fitted.means[:, 0])
    np.testing.assert_allclose(fitted.weights[order], [0.7, 0.3], atol=1e-6)
    np.testing.assert_allclose(fitted.means[order], (lower + upper) / 2, atol=1e-6)
    expected = (upper - lower)[:, :, None] ** 2 / 12 * np.eye(2)
    np.testing.assert_allclose(fitted.covariances[order], expected, rtol=1e-5, atol=1e-9)


def test_each_component_loses_the_variance_of_its_own_boxes():
    """The grid is fine on the left and coarse on the right, like the leaves of a tree."""
    rng = np.random.default_rng(0)
    fine = counted(rng.normal([-0.5, 0.0], 0.02, (50_000, 2)), 0.005)
    coarse = counted(rng.normal([0.5, 0.0], 0.06, (50_000, 2)), 0.08)
    lower, upper, counts = (np.concatenate(both) for both in zip(fine, coarse, strict=True))
    fitted = boxes.fit(lower, upper, counts, 2, floor=FLOOR, rng=rng).mixture
    left, right = np.argsort(fitted.means[:, 0])
    np.testing.assert_allclose(np.diagonal(fitted.covariances[left]), 0.02**2 + 0.005**2 / 12, rtol=0.03)
    np.testing.assert_allclose(np.diagonal(fitted.covariances[right]), 0.06**2 + 0.08**2 / 12, rtol=0.03)


def test_boxes_of_size_zero_are_fitted_as_points():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(-0.4, 0.05, (300, 2)), rng.normal(0.3, 0.1, (200, 2))])
    fitted = boxes.fit(points, points, np.ones(500), 2, floor=FLOOR, rng=np.random.default_rng(1))
    plain = em.fit(observe(points), 2, floor=FLOOR, rng=np.random.default_rng(1))
    assert fitted.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-4)
    assert fitted.log_likelihood == pytest.approx(fitted.mixture.log_density(points).mean(), rel=1e-9)
    np.testing.assert_allclose(fitted.mixture.covariances, plain.mixture.covariances, rtol=0.02, atol=1e-5)


@pytest.mark.parametrize("variance", [1e-6, 4e-4, 1.0])
def test_no_direction_of_a_sharpened_mixture_is_below_the_floor(variance):
    rows, variances = boxes.cut_boxes(LOWER, UPPER, WEIGHTS, 2)
    floor = np.array([variance, 2 * variance])
    sharp = boxes.sharpen(rows, variances, MIXTURE, floor)
    units = np.sqrt(np.outer(floor, floor))
    assert (np.linalg.eigvalsh(sharp.covariances / units) >= 1 - 1e-9).all()
    np.testing.assert_array_equal(sharp.means, MIXTURE.means)
    np.testing.assert_array_equal(sharp.weights, MIXTURE.weights)


def test_sharpening_keeps_a_component_of_zero_weight():
    rows, variances = boxes.cut_boxes(LOWER, UPPER, WEIGHTS, 2)
    empty = Mixture([1.0, 0.0], MIXTURE.means, MIXTURE.covariances)
    sharp = boxes.sharpen(rows, variances, empty, FLOOR)
    np.testing.assert_allclose(sharp.covariances[1], MIXTURE.covariances[1])


def test_a_fit_to_coarse_cells_describes_held_out_records_better_than_whole_boxes():
    truth = Mixture([0.3, 0.7], [[0.0, 0.0], [0.09, 0.02]], np.repeat(0.02**2 * np.eye(2)[None], 2, 0))
    rng = np.random.default_rng(3)
    held_out = truth.sample(20_000, rng)
    lower, upper, counts = counted(truth.sample(20_000, rng), 0.04)
    plain = em.fit(observe_boxes(lower, upper, counts), 2, floor=FLOOR, rng=np.random.default_rng(0))
    fitted = boxes.fit(lower, upper, counts, 2, floor=FLOOR, rng=np.random.default_rng(0))
    gain = fitted.mixture.log_density(held_out) - plain.mixture.log_density(held_out)
    assert gain.mean() > 0.05


def test_many_boxes_are_cut_into_fewer_parts():
    assert boxes._parts(100, 2) == boxes.MOST_PARTS
    assert boxes._parts(100_000, 2) == 3
    assert boxes._parts(300_000, 2) == 1
    assert boxes._parts(100, 8) == 3
    assert boxes._parts(10_000_000, 2) == 1


def test_a_fit_to_boxes_uses_the_options():
    rng = np.random.default_rng(0)
    lower = np.floor(rng.normal(size=(200, 2)) * 4) / 8
    upper, counts = lower + 0.125, np.ones(200)
    options = {"floor": FLOOR, "rng": rng, "covariance": "diagonal"}
    for searches in (1, 2):
        found = boxes.fit(lower, upper, counts, 2, searches=searches, relocations=2, **options).mixture
        assert not (found.covariances * (1 - np.eye(2))).any()
    with pytest.raises(UserError, match="tied covariances would not stay tied"):
        boxes.fit(lower, upper, counts, 2, **options | {"covariance": "tied"})
    with pytest.raises(TypeError, match="relocation"):
        boxes.fit(lower, upper, counts, 2, relocation=2, **options)
