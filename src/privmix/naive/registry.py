"""Releases without a guarantee by name, with their parameters from the configuration."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from privmix.errors import UserError, suggest
from privmix.naive.base import NaiveRelease
from privmix.naive.k_anonymity import KAnonymous
from privmix.naive.pseudonymised import Pseudonymised
from privmix.naive.statistics import ExactStatistics, NoisyAnswers, Rounded, Suppressed

RELEASES: dict[str, type[NaiveRelease]] = {
    "pseudonymised": Pseudonymised,
    "k_anonymous": KAnonymous,
    "exact_statistics": ExactStatistics,
    "rounded": Rounded,
    "suppressed": Suppressed,
    "noisy_answers": NoisyAnswers,
}


def build(name: str, parameters: Mapping[str, Any], where: str) -> NaiveRelease:
    """Return the release of this name. `where` is the place in the configuration, for messages."""
    if name not in RELEASES:
        raise UserError(f"{where}: {name!r} is not a release; {suggest(name, RELEASES)}")
    kind: Any = RELEASES[name]
    known = [each.name for each in fields(kind)]
    for key in parameters:
        if key not in known:
            raise UserError(
                f"{where}: {name} has no parameter {key!r}; {suggest(key, known) if known else 'remove it.'}"
            )
    for key, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise UserError(f"{where}: {name}.{key} = {value!r} must be a number.")
        if isinstance(value, float) and key in ("k", "l", "to", "below"):
            raise UserError(f"{where}: {name}.{key} = {value!r} must be a whole number.")
    try:
        return kind(**parameters)
    except UserError as problem:
        raise UserError(f"{where}: {problem}") from None
