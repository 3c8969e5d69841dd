"""Traces of the machine that made a release: paths, names and times of day in the texts of the model.

All other files of a release follow from the model and from reports, so they hold no other text.
"""

import getpass
import platform
import re
from collections.abc import Iterator

from privmix.errors import UserError
from privmix.release.folder import MODEL

LEAST_NAME = 5  # letters; shorter host and user names occur by chance
_FOLDERS = "home|root|tmp|Users|usr|var|mnt|media|opt|srv|scratch|work|gpfs|lustre|nfs|Volumes"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?![\d:])"
TRACES = {
    "a path of a machine": rf"(?<![\w+/=.:-])/(?:{_FOLDERS})/[\w.]"
    r"|(?<!\w)[A-Za-z]:\\\w"  # C:\data
    r"|(?<![\w\\])\\\\[A-Za-z0-9][\w.-]+\\[\w$]"  # \\host\share
    r"|(?<![\w/.~-])~(?:[a-z][\w-]+)?/[\w.]"  # ~/data, ~user/data; a URL has a slash before the ~
    r"|(?i:(?<![a-z])(?:file|smb|nfs):/)",
    "a time of day": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?<![\d:.])[0-2]?\d:[0-5]\d:[0-5]\d(?![\d:])"
    rf"|(?i:(?<![a-z])(?:at|@|um|à) ?{_CLOCK})"
    rf"|(?i:(?<![\d:.]){_CLOCK} ?(?:[ap]\.?m\b|o.clock|uhr|utc|gmt|ces?t\b|z\b))",
    "a seed": r"(?i)(?<![a-z])seed['\"]?\s*[:=]\s*\d",
}


def check_traces(text: str) -> None:
    """Search the text of a model for traces of any machine. JSON writes each backslash of a text as two."""
    plain = text.replace(r"\\", "\\")
    for what, pattern in TRACES.items():
        found = re.search(pattern, plain)
        if found:
            raise UserError(f"{MODEL} holds {what} ({found[0]!r}); do not publish it.")


def check_own_names(text: str) -> None:
    """Search the text of a model for the names of this machine and its user. Only the maker of a release does this."""
    for name in _own_names():
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
            raise UserError(f"{MODEL} holds the name of this machine or user ({name!r}); do not publish it.")


def _own_names() -> Iterator[str]:
    """Yield the host and user names that would show where a release was made, except common words."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    for name in (platform.node(), user):
        if len(name) >= LEAST_NAME and name not in ("localhost", "runner", "ubuntu", "admin"):
            yield name
