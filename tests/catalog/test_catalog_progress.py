"""Progress: a bar on a terminal, few plain lines in a log."""

import contextlib
import io
import os
import pty
import re
import subprocess
import sys

import pytest

from privmix.catalog import progress as module
from privmix.catalog.progress import Progress

TOTAL = 100_000_000


class Terminal(io.StringIO):
    """A terminal of 80 columns. `frames` are the states of the bar and the lines around it, without colours."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def frames(self) -> list[str]:
        return [
            line
            for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()))
            if line
        ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def run(monkeypatch: pytest.MonkeyPatch, seconds: float, total: int | None) -> list[str]:
    """Return the lines of a log after one hundred updates of one per cent each, evenly over `seconds`."""
    clock, stream = [0.0], io.StringIO()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    progress = Progress("thing", stream)
    for step in range(101):
        clock[0] = seconds * step / 100
        progress.update(step * TOTAL // 100, total)
    progress.close()
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("seconds", "most"),
    [(1, 0), (20, 4), (200, 10), (3000, 51)],
    ids=["none if it is fast", "5 s apart", "10 % apart", "at most a minute of silence"],
)
def test_a_log_gets_few_plain_lines(monkeypatch: pytest.MonkeyPatch, seconds: float, most: int):
    assert most - 2 <= len(run(monkeypatch, seconds, TOTAL)) <= most


def test_a_line_gives_share_size_speed_and_time_left(monkeypatch: pytest.MonkeyPatch):
    assert "thing:  50% of 100.0 MB, 0.5 MB/s, 1:40 left" in run(monkeypatch, 200, TOTAL)


def test_a_line_without_a_known_total_gives_size_and_speed(monkeypatch: pytest.MonkeyPatch):
    assert "thing: 50.0 MB, 5.0 MB/s" in run(monkeypatch, 20, None)


def test_a_line_after_no_new_bytes_gives_no_speed(monkeypatch: pytest.MonkeyPatch):
    clock, log = [0.0], io.StringIO()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    progress = Progress("thing", log)
    progress.update(TOTAL // 2, TOTAL)
    clock[0] = 61.0
    progress.update(TOTAL // 2, TOTAL)
    assert log.getvalue() == "thing:  50% of 100.0 MB\n"


def test_a_terminal_gets_a_bar_on_one_line(terminal: Terminal):
    progress = Progress("thing", terminal)
    for step in range(11):
        progress.update(step * TOTAL // 10, TOTAL)
    progress.close()
    first, last = terminal.frames()[0], terminal.frames()[-1]
    assert re.fullmatch(r"thing ━+ +0% 0\.0/100\.0 MB \? --:--", first)
    assert re.fullmatch(r"thing ━+ +100% 100\.0/100\.0 MB [\d.]+ [MGT]B/s 00:00", last)
    assert terminal.getvalue().count("\n") == 1
    assert max(map(len, terminal.frames())) <= 80


def test_a_bar_without_a_known_total_gives_the_size(terminal: Terminal):
    progress = Progress("thing", terminal)
    progress.update(0, None)
    progress.update(5_000_000, None)
    progress.close()
    assert "5.0/? MB" in terminal.frames()[-1]
    assert "%" not in terminal.frames()[-1]


def test_a_resumed_download_starts_the_bar_where_it_stopped(terminal: Terminal):
    progress = Progress("thing", terminal)
    progress.update(TOTAL // 2, TOTAL)
    progress.close()
    assert " 50% 50.0/100.0 MB ? --:--" in terminal.frames()[-1]


def test_a_note_is_a_line_of_its_own(terminal: Terminal):
    progress = Progress("[thing]", terminal)
    progress.update(5, 10)
    progress.note("the connection broke [red]")
    progress.update(10, 10)
    progress.close()
    frames = terminal.frames()
    assert "[thing]: the connection broke [red]" in frames
    assert frames[-1].startswith("[thing] ━")


def test_a_terminal_without_control_codes_gets_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress("thing", terminal)
    progress.update(5, 10)
    progress.note("the connection broke")
    assert terminal.getvalue() == "thing: the connection broke\n"


def test_the_bar_goes_to_the_terminal_behind_stderr():
    code = "from privmix.catalog.progress import Progress as P; p = P('thing'); p.update(3, 4); p.close()"
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True
    )
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # EIO at the end
        while part := terminal.read(1 << 12):
            shown += part
    assert done.stdout == b""
    assert b"thing" in shown
    assert b"75%" in shown
    assert shown.rstrip().endswith(b"\x1b[?25h")  # the cursor is visible again


def test_rich_is_imported_only_for_a_bar():
    code = (
        "import io, sys; from privmix.catalog.progress import Progress as P; p = P('thing', io.StringIO()); "
        "p.update(3, 4); p.close(); sys.exit('rich' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
