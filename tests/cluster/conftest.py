"""One real SLURM for all the tests of this folder, and projects that run on it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from project_copy import Project, copy_project
from slurm_cluster import Cluster, missing

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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A controller and three nodes on loopback."""
    if absent := missing():
        reason = f"{', '.join(absent)}: not installed, and only root can with tests/cluster/install-slurm"
        if os.environ.get("PRIVMIX_REQUIRE_ALL") == "1":
            pytest.fail(f"PRIVMIX_REQUIRE_ALL=1 asks for every test, but {reason}.")
        pytest.skip(reason)
    # Not pytest's folder: munge wants one that everybody may enter, and sockets want a short name.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    running = Cluster(folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny run, two mechanisms at two ε, finished on this machine without SLURM."""
    project = copy_project(tmp_path_factory.mktemp("local"))
    config, entry = project.folder / "tiny.yaml", project.folder / "catalog/tiny.yaml"
    config.write_text(config.read_text().replace("mechanisms:\n", "mechanisms:\n  non_private: null\n"))
    entry.write_text(entry.read_text() + "expected: {rows: 400}\n")
    result = project.snakemake("reports/summary.html")
    assert result.returncode == 0, result.stderr[-3000:]
    return project.folder


@pytest.fixture(scope="session")
def unrun(
    local: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], ClusterProject]]:
    """The same project with nothing made yet, for a run on the cluster."""

    def copy(name: str) -> ClusterProject:
        folder = tmp_path_factory.mktemp(name) / "project"
        made = shutil.ignore_patterns("raw", "clean", "private", "models", "scores", ".pseudonym.key")

        def ignored(path: str, names: list[str]) -> set[str]:
            if Path(path) == local:
                return {"reports", "logs", ".snakemake"}
            return made(path, names) if Path(path) == local / "data" else set()

        shutil.copytree(local, folder, symlinks=True, ignore=ignored)
        return ClusterProject(folder, cluster, begun)

    begun: list[subprocess.Popen] = []
    yield copy
    for runner in begun:
        if runner.poll() is None:
            os.killpg(runner.pid, signal.SIGKILL)
            runner.wait()
