"""The Snakemake target makes the same folder as the command, once, and never again by itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from project_copy import copy_project

from privmix.release import verify

TARGET = "releases/tiny/dp_em_ggg_exact/eps-2"


@pytest.mark.slow
def test_the_target_is_made_once(tmp_path: Path):
    project = copy_project(tmp_path)
    made = project.snakemake(TARGET)
    assert made.returncode == 0, made.stderr
    model = verify.verify(tmp_path / TARGET)
    assert model.privacy.mode == "release"
    assert model.domain.rows == 400
    [path] = (tmp_path / "releases/.spending").glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 2  # begun, done
    # Newer code, a newer clean file and a higher limit are no reason to spend ε again.
    project.edit("src/privmix/mechanisms/central/dp_em.py", "FAR = 1024.0", "FAR = 1025.0")
    project.edit("src/privmix/release/card.py", "Intended use", "Use")
    (tmp_path / "data/clean/tiny.parquet").touch()
    assert {rule for rule, *_ in project.planned(target=TARGET)} & {"release"} == set()
    # The same folder under another configuration is refused, by the command too.
    result = subprocess.run(
        [sys.executable, "-m", "privmix.cli", "release", "tiny", "--mechanism", "dp_em_ggg_exact",
         "--epsilon", "2", "--configfile", "tiny.yaml"],
        cwd=tmp_path, env=project.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "already exists" in result.stderr
    assert len(path.read_text().splitlines()) == 2  # begun, done
