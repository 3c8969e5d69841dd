"""Progress of a transfer: one moving line on a terminal, a few plain lines in a log."""

import shutil
import sys
import time
from typing import TextIO

SECONDS_BETWEEN_LINES = 5.0
SECONDS_OF_SILENCE = 60.0
SHARE_BETWEEN_LINES = 0.1
SECONDS_BETWEEN_REDRAWS = 0.1


class Progress:
    """Reports one transfer. In a log, a line needs 5 s and 10 % since the last one, or a minute of silence."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self._began: tuple[float, int] | None = None
        self._last = (float("-inf"), 0)
        self._drawn = False

    def note(self, sentence: str) -> None:
        """A line of its own, above the bar."""
        self.close()
        print(f"{self.label}: {sentence}", file=self.stream, flush=True)

    def update(self, done: int, total: int | None) -> None:
        """So many bytes have come, of so many where that is known."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
            if not self.live:
                self._last = (now, done)
        since, gained = now - self._last[0], done - self._last[1]
        if self.live:
            due = since >= SECONDS_BETWEEN_REDRAWS or done == total
        else:
            step = total is None or gained >= SHARE_BETWEEN_LINES * total
            due = since >= SECONDS_OF_SILENCE or (since >= SECONDS_BETWEEN_LINES and step)
        if due:
            self._last = (now, done)
            self._draw(done, total, now)

    def close(self) -> None:
        """End the moving line, so that what follows starts on a fresh one."""
        if self._drawn:
            print(file=self.stream, flush=True)
        self._drawn = False
        self._began = None

    def _draw(self, done: int, total: int | None, now: float) -> None:
        text = f"{self.label}: {_amount(done, total)}{self._speed(done, total, now)}"
        if not self.live:
            print(text, file=self.stream, flush=True)
            return
        width = shutil.get_terminal_size().columns - 1
        if total:
            room = min(30, width - len(text) - 3)
            if room >= 5:
                full = round(room * min(done / total, 1))
                text = f"{text} [{'#' * full}{'.' * (room - full)}]"
        print(f"\r{text[:width]:<{width}}", end="", file=self.stream, flush=True)
        self._drawn = True

    def _speed(self, done: int, total: int | None, now: float) -> str:
        seconds = now - self._began[0] if self._began else 0.0
        gained = done - self._began[1] if self._began else 0
        if seconds < 0.5 or gained <= 0:
            return ""
        rate = gained / seconds
        if total is None:
            return f", {rate / 1e6:.1f} MB/s"
        left = round(max(total - done, 0) / rate)
        return f", {rate / 1e6:.1f} MB/s, {left // 60}:{left % 60:02d} left"


def _amount(done: int, total: int | None) -> str:
    if total:
        return f"{done / total:4.0%} of {total / 1e6:.1f} MB"
    return f"{done / 1e6:.1f} MB"
