"""Tests of the pipeline on a real SLURM: same results despite lost nodes, kills, too little memory and failures."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from cluster_project import CHUNKED, ClusterProject
from slurm_cluster import Cluster

from privmix.catalog.entry import load_entry
from privmix.pipeline import resources

pytestmark = pytest.mark.slow

PATIENCE = 600
SUBMITTED = re.compile(
    r"^Job (\S+) has been submitted with SLURM jobid (\d+) \(log: \S*slurm_logs/(\S+)/\d+\.log\)", re.M
)


def submitted(said: str) -> list[str]:
    """Return the jobs submitted to SLURM, by the names of their logs: rule and wildcards."""
    return [match[3] for match in SUBMITTED.finditer(said)]


def asked_for(project: ClusterProject, attempt: int) -> str:
    """Return the memory that a job of the tiny dataset requests, in SLURM's format."""
    return f"{resources.memory_mb([load_entry(project.folder / 'catalog/tiny.yaml')], attempt)}M"


def results(folder: Path) -> pd.DataFrame:
    """Return all results of the run except times."""
    frame = pd.read_parquet(folder / "reports/results.parquet")
    return frame[~frame["metric"].str.startswith("seconds_")].reset_index(drop=True)


def leave_out_the_local_mechanism(project: ClusterProject) -> None:
    """Remove the local mechanism from the configuration: one mechanism is enough for these tests."""
    project.edit("tiny.yaml", "mechanisms:\n", "mechanisms:\n  randomized_response: null\n")


