import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from privmix.errors import UserError
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Prior, estimate
from privmix.mixture.observations import aggregate, compress, observe, observe_boxes, sampled


def random_mixture(k: int, d: int, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.2
    covariances = factors @ np.swapaxes(factors, 1, 2) + 0.01 * np.eye(d)
    return Mixture(rng.dirichlet(np.ones(k)), rng.uniform(-0.5, 0.5, (k, d)), covariances)


def same(one, other, **tolerance) -> None:
    for name in ("counts", "sums", "squares", "log_likelihood", "total_weight"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **tolerance)


@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (700, 3, 2), (9000, 10, 2), (400, 4, 6)])
def test_a_pass_is_the_textbook_e_step_and_its_sums(n, k, d):
    mixture = random_mixture(k, d)
    rng = np.random.default_rng(2)
    points, weights = rng.uniform(-0.7, 0.7, (n, d)), rng.exponential(size=n)
    terms = np.array(
        [
            np.log(w) + multivariate_normal(m, c).logpdf(points).reshape(n)
            for w, m, c in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
        ]
    )
    density = logsumexp(terms, axis=0)
    shares = np.exp(terms - density) * weights
    moments = em_pass(observe(points, weights), mixture)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(moments.counts, shares.sum(axis=1), **close)
    np.testing.assert_allclose(moments.sums, shares @ points, **close)
    np.testing.assert_allclose(moments.squares, np.einsum("kn,ni,nj->kij", shares, points, points), **close)
    assert moments.log_likelihood == pytest.approx(weights @ density, rel=1e-10)
    assert moments.total_weight == pytest.approx(weights.sum())


