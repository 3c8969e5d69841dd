"""Only the owner can read the files of a run with sensitive data."""

import os
import stat
from pathlib import Path

import pytest
import yaml

from privmix.catalog.entry import Entry, load_entry
from privmix.pipeline import permissions, plan
from privmix.pipeline.runner import run_stage
from privmix.pipeline.stages import clean, download

CATALOG = Path(__file__).parents[2] / "data" / "catalog"


@pytest.fixture(autouse=True)
def usual_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def entry(visibility: str) -> Entry:
    return load_entry(CATALOG / "checkins.yaml").model_copy(update={"visibility": visibility})


@pytest.mark.parametrize(
    ("visibility", "files", "folders"), [("sensitive", 0o600, 0o700), ("public", 0o644, 0o755)]
)
def test_stages_write_sensitive_files_for_the_owner_only(
    monkeypatch: pytest.MonkeyPatch, visibility: str, files: int, folders: int
):
    content = yaml.safe_load((CATALOG / "checkins.yaml").read_text()) | {"visibility": visibility}
    Path("checkins.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(
        "sys.argv", ["download", "--entry", "checkins.yaml", "--output", "data/raw/checkins.raw"]
    )
    run_stage("download", download.main)
    words = [
        "--entry",
        "checkins.yaml",
        "--raw",
        "data/raw/checkins.raw",
        "--key",
        "data/key",
        "--master-seed",
        "1",
    ]
    monkeypatch.setattr("sys.argv", ["clean", *words, "--output", "data/clean/checkins.parquet"])
    run_stage("clean", clean.main)
    assert mode("data/raw/checkins.raw") == mode("data/clean/checkins.parquet") == files
    assert mode("data/raw") == mode("data/clean") == folders
    assert mode("data/key") == 0o600
    assert os.umask(0o022) == 0o022  # restored


def test_older_files_of_sensitive_data_are_closed_and_those_of_a_group_stay():
    made = {
        plan.RAW.format(dataset="checkins"): 0o644,
        plan.CLEAN.format(dataset="checkins"): 0o640,
        "logs/clean/checkins.log": 0o664,
        "logs/benchmarks/clean/checkins.tsv": 0o644,
        "reports/summary.html": 0o644,
        plan.RAW.format(dataset="gowalla"): 0o644,
    }
    for name, number in made.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
        Path(name).chmod(number)
    for pattern in (plan.PRIVATE, plan.MODEL, plan.SCORES, plan.BENCHMARKS["fit"]):
        Path(pattern.format(dataset="checkins", mechanism="tree", epsilon="1")).parent.mkdir(parents=True)
    Path(".snakemake/log").mkdir(parents=True)
    permissions.restrict_run([entry("public")])
    assert mode(".snakemake") == 0o755
    assert {name: mode(name) for name in made} == made
    permissions.restrict_run([entry("sensitive")])
    assert [mode(name) for name in made] == [0o600, 0o640, 0o600, 0o600, 0o600, 0o644]
    for folder in ("data/private", "data/models", "data/scores", "logs/benchmarks/fit"):
        assert mode(f"{folder}/checkins") == 0o700
    assert mode(".snakemake") == 0o700


def test_the_patterns_cover_all_files_of_a_job():
    """A new kind of file must be added to the patterns."""
    patterns = [plan.RAW, plan.CLEAN, plan.PRIVATE, plan.MODEL, plan.SCORES, plan.NAIVE, plan.NAIVE_TABLE]
    patterns += plan.BENCHMARKS.values()
    of_dataset = [pattern for pattern in patterns if "{dataset}" in pattern]
    for pattern in of_dataset:
        path = Path(pattern.format(dataset="d", mechanism="m", epsilon="1", release="r"))
        assert any(
            each.match(known.format(dataset="d"))
            for each in (path, *path.parents)
            for known in permissions.OF_DATASET
        ), pattern
