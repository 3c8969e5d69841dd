"""Releases without a guarantee by name, with their parameters from the configuration.

The module of a release, and with it pandas, is imported only when the release is made. So a plan loads fast.
"""

import importlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privmix.errors import UserError, suggest

if TYPE_CHECKING:
    from privmix.naive.base import NaiveRelease

RELEASES = {
    "pseudonymised": ("pseudonymised", "Pseudonymised"),
    "k_anonymous": ("k_anonymity", "KAnonymous"),
    "exact_statistics": ("statistics", "ExactStatistics"),
    "rounded": ("statistics", "Rounded"),
    "suppressed": ("statistics", "Suppressed"),
    "noisy_answers": ("statistics", "NoisyAnswers"),
}
WHOLE = {"k": 2, "l": 2, "to": 2, "below": 2}  # whole numbers, and the least of each
PARAMETERS = {
    "k_anonymous": ("k", "l", "t"), "rounded": ("to",), "suppressed": ("below",), "noisy_answers": ("scale",),
}  # fmt: skip


def check(name: str, parameters: Mapping[str, Any], where: str) -> None:
    """Refuse an unknown release or parameter. `where` is the place in the configuration, for messages."""
    if name not in RELEASES:
        raise UserError(f"{where}: {name!r} is not a release; {suggest(name, RELEASES)}")
    known = PARAMETERS.get(name, ())
    for key, value in parameters.items():
        if key not in known:
            raise UserError(
                f"{where}: {name} has no parameter {key!r}; {suggest(key, known) if known else 'remove it.'}"
            )
        if value is None and key in ("l", "t"):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{where}: {name}.{key} = {value!r} must be a number.")
        if key in WHOLE and not isinstance(value, int):
            raise UserError(f"{where}: {name}.{key} = {value!r} must be a whole number.")
        if value < WHOLE.get(key, 0) or (key not in WHOLE and not 0 < value < math.inf):
            least = f"at least {WHOLE[key]}" if key in WHOLE else "a positive number"
            raise UserError(f"{where}: {name}: {key} = {value:g} must be {least}.")
        if key == "t" and value > 1:
            raise UserError(f"{where}: {name}: t = {value:g} must lie in (0, 1], or be left out.")


def build(name: str, parameters: Mapping[str, Any], where: str) -> "NaiveRelease":
    """Return the release of this name."""
    check(name, parameters, where)
    module, kind = RELEASES[name]
    made: NaiveRelease = getattr(importlib.import_module(f"privmix.naive.{module}"), kind)(**parameters)
    return made
