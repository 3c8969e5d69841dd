"""Traces of the machine that made a release: paths, names, times of day and seeds, in any byte of any file."""

import getpass
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from privmix.errors import UserError

BLOCK, OVERLAP = 1 << 22, 512  # bytes that are searched at a time
LEAST_NAME = 5  # letters; shorter host and user names occur by chance
TRACES = {
    "a path of a machine": rb"(?<![\w+/=.:-])/(?:home|root|tmp|Users|usr|var|mnt|opt|srv|scratch|work)/[\w.]"
    rb"|(?<!\w)[A-Z]:\\{1,2}(?:Users|Windows|Documents|Program|Temp|temp|data|home)",
    "a time of day": rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?<![\d:.])[0-2]?\d:[0-5]\d:[0-5]\d(?![\d:])",
    "a seed": rb"(?i)(?<![a-z])seed['\"]?\s*[:=]\s*\d",
}


def check_traces(path: Path) -> None:
    """Search a file for traces of the machine, in blocks that overlap."""
    names = [rb"(?<![\w-])" + re.escape(name.encode()) + rb"(?![\w-])" for name in _own_names()]
    patterns = [*TRACES.items(), *(("the name of this machine or user", name) for name in names)]
    compiled = [(what, re.compile(pattern)) for what, pattern in patterns]
    with path.open("rb") as stream:
        window = stream.read(BLOCK)
        first = 0
        while window:
            following = stream.read(BLOCK)
            for what, pattern in compiled:
                for found in pattern.finditer(window, first):
                    if found.end() < len(window) or not following:  # else the next window decides
                        words = found[0].decode(errors="replace")
                        raise UserError(f"{path} holds {what} ({words!r}); do not publish it.")
            window, first = (window[-OVERLAP:] + following, 1) if following else (b"", 0)


def _own_names() -> Iterator[str]:
    """Yield the host and user names that would show where a release was made, except common words."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    for name in (platform.node(), user):
        if len(name) >= LEAST_NAME and name not in ("localhost", "runner", "ubuntu", "admin"):
            yield name
