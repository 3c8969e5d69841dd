"""What a stage has used, said in its log: the last word of a job that was killed without one.

A cluster kills a job that exceeds its memory or its time and gives no reason. So a stage says that it has
started (of an empty log Snakemake shows nothing, not even the cluster's own), how far it has come each time that its
memory or its time has doubled, when it is asked to end, and in the end.
"""

import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

FIRST_MB = 512
FIRST_SECONDS = 60
LOOK_SECONDS = 0.25


def peak_mb() -> int:
    """The most memory that this process has held, in MB of 2^20 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return -(-peak // (2**20 if sys.platform == "darwin" else 2**10))


def milestones(first: float) -> Callable[[float], bool]:
    """Whether a growing value has come to `first`, or since the last yes to twice as much: few lines, however long."""
    following = first

    def reached(value: float) -> bool:
        nonlocal following
        if value < following:
            return False
        while following <= value:
            following *= 2
        return True

    return reached


@contextmanager
def said(stage: str) -> Iterator[None]:
    """Say on stderr what the stage uses while it runs, when it is asked to end, and in the end."""
    print(f"privmix {stage}: started.", file=sys.stderr, flush=True)
    began = time.monotonic()
    over = threading.Event()

    def say(when: str) -> None:
        seconds = time.monotonic() - began
        print(
            f"privmix {stage}: {when} after {seconds:.1f} s, peak memory {peak_mb()} MB.",
            file=sys.stderr,
            flush=True,
        )

    def look() -> None:
        memory, patience = milestones(FIRST_MB), milestones(FIRST_SECONDS)
        while not over.wait(LOOK_SECONDS):
            # Both are asked, so that each keeps its own count.
            if any([memory(peak_mb()), patience(time.monotonic() - began)]):
                say("still running")

    def asked_to_end(number: int, frame: FrameType | None) -> None:
        say(f"asked to end ({signal.Signals(number).name})")
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, asked_to_end)
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGTERM, before)
        say("over")
