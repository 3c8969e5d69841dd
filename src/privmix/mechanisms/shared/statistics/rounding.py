"""Digits of published statistics: a public unit of the last digit, and rounding that never makes an interval narrower.

Results of different machines differ in the last bits, so fewer digits are published than a double has. They must not
depend on the size of the values: the seconds of one hour of 2026 agree in their first six digits. The unit is
therefore a power of ten between 10^-9 and 10^-8 of the public range of the axis. It is not below the fifteenth digit of
the bounds, since a double holds fifteen. Counts are whole, and only their accuracy is rounded.

A lower end is rounded down, an upper end and an accuracy up. So an interval that holds the data's own number does so
after rounding too. Numbers are rounded as they are written (the shortest decimal of a double), so 51.3 stays 51.3.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from privmix.artefacts.domain import Domain
from privmix.artefacts.statistics import StatisticRequest
from privmix.mechanisms.shared.statistics.cells import find_axis

DIGITS = 9  # of the public range
MOST_DIGITS = 15  # that each double holds
OF_COUNTS = Decimal("1e-6")  # unit of the accuracy of a count, in records
_EXACT = Context(prec=700)  # more than the digits of any double above or below the point
_DIRECTIONS = {"down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING}


def last_digit(request: StatisticRequest, domain: Domain) -> Decimal:
    """Return the unit of the last published digit, a power of ten, from public numbers."""
    number = find_axis(domain, request.column)
    if number is None or request.kind not in ("mean", "quantile"):
        return OF_COUNTS
    axis = domain.axes[number]
    of_range = math.floor(math.log10(axis.upper - axis.lower)) + 1 - DIGITS
    of_doubles = math.floor(math.log10(max(abs(axis.lower), abs(axis.upper)))) + 1 - MOST_DIGITS
    return Decimal(1).scaleb(max(of_range, of_doubles))


def rounded(number: float, unit: Decimal, direction: Literal["down", "nearest", "up"] = "nearest") -> float:
    """Return a number in whole units."""
    return float(Decimal(repr(float(number))).quantize(unit, _DIRECTIONS[direction], _EXACT)) + 0.0


def reach(value: float, lower: float, upper: float, unit: Decimal) -> float:
    """Return how far the ends of an interval are from the value. All three are in whole units."""
    middle, *ends = (Decimal(repr(each)) for each in (value, lower, upper))
    return rounded(float(max(abs(middle - each) for each in ends)), unit, "nearest")
