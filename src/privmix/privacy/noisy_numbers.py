"""Noisy numbers: a count, a table of counts and a mean. What their noise costs at an ε, and the ε that a wish needs.

Everything here follows from public values: bounds, the public number of records, the privacy unit. `within` is the
distance that the noise keeps with a probability, and `smallest_epsilon` inverts it. Both hold for the noise of a
release, which is drawn on a lattice (`privmix.privacy.exact`), and so for continuous noise of the same scale.

The sensitivities are those of `privmix.privacy.sensitivity`: `single_count` of a count, `counts` of a table, of a mean
`bounded_sum` if the number of records is public, and `bounded_sum_and_number` otherwise. A mean is c + h S / N: c is
the middle of the bounds, h half their distance, S the sum of (value - c) / h and N the number of records. The share of
one value among n records is a count divided by n: its sensitivity is 1/n, not 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.privacy.accounting import find_largest
from privmix.privacy.accuracy import check_chance, laplace_within, lattice_laplace_within, ratio_within
from privmix.privacy.exact import STEP, laplace_steps
from privmix.privacy.ledger import Ledger, check_positive
from privmix.privacy.noise import COMPUTED, NoiseSource, laplace
from privmix.privacy.sensitivity import Neighbours, bounded_sum, bounded_sum_and_number, counts, single_count

LARGEST_EPSILON = 1e6
DIGITS = 3  # of an answer


def _scale(sensitivity: float, coordinates: int, neighbours: Neighbours, epsilon: float) -> float:
    """Return the scale of a release, for `coordinates` numbers that a unit can change.

    Each of the contributions of a unit, and their noisy sum, is rounded to the lattice (`noise.with_rounding`).
    """
    rounding = (neighbours.records + 1) * coordinates * STEP
    return (sensitivity * (1 + COMPUTED) + rounding) / check_positive(epsilon, "epsilon")


@dataclass(frozen=True)
class Count:
    """The number of records that have a property."""

    neighbours: Neighbours

    @property
    def sensitivity(self) -> float:
        """Largest change between neighbours: m."""
        return single_count(self.neighbours).l1

    def within(self, epsilon: float, probability: float) -> float:
        """Return the distance that the noisy count keeps from the count."""
        return lattice_laplace_within(_scale(self.sensitivity, 1, self.neighbours, epsilon), probability)

    def draw(self, count: float, times: int, epsilon: float, source: NoiseSource) -> np.ndarray:
        """Return noisy counts (times,) with independent noise. Each of them spends ε."""
        return laplace(
            np.full(times, float(count)), sensitivity=self.sensitivity, epsilon=epsilon, source=source,
            ledger=Ledger(), label="count", coordinates=1,
        )  # fmt: skip


@dataclass(frozen=True)
class CountTable:
    """The numbers of records in each of several cells. Each record is in at most one cell."""

    cells: int
    neighbours: Neighbours

    @property
    def sensitivity(self) -> float:
        """Largest change between neighbours in L1: m or 2m."""
        return counts(self.neighbours).l1

    def _scale(self, epsilon: float) -> float:
        changed = min(self.cells, 2 * self.neighbours.records)
        return _scale(self.sensitivity, changed, self.neighbours, epsilon)

    def within(self, epsilon: float, probability: float) -> float:
        """Return the distance that all noisy counts together keep from the counts."""
        return lattice_laplace_within(self._scale(epsilon), probability, numbers=self.cells)

    def each_within(self, epsilon: float, probability: float) -> float:
        """Return the distance that one noisy count, chosen in advance, keeps from its count."""
        return lattice_laplace_within(self._scale(epsilon), probability)

    def draw(self, count: float, times: int, epsilon: float, source: NoiseSource) -> np.ndarray:
        """Return one cell of `times` noisy tables, (times,), with independent noise. Each table spends ε."""
        return laplace(
            np.full(times, float(count)), sensitivity=self.sensitivity, epsilon=epsilon, source=source,
            ledger=Ledger(), label="table of counts", coordinates=1,
        )  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """The mean of a column with public bounds, over `rows` records.

    `rows` is their number if it is public (`Neighbours.size_is_public`). Otherwise it is the public figure for which
    the accuracy is stated, and the number is measured too.
    """

    lower: float
    upper: float
    rows: float
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise UserError(
                f"the lower bound {self.lower:g} must be less than the upper bound {self.upper:g}."
            )
        check_positive(self.rows, "number of records")

    @property
    def half_range(self) -> float:
        """Half the distance of the bounds."""
        return (self.upper - self.lower) / 2

    @property
    def sensitivity(self) -> float:
        """Largest change between neighbours in L1, of S or of (S, N)."""
        if self.neighbours.size_is_public:
            return bounded_sum(self.neighbours).l1
        return bounded_sum_and_number(self.neighbours).l1

    def within(self, epsilon: float, probability: float) -> float:
        """Return the distance that the noisy mean keeps from the mean, wherever the mean lies between the bounds.

        The noise of N moves a mean at a bound most. Infinite if the noise of N may be as large as N.
        """
        numbers = 1 if self.neighbours.size_is_public else 2
        scale = laplace_steps(_scale(self.sensitivity, numbers, self.neighbours, epsilon)) * STEP
        rounding = 2 * STEP  # of each z, and of the noise, on the lattice of a release
        if self.neighbours.size_is_public:
            distance = laplace_within(scale, probability) / self.rows
        else:
            distance = ratio_within(scale, scale, ratio=1.0, records=self.rows, probability=probability)
        return (distance + rounding) * self.half_range

    def draw(self, mean: float, times: int, epsilon: float, source: NoiseSource) -> np.ndarray:
        """Return noisy means (times,) with independent noise, not clipped to the bounds. Each of them spends ε."""
        middle = (self.lower + self.upper) / 2
        total = (mean - middle) / self.half_range * self.rows
        exact = np.array([total] if self.neighbours.size_is_public else [total, self.rows])
        noisy = laplace(
            np.tile(exact, (times, 1)), sensitivity=self.sensitivity, epsilon=epsilon, source=source,
            ledger=Ledger(), label="mean", coordinates=len(exact),
        )  # fmt: skip
        numbers = self.rows if self.neighbours.size_is_public else np.maximum(noisy[:, 1], 1.0)
        means: np.ndarray = middle + self.half_range * noisy[:, 0] / numbers
        return means


NoisyNumber = Count | CountTable | Mean


def smallest_epsilon(number: NoisyNumber, within: float, probability: float) -> float:
    """Return the smallest ε with which the noise stays within a distance, rounded up to three digits.

    The distance at the returned ε is at most `within`.
    """
    check_positive(within, "within")
    check_chance(probability)

    def enough(inverse: float) -> bool:
        return number.within(1 / inverse, probability) <= within

    if not enough(1 / LARGEST_EPSILON):
        raise UserError(
            f"no ε up to {LARGEST_EPSILON:,.0f} keeps the noise within {within:g}; allow a larger distance."
        )
    return round_up(1 / find_largest(enough, start=1.0), lambda epsilon: enough(1 / epsilon))


def round_up(value: float, enough: Callable[[float], bool]) -> float:
    """Return the least number of three digits that is at least `value` and is `enough`."""
    exponent = math.floor(math.log10(value)) - DIGITS + 1
    digits = math.ceil(value / 10.0**exponent - 1e-9)
    while not enough(float(f"{digits}e{exponent}")):
        digits += 1
    return float(f"{digits}e{exponent}")
