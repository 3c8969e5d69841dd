"""The mixture engine compared with scikit-learn: one EM pass, shadow fits, complete fits, threads, streams.

The table `mixed` compares fits with attributes with fits of the coordinates alone.

    python benchmarks/mixture.py [passes] [shadows] [whole] [threads] [stream] [mixed] [--places FILE]

Each ratio compares CPU times (user and system) of one thread. The two sides run alternately in one process, so a busy
machine slows both equally, and the smallest of several times counts. `--places` is a Parquet file of real places with
columns lon, lat and count, for the complete fit. Without it, the places come from a simulated map.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import importlib.metadata
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from privmix.mixture import em, mixed_em
from privmix.mixture.kernel import em_pass
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.moments import compress, observe

PASSES = [
    (10**6, 2, 10, 25),
    (10**6, 2, 50, 30),
    (200_000, 10, 10, 8),
    (200_000, 30, 20, 4),
    (10_000, 2, 5, 15),
]
STREAMS = [10**4, 10**5, 10**6, 10**7, 10**8]


def made_up(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, Mixture]:
    """Draw points from a random mixture in the unit ball, and return them with the mixture."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d)) * 0.05
    covariances = roots @ roots.transpose(0, 2, 1) + np.eye(d) * 0.01
    mixture = Mixture(rng.dirichlet(np.full(k, 5.0)), rng.normal(size=(k, d)) * 0.3, covariances)
    return mixture.sample(n, rng), mixture


def alternately(*works: Callable[[], object], seconds: float = 6.0, clock=time.process_time) -> list[float]:
    """Return the smallest time of each. They alternate for about the given number of seconds."""
    best = [float("inf")] * len(works)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for number, work in enumerate(works):
            before = clock()
            work()
            best[number] = min(best[number], clock() - before)
        rounds += 1
    return best


def sklearn_pass(points: np.ndarray, mixture: Mixture) -> Callable[[], None]:
    """Run one E-step and M-step of scikit-learn at these parameters."""
    model = mixture.to_sklearn()
    state = {
        name: getattr(model, name) for name in ("weights_", "means_", "covariances_", "precisions_cholesky_")
    }

    def work() -> None:
        for name, value in state.items():
            setattr(model, name, value)
        _, log_responsibilities = model._e_step(points)
        model._m_step(points, log_responsibilities)

    return work


def passes() -> None:
    """Compare one EM pass."""
    heading("One EM pass", "N", "d", "K", "scikit-learn, ms", "privmix, ms", "ratio", "must")
    for n, d, k, must in PASSES:
        points, mixture = made_up(n, d, k)
        records = observe(points)
        em_pass(records, mixture)
        theirs, ours = alternately(sklearn_pass(points, mixture), partial(em_pass, records, mixture))
        row(f"{n:,}", d, k, f"{1e3 * theirs:.2f}", f"{1e3 * ours:.3f}", f"{theirs / ours:.1f}x", f"{must}x")
    points, mixture = made_up(60_000, 2, 10)
    points = points[np.random.default_rng(1).integers(60_000, size=10**6)]
    records = compress(observe(points))
    theirs, ours = alternately(sklearn_pass(points, mixture), partial(em_pass, records, mixture))
    n = f"1,000,000 on {len(records):,} places"
    row(n, 2, 10, f"{1e3 * theirs:.2f}", f"{1e3 * ours:.3f}", f"{theirs / ours:.0f}x", "300x")


def shadows() -> None:
    """Compare 64 fits on halves of the data from the same start.

    privmix uses a third of scikit-learn's tolerance, so none of its fits should end lower.
    """
    from sklearn.mixture import GaussianMixture

    n, k, number, tol = 20_000, 5, 64, 1e-5
    points, _ = made_up(n, 2, k)
    rng = np.random.default_rng(0)
    masks = rng.random((number, n)).argsort(axis=1) < n // 2
    start = em.public_start(points.min(axis=0), points.max(axis=0), k, rng)
    floor = np.full(2, 1e-6)

    def theirs() -> list[float]:
        found = []
        for mask in masks:
            model = GaussianMixture(
                k,
                tol=tol,
                max_iter=500,
                weights_init=start.weights,
                means_init=start.means,
                precisions_init=np.linalg.inv(start.covariances),
            ).fit(points[mask])
            found.append(model.score(points[mask]))
        return found

    def ours() -> list[float]:
        fits = em.fit_many(
            points,
            k,
            list(masks),
            rng=np.random.default_rng(0),
            floor=floor,
            start=start,
            relocations=0,
            tol=tol / 3,
        )
        return [fit.log_likelihood for fit in fits]

    behind = max(one - other for one, other in zip(theirs(), ours(), strict=True))
    slow, fast = alternately(theirs, ours)
    heading(
        "64 shadow fits, N = 10,000, d = 2, K = 5",
        "scikit-learn, s",
        "privmix, s",
        "ratio",
        "must",
        "worst fit",
    )
    row(f"{slow:.2f}", f"{fast:.3f}", f"{slow / fast:.1f}x", "30x", f"{-behind:+.1e} nats")


