"""A fit to a stream equals the fit to all its records in memory, but holds only a few batches at a time."""

import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from making import make_domain

from privmix.artefacts.clean import CleanInfo, RowCounts, clean_schema, iterate_train_points, read_clean
from privmix.artefacts.io import to_arrow, write_table
from privmix.errors import UserError
from privmix.mixture import kernel
from privmix.mixture.em import fit
from privmix.mixture.kernel import em_pass, em_passes
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import Observations, Parameters, observe, systematic_sample
from privmix.mixture.stream import stream_batches

FLOOR = np.full(2, 1e-6)


def records(n: int, seed: int = 0) -> np.ndarray:
    """Draw records sorted by their coordinates, as they are after merging equal ones."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-3, 3, (5, 2)) + np.array([100.0, -20.0])
    points = centres[rng.integers(5, size=n)] + rng.normal(0, 0.3, (n, 2))
    return points[np.lexsort(points.T[::-1])]


def batches(points: np.ndarray, rows: int) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: (points[first : first + rows] for first in range(0, len(points), rows))


def assert_same(one: FitResult, other: FitResult) -> None:
    """Check equality up to rounding, which may also change the order of components."""
    orders = [np.argsort(each.mixture.means[:, 0]) for each in (one, other)]
    for name in ("weights", "means", "covariances"):
        got, expected = (
            getattr(each.mixture, name)[order] for each, order in zip((one, other), orders, strict=True)
        )
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)
    assert (one.converged, one.notes) == (other.converged, other.notes)


@dataclass
class Blocks:
    """Weighted records in several blocks."""

    parts: list[Observations]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def total_weight(self) -> float:
        return sum(part.total_weight for part in self.parts)

    def blocks(self) -> Iterator[Observations]:
        return iter(self.parts)


@pytest.mark.parametrize("rows", [1, 7, 100, 1000])
def test_a_stream_knows_its_size_mean_and_covariance(rows):
    points = records(300)
    stream = stream_batches(batches(points, rows))
    assert (len(stream), stream.dimensions, stream.total_weight) == (300, 2, 300.0)
    mean, covariance = stream.covariance()
    np.testing.assert_allclose(mean, points.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(covariance, np.cov(points.T, ddof=0), rtol=1e-11)


def test_the_covariance_of_a_stream_is_accurate_far_from_the_origin():
    points = records(1000)
    _, covariance = stream_batches(batches(points + 1e8, 64)).covariance()
    np.testing.assert_allclose(covariance, np.cov(points.T, ddof=0), rtol=1e-7)


def test_normalising_a_stream_twice_combines_the_units():
    points = records(300)
    once = stream_batches(batches(points, 70)).normalise(np.array([100.0, -20.0]), np.array([2.0, 0.5]))
    twice = once.normalise(np.array([3.0, -1.0]), np.array([10.0, 4.0]))
    expected = ((points - [100.0, -20.0]) * [2.0, 0.5] - [3.0, -1.0]) * [10.0, 4.0]
    np.testing.assert_allclose(np.concatenate([each.points for each in twice.blocks()]), expected, atol=1e-10)
    mean, covariance = twice.covariance()
    np.testing.assert_allclose(mean, expected.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(covariance, np.cov(expected.T, ddof=0), rtol=1e-10)


def test_a_pass_over_a_stream_is_the_pass_over_its_records():
    points = records(1000)
    mixture = Mixture([0.4, 0.6], [[100.0, -20.0], [101.0, -19.0]], [np.eye(2), 2 * np.eye(2)])
    together, apart = em_pass(points, mixture), em_pass(stream_batches(batches(points, 90)), mixture)
    for name in ("counts", "sums", "squares", "log_likelihood", "total_weight"):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=1e-11)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [900, 6000], ids=["searched whole", "searched on a sample"])
def test_a_fit_to_a_stream_is_the_fit_in_memory(n, threads):
    points = records(n)
    options = {"floor": FLOOR, "relocations": 8, "threads": threads}
    of_stream = fit(stream_batches(batches(points, 500)), 4, rng=np.random.default_rng(3), **options)
    assert_same(of_stream, fit(points, 4, rng=np.random.default_rng(3), **options))
    assert of_stream.log_likelihood == pytest.approx(of_stream.mixture.log_density(points).mean(), rel=1e-9)


def test_the_size_of_the_batches_does_not_matter():
    points = records(900)
    fits = [fit(stream_batches(batches(points, rows)), 3, rng=np.random.default_rng(0)) for rows in (900, 64)]
    assert_same(*fits)


@pytest.mark.parametrize("threads", [1, 2])
def test_few_batches_are_in_memory_at_once(threads):
    points, alive, most = records(20_000), 0, 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def counted() -> Iterator[np.ndarray]:
        nonlocal alive, most
        for batch in batches(points, 200)():
            batch = batch.copy()
            alive += 1
            most = max(most, alive)
            weakref.finalize(batch, gone)
            yield batch

    result = fit(stream_batches(counted), 3, rng=np.random.default_rng(0), relocations=4, threads=threads)
    assert result.converged
    assert most <= 3  # of a hundred batches: the new one and the one in use


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pass_and_a_sample_hold_a_few_batches_of_many(threads):
    def batch(number: int) -> np.ndarray:
        return np.random.default_rng(number).normal(size=(10_000, 2))

    stream = stream_batches(lambda: map(batch, range(64)))
    mixture = Mixture([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.0]], [np.eye(2)] * 2)
    em_pass(observe(batch(0)), mixture, threads=threads)
    tracemalloc.start()
    em_pass(stream, mixture, threads=threads)
    drawn = systematic_sample(stream, 1000, np.random.default_rng(0))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(drawn) == 1000
    assert most < 64 * batch(0).nbytes / 3


def test_reading_does_not_run_ahead_of_slow_threads(monkeypatch):
    read, done, most = 0, [], 0

    def slow(*_) -> float:
        time.sleep(0.003)
        done.append(1)
        return 0.0

    def counted() -> Iterator[np.ndarray]:
        nonlocal read, most
        for batch in batches(records(3000), 50)():
            read += 1
            most = max(most, read - len(done))
            yield batch

    stream = stream_batches(counted)
    read = most = 0
    monkeypatch.setattr(kernel, "numba_kernel", lambda: SimpleNamespace(fused_pass=slow))
    mixture = Mixture([1.0], [[100.0, -20.0]], [np.eye(2)])
    em_passes([stream], Parameters.of([mixture]), threads=2)
    assert read == len(done) == 60
    assert most <= 6  # two waiting or running per thread, one being read, one not yet counted


@pytest.mark.parametrize("size", [1, 10, 137, 299])
def test_a_sample_over_blocks_is_the_sample_over_the_whole(size):
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(300, 2)), rng.integers(0, 5, 300).astype(float)
    spread = rng.uniform(size=(300, 3))
    cuts = [0, 1, 2, 80, 200, 300]
    weights[:2] = 1.0
    blocks = Blocks([
        Observations(points[a:b], weights[a:b], spread[a:b]) for a, b in pairwise(cuts)
    ])  # fmt: skip
    whole = systematic_sample(Observations(points, weights, spread), size, np.random.default_rng(4))
    apart = systematic_sample(blocks, size, np.random.default_rng(4))
    for name in ("points", "weights", "spread"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(whole, name))
    assert whole.weights.sum() == size


def test_a_sample_larger_than_a_stream_is_all_of_it():
    points = records(50)
    drawn = systematic_sample(stream_batches(batches(points, 8)), 50, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.points, points)
    np.testing.assert_array_equal(drawn.weights, 1.0)


def test_empty_batches_are_skipped():
    points = records(200)
    parts = [np.empty((0, 2)), points[:150], np.empty((0, 2)), points[150:], np.empty((0, 2))]
    assert_same(
        fit(stream_batches(lambda: parts), 2, rng=np.random.default_rng(0)),
        fit(points, 2, rng=np.random.default_rng(0)),
    )


def test_batches_may_hold_integers_or_lists():
    stream = stream_batches(lambda: [np.array([[1, 2], [3, 4]]), [[5, 6]]])
    np.testing.assert_allclose(stream.covariance()[0], [3.0, 4.0])
    assert sum(len(block) for block in stream.blocks()) == 3


@pytest.mark.parametrize("now", [199, 201, 0])
def test_a_stream_that_changes_is_refused(now):
    points, sizes = records(201), iter([200])
    stream = stream_batches(lambda: [points[: next(sizes, now)]])
    with pytest.raises(UserError, match=f"200 records at first and {now} now"):
        fit(stream, 2, rng=np.random.default_rng(0))


def test_a_stream_that_can_be_read_only_once_is_refused():
    once = batches(records(200), 50)()
    with pytest.raises(UserError, match="200 records at first and 0 now"):
        fit(stream_batches(lambda: once), 2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e200])
def test_a_batch_with_invalid_numbers_is_refused(wrong):
    parts = [records(50), np.array([[0.0, wrong]])]
    with pytest.raises(UserError, match="finite numbers"):
        stream_batches(lambda: parts)


def test_an_invalid_stream_is_refused():
    with pytest.raises(UserError, match="holds no record"):
        stream_batches(list)
    with pytest.raises(UserError, match="holds no record"):
        stream_batches(lambda: [np.empty((0, 2))])
    with pytest.raises(UserError, match="2 columns at first and 3 later"):
        stream_batches(lambda: [np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(UserError, match=r"an array \(n, d\)"):
        stream_batches(lambda: [np.zeros(4)])


def test_fewer_records_than_components_are_refused():
    with pytest.raises(UserError, match="cannot fit 4 components to 3 records"):
        fit(stream_batches(lambda: [np.eye(3)]), 4, rng=np.random.default_rng(0))


def test_a_clean_parquet_is_fitted_in_batches(tmp_path):
    points = records(3000) / 200
    train = np.random.default_rng(1).random(3000) < 0.7
    path, domain = tmp_path / "clean.parquet", make_domain()
    counts = RowCounts(
        read=3000, kept=3000, dropped={}, clipped={}, persons=3000,
        train=int(train.sum()), holdout=int((~train).sum()),
    )  # fmt: skip
    columns = {
        "person": to_arrow(np.arange(3000, dtype=np.uint64)),
        "x0": to_arrow(points[:, 0]),
        "x1": to_arrow(points[:, 1]),
        "split": pa.DictionaryArray.from_arrays(to_arrow((~train).astype(np.int8)), ["train", "holdout"]),
    }
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    write_table(path, pa.table(columns, clean_schema(2, ())), info)
    clean = read_clean(path)
    assert clean.train.tolist() == train.tolist()
    stream = stream_batches(lambda: iterate_train_points(path, 256))
    assert len(stream) == train.sum()
    of_file = fit(stream, 3, rng=np.random.default_rng(0), relocations=4)
    assert_same(of_file, fit(clean.points[clean.train], 3, rng=np.random.default_rng(0), relocations=4))
