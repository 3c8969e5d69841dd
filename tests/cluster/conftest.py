"""Fixtures: one real SLURM for all tests of this folder, and projects that run on it."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_project import ClusterProject
from project_copy import copy_project
from slurm_cluster import Cluster, missing


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A controller and three nodes on loopback."""
    if absent := missing():
        reason = f"{', '.join(absent)}: not installed; run tests/cluster/install-slurm as root"
        if os.environ.get("PRIVMIX_REQUIRE_ALL") == "1":
            pytest.fail(f"PRIVMIX_REQUIRE_ALL=1 asks for every test, but {reason}.")
        pytest.skip(reason)
    # Not pytest's folder: munge needs a folder that all users can enter, and sockets need a short path.
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
    """A finished tiny run on this machine without SLURM: two mechanisms at two ε."""
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
    """A function that copies the project without its results, for a run on the cluster."""

    def copy(name: str) -> ClusterProject:
        folder = tmp_path_factory.mktemp(name) / "project"
        made = shutil.ignore_patterns(
            "raw", "clean", "private", "models", "audits", "scores", ".pseudonym.key"
        )

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
