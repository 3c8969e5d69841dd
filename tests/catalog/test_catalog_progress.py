"""Progress: a moving line on a terminal, few plain lines in a log."""

import io

import pytest

from privmix.catalog import progress as module
from privmix.catalog.progress import Progress

TOTAL = 100_000_000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, seconds: float, total: int | None) -> str:
    """One hundred updates, one per cent each, spread over so many seconds."""
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    bar = Progress("thing", stream)
    for step in range(101):
        clock[0] = seconds * step / 100
        bar.update(step * TOTAL // 100, total)
    bar.close()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "most"),
    [(1, 0), (20, 4), (200, 10), (3000, 51)],
    ids=["a fast one is silent", "5 s apart", "10 % apart", "a minute of silence at most"],
)
def test_a_log_gets_few_plain_lines(monkeypatch: pytest.MonkeyPatch, seconds: float, most: int):
    log = run(io.StringIO(), monkeypatch, seconds, TOTAL)
    assert "\r" not in log
    assert most - 2 <= len(log.splitlines()) <= most


def test_a_line_says_share_size_speed_and_time_left(monkeypatch: pytest.MonkeyPatch):
    log = run(io.StringIO(), monkeypatch, 200, TOTAL)
    assert "thing:  50% of 100.0 MB, 0.5 MB/s, 1:40 left" in log.splitlines()


def test_an_unknown_size_is_told_in_bytes_alone(monkeypatch: pytest.MonkeyPatch):
    log = run(io.StringIO(), monkeypatch, 20, None)
    assert "thing: 50.0 MB, 5.0 MB/s" in log.splitlines()


def test_a_terminal_gets_one_line_that_moves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(Terminal(), monkeypatch, 100, TOTAL)
    assert text.count("\n") == 1
    frames = text.strip("\n").split("\r")[1:]
    assert len(frames) == 101
    assert {len(frame) for frame in frames} == {79}
    assert "50%" in frames[50]
    assert frames[50].count("#") == pytest.approx(frames[50].count("."), abs=4)
    assert frames[-1].count("#") > 20


def test_a_note_stands_on_its_own_line(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    bar = Progress("thing", terminal)
    bar.update(5, 10)
    bar.note("the connection broke")
    assert terminal.getvalue().splitlines()[-1] == "thing: the connection broke"
