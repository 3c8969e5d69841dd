"""A copy of the project with a tiny run. Tests may edit its sources and kill its jobs."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "workflow", "profiles", "config", "data/catalog", "src", "environment.yml")

ENTRY = """
name: {name}
title: A tiny dataset
description: Three clusters in a square, made for a test.
licence: {{spdx: CC0-1.0}}
source: {{kind: file, path: {name}.csv}}
reader: {{format: csv}}
columns:
  - {{name: a, description: First, type: number, lower: -1, upper: 1, bound_reason: By construction., resolution: 0.01}}
  - {{name: b, description: Next, type: number, lower: -1, upper: 1, bound_reason: By construction., resolution: 0.01}}
  - {{name: sex, description: An attribute, type: category, values: [f, m]}}
coordinates: [a, b]
attributes: [sex]
visibility: synthetic
"""

CONFIG = """
catalog_dirs: [catalog]
datasets: [tiny]
mechanisms:
  dp_em_llg_linear: null
  noisy_moments: null
  noisy_tree: null
  tree_then_moments: null
  laplace_naive: null
  laplace_aware: null
  tree_response: null
epsilons: [1, 3]
replicates: 1
components: 3
audit: {runs: 20}
evaluation:
  shadows: 0
"""


@dataclass(frozen=True)
class Project:
    """A copy of the project in a folder."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """Return an environment in which commands import the sources of the copy."""
        return {**os.environ, "PYTHONPATH": str(self.folder / "src"), "COLUMNS": "200"}

    def command(self, *arguments: str) -> list[str]:
        """Return a Snakemake command with the tiny configuration."""
        return [
            *(str(Path(sys.executable).parent / "snakemake"), "--configfile", "tiny.yaml", "--cores", "2"),
            *arguments,
        ]

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake and wait for its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start Snakemake without output, in its own process group."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def planned(self, *arguments: str, target: str = "reports/summary.html") -> set[tuple[str, str, str]]:
        """Return (rule, mechanism, epsilon) of every job that the next run for the target would execute."""
        result = self.snakemake(target, "--dry-run", "--quiet", "host", *arguments)
        assert result.returncode == 0, result.stderr
        jobs = set()
        for block in re.split(r"\n(?=(?:local)?rule \w+:)", result.stdout + result.stderr):
            rule = re.match(r"(?:local)?rule (\w+):", block)
            if rule and rule[1] != "all":
                wildcards = dict(
                    re.findall(r"(\w+)=([^,\s]+)", (re.search(r"wildcards: (.*)", block) or [""])[0])
                )
                jobs.add((rule[1], wildcards.get("mechanism", ""), wildcards.get("epsilon", "")))
        return jobs

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a snippet in one file of the copy. Fail if the file does not contain it."""
        path = self.folder / name
        text = path.read_text()
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new, 1))


def copy_project(folder: Path, rows: int = 400) -> Project:
    """Make a fresh copy with a tiny dataset."""
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        elif source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, target)
    (folder / "catalog").mkdir()
    add_dataset(folder, "tiny", rows)
    (folder / "tiny.yaml").write_text(CONFIG)
    return Project(folder)


def add_dataset(folder: Path, name: str, rows: int) -> None:
    """Write a CSV file with three clusters, and its catalog entry."""
    generator = np.random.Generator(np.random.PCG64(7))
    centres = np.array([[-0.5, -0.5], [0.5, 0.4], [0.0, 0.7]])
    points = centres[generator.integers(3, size=rows)] + generator.normal(0, 0.05, (rows, 2))
    lines = [f"{a:.6f},{b:.6f},{'fm'[i % 2]}" for i, (a, b) in enumerate(points)]
    (folder / f"{name}.csv").write_text("a,b,sex\n" + "\n".join(lines) + "\n")
    (folder / "catalog" / f"{name}.yaml").write_text(ENTRY.format(name=name))