def wait_for(reached: Callable[[], bool], runner: subprocess.Popen) -> None:
    """Wait until the condition is true while Snakemake runs."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert runner.poll() is None, "Snakemake ended before that"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def finish(project: ClusterProject, runner: subprocess.Popen) -> None:
    """Wait for Snakemake and check that it succeeds."""
    assert runner.wait(timeout=PATIENCE) == 0, project.said[-3000:]


TROUBLE = '''
def trouble() -> None:
    """At ε = 3, hold a gigabyte, more than the first attempt may use; at ε = 1, raise an error."""
    import sys, time

    if float(sys.argv[sys.argv.index("--epsilon") + 1]) == 1:
        raise RuntimeError("a mistake")
    held = []
    for _ in range(16):
        held.append(b"x" * 2**26)
        time.sleep(0.25)
    time.sleep(3)


def main() -> None:
    trouble()
'''


@pytest.fixture(scope="module")
def begun(unrun: Callable[[str], ClusterProject]) -> dict[str, tuple[ClusterProject, subprocess.Popen]]:
    """Two parallel runs, to save time: a plain one, and one with trouble."""
    plain, trouble = unrun("finished"), unrun("troubled")
    leave_out_the_local_mechanism(trouble)
    trouble.edit("src/privmix/pipeline/stages/fit.py", "\ndef main() -> None:\n", TROUBLE)
    with_trouble = trouble.begin("reports/summary.html", "--retries", "1")
    return {"plain": (plain, plain.begin("reports/summary.html")), "trouble": (trouble, with_trouble)}


@pytest.fixture(scope="module")
def finished(begun: dict[str, tuple[ClusterProject, subprocess.Popen]]) -> ClusterProject:
    """The tiny run on the cluster, one SLURM job for each file."""
    project, runner = begun["plain"]
    finish(project, runner)
    return project


@pytest.fixture(scope="module")
def troubled(begun: dict[str, tuple[ClusterProject, subprocess.Popen]]) -> ClusterProject:
    """A run with one job that needs more memory than its first attempt has, and one that fails at every attempt."""
    project, runner = begun["trouble"]
    assert runner.wait(timeout=PATIENCE) != 0
    return project


def test_the_cluster_gives_value_for_value_what_one_machine_gives(local: Path, finished: ClusterProject):
    pd.testing.assert_frame_equal(results(finished.folder), results(local), check_exact=True)
    assert len(results(local)) > 10
    assert "<html" in (finished.folder / "reports/summary.html").read_text()[:500]


def test_every_job_but_the_download_goes_to_slurm_and_asks_for_what_it_needs(finished: ClusterProject):
    names = [name.split("/")[0] for name in submitted(finished.said)]
    swept = {"rule_fit": 4, "rule_evaluate": 4, "rule_audit": 4, "rule_privatise": 2}
    assert {name: names.count(name) for name in set(names)} == {"rule_clean": 1, **swept, "rule_report": 1}
    asked = finished.cluster.run("squeue", "--states=all", "--noheader", "--format=%m %C %l").split("\n")
    assert f"{asked_for(finished, 1)} 1 20:00" in asked


def test_adding_one_epsilon_submits_only_its_jobs(finished: ClusterProject, tmp_path: Path):
    shutil.copytree(finished.folder, tmp_path / "more", symlinks=True)
    project = ClusterProject(tmp_path / "more", finished.cluster)
    finish(project, project.begin("reports/summary.html", "--config", "epsilons=[1, 3, 10]"))
    new = [f"rule_{stage}/tiny_dp_em_ggg_exact_10" for stage in ("fit", "evaluate")]
    new += [f"rule_{stage}/tiny_randomized_response_10" for stage in ("privatise", "fit", "evaluate")]
    new += [f"rule_audit/{mechanism}_10" for mechanism in ("dp_em_ggg_exact", "randomized_response")]
    assert sorted(submitted(project.said)) == sorted([*new, "rule_report"])


@pytest.fixture(scope="module")
def bereft(unrun: Callable[[str], ClusterProject], cluster: Cluster) -> ClusterProject:
    """The tiny run in chunks. A busy node goes down during the run."""
    project = unrun("bereft")
    runner = project.begin("--profile", CHUNKED, "--", "reports/summary.html")

    def at_work() -> set[str]:
        running = cluster.run("squeue", "--states=running", "--noheader", "--format=%N").split()
        return set(running) if any("group_" in name for name in submitted(project.said)) else set()

    wait_for(lambda: bool(at_work()), runner)
    node = min(at_work())
    cluster.set_down(node)
    try:
        finish(project, runner)
    finally:
        cluster.bring_back(node)
    return project


def test_a_node_set_down_in_mid_run_costs_time_and_nothing_else(local: Path, bereft: ClusterProject):
    pd.testing.assert_frame_equal(results(bereft.folder), results(local), check_exact=True)
    again = bereft.cluster.run("scontrol", "show", "job")
    assert re.search(r"Restarts=1 ", again), "no job was on the node"


def test_chunks_make_the_same_files_in_fewer_jobs(local: Path, bereft: ClusterProject):
    """All ε of a mechanism are one SLURM job, and its audits are another: sixteen jobs become six."""
    names = sorted({name.split("/")[0] for name in submitted(bereft.said)})
    assert names == [
        "group_dp_em_ggg_exact_audit",
        "group_randomized_response_audit",
        "group_tiny.dp_em_ggg_exact_evaluate_fit",
        "group_tiny.randomized_response_evaluate_fit_privatise",
        "rule_clean",
        "rule_report",
    ]
    kinds = ("private", "models", "audits", "scores")

    def made(folder: Path) -> list[Path]:
        return sorted(
            path.relative_to(folder) for kind in kinds for path in (folder / "data" / kind).rglob("*.*")
        )

    assert made(bereft.folder) == made(local)


def test_after_a_killed_snakemake_the_same_command_redoes_only_what_was_lost(
    local: Path, unrun: Callable[[str], ClusterProject]
):
    project = unrun("killed")
    leave_out_the_local_mechanism(project)
    runner = project.begin("reports/summary.html")
    wait_for(lambda: set(_chain("fit")) <= set(submitted(project.said)), runner)  # clean is over
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert _of_the_data(project) == ["rule_clean/tiny", *_chain("fit")]
    assert project.snakemake("--unlock").returncode == 0
    finish(project, project.begin("reports/summary.html"))
    # Jobs that SLURM has started continue without Snakemake: fits that finish in the meantime are not lost.
    again = _of_the_data(project)
    assert set(again) - set(_chain("fit")) == {*_chain("evaluate"), "rule_report"}
    assert len(again) == len(set(again))
    expected = results(local)
    expected = expected[expected["mechanism"] == "dp_em_ggg_exact"].reset_index(drop=True)
    pd.testing.assert_frame_equal(results(project.folder), expected, check_exact=True)


def _of_the_data(project: ClusterProject) -> list[str]:
    """Return the submitted jobs except audits, which need no input and may finish first."""
    return sorted(name for name in submitted(project.said) if not name.startswith("rule_audit"))


def _chain(stage: str) -> list[str]:
    return [f"rule_{stage}/tiny_dp_em_ggg_exact_{epsilon}" for epsilon in ("1", "3")]


def test_a_stage_killed_for_its_memory_is_sent_again_with_more_and_succeeds(troubled: ClusterProject):
    hungry = [match for match in SUBMITTED.finditer(troubled.said) if match[3] == _chain("fit")[1]]
    assert len(hungry) == 2
    ended = troubled.cluster.run("squeue", "--states=all", "--noheader", "--format=%i %m %T").splitlines()
    states = {line.split()[0]: line.split()[1:] for line in ended}
    assert [states[match[2]][0] for match in hungry] == [asked_for(troubled, 1), asked_for(troubled, 2)]
    assert states[hungry[0][2]][1] in ("FAILED", "OUT_OF_MEMORY")
    assert states[hungry[1][2]][1] == "COMPLETED"
    assert (troubled.folder / "data/scores/tiny/dp_em_ggg_exact/eps-3.parquet").exists()


def test_what_snakemake_shows_of_a_killed_stage_tells_its_memory(troubled: ClusterProject):
    told = re.search(r"privmix fit: still running after .* s, peak memory (\d+) MB", troubled.said)
    assert int(told[1]) >= 512
    assert "exceeded memory limit" in troubled.said  # the message of SLURM itself


def test_a_stage_that_always_fails_stops_its_own_chain_and_the_report_names_it(troubled: ClusterProject):
    assert submitted(troubled.said).count(_chain("fit")[0]) == 2
    scores = sorted(path.name for path in (troubled.folder / "data/scores").rglob("*.parquet"))
    assert scores == ["eps-3.parquet"]
    assert not (troubled.folder / "reports/summary.html").exists()
    page = (troubled.folder / "reports/incomplete.html").read_text()
    assert re.search(r"Not made.*dp_em_ggg_exact", page, re.S)
    assert "a mistake" in troubled.said
