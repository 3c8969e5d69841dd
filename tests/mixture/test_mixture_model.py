import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


def test_samples_have_the_moments_of_the_mixture():
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


def test_restore_gives_the_density_in_original_units():
    mixture = random_mixture(3, 2)
    centre, scale = np.array([40.0, -90.0]), np.array([0.01, 0.02])
    points = mixture.sample(50, np.random.default_rng(0))
    original = points / scale + centre
    expected = mixture.log_density(points) + np.log(scale).sum()
    np.testing.assert_allclose(mixture.restore(centre, scale).log_density(original), expected, atol=1e-7)


scales = st.floats(0.01, 100).flatmap(lambda size: st.sampled_from([size, -size]))


@given(
    centre=st.tuples(*[st.floats(-1000, 1000)] * 2),
    scale=st.tuples(scales, scales),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_normalise_gives_the_density_of_normalised_points_and_restore_undoes_it(centre, scale, seed):
    mixture = random_mixture(3, 2, seed)
    points = mixture.sample(20, np.random.default_rng(seed))
    normalised = mixture.normalise(centre, scale)
    # The density falls by the Jacobian. The atol is for digits lost in (v - centre) beside a large centre.
    np.testing.assert_allclose(
        normalised.log_density((points - centre) * scale),
        mixture.log_density(points) - np.log(np.abs(scale)).sum(),
        atol=1e-8,
    )
    back = normalised.restore(centre, scale)
    np.testing.assert_allclose(back.means, mixture.means, atol=1e-12 * (1 + np.abs(centre).max()))
    np.testing.assert_allclose(back.covariances, mixture.covariances, rtol=1e-12)
    np.testing.assert_allclose(back.weights, mixture.weights, rtol=1e-14)


def test_a_number_as_centre_or_scale_applies_to_every_coordinate():
    mixture = random_mixture(2, 3)
    np.testing.assert_array_equal(
        mixture.normalise(1, 2).covariances, mixture.normalise([1] * 3, [2] * 3).covariances
    )
    np.testing.assert_array_equal(mixture.restore(1, 2).means, mixture.restore([1] * 3, [2] * 3).means)


@pytest.mark.parametrize("method", [Mixture.normalise, Mixture.restore])
@pytest.mark.parametrize(
    ("centre", "scale"),
    [
        ([0.0, 0.0], [1.0, 0.0]),
        ([0.0, np.nan], 1.0),
        (0.0, np.inf),
        ([[0.0], [1.0]], 1.0),
        (0.0, [1.0, 1, 1]),
    ],
)
def test_an_invalid_centre_or_scale_is_refused(method, centre, scale):
    with pytest.raises(UserError, match="centre and scale must"):
        method(random_mixture(2, 2), centre, scale)


@pytest.mark.parametrize(("kind", "theirs"), [("full", "full"), ("diagonal", "diag"), ("tied", "tied")])
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (2, 4)])
def test_criteria_and_parameter_counts_equal_those_of_scikit_learn(kind, theirs, k, d):
    points = np.random.default_rng(0).normal(size=(200, d))
    model = GaussianMixture(k, covariance_type=theirs, random_state=0).fit(points)
    mixture = Mixture.from_sklearn(model)
    assert mixture.n_parameters(kind) == model._n_parameters()
    assert mixture.bic(points, covariance=kind) == pytest.approx(model.bic(points), rel=1e-10)
    assert mixture.aic(points, covariance=kind) == pytest.approx(model.aic(points), rel=1e-10)


def test_parameter_counts_are_for_full_covariances_by_default():
    mixture = random_mixture(3, 2)
    assert mixture.n_parameters() == 2 + 3 * 2 + 3 * 3
    points = mixture.sample(10, np.random.default_rng(0))
    assert mixture.bic(points) == mixture.bic(points, covariance="full")
    assert mixture.aic(points) == mixture.aic(points, covariance="full")
    with pytest.raises(UserError, match="full, diagonal, tied, but is 'diag'"):
        mixture.bic(points, covariance="diag")


def test_a_weighted_criterion_is_that_of_the_repeated_points():
    mixture = random_mixture(3, 2)
    points = mixture.sample(6, np.random.default_rng(0))
    counts = np.array([3, 1, 0, 2, 5, 1])
    repeated = np.repeat(points, counts, axis=0)
    assert mixture.bic(points, counts) == pytest.approx(mixture.bic(repeated), rel=1e-12)
    assert mixture.aic(points, counts) == pytest.approx(mixture.aic(repeated), rel=1e-12)


