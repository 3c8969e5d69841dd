"""Cost of privatising many records: seconds, memory and bytes for each local mechanism and ε.

    python benchmarks/privatise.py [--rows 6442890] [--epsilons 0.1 1 10] [--mechanisms ID ...]

The records come from a simulated mixture over a box as wide as the world with a resolution of 2 km. They are written as
a clean file. The stage runs as in the pipeline, with one replicate, in a new process. The requirement for 6.4 million
records is 20 s on one core and 1 GB.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from utility import DISTANCE, INTERACTIVE, LOCAL

from privmix.artefacts.clean import CleanInfo, RowCounts, clean_schema
from privmix.artefacts.domain import Domain
from privmix.artefacts.io import to_arrow, write_table
from privmix.catalog.entry import load_entry
from privmix.clean import normalisation

CATALOG = Path(__file__).parents[1] / "data/catalog"
MECHANISMS = {**LOCAL, **INTERACTIVE, **DISTANCE}


def write_clean(path: Path, rows: int) -> None:
    """Write places around a hundred towns, in the public box of the check-ins."""
    axes = normalisation.build_axes(load_entry(CATALOG / "gowalla.yaml"))
    domain = Domain(
        dataset="places", title="places", axes=axes, attributes=(), unit="record", relation="replace_one",
        max_records_per_person=1, visibility="synthetic", rows=rows,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    towns = rng.uniform(domain.lower, domain.upper, (100, 2))
    points = towns[rng.integers(100, size=rows)] + rng.normal(0, 0.005, (rows, 2))
    points = np.clip(points, domain.lower, domain.upper)
    counts = RowCounts(read=rows, kept=rows, dropped={}, clipped={}, persons=rows, train=rows, holdout=0)
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    parts = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), ["train", "holdout"])
    columns = [to_arrow(np.arange(rows, dtype=np.uint64)), *map(to_arrow, points.T), parts]
    schema = clean_schema(2, ())
    write_table(path, pa.Table.from_arrays(columns, schema=schema), info)


def measured(chosen: dict, epsilon: float, clean: Path, output: Path) -> tuple[float, float]:
    """Run the stage, and return its wall time in seconds and its peak memory in megabytes."""
    command = [sys.executable, "-m", "privmix.pipeline.stages.privatise", "--mechanism", "m"]
    command += ["--parameters", json.dumps(chosen), "--epsilon", str(epsilon), "--delta", "1e-6"]
    command += ["--components", "10", "--seed", "1", "--clean", str(clean), "--output", str(output)]
    single = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=single)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the stage failed on {chosen} at epsilon {epsilon:g}")
    return time.perf_counter() - began, _megabytes(used)


def _megabytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / 1024


def main() -> None:
    """Print one row for each mechanism and ε."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6_442_890)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1, 10])
    parser.add_argument("--mechanisms", nargs="+", choices=list(MECHANISMS), default=list(MECHANISMS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clean, output = Path(folder, "clean.parquet"), Path(folder, "private.parquet")
        # In a new process: memory of this process would count as memory of the processes that it starts.
        writing = multiprocessing.get_context("spawn").Process(target=write_clean, args=(clean, given.rows))
        writing.start()
        writing.join()
        print(
            f"{given.rows:,} records\n\n| mechanism | ε | seconds | MB | bytes a report |\n|---|---|---|---|---|"
        )
        for name in given.mechanisms:
            for epsilon in given.epsilons:
                seconds, megabytes = measured(MECHANISMS[name], epsilon, clean, output)
                size = output.stat().st_size / given.rows
                print(f"| {name} | {epsilon:g} | {seconds:.1f} | {megabytes:.0f} | {size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
