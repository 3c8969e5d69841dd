"""One pass over the data is the textbook E-step with its sums, by numpy and by the compiled loops."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from privmix.errors import UserError
from privmix.mixture import kernel
from privmix.mixture.kernel import default_threads, em_pass, em_passes, passes_over_parts
from privmix.mixture.model import Mixture
from privmix.mixture.moments import (
    Moments,
    Observations,
    Parameters,
    aggregate,
    compress,
    distinct_records,
    estimate,
    observe,
    observe_boxes,
    systematic_sample,
)

PARTS = ("counts", "sums", "squares", "log_likelihood", "total_weight")


def random_mixture(k: int, d: int, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.2
    covariances = factors @ np.swapaxes(factors, 1, 2) + 0.01 * np.eye(d)
    return Mixture(rng.dirichlet(np.ones(k)), rng.uniform(-0.5, 0.5, (k, d)), covariances)


def random_records(n: int, d: int, *, spread: bool, seed: int = 2) -> Observations:
    """Return weighted records, some of weight zero. With a spread, they are cells of a few records each."""
    rng = np.random.default_rng(seed)
    points, weights = rng.uniform(-0.7, 0.7, (n, d)), rng.exponential(size=n)
    weights[1::7] = 0.0
    records = observe(points, weights)
    return aggregate(records, rng.integers(0, n, n)) if spread else records


def textbook(records: Observations, mixture: Mixture) -> Moments:
    """Compute the E-step and its sums from scipy's densities of each record: E[log N] = log N(mean) - tr(Σ⁻¹S)/2."""
    n, d = records.points.shape
    rows, columns = np.triu_indices(d)
    spread = np.zeros((n, d, d))
    if records.spread is not None:
        spread[:, rows, columns] = spread[:, columns, rows] = records.spread
    joint = np.empty((mixture.n_components, n))
    for k, (weight, mean, covariance) in enumerate(
        zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    ):
        density = multivariate_normal(mean, covariance).logpdf(records.points).reshape(n)
        density -= 0.5 * np.einsum("ij,nji->n", np.linalg.inv(covariance), spread)
        joint[k] = density + (np.log(weight) if weight > 0 else -np.inf)
    total = logsumexp(joint, axis=0)
    shares = np.exp(joint - total) * records.weights
    second = spread + records.points[:, :, None] * records.points[:, None, :]
    return Moments(
        counts=shares.sum(axis=1),
        sums=shares @ records.points,
        squares=np.einsum("kn,nij->kij", shares, second),
        log_likelihood=float(records.weights @ total),
        total_weight=float(records.weights.sum()),
    )


def assert_same(one: Moments, other: Moments, tolerance: float = 1e-10) -> None:
    """Check equality to a relative tolerance. Sums that cancel are compared relative to the largest of their kind."""
    for name in PARTS:
        got, expected = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        atol = tolerance * np.abs(expected).max() if name in ("sums", "squares") else 0.0
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=atol, err_msg=name)


def assert_identical(one: Moments, other: Moments) -> None:
    for name in PARTS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.fixture(params=["fused", "wide"])
def way(request, monkeypatch) -> str:
    """Run the test with both implementations of a pass: compiled loops, and matrix products of numpy."""
    if request.param == "wide":
        monkeypatch.setattr(kernel, "FUSED_DIMENSIONS", 0)
        monkeypatch.setattr(kernel, "CELLS", 1)  # blocks of 128 records
    return request.param


def one_pass(records: Observations, mixture: Mixture, threads: int = 1) -> Moments:
    return em_passes([records], Parameters.of([mixture]), threads=threads)[0]


@pytest.mark.parametrize("spread", [False, True], ids=["points", "spread"])
@pytest.mark.parametrize("n", [1, 256, 1000])
@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 13])
def test_a_pass_is_the_textbook_e_step_and_its_sums(way, d, k, n, spread):
    records, mixture = random_records(n, d, spread=spread), random_mixture(k, d, seed=n)
    assert_same(one_pass(records, mixture), textbook(records, mixture))


def test_a_pass_in_many_dimensions_is_the_textbook_e_step():
    d = kernel.FUSED_DIMENSIONS + 1
    records, mixture = random_records(600, d, spread=True), random_mixture(3, d)
    assert_same(one_pass(records, mixture), textbook(records, mixture))


def test_records_a_thousand_deviations_away_lose_no_digits(way):
    mixture = Mixture([0.6, 0.4], [[0.0, 0.0], [0.001, -0.002]], [np.eye(2) * 1e-6, np.diag([2e-6, 1e-6])])
    angle = np.linspace(0, 2 * np.pi, 300)
    records = observe(np.column_stack([np.cos(angle), np.sin(angle)]))
    assert_same(one_pass(records, mixture), textbook(records, mixture))


