"""Errors that the user can fix: one sentence that says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError


class UserError(Exception):
    """Something the user can mend. Its text is shown alone, without a traceback."""


class MechanismFailure(UserError):
    """A mechanism that cannot work on this data: recorded as a result, not a crash."""


def suggest(word: str, choices: Iterable[str]) -> str:
    """A phrase that names the closest valid choice, or all of them when none is close."""
    known = sorted(choices)
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}"


def to_user_error(error: ValidationError, where: str, known: Iterable[str] = ()) -> UserError:
    """The first problem that pydantic found, as one sentence with key, value and remedy."""
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
