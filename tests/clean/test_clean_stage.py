"""The stage as Snakemake calls it: one plain line on success, one sentence on failure."""

import json
import subprocess
import sys

import pytest

from privmix.artefacts.clean import read_clean


@pytest.fixture
def stage(tmp_path, entry):
    """Return a function that runs the stage on the text of a raw file."""

    def run(raw: str, *more: str) -> subprocess.CompletedProcess:
        # JSON is valid YAML; the file has the name of the entry.
        (tmp_path / "places.yaml").write_text(json.dumps(entry().model_dump(mode="json")))
        (tmp_path / "places.raw").write_text(raw)
        return subprocess.run(
            [
                sys.executable, "-m", "privmix.pipeline.stages.clean", "--entry", "places.yaml", "--raw", "places.raw",
                "--output", "data/clean/places.parquet", "--master-seed", "1", "--key", "data/.pseudonym.key",
                *more,
            ],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_it_reports_the_counts_in_one_line(stage, tmp_path):
    rows = "".join(f"p{n},{n},{n},no\n" for n in range(9))
    done = stage(f"who,lat,lon,night\n{rows}p9,95,0,yes\np9,x,0,yes\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    counts = read_clean(tmp_path / "data" / "clean" / "places.parquet").info.counts
    assert done.stdout == (
        "places: read 11 rows of 10 people, kept 10, dropped 1 (not a number 1), clipped 1 values (lat 1); "
        f"train {counts.train}, holdout {counts.holdout}.\n"
    )


def test_a_user_error_is_one_sentence_without_a_traceback(stage, tmp_path):
    failed = stage("who,lat,night\np1,1,no\n")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("privmix clean: places.raw: column 'lon' of the catalog entry 'places'")
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "data" / "clean" / "places.parquet").exists()
