"""Progress of a download: a bar on a terminal, a few plain lines in a log."""

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 5.0
SECONDS_OF_SILENCE = 60.0
SHARE_BETWEEN_LINES = 0.1


class Progress:
    """Reports one download. In a log, a line needs 5 s and 10 % since the last one, or a minute of silence."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: Bar | None = None
        self._began: tuple[float, int] | None = None  # time and bytes at the first update
        self._last = (0.0, 0)  # time and bytes of the last line

    def note(self, sentence: str) -> None:
        """Print a line of its own, below the bar."""
        self.close()
        print(f"{self.label}: {sentence}", file=self.stream, flush=True)

    def update(self, done: int, total: int | None) -> None:
        """Report the bytes downloaded, and the total if the server reports it."""
        if self.live:
            self._move_bar(done, total)
        else:
            self._log(done, total)

    def close(self) -> None:
        """End the bar. A later update starts a new one."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._began = None

    def _move_bar(self, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar = _bar(self.stream)
            self._bar.add_task(self.label, completed=done, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def _log(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = self._last = (now, done)
        seconds, gained = now - self._last[0], done - self._last[1]
        step = total is None or gained >= SHARE_BETWEEN_LINES * total
        if seconds >= SECONDS_OF_SILENCE or (seconds >= SECONDS_BETWEEN_LINES and step):
            self._last = (now, done)
            rate = (done - self._began[1]) / (now - self._began[0])
            print(f"{self.label}: {_status(done, total, rate)}", file=self.stream, flush=True)


def _bar(stream: TextIO) -> "Bar":
    from rich import progress  # here, because only a terminal needs it
    from rich.console import Console
    from rich.table import Column

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(table_column=Column(no_wrap=True)),
        progress.TransferSpeedColumn(table_column=Column(no_wrap=True)),
        progress.TimeRemainingColumn(compact=True),
        console=Console(file=stream, force_terminal=True),
    )


def _status(done: int, total: int | None, rate: float) -> str:
    """Return share, size, speed and time left as text. `rate` is in bytes per second."""
    amount = f"{done / total:4.0%} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
    if rate <= 0:
        return amount
    left = round(max(total - done, 0) / rate) if total else None
    return f"{amount}, {rate / 1e6:.1f} MB/s" + (
        "" if left is None else f", {left // 60}:{left % 60:02d} left"
    )
