"""What every number of a guarantee must satisfy, refused with a sentence that holds the value."""

import math
from collections.abc import Iterable

from privmix.errors import UserError


def positive(value: float, what: str) -> float:
    """`value` as a float, finite and greater than 0: an epsilon, a sensitivity, a noise multiplier."""
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{what} = {value!r} must be a finite number greater than 0.")
    return float(value)


def probability(value: float, what: str) -> float:
    """`value` as a float strictly between 0 and 1: the delta of a claim that is not pure."""
    if not 0 < value < 1:
        raise UserError(
            f"{what} = {value!r} must lie between 0 and 1; set `delta`, for instance to 1e-6, "
            "or choose a pure mechanism."
        )
    return float(value)


def known(value: str, names: Iterable[str], what: str) -> str:
    """`value`, which must be one of the names."""
    if value not in names:
        raise UserError(f"{what} = {value!r} is unknown; choose one of {', '.join(names)}.")
    return value
