"""The log of a stage reports time and memory, also when the stage is killed."""

import re
import signal
import subprocess
import sys

import pytest

from privmix.errors import UserError
from privmix.pipeline import runner


@pytest.fixture(autouse=True)
def _in_a_slurm_job(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")


def test_outside_slurm_a_stage_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("SLURM_JOB_ID")
    runner.run_stage("fit", lambda: None)
    assert capsys.readouterr().err == ""


def test_the_first_line_appears_at_once_and_the_last_reports_time_and_peak_memory(
    capsys: pytest.CaptureFixture[str],
):
    runner.run_stage("fit", lambda: None)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "privmix fit: started."
    assert re.fullmatch(r"privmix fit: finished after \d+\.\d s, peak memory \d+ MB\.", last)


def test_a_failure_is_followed_by_its_sentence(capsys: pytest.CaptureFixture[str]):
    def fail() -> None:
        raise UserError("no such column.")

    with pytest.raises(SystemExit, match="privmix fit: no such column"):
        runner.run_stage("fit", fail)
    assert "finished after" in capsys.readouterr().err


def test_milestones_double_so_that_a_log_stays_short():
    reached = runner.milestones(10)
    assert [value for value in range(1, 1001) if reached(value)] == [10, 20, 40, 80, 160, 320, 640]
    jump = runner.milestones(10)
    assert [jump(value) for value in (500, 501, 640)] == [True, False, True]


def _stage(body: str) -> subprocess.Popen:
    imports = "import time\nfrom privmix.pipeline.runner import run_stage\n"
    code = f"{imports}def main():\n    {body}\nrun_stage('fit', main)"
    stage = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert stage.stderr.readline() == "privmix fit: started.\n"
    return stage


def test_a_stage_killed_for_its_memory_has_reported_its_peak():
    stage = _stage("held = b'x' * (700 * 2**20); time.sleep(60)")
    said = stage.stderr.readline()
    stage.kill()
    stage.communicate()
    assert int(re.search(r"still running after .* s, peak memory (\d+) MB", said)[1]) >= 512


def test_a_stage_that_gets_sigterm_reports_it():
    stage = _stage("import sys; print('ready', file=sys.stderr, flush=True); time.sleep(60)")
    assert stage.stderr.readline() == "ready\n"  # its handler is set by then
    stage.send_signal(signal.SIGTERM)
    said = stage.communicate(timeout=30)[1]
    assert "stopped by SIGTERM after" in said
    assert stage.returncode == 128 + signal.SIGTERM