def test_a_point_of_density_zero_counts_only_with_weight():
    mixture, points = random_mixture(2, 1), np.array([[0.0], [1e300]])
    assert mixture.bic(points) == np.inf
    assert mixture.bic(points, [1.0, 0.0]) == mixture.bic(points[:1])


@pytest.mark.parametrize("weights", [[1.0], [2.0, -1.0], [1.0, np.nan], [[1.0, 1.0]], [0.0, 0.0]])
def test_a_criterion_refuses_bad_weights(weights):
    with pytest.raises(UserError, match="weight"):
        random_mixture(2, 2).aic(np.zeros((2, 2)), weights)


def test_a_criterion_of_no_points_is_refused():
    with pytest.raises(UserError, match="needs data"):
        random_mixture(2, 2).bic(np.empty((0, 2)))


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
        ([1.0, np.nan], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "weights .* finite"),
        ([np.inf, -np.inf], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "weights .* finite"),
        ([1.0], [[np.nan]], [[[1.0]]], "means .* finite"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 0.0], [0.0, np.inf]]], "covariances .* finite"),
        ([1.0], [[0.0, 0.0]], [[[1.0, np.nan], [np.nan, 1.0]]], "covariances .* finite"),
        ([], np.empty((0, 2)), np.empty((0, 2, 2)), "shapes"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]], "symmetric"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], "positive definite"),
        ([1.0], [[0.0]], [[[0.0]]], "positive definite"),
    ],
)
def test_an_invalid_mixture_is_refused_with_a_sentence(weights, means, covariances, sentence):
    with pytest.raises(UserError, match=sentence):
        Mixture(weights, means, covariances)


def test_weights_are_renormalised_only_within_rounding():
    mixture = Mixture([0.1] * 10, np.zeros((10, 1)), np.ones((10, 1, 1)))
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-15)


def test_asymmetry_from_rounding_is_averaged():
    covariance = np.array([[2.0, 0.5 + 1e-12], [0.5, 1.0]])
    found = Mixture([1.0], [[0.0, 0.0]], [covariance]).covariances[0]
    assert found[0, 1] == found[1, 0] == pytest.approx(0.5 + 5e-13, abs=1e-16)
    np.testing.assert_array_equal(np.diagonal(found), [2.0, 1.0])


def test_a_mixture_cannot_be_changed_in_place():
    mixture = random_mixture(2, 2)
    for part in (mixture.weights, mixture.means, mixture.covariances, mixture.cholesky):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


def test_a_mixture_copies_its_arrays():
    weights, means, covariances = np.ones(1), np.zeros((1, 2)), np.eye(2)[None].copy()
    mixture = Mixture(weights, means, covariances)
    weights[0], means[0], covariances[0] = 0.5, 7.0, 9.0
    assert mixture.weights[0] == 1
    assert (mixture.means == 0).all()
    np.testing.assert_array_equal(mixture.covariances[0], np.eye(2))


def test_integer_read_only_and_strided_arrays_make_the_same_mixture():
    means, covariances = np.array([[0, 1], [2, 3]]), np.array([[[2, 1], [1, 3]], [[1, 0], [0, 1]]])
    points = np.arange(12).reshape(6, 2)
    plain = Mixture([0.5, 0.5], means.astype(float), covariances.astype(float))
    strided = Mixture(np.array([0.5, 9, 0.5])[::2], np.asfortranarray(means), np.asfortranarray(covariances))
    points.setflags(write=False)
    for mixture in (Mixture((0.5, 0.5), means, covariances), strided):
        np.testing.assert_array_equal(mixture.log_density(points), plain.log_density(points.astype(float)))
        assert all(part.flags.c_contiguous for part in (mixture.weights, mixture.means, mixture.covariances))
    np.testing.assert_array_equal(plain.log_density(points[::2]), plain.log_density(points)[::2])
    np.testing.assert_array_equal(
        plain.log_density(np.asfortranarray(points)[:, ::-1]), plain.log_density(points[:, ::-1].copy())
    )


def test_zero_points_give_empty_results():
    mixture = random_mixture(3, 2)
    assert mixture.log_density(np.empty((0, 2))).shape == (0,)
    assert mixture.responsibilities(np.empty((0, 2))).shape == (0, 3)
    assert mixture.sample(0, np.random.default_rng(0)).shape == (0, 2)


@pytest.mark.parametrize("points", [[[0.0, np.nan]], [[np.inf, 0.0]], [[0.0]], [0.0, 0.0]])
def test_bad_points_are_refused(points):
    with pytest.raises(UserError, match="points must"):
        random_mixture(2, 2).log_density(points)
