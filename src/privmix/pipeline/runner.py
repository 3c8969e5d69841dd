"""Run a stage as a command: error messages, exit status, and usage of time and memory."""

import errno
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from privmix.errors import UserError, printable

FIRST_MB = 512
FIRST_SECONDS = 60
LOOK_SECONDS = 0.25
GROUP_AND_OTHERS = 0o077


def restrict_new_files(visibilities: Iterable[str]) -> None:
    """Let only the owner read the files that this process and its children create, if any dataset is sensitive."""
    if "sensitive" in visibilities:
        os.umask(os.umask(0) | GROUP_AND_OTHERS)


def peak_mb() -> int:
    """Return the peak memory of this process, in MB of 2^20 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return -(-peak // (2**20 if sys.platform == "darwin" else 2**10))


def milestones(first: float) -> Callable[[float], bool]:
    """Return a function that is true when a growing value reaches `first`, then twice that, and so on."""
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
def report_usage(stage: str) -> Iterator[None]:
    """Report time and memory of the stage on stderr: while it runs, on SIGTERM, and at the end."""
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
            # A list, not `or`: both functions must see every value.
            if any([memory(peak_mb()), patience(time.monotonic() - began)]):
                say("still running")

    def asked_to_end(number: int, frame: FrameType | None) -> None:
        say(f"stopped by {signal.Signals(number).name}")
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
        say("finished")


def run_stage(stage: str, main: Callable[[], None]) -> None:
    """Run a stage. An error that the user can fix ends in one sentence on stderr and exit status 1.

    In a SLURM job the stage also reports its usage, because nothing else records it there.
    """
    umask = os.umask(0)
    os.umask(umask)
    try:
        with report_usage(stage) if "SLURM_JOB_ID" in os.environ else nullcontext():
            main()
    except UserError as error:
        # A hostile file name must not control the terminal.
        sys.exit(printable(f"privmix {stage}: {error}", keep=" \n\t"))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(
            f"privmix {stage}: {error.strerror}{where}; no output was written. "
            "Free space or fix the permissions, then run again."
        )
    except MemoryError:
        traceback.print_exc()
        sys.exit(
            f"privmix {stage}: out of memory; give the job more memory, or use fewer components or records."
        )
    finally:
        os.umask(umask)  # a stage on sensitive data restricts it
