"""Frequency oracles compared with uniform random numbers: time to perturb and to count the support, as ratios.

    python benchmarks/oracles.py [--reports 1000000] [--cells 1024] [--epsilon 1.0]

All times are CPU times, the smallest of several in one process, so the ratios hold on a busy machine. The requirement:
GRR and OLH perturb 1 M reports of 1,024 cells in at most 30 times the time of 1 M uniform numbers.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import ORACLES, GeneralizedResponse, LocalHashing

PROMISED = {GeneralizedResponse: 30.0, LocalHashing: 30.0}


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the smallest CPU time of several repeats."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def peak(work: Callable[[], object]) -> float:
    """Return the peak of newly allocated memory in megabytes."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    """Print the table. Exit with an error if an oracle is too slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()

    source = SeededNoise(stream(1, "benchmark"))
    codes = np.arange(options.reports) % options.cells
    unit = seconds(lambda: source.uniform((options.reports,)), 5)
    print(f"{options.reports} uniform numbers: {1e3 * unit:.1f} ms")
    print(
        f"{'oracle':<20} {'bytes':>6} {'perturb s':>10} {'ratio':>8} {'support s':>10} {'ratio':>8} {'MB':>6}"
    )
    broken = []
    for kind in ORACLES:
        oracle = kind(options.cells, options.epsilon)
        repeats = 3 if kind in PROMISED else 1

        def perturb(oracle=oracle) -> np.ndarray:
            return oracle.perturb(codes, source=source, ledger=Ledger(), label="benchmark")

        reports = perturb()
        perturbing = seconds(perturb, repeats)
        counting = seconds(lambda oracle=oracle, reports=reports: oracle.support(reports), repeats)
        held = peak(lambda oracle=oracle, reports=reports: oracle.support(reports))
        print(
            f"{kind.__name__:<20} {reports.nbytes / options.reports:>6.0f} {perturbing:>10.3f} "
            f"{perturbing / unit:>8.1f} {counting:>10.3f} {counting / unit:>8.1f} {held:>6.0f}"
        )
        if perturbing > PROMISED.get(kind, np.inf) * unit:
            broken.append(kind.__name__)
    if broken:
        raise SystemExit(f"slower than required: {', '.join(broken)}")


if __name__ == "__main__":
    main()
