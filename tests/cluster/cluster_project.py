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
        """As the copy's own, with the way to the cluster."""
        return {**self.cluster.environment, **super().environment(), "PATH": self.cluster.environment["PATH"]}

    def command(self, *arguments: str) -> list[str]:
        """What the README says, with a shorter look-out."""
        return [
            *(str(Path(sys.executable).parent / "snakemake"), "--configfile", "tiny.yaml"),
            *("--workflow-profile", SLURM, "--slurm-init-seconds-before-status-checks", "5"),
            *arguments,
        ]

    def begin(self, *arguments: str) -> subprocess.Popen:
        """Start Snakemake in a process group of its own; what it says goes to `said`."""
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
        """What the last Snakemake that was begun has said."""
        return (self.folder / "said.log").read_text()
