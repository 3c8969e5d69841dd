"""Test how many source files process a record from CSV to results: this is what a new developer must read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

MOST_FILES = 54
TRACER = """
import json, runpy, sys, threading
files = set()
def trace(frame, event, argument):
    code = frame.f_code
    name = code.co_filename
    caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
    if caller.startswith("numba."):  # its compiler, which runs only if its cache is empty and sees no records
        return
    if name.endswith("/privmix/__init__.py"):  # the public namespace, which sees no records
        return
    if event == "call" and "/privmix/" in name and code.co_flags & 3 == 3:  # functions, not modules and classes
        files.add(name.rpartition("/privmix/")[2])
module, output, *arguments = sys.argv[1:]
sys.argv = [module, *arguments]
sys.setprofile(trace)
threading.setprofile(trace)
try:
    runpy.run_module(module, run_name="__main__")
finally:
    sys.setprofile(None)
    open(output, "w").write(json.dumps(sorted(files)))
"""
ENTRY = {
    "name": "visits",
    "title": "Visits",
    "description": "Ages and lengths of stay.",
    "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "visits.csv"},
    "reader": {"format": "csv"},
    "columns": [
        {"name": "who", "type": "identifier", "description": "patient"},
        *(
            {
                "name": name,
                "type": "number",
                "description": name,
                "lower": 0,
                "upper": 100,
                "bound_reason": "public",
                "resolution": 0.1,
            }
            for name in ("age", "days")
        ),
    ],
    "coordinates": ["age", "days"],
    "privacy": {"person_column": "who"},
}


@pytest.mark.parametrize("method", ["noisy_tree", "noisy_moments"])
def test_a_record_passes_few_files(tmp_path: Path, method: str):
    rng = np.random.default_rng(0)
    rows = [
        f"{number},{age:.1f},{days:.1f}" for number, (age, days) in enumerate(rng.normal(50, 9, (4000, 2)))
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["who,age,days", *rows]) + "\n")
    (tmp_path / "visits.yaml").write_text(yaml.safe_dump(ENTRY))
    job = [
        *("--mechanism", method, "--parameters", json.dumps({"method": method}), "--epsilon", "1"),
        *("--delta", "1e-6", "--components", "3", "--replicates", "1", "--seed", "1"),
    ]
    stages = {
        "download": ["--entry", "visits.yaml", "--output", "raw"],
        "clean": [
            "--entry",
            "visits.yaml",
            "--raw",
            "raw",
            "--output",
            "clean.parquet",
            "--master-seed",
            "1",
            "--key",
            "key",
        ],
        "fit": [*job, "--clean", "clean.parquet", "--output", "model.json"],
        "evaluate": [
            *job,
            *["--clean", "clean.parquet", "--model", "model.json", "--false-positive-rates", "0.1"],
            *["--worst-record-runs", "1", "--output", "scores.parquet"],
        ],
    }
    opened: set[str] = set()
    for stage, arguments in stages.items():
        command = [sys.executable, "-c", TRACER, f"privmix.pipeline.stages.{stage}", "files.json", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        opened |= set(json.loads((tmp_path / "files.json").read_text()))
    assert {f"pipeline/stages/{stage}.py" for stage in stages} <= opened  # the tracer sees something
    assert f"mechanisms/central/{method}.py" in opened
    assert len(opened) <= MOST_FILES, "\n".join(sorted(opened))
