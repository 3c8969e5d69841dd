"""Only the owner can read what a run with sensitive data writes: files, folders, logs and benchmarks."""

import os
import stat
from pathlib import Path

import pytest
from project_copy import copy_project

TARGETS = ("data/models/tiny/noisy_grid/eps-1.json", "data/private/tiny/response/eps-1.parquet")
MECHANISMS = (
    'mechanisms={"noisy_grid": {"method": "noisy_grid"}, "response": {"method": "randomized_response"}}'
)


@pytest.mark.parametrize("visibility", ["sensitive", "synthetic"])
def test_a_run_writes_sensitive_files_for_the_owner_only(tmp_path: Path, visibility: str):
    project = copy_project(tmp_path)
    project.edit("catalog/tiny.yaml", "visibility: synthetic", f"visibility: {visibility}")
    before = os.umask(0o022)
    try:
        made = project.snakemake(*TARGETS, "--config", MECHANISMS)
    finally:
        os.umask(before)
    assert made.returncode == 0, made.stderr
    found = {
        path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode)
        for top in ("data", "logs")
        for path in (tmp_path / top).rglob("*")
        if "catalog" not in path.parts
    }
    kinds = {str(path) for path in found}
    assert {*TARGETS, "data/raw/tiny.raw", "data/clean/tiny.parquet", "logs/clean/tiny.log"} <= kinds
    assert {"logs/fit/tiny/noisy_grid/eps-1.log", "logs/benchmarks/clean/tiny.tsv"} <= kinds
    assert list((tmp_path / ".snakemake/log").glob("*.log"))
    assert (stat.S_IMODE((tmp_path / ".snakemake").stat().st_mode) == 0o700) is (visibility == "sensitive")
    if visibility == "sensitive":
        assert {path: oct(mode) for path, mode in found.items() if mode & 0o077} == {}
    else:
        assert {oct(found[Path(name)]) for name in TARGETS} == {"0o644"}