def test_extremely_small_responsibilities_are_kept(way):
    """Responsibilities of e^-100 to e^-700 are visible only in the sums of their own component."""
    for distance in (14.2, 26.5, 37.4):
        mixture = Mixture([0.5, 0.5], [[0.0], [distance]], np.ones((2, 1, 1)))
        moments = one_pass(observe([[0.0]]), mixture)
        assert moments.counts[1] == pytest.approx(np.exp(-(distance**2) / 2), rel=1e-10)


def test_a_component_of_zero_weight_has_no_responsibility_even_if_it_is_the_nearest(way):
    mixture = Mixture([0.5, 0.0, 0.5], [[0.0], [0.9], [0.1]], np.full((3, 1, 1), 1e-6))
    records = observe(np.concatenate([np.full((300, 1), 0.9), [[-0.9]]]))
    moments = one_pass(records, mixture)
    assert moments.counts[1] == 0
    assert_same(moments, textbook(records, mixture))


def test_narrow_components_keep_their_digits_in_the_unit_ball(way):
    mean = np.array([0.7, -0.7])
    mixture = Mixture([1.0], mean[None], [np.eye(2) * 1e-8])
    points = mixture.sample(2000, np.random.default_rng(0))
    moments = one_pass(observe(points), mixture)
    assert moments.log_likelihood == pytest.approx(mixture.log_density(points).sum())
    step = estimate(moments, floor=np.full(2, 1e-12))
    np.testing.assert_allclose(step.covariances[0], np.cov(points.T, ddof=0), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(("covariance", "theirs"), [("full", "full"), ("diagonal", "diag"), ("tied", "tied")])
def test_one_iteration_equals_that_of_scikit_learn(covariance, theirs):
    mixture = random_mixture(3, 2)
    points = random_mixture(4, 2, seed=5).sample(2000, np.random.default_rng(0))
    model = mixture.to_sklearn().set_params(reg_covar=0.0, covariance_type=theirs)
    if theirs != "full":  # its factors have another shape, so it needs its own kind of start
        mixture = Mixture(mixture.weights, mixture.means, [np.diag([0.03, 0.05])] * 3)
        root = 1 / np.sqrt([0.03, 0.05])
        model.precisions_cholesky_ = np.tile(root, (3, 1)) if theirs == "diag" else np.diag(root)
    bound, responsibilities = model._e_step(points)
    model._m_step(points, responsibilities)
    moments = em_pass(observe(points), mixture)
    step = estimate(moments, floor=np.full(2, 1e-12), covariance=covariance)
    expected = Mixture.from_sklearn(model)
    assert moments.log_likelihood / 2000 == pytest.approx(bound, rel=1e-10)
    np.testing.assert_allclose(step.weights, expected.weights, rtol=1e-10)
    np.testing.assert_allclose(step.means, expected.means, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(step.covariances, expected.covariances, rtol=1e-10, atol=1e-12)


def test_a_pass_takes_plain_points_with_or_without_weights():
    mixture, records = random_mixture(2, 2), random_records(50, 2, spread=False)
    assert_same(em_pass(records.points, mixture, records.weights), textbook(records, mixture))
    assert_same(em_pass(records.points, mixture), textbook(observe(records.points), mixture))


def test_a_small_pass_without_numba_gives_the_same_result(monkeypatch):
    mixture, records = random_mixture(3, 2), random_records(500, 2, spread=True)
    compiled = em_pass(records, mixture)
    monkeypatch.delitem(sys.modules, "privmix.mixture.kernel_numba", raising=False)
    monkeypatch.setattr(kernel, "numba_kernel", lambda: pytest.fail("numba was loaded for a small pass"))
    assert_same(em_pass(records, mixture), compiled, 1e-12)
    monkeypatch.setattr(kernel, "WORTH_IMPORTING", 1500)
    with pytest.raises(pytest.fail.Exception):
        em_pass(observe(np.zeros((500, 2))), mixture)


def test_stacked_passes_equal_single_passes(way):
    records = [random_records(n, 2, spread=False, seed=n) for n in (10, 700, 300)]
    mixtures = [random_mixture(3, 2, seed) for seed in range(3)]
    together = em_passes(records, Parameters.of(mixtures))
    for number in range(3):
        assert_identical(together[number], one_pass(records[number], mixtures[number]))


@pytest.mark.parametrize("spread", [False, True], ids=["points", "spread"])
def test_the_result_does_not_depend_on_the_number_of_threads(way, spread, monkeypatch):
    monkeypatch.setattr(kernel, "PIECE", 300)
    records, mixture = random_records(4100, 2, spread=spread), random_mixture(4, 2)
    alone = one_pass(records, mixture)
    for threads in (2, 3, 20):
        assert_identical(one_pass(records, mixture, threads), alone)
    assert_same(alone, textbook(records, mixture))


@pytest.mark.parametrize("spread", [False, True], ids=["points", "spread"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_pass_over_a_part_uses_only_its_records_and_mixture(d, spread, monkeypatch):
    monkeypatch.setattr(kernel, "PARTS", 2)
    records = random_records(1000, d, spread=spread)
    records = Observations(records.points, records.weights + 1.0, records.spread)
    ends = np.array([0, 300, 300, 301, len(records) - 1, len(records)])
    mixtures = [random_mixture(3, d, seed) for seed in range(len(ends) - 1)]
    got = passes_over_parts(records, ends, Parameters.of(mixtures))
    assert not got.counts[1].any()
    for number in (0, 2, 3, 4):
        rows = slice(ends[number], ends[number + 1])
        spreads = records.spread[rows] if spread else None
        alone = textbook(Observations(records.points[rows], records.weights[rows], spreads), mixtures[number])
        for name in PARTS:
            np.testing.assert_allclose(getattr(got, name)[number], getattr(alone, name), rtol=1e-9, atol=1e-9)
    assert_identical(passes_over_parts(records, ends, Parameters.of(mixtures), threads=3), got)


def test_the_number_of_parts_must_equal_the_number_of_mixtures():
    with pytest.raises(UserError, match="2 mixtures"):
        passes_over_parts(
            random_records(9, 1, spread=False), np.array([0, 9]), Parameters.of([random_mixture(2, 1)] * 2)
        )


def test_pieces_of_full_size_give_the_same_result_with_threads():
    points = np.random.default_rng(0).normal(size=(3 * kernel.PIECE + 1000, 2)) * 0.3
    records, mixture = observe(points), random_mixture(3, 2)
    alone = one_pass(records, mixture)
    assert_identical(one_pass(records, mixture, 2), alone)
    assert alone.log_likelihood == pytest.approx(mixture.log_density(points).sum(), rel=1e-12)
    np.testing.assert_allclose(alone.sums.sum(axis=0), points.sum(axis=0), rtol=1e-10)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    def broken(*_) -> float:
        raise RuntimeError("a piece failed")

    monkeypatch.setattr(kernel, "numba_kernel", lambda: SimpleNamespace(fused_pass=broken))
    with pytest.raises(RuntimeError, match="a piece failed"):
        one_pass(observe(np.zeros((5, 1))), random_mixture(1, 1), threads=2)


@pytest.mark.parametrize(
    ("said", "threads"),
    [("1", 1), ("3", 3), ("4,2", 4), ("", 1), ("0", 1), ("-2", 1), ("many", 1), ("1.5", 1)],
)
def test_the_default_number_of_threads_comes_from_the_environment(said, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert default_threads() == threads


def test_the_default_is_one_thread_without_the_environment_variable(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "OMP_NUM_THREADS" not in os.environ
    assert default_threads() == 1


def test_a_pass_uses_the_threads_of_the_environment(monkeypatch):
    asked = []
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(
        kernel, "_pool", lambda threads, pool=kernel._pool: asked.append(threads) or pool(threads)
    )
    em_pass(np.zeros((5, 1)), random_mixture(1, 1))
    assert asked == [2]
    em_pass(np.zeros((5, 1)), random_mixture(1, 1), threads=1)
    assert asked == [2]


def test_data_and_mixtures_must_match():
    with pytest.raises(UserError, match="needs one set of records in 2 dimensions"):
        em_pass(np.zeros((5, 3)), random_mixture(2, 2))
    with pytest.raises(UserError, match="2 mixtures"):
        em_passes([observe(np.zeros((5, 2)))], Parameters.of([random_mixture(2, 2)] * 2))


def test_a_covariance_that_is_not_positive_definite_is_refused():
    flat = Parameters(np.ones((1, 1)), np.zeros((1, 1, 2)), np.array([[[[1.0, 1.0], [1.0, 1.0]]]]) - 1e-9)
    with pytest.raises(UserError, match="floor its eigenvalues"):
        em_passes([observe(np.zeros((5, 2)))], flat)


def test_distinct_records_and_their_index_restore_the_records():
    rng = np.random.default_rng(0)
    points = rng.integers(-2, 3, (400, 3)) / 4
    half = rng.integers(0, 2, (400, 3)) / 8
    for records in (observe(points), observe_boxes(points - half, points + half)):
        places, index = distinct_records(records)
        np.testing.assert_array_equal(places.points[index], records.points)
        np.testing.assert_array_equal(places.weights, 1.0)
        if records.spread is not None:
            np.testing.assert_array_equal(places.spread[index], records.spread)
        columns = [records.points] if records.spread is None else [records.points, records.spread]
        assert len(places) == len(np.unique(np.hstack(columns), axis=0))
        assert places.points[:, 0].tolist() == sorted(places.points[:, 0])


def test_compress_changes_only_the_number_of_rows():
    rng = np.random.default_rng(0)
    points, weights = rng.integers(-3, 4, (500, 2)) / 10, rng.integers(0, 3, 500).astype(float)
    weights[points[:, 0] == 0.3] = 0.0
    full = observe(points, weights)
    merged = compress(full)
    assert len(merged) == len(np.unique(points[weights > 0], axis=0))
    assert merged.weights.min() > 0
    assert merged.total_weight == weights.sum()
    assert_same(em_pass(full, random_mixture(3, 2)), em_pass(merged, random_mixture(3, 2)), 1e-12)


def test_compress_does_not_merge_boxes_of_different_size():
    corner = np.array([[0.1, 0.1], [0.2, 0.2], [0.1, 0.1]])
    assert sorted(compress(observe_boxes(-corner, corner)).weights) == [1, 2]


def test_zero_and_minus_zero_are_one_place():
    assert len(compress(observe([[0.0, 1.0], [-0.0, 1.0]]))) == 1


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
    assert_same(em_pass(full, one), em_pass(gathered, one), 1e-12)


def test_aggregating_twice_equals_aggregating_once():
    full = observe(np.random.default_rng(0).normal(size=(300, 2)))
    cells = np.arange(300) % 12
    twice = aggregate(aggregate(full, cells), np.arange(12) % 3)
    once = aggregate(full, cells % 3)
    np.testing.assert_allclose(twice.points, once.points, rtol=1e-12)
    np.testing.assert_allclose(twice.spread, once.spread, rtol=1e-12, atol=1e-14)


def test_aggregate_needs_one_integer_per_record():
    with pytest.raises(UserError, match="one integer cell id"):
        aggregate(observe(np.zeros((3, 1))), np.zeros(3))


def test_normalising_transforms_points_and_spread_consistently():
    rng = np.random.default_rng(0)
    points, cells = rng.normal(size=(300, 3)), np.arange(300) % 9
    centre, scale = np.array([3.0, -1.0, 0.0]), np.array([0.5, 20.0, 1.0])
    moved = aggregate(observe(points), cells).normalise(centre, scale)
    expected = aggregate(observe((points - centre) * scale), cells)
    np.testing.assert_allclose(moved.points, expected.points, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moved.spread, expected.spread, rtol=1e-12, atol=1e-12)


def test_a_systematic_sample_draws_each_record_in_proportion_to_its_weight():
    weights = np.array([0.0, 1.0, 3.0, 96.0] * 25)
    observations = observe(np.arange(100.0)[:, None], weights)
    for seed in range(20):
        drawn = systematic_sample(observations, 50, np.random.default_rng(seed))
        assert drawn.weights.sum() == 50
        draws = np.bincount(drawn.points[:, 0].astype(int), drawn.weights, minlength=100)
        assert (np.abs(draws - 50 * weights / weights.sum()) < 1).all()
        assert not draws[weights == 0].any()


def test_a_sample_never_draws_a_record_of_zero_weight():
    class First:
        """Return random numbers that put each draw at the very start of its interval."""

        def random(self) -> float:
            return 0.0

    drawn = systematic_sample(
        observe([[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.0, 1.0, 0.0, 2.0]), 2, First()
    )
    assert drawn.points[:, 0].tolist() == [1.0, 4.0]


def test_a_systematic_sample_is_unbiased():
    weights = np.array([5.0, 1.0, 0.0, 2.0, 0.5, 1.5, 3.0])
    observations, rng = observe(np.arange(7.0)[:, None], weights), np.random.default_rng(0)
    draws = np.zeros(7)
    for _ in range(2000):
        drawn = systematic_sample(observations, 3, rng)
        draws[drawn.points[:, 0].astype(int)] += drawn.weights
    np.testing.assert_allclose(draws / 6000, weights / weights.sum(), atol=0.01)


def test_a_sample_as_large_as_the_data_is_the_data():
    records = random_records(40, 2, spread=True)
    assert systematic_sample(records, len(records), np.random.default_rng(0)) is records


def test_boxes_need_ordered_corners():
    with pytest.raises(UserError, match="lower <= upper"):
        observe_boxes([[1.0]], [[0.0]])
    with pytest.raises(UserError, match="lower <= upper"):
        observe_boxes(np.zeros((3, 2)), np.ones((3, 1)))


def test_a_box_of_size_zero_is_a_point():
    points = np.random.default_rng(0).normal(size=(20, 3))
    boxes = observe_boxes(points, points)
    np.testing.assert_array_equal(boxes.points, points)
    assert not boxes.spread.any()
