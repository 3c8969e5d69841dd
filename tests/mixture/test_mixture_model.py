import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from privmix.errors import UserError
from privmix.mixture.model import Mixture


def random_mixture(k: int, d: int, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.2
    covariances = factors @ np.swapaxes(factors, 1, 2) + 0.01 * np.eye(d)
    return Mixture(rng.dirichlet(np.ones(k)), rng.uniform(-0.5, 0.5, (k, d)), covariances)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (4, 5)])
def test_log_density_is_the_textbook_formula(k, d):
    mixture = random_mixture(k, d)
    points = np.random.default_rng(1).normal(size=(5000, d))
    terms = [
        np.log(w) + multivariate_normal(m, c).logpdf(points)
        for w, m, c in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    ]
    expected = logsumexp(terms, axis=0)
    np.testing.assert_allclose(mixture.log_density(points), expected, rtol=1e-10, atol=1e-10)
    shares = np.exp(np.array(terms) - expected).T
    np.testing.assert_allclose(mixture.responsibilities(points), shares, atol=1e-10)


def test_far_points_have_density_minus_infinity_and_never_nan():
    mixture = Mixture(
        [0.5, 0.5, 0.0], [[0.0, 0], [1, 0], [5, 5]], [np.array([[1e-8, 9e-9], [9e-9, 1e-8]])] * 3
    )
    points = np.array([[0.0, 0.0], [30.0, 0.0], [1e300, -1e300], [1.7e308, 1.7e308]])
    density = mixture.log_density(points)
    assert not np.isnan(density).any()
    assert np.isfinite(density[:2]).all()
    assert (density[2:] == -np.inf).all()
    shares = mixture.responsibilities(points)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares[:, 2] == 0).all()


def test_samples_have_the_mixtures_moments():
    mixture = random_mixture(3, 2, seed=4)
    points = mixture.sample(200_000, np.random.default_rng(0))
    mean = mixture.weights @ mixture.means
    second = np.einsum("k,kij->ij", mixture.weights, mixture.covariances)
    second += np.einsum("k,ki,kj->ij", mixture.weights, mixture.means, mixture.means)
    # 6 standard errors: a false failure in a billion
    error = np.sqrt(np.diag(second - np.outer(mean, mean)).max() / len(points))
    np.testing.assert_allclose(points.mean(axis=0), mean, atol=6 * error)
    np.testing.assert_allclose(points.T @ points / len(points), second, atol=0.005)


def test_samples_come_in_random_order():
    mixture = Mixture([0.5, 0.5], [[0.0], [10.0]], np.ones((2, 1, 1)) * 0.01)
    labels = mixture.sample(1000, np.random.default_rng(0))[:, 0] > 5
    assert 400 < (labels[1:] != labels[:-1]).sum() < 600


def test_restored_is_the_density_in_original_units():
    mixture = random_mixture(3, 2)
    centre, scale = np.array([40.0, -90.0]), np.array([0.01, 0.02])
    points = mixture.sample(50, np.random.default_rng(0))
    original = points / scale + centre
    expected = mixture.log_density(points) + np.log(scale).sum()
    np.testing.assert_allclose(mixture.restored(centre, scale).log_density(original), expected, atol=1e-7)


def test_sklearn_round_trip_keeps_parameters_and_density():
    mixture = random_mixture(4, 3)
    model = mixture.to_sklearn()
    points = mixture.sample(500, np.random.default_rng(0))
    np.testing.assert_allclose(model.score_samples(points), mixture.log_density(points), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(points), mixture.responsibilities(points), atol=1e-9)
    np.testing.assert_allclose(
        model.precisions_ @ mixture.covariances, np.tile(np.eye(3), (4, 1, 1)), atol=1e-8
    )
    assert model.sample(10)[0].shape == (10, 3)
    back = Mixture.from_sklearn(model)
    np.testing.assert_array_equal(back.means, mixture.means)
    np.testing.assert_array_equal(back.covariances, mixture.covariances)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_from_sklearn_reads_every_covariance_type(kind):
    points = np.random.default_rng(0).normal(size=(300, 2)) * [1, 3]
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(points)
    np.testing.assert_allclose(Mixture.from_sklearn(model).log_density(points), model.score_samples(points))


def test_from_sklearn_refuses_an_unfitted_model():
    with pytest.raises(UserError, match="not fitted"):
        Mixture.from_sklearn(GaussianMixture(2))


@pytest.mark.parametrize(
    ("weights", "means", "covariances", "sentence"),
    [
        ([1.0], [[0.0, 0.0]], [[[1.0]]], "shapes"),
        ([0.5, 0.6], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "sum to 1"),
        ([1.5, -0.5], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "non-negative"),
        ([1.0], [[np.nan]], [[[1.0]]], "means .* finite"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]], "symmetric"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], "positive definite"),
        ([1.0], [[0.0]], [[[0.0]]], "positive definite"),
    ],
)
def test_an_invalid_mixture_is_refused_with_a_sentence(weights, means, covariances, sentence):
    with pytest.raises(UserError, match=sentence):
        Mixture(weights, means, covariances)


def test_only_rounding_is_renormalised():
    mixture = Mixture([0.1] * 10, np.zeros((10, 1)), np.ones((10, 1, 1)))
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-15)


def test_a_mixture_cannot_be_changed_in_place():
    mixture = random_mixture(2, 2)
    with pytest.raises(ValueError, match="read-only"):
        mixture.means[0] = 0


@pytest.mark.parametrize("points", [[[0.0, np.nan]], [[np.inf, 0.0]], [[0.0]], [0.0, 0.0]])
def test_bad_points_are_refused(points):
    with pytest.raises(UserError, match="points must"):
        random_mixture(2, 2).log_density(points)
