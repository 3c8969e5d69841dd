"""Errors that the user can fix: one sentence that says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError


class UserError(Exception):
    """Something the user can fix. Its text is shown alone, without a traceback."""


class PrivacyError(UserError, ValueError):
    """A request that would break the privacy guarantee, such as bounds that are not given."""


class PrivacyWarning(UserWarning):
    """A result that must not be published, such as a model with seeded noise."""


class MechanismFailure(UserError):
    """A mechanism that cannot work on this dataset: recorded as a result, not a crash."""


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
