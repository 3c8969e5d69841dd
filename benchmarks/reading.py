"""Time that the check of the seal adds to reading a large clean file.

    python benchmarks/reading.py [--rows 6442890] [--rounds 9]

Both sides alternate in one process: `read_clean` as it is, and the same without the check. The hash runs in a thread of
its own. The smallest of all rounds counts. The requirement is at most 10 %; the CPU time is the safer figure on a busy
machine.
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from privatise import write_clean

from privmix.artefacts import io
from privmix.artefacts.clean import read_clean


def measured(read: Callable[[Path], object], path: Path) -> tuple[float, float]:
    """Return wall time and CPU time of one reading, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    read(path)
    return time.perf_counter() - wall, time.process_time() - cpu


def read_unchecked(path: Path) -> object:
    """Read the file without the check of its seal."""
    with mock.patch.object(io, "check_seal", return_value=contextlib.nullcontext()):
        return read_clean(path)


def main() -> None:
    """Print the times of both sides and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6_442_890)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clean.parquet")
        write_clean(path, given.rows)
        read_unchecked(path)  # fill the cache of the operating system
        rounds = [(measured(read_unchecked, path), measured(read_clean, path)) for _ in range(given.rounds)]
        print(
            f"{given.rows:,} records, {path.stat().st_size / 1e6:.0f} MB, smallest of {given.rounds} rounds\n"
        )
    print("| | without the check | with the check | ratio |\n|---|---|---|---|")
    for number, name in enumerate(("wall time", "CPU time")):
        plain, checked = (min(each[side][number] for each in rounds) for side in (0, 1))
        print(f"| {name} | {plain:.3f} s | {checked:.3f} s | {checked / plain:.2f} |")


if __name__ == "__main__":
    main()