def world(seed: int = 0) -> np.ndarray:
    """Simulate 1,100,000 check-ins: cities of many sizes on a few continents."""
    rng = np.random.default_rng(seed)
    continents = rng.uniform([-0.9, -0.4], [0.9, 0.4], (6, 2))
    cities = continents[rng.integers(6, size=200)] + rng.normal(0, 0.08, (200, 2))
    shares = rng.pareto(1.0, 200) + 0.05
    which = rng.choice(200, 1_100_000, p=shares / shares.sum())
    return cities[which] + rng.normal(0, 1, (len(which), 2)) * rng.uniform(0.0005, 0.01, 200)[which, None]


def whole(places: Path | None) -> None:
    """Compare a complete fit, N = 10⁶, d = 2, K = 20, with n_init=5 on the same training and held-out records."""
    from sklearn.mixture import GaussianMixture

    if places is None:
        points, name = world(), "a made-up map"
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(places, columns=["lon", "lat", "count"]).to_pydict()
        points = np.repeat(np.column_stack([table["lon"], table["lat"]]) / 180, table["count"], axis=0)
        name = places.name
    points = np.random.default_rng(0).permutation(points)
    train, held_out = points[: 10**6], points[10**6 :]
    heading(
        f"Whole fit, N = {len(train):,}, d = 2, K = 20 on {name}",
        "",
        "CPU s",
        "ratio",
        "held-out nats",
        "training nats",
    )
    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(20, n_init=5, random_state=0).fit(train)
    slow = time.process_time() - before
    row(
        "scikit-learn, n_init=5",
        f"{slow:.1f}",
        "1x",
        f"{model.score(held_out):.3f}",
        f"{model.score(train):.3f}",
    )
    floor = np.full(2, 1e-6)  # scikit-learn's reg_covar
    for seed in range(3):
        before = time.process_time()
        fit = em.fit(train, 20, floor=floor, rng=np.random.default_rng(seed))
        fast = time.process_time() - before
        reached = f"{fit.mixture.log_density(held_out).mean():.3f}", f"{fit.log_likelihood:.3f}"
        row(f"privmix, seed {seed}", f"{fast:.2f}", f"{slow / fast:.0f}x", *reached)


def threads() -> None:
    """Measure the wall time of one pass on one and on two threads."""
    heading("Threads, wall time", "N", "d", "K", "one, ms", "two, ms", "ratio")
    for n, d, k, _ in PASSES[:2]:
        points, mixture = made_up(n, d, k)
        records = observe(points)
        work = [partial(em_pass, records, mixture, threads=count) for count in (1, 2)]
        one, two = alternately(*work, clock=time.perf_counter)
        row(f"{n:,}", d, k, f"{1e3 * one:.1f}", f"{1e3 * two:.1f}", f"{one / two:.2f}x")


def stream() -> None:
    """Measure complete fits over a Parquet file that is read again in every pass, each in a new process."""
    heading(
        "Streamed fit, d = 2, K = 10",
        "N",
        "CPU s",
        "passes",
        "µs a record and pass",
        "peak MB",
        "nats below truth",
    )
    for n in STREAMS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "clean.parquet")
            truth = _write(path, n)
            done = subprocess.run(
                [sys.executable, __file__, "one-stream", str(path)],
                check=True,
                capture_output=True,
                text=True,
            )
        said = json.loads(done.stdout)
        cost = 1e6 * said["seconds"] / (n * said["passes"])
        row(
            f"{n:,}",
            f"{said['seconds']:.2f}",
            said["passes"],
            f"{cost:.4f}",
            f"{said['peak'] / 1024:.0f}",
            f"{truth - said['log_likelihood']:.4f}",
        )


