"""A folder that is there whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from privmix.errors import UserError


@contextlib.contextmanager
def placed(target: Path) -> Iterator[Path]:
    """An empty folder beside `target` that takes its place if the block succeeds; whatever fails, nothing is there.

    All files are on the disk before the folder has its name. A process that is killed leaves a folder whose name begins
    with a dot, and that nobody takes for a release.
    """
    target = Path(target)
    free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        for path in temporary.iterdir():
            path.chmod(0o666 & ~umask)
            _synced(path)
        temporary.chmod(0o777 & ~umask)
        _synced(temporary)
        try:
            temporary.rename(target)  # onto nothing or onto an empty folder; never onto a release
        except OSError:
            free(target)
            raise
        _synced(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def thrown_away(target: Path) -> Iterator[Path]:
    """An empty folder on the same disk as `target`, gone at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as folder:
        yield Path(folder)


def free(target: Path) -> None:
    """Refuse a place where something is: a release is never overwritten."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(
            f"{target} is there already, and a release is never made anew in its place: that would cost its ε again. "
            "Give another folder with --out, or move the old one away."
        )


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
