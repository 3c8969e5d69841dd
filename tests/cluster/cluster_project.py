"""A copy of the project whose jobs go to SLURM."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from project_copy import Project
from slurm_cluster import Cluster

SLURM = "workflow/profiles/slurm"
CHUNKED = "workflow/profiles/chunked"


@dataclass(frozen=True)
class ClusterProject(Project):
    """A copy of the project whose jobs go to SLURM."""

    cluster: Cluster
    begun: list[subprocess.Popen] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Return the environment of the copy, with access to the cluster."""
        return {**self.cluster.environment, **super().environment(), "PATH": self.cluster.environment["PATH"]}

    def command(self, *arguments: str) -> list[str]:
        """Return the command of the README, with a shorter wait before status checks."""
        return [
            *(str(Path(sys.executable).parent / "snakemake"), "--configfile", "tiny.yaml"),
            *("--workflow-profile", SLURM, "--slurm-init-seconds-before-status-checks", "5"),
            *arguments,
        ]

    def begin(self, *arguments: str) -> subprocess.Popen:
        """Start Snakemake in its own process group. `said` returns its output."""
        with (self.folder / "said.log").open("w") as log:
            runner = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.begun.append(runner)
        return runner

    @property
    def said(self) -> str:
        """Output of the last Snakemake process."""
        return (self.folder / "said.log").read_text()