def test_one_iteration_is_scikit_learns():
    mixture = random_mixture(3, 2)
    points = random_mixture(4, 2, seed=5).sample(2000, np.random.default_rng(0))
    model = mixture.to_sklearn().set_params(reg_covar=0.0)
    bound, responsibilities = model._e_step(points)
    model._m_step(points, responsibilities)
    moments = em_pass(observe(points), mixture)
    step = estimate(moments, floor=np.full(2, 1e-12))
    assert moments.log_likelihood / 2000 == pytest.approx(bound, rel=1e-12)
    np.testing.assert_allclose(step.weights, model.weights_, rtol=1e-10)
    np.testing.assert_allclose(step.means, model.means_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(step.covariances, model.covariances_, rtol=1e-8, atol=1e-12)


def test_far_records_do_not_underflow_and_empty_components_get_nothing():
    mixture = Mixture([0.5, 0.5, 0.0], [[0.0], [0.1], [0.9]], np.full((3, 1, 1), 1e-6))
    moments = em_pass(observe([[0.9], [-0.9]]), mixture)
    assert np.isfinite(moments.log_likelihood)
    np.testing.assert_allclose(moments.counts, [1, 1, 0], atol=1e-12)


def test_narrow_components_keep_their_digits_in_the_unit_ball():
    mean = np.array([0.7, -0.7])
    mixture = Mixture([1.0], mean[None], [np.eye(2) * 1e-8])
    points = mixture.sample(2000, np.random.default_rng(0))
    observations = observe(points)
    assert em_pass(observations, mixture).log_likelihood == pytest.approx(mixture.log_density(points).sum())
    step = estimate(em_pass(observations, mixture), floor=np.full(2, 1e-12))
    np.testing.assert_allclose(step.covariances[0], np.cov(points.T, ddof=0), rtol=1e-5, atol=1e-12)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_em_never_descends(seed, boxes, with_prior):
    rng = np.random.default_rng(seed)
    points, weights = rng.uniform(-0.7, 0.7, (40, 2)) ** 3, rng.exponential(size=40)
    side = rng.uniform(0, 0.3, (40, 2)) if boxes else np.zeros((40, 2))
    observations = observe_boxes(points - side / 2, points + side / 2, weights)
    prior = Prior() if with_prior else None
    floor = np.array([1e-3, 1e-5])
    mixture = estimate(em_pass(observations, random_mixture(3, 2, seed)), floor=floor, prior=prior)
    reached = -np.inf
    for _ in range(15):
        moments = em_pass(observations, mixture)
        objective = moments.log_likelihood + (prior.log_density(mixture) if prior else 0.0)
        assert objective >= reached - 1e-9 * max(1.0, abs(reached))
        reached = objective
        mixture = estimate(moments, floor=floor, prior=prior)


def test_a_box_is_the_mean_over_its_uniform_density():
    lower, upper = np.array([[-0.3, 0.1]]), np.array([[0.5, 0.3]])
    inside = np.random.default_rng(0).uniform(lower, upper, (400_000, 2))
    for got, expected in zip(
        observe_boxes(lower, upper).covariance(), observe(inside).covariance(), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=2e-3)


def test_a_box_of_no_size_is_a_point():
    points = np.random.default_rng(0).normal(size=(20, 3))
    boxes = observe_boxes(points, points)
    np.testing.assert_array_equal(boxes.points, points)
    assert not boxes.spread.any()


def test_compress_changes_nothing_but_the_rows():
    rng = np.random.default_rng(0)
    points, weights = rng.integers(-3, 4, (500, 2)) / 10, rng.integers(0, 3, 500).astype(float)
    full = observe(points, weights)
    merged = compress(full)
    assert len(merged) == len(np.unique(points[weights > 0], axis=0))
    same(em_pass(full, random_mixture(3, 2)), em_pass(merged, random_mixture(3, 2)), rtol=1e-12, atol=1e-12)


def test_compress_keeps_boxes_of_one_centre_and_two_sizes_apart():
    corner = np.array([[0.1, 0.1], [0.2, 0.2], [0.1, 0.1]])
    assert len(compress(observe_boxes(-corner, corner))) == 2


def test_aggregate_keeps_total_moments_and_shares_responsibilities():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(300, 2)), rng.exponential(size=300)
    full = observe(points, weights)
    cells = rng.integers(-5, 5, 300)
    gathered = aggregate(full, cells)
    assert len(gathered) == 10
    for one, other in zip(gathered.covariance(), full.covariance(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    one = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    same(em_pass(full, one), em_pass(gathered, one), rtol=1e-12)


def test_aggregate_needs_one_integer_for_each_record():
    with pytest.raises(UserError, match="one integer cell id"):
        aggregate(observe(np.zeros((3, 1))), np.zeros(3))


def test_a_systematic_sample_follows_the_weights():
    weights = np.array([0.0, 1.0, 3.0, 96.0] * 25)
    observations = observe(np.arange(100.0)[:, None], weights)
    drawn = sampled(observations, 50, np.random.default_rng(0))
    assert drawn.weights.sum() == 50
    share = np.bincount(drawn.points[:, 0].astype(int) % 4, drawn.weights, minlength=4)
    assert share[0] == 0
    assert 46 <= share[3] <= 50


@pytest.mark.parametrize(
    ("points", "weights", "sentence"),
    [
        ([[np.nan]], None, "finite"),
        ([[np.inf]], None, "finite"),
        ([[1e200]], None, "finite"),
        ([[0.0]], [-1.0], "non-negative"),
        ([[0.0]], [np.nan], "non-negative"),
        ([[0.0]], [0.0], "nothing to fit"),
        ([[0.0]], [1.0, 1.0], "as many weights"),
        (np.empty((0, 2)), None, "n, d >= 1"),
        ([0.0, 1.0], None, "n, d >= 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_records_are_refused_with_a_sentence(points, weights, sentence):
    with pytest.raises(UserError, match=sentence):
        observe(points, weights)


def test_boxes_need_ordered_corners():
    with pytest.raises(UserError, match="lower <= upper"):
        observe_boxes([[1.0]], [[0.0]])
