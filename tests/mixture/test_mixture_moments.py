import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmix.errors import UserError
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Prior, estimate, floor_covariances

TINY = np.full(2, 1e-12)


def moments_of(points: np.ndarray, shares: np.ndarray) -> Moments:
    return Moments(
        counts=shares.sum(axis=0),
        sums=shares.T @ points,
        squares=np.einsum("nk,ni,nj->kij", shares, points, points),
        log_likelihood=0.0,
        total_weight=float(len(points)),
    )


def random_moments(seed: int = 0) -> tuple[Moments, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points, shares = rng.normal(size=(60, 2)), rng.dirichlet(np.ones(3), 60)
    return moments_of(points, shares), points, shares


def test_maximum_likelihood_is_the_weighted_mean_and_covariance():
    moments, points, shares = random_moments()
    mixture = estimate(moments, floor=TINY)
    for k in range(3):
        np.testing.assert_allclose(mixture.means[k], np.average(points, axis=0, weights=shares[:, k]))
        expected = np.cov(points.T, aweights=shares[:, k], ddof=0)
        np.testing.assert_allclose(mixture.covariances[k], expected, atol=1e-12)
    np.testing.assert_allclose(mixture.weights, shares.mean(axis=0))


def test_map_by_hand_in_one_dimension():
    # Records 1 and 3: N = 2, sum 4, squares 10. alpha 2, kappa 1, nu = d + 2 = 3, S0 = 0.1.
    moments = Moments(np.array([2.0]), np.array([[4.0]]), np.array([[[10.0]]]), 0.0, 2.0)
    mixture = estimate(moments, floor=np.array([1e-9]), prior=Prior())
    assert mixture.means[0, 0] == pytest.approx(4 / 3)
    # 0.1 + within 2 + kappa N/(kappa + N) 2² = 0.1 + 2 + 8/3, over nu + N + d + 2 = 8
    assert mixture.covariances[0, 0, 0] == pytest.approx((0.1 + 2 + 8 / 3) / 8)


def test_map_weights_are_the_dirichlet_mode():
    moments = Moments(np.array([7.0, 0.0]), np.zeros((2, 2)), np.zeros((2, 2, 2)), 0.0, 7.0)
    np.testing.assert_allclose(estimate(moments, floor=TINY, prior=Prior()).weights, [8 / 9, 1 / 9])


def test_map_maximises_likelihood_times_prior():
    moments, points, shares = random_moments()
    prior = Prior(alpha=3.0, kappa=2.0, nu=7.0, scale=0.4)
    best = estimate(moments, floor=TINY, prior=prior)

    def objective(mixture: Mixture) -> float:
        each = [
            Mixture([1.0], mixture.means[k : k + 1], mixture.covariances[k : k + 1]).log_density(points)
            for k in range(3)
        ]
        complete = (shares * (np.log(mixture.weights) + np.array(each).T)).sum()
        return complete + prior.log_density(mixture)

    top = objective(best)
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = best.weights * np.exp(0.02 * rng.normal(size=3))
        twist = np.eye(2) + 0.02 * rng.normal(size=(3, 2, 2))
        nearby = Mixture(
            weights / weights.sum(),
            best.means + 0.02 * rng.normal(size=(3, 2)),
            twist @ best.covariances @ np.swapaxes(twist, 1, 2),
        )
        assert objective(nearby) < top


@given(
    st.lists(st.floats(-5, 5), min_size=9, max_size=9),
    st.tuples(st.floats(1e-4, 2), st.floats(1e-4, 2), st.floats(1e-4, 2)),
)
@settings(max_examples=60, deadline=None)
def test_the_floor_holds_in_every_direction_and_never_shrinks(entries, floor):
    matrix = np.reshape(entries, (3, 3))
    covariance = matrix + matrix.T
    floor = np.array(floor)
    result = floor_covariances(covariance[None], floor)[0]
    size = 1 + np.abs(covariance).max()
    assert np.linalg.eigvalsh(result - np.diag(floor)).min() >= -1e-9 * size / floor.min()
    assert np.linalg.eigvalsh(result - covariance).min() >= -1e-9 * size / floor.min()


def test_a_covariance_above_the_floor_is_unchanged():
    covariance = np.array([[[2.0, 0.3], [0.3, 1.0]], [[1e-9, 0.0], [0.0, 5.0]]])
    result = floor_covariances(covariance, np.array([0.01, 0.04]))
    np.testing.assert_array_equal(result[0], covariance[0])
    np.testing.assert_allclose(result[1], np.diag([0.01, 5.0]))


@pytest.mark.parametrize("floor", [[0.0, 1.0], [1.0], [np.nan, 1.0], [-1.0, 1.0]])
def test_a_bad_floor_is_refused(floor):
    with pytest.raises(UserError, match="floor must be 2 positive variances"):
        floor_covariances(np.eye(2)[None], np.array(floor))


@pytest.mark.parametrize("prior", [None, Prior(), Prior(alpha=1, kappa=0)])
@pytest.mark.parametrize(
    "counts", [[-3.0, 0.0, 1e-30], [5.0, 0.0, -2.0], [0.0, 0.0, 0.0], [1e-300, 1.0, 2.0]]
)
def test_noisy_moments_always_give_a_mixture(counts, prior):
    rng = np.random.default_rng(0)
    moments = Moments(np.array(counts), rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2)), 0.0, 3.0)
    mixture = estimate(moments, floor=np.full(2, 1e-4), prior=prior)
    assert np.isfinite(mixture.means).all()
    assert np.abs(mixture.means).max() < 100
    if prior is None and max(counts) <= 0:
        np.testing.assert_allclose(mixture.weights, 1 / 3)


def test_a_component_without_count_gets_the_pooled_covariance_and_zero_weight():
    moments, points, _ = random_moments()
    emptied = Moments(
        np.append(moments.counts, 0.0),
        np.vstack([moments.sums, np.zeros(2)]),
        np.concatenate([moments.squares, np.zeros((1, 2, 2))]),
        0.0,
        60.0,
    )
    mixture = estimate(emptied, floor=TINY)
    assert mixture.weights[3] == 0
    np.testing.assert_allclose(mixture.means[3], points.mean(axis=0))
    np.testing.assert_allclose(mixture.covariances[3], np.cov(points.T, ddof=0))


def test_a_prior_without_a_mode_is_refused():
    with pytest.raises(UserError, match="alpha >= 1"):
        Prior(alpha=0.5)