def _write(path: Path, n: int) -> float:
    """Write a clean Parquet of n simulated records, and return their mean log-likelihood under their true mixture."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privmix.artefacts.clean import clean_schema

    _, mixture = made_up(1, 2, 10)
    rng, total = np.random.default_rng(7), 0.0
    schema = clean_schema(2, ())
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, n, 10**6):
            points = mixture.sample(min(10**6, n - first), rng)
            total += mixture.log_density(points).sum()
            person = pa.array(np.arange(first, first + len(points), dtype=np.uint64))
            split = pa.DictionaryArray.from_arrays(
                np.zeros(len(points), dtype=np.int8), ["train", "held_out"]
            )
            writer.write_table(pa.table([person, *map(pa.array, points.T), split], schema=schema))
    return total / n


def one_stream(path: Path) -> None:
    """Fit one file and print its time and memory."""
    from privmix.artefacts.clean import iterate_train_points
    from privmix.mixture.stream import stream_batches

    calls = [0]

    def batches():
        calls[0] += 1
        return iterate_train_points(path)

    before = time.process_time()
    fit = em.fit(stream_batches(batches), 10, rng=np.random.default_rng(0), floor=np.full(2, 1e-6))
    print(
        json.dumps(
            {
                "seconds": time.process_time() - before,
                "passes": calls[0],
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                "log_likelihood": fit.log_likelihood,
            }
        )
    )


def mixed() -> None:
    """Compare complete fits with attributes with fits to the coordinates alone, N = 10⁵, d = 2, K = 10."""
    heading(
        "Mixed fit, N = 100,000, d = 2, K = 10",
        "attributes",
        "seed",
        "coordinates, CPU s",
        "mixed, CPU s",
        "ratio",
        "must",
        "nats below truth",
    )
    floor = np.full(2, 1e-6)
    for name, sizes, must in (
        ("5 and 9 values", (5, 9), "2x"),
        ("20 of 5 values", (5,) * 20, "–"),
        ("500 values", (500,), "–"),
    ):
        rng = np.random.default_rng(0)
        gaussians = made_up(1, 2, 10)[1]
        truth = MixedMixture(
            gaussians, {f"a{i}": rng.dirichlet(np.ones(size), size=10) for i, size in enumerate(sizes)}
        )
        points, codes = truth.sample(100_000, rng)
        numbers = dict(zip(truth.shares, sizes, strict=True))
        for seed in range(6 if must == "2x" else 2):

            def numeric(seed: int = seed, points: np.ndarray = points) -> object:
                return em.fit(points, 10, floor=floor, rng=np.random.default_rng(seed))

            both = partial(mixed_em.fit, points, codes, numbers, 10, floor)
            found = both(rng=np.random.default_rng(seed))
            one, other = alternately(
                numeric, lambda seed=seed, both=both: both(rng=np.random.default_rng(seed))
            )
            below = truth.log_density(points, codes).mean() - found.log_likelihood
            row(name, seed, f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}x", must, f"{below:.4f}")


def heading(title: str, *columns: str) -> None:
    """Print the header of a table."""
    print(f"\n**{title}**\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(*cells: object) -> None:
    """Print one line of the table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    """Print the requested tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = {
        "passes": passes,
        "shadows": shadows,
        "whole": whole,
        "threads": threads,
        "stream": stream,
        "mixed": mixed,
    }
    parser.add_argument("tables", nargs="*", help=f"which of {', '.join(tables)}; default: all")
    parser.add_argument("--places", type=Path, help="Parquet file with columns lon, lat, count")
    given = parser.parse_args()
    if given.tables[:1] == ["one-stream"]:
        one_stream(Path(given.tables[1]))
        return
    if unknown := set(given.tables) - set(tables):
        parser.error(f"unknown table {', '.join(sorted(unknown))}; known: {', '.join(tables)}")
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("scikit-learn", "numba", "numpy")
    )
    print(f"Python {platform.python_version()}, {versions}; {_processor()}")
    for name in given.tables or tables:
        tables[name](*([given.places] if name == "whole" else []))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
