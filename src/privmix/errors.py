"""Errors that the user can fix: one sentence that says what is wrong, where, and what to do."""

import difflib
import re
from collections.abc import Iterable

from pydantic import ValidationError

# Printable letters that are drawn as nothing or as a blank
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class UserError(Exception):
    """Something the user can fix. Its text is shown alone, without a traceback."""


class PrivacyError(UserError, ValueError):
    """A request that would break the privacy guarantee, such as bounds that are not given."""


class PrivacyWarning(UserWarning):
    """A result that must not be published, such as a model with seeded noise."""


class MechanismFailure(UserError):
    """A mechanism that cannot work on this dataset: recorded as a result, not a crash."""


def printable(text: str, keep: str = "") -> str:
    """Return text for a terminal, such as the name of a file from someone else, with all its letters visible.

    Escapes replace letters that control a terminal, that reorder others, or that are invisible, except those in `keep`,
    and all but the first of several blanks, which could look like the end of a line.
    """
    shown = "".join(
        letter
        if letter in keep or (letter.isprintable() and not _BLANK.match(letter))
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
    return shown if " " in keep else re.sub("(?<= ) ", r"\\x20", shown)


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return a phrase that names the closest valid choice, or all choices if none is close."""
    known = sorted(choices)
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}"


def to_user_error(error: ValidationError, where: str, known: Iterable[str] = ()) -> UserError:
    """Return the first problem that pydantic found as one sentence with key, value and what to do."""
    problem = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in problem["loc"]) or "(top level)"
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return UserError(f"{where}: unknown key {key!r}; {suggest(key.rsplit('.', 1)[-1], known)}")
    if problem["type"] in ("missing", "missing_argument"):
        return UserError(f"{where}: key {key!r} is missing; add it.")
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not problem["loc"]:
        return UserError(f"{where}: {message.rstrip('.')}.")
    whole_section = isinstance(problem["input"], dict) and problem["input"]
    value = "" if whole_section else f" = {problem['input']!r}"
    return UserError(f"{where}: {key}{value}: {message.rstrip('.')}.")
