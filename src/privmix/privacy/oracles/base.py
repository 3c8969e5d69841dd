"""The base class of frequency oracles: estimates, intervals, coins and packed reports.

An oracle is *pure* (Wang, Blocki, Li, Jha 2017): a report supports the person's own answer with probability p, and
any given other answer with a smaller probability q that is the same for all. Estimates need only p, q and the number
of reports that support each answer.

Coins. A source's uniform numbers are multiples of 2^-53, so `uniform < t` has the probability t rounded up to the
next multiple. Always draw the event that protects (a lie, a stray bit). It then happens at least as often as promised:
finite precision adds noise and never removes any.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource, measure
from privmix.privacy.noise_distributions import OracleNoise

# More than the rounding errors of a probability computed from epsilon in a few operations.
ROUNDED_UP = 1 + 2.0**-50
SMALLEST = 2.0**-53  # the chance of a uniform number that is 0


def lies(probability: float, shape: tuple[int, ...], source: NoiseSource) -> np.ndarray:
    """Draw independent events with at least this probability, above it by less than 2^-49 of it or by 2^-53."""
    return source.uniform(shape) < max(probability * ROUNDED_UP, SMALLEST)


def respond(codes: np.ndarray, categories: int, lie: float, source: NoiseSource) -> np.ndarray:
    """Return each code, or with probability `lie` one of the other codes uniformly."""
    lying = lies(lie, codes.shape, source)
    shift = 1 + source.integers(categories - 1, codes.shape)
    answers = codes + np.where(lying, shift, 0)
    return np.where(answers >= categories, answers - categories, answers)


BLOCK = 1 << 18  # numbers held at a time


def smallest_uint(values: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds 0 ... values - 1."""
    return np.min_scalar_type(values - 1)


def blocks(rows: int, width: int, size: int = BLOCK) -> Iterator[slice]:
    """Return slices of rows: a block of rows x width has about `size` numbers, and at least one row."""
    step = max(1, size // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def packed_bytes(categories: int) -> int:
    """Return the number of bytes of the marks of one report."""
    return -(-categories // 8)


def pack(marks: np.ndarray) -> np.ndarray:
    """Pack rows of yes/no marks, eight to a byte; mark v is bit v mod 8 of byte v // 8."""
    return np.packbits(marks, axis=1, bitorder="little")


def has_mark(packed: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return whether each row of `packed` has its mark in `marks`."""
    byte = packed[np.arange(len(packed)), np.asarray(marks) // 8]
    return (byte >> (np.asarray(marks) % 8).astype(np.uint8)) & 1 == 1


def count_marks(packed: np.ndarray, categories: int) -> np.ndarray:
    """Count the rows that have each mark."""
    total = np.zeros(categories, dtype=np.int64)
    for block in blocks(len(packed), categories):
        marks = np.unpackbits(packed[block], axis=1, count=categories, bitorder="little")
        total += marks.sum(axis=0, dtype=np.int64)
    return total


# Within these bounds the 53 bits of a coin keep every ratio below e^ε, and k counters fit in memory.
LEAST_EPSILON = 1e-6
MOST_CATEGORIES = 1 << 24


Share = TypeVar("Share", float, np.ndarray)


@dataclass(frozen=True)
class Oracle(ABC):
    """An ε-LDP channel over answers 0 ... categories - 1."""

    most_categories: ClassVar[int] = MOST_CATEGORIES

    categories: int
    epsilon: float

    def __post_init__(self) -> None:
        try:
            categories = operator.index(self.categories)
        except TypeError:
            categories = 0
        if not 2 <= categories <= self.most_categories:
            raise UserError(
                f"randomized response: the number of answers must be a whole number in 2 ... "
                f"{self.most_categories}, got {self.categories!r}."
            )
        object.__setattr__(self, "categories", categories)  # a plain integer, also from numpy
        if not (math.isfinite(self.epsilon) and self.epsilon >= LEAST_EPSILON):
            raise UserError(
                f"randomized response: epsilon = {self.epsilon!r} must be finite and at least "
                f"{LEAST_EPSILON:g}."
            )

    @property
    @abstractmethod
    def truth(self) -> float:
        """p: the probability that a report supports the person's own answer."""

    @property
    @abstractmethod
    def other(self) -> float:
        """q: the probability that a report supports one given other answer."""

    @property
    @abstractmethod
    def report(self) -> np.dtype:
        """The type of one report: a number, a row of numbers, or a record with named parts."""

    @abstractmethod
    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw one report for each of the valid codes."""

    @abstractmethod
    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether each report supports the code with the same index.

        In every oracle a report is e^ε times as likely for the answers that it supports as for the others.
        """

    @abstractmethod
    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count the reports that support each answer: post-processing of the reports."""

    def perturb(self, codes: np.ndarray, *, source: NoiseSource, ledger: Ledger, label: str) -> np.ndarray:
        """Draw the report of each record, in the order of the codes, and write one ε-LDP event to the ledger."""
        codes = np.asarray(codes)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise UserError(
                f"randomized response {label!r}: codes must be a vector of whole numbers, "
                f"got {codes.dtype} of shape {codes.shape}."
            )
        if len(codes) and not (codes.min() >= 0 and codes.max() < self.categories):
            raise UserError(
                f"randomized response {label!r}: codes must lie in 0 ... {self.categories - 1}, "
                "but some do not; clip or recode them."
            )
        return measure(
            RandomizedResponse(label, self.epsilon),
            OracleNoise(self.epsilon, self.truth, self.supports),
            codes,
            lambda: self._randomise(codes, source),
            source=source,
            ledger=ledger,
        )

    def estimate(self, support: np.ndarray, n: float) -> np.ndarray:
        """Return the unbiased share of each answer among n reports: (support/n - q) / (p - q).

        E[support]/n = share p + (1 - share) q. Wang, Blocki, Li, Jha 2017, Theorem 1.
        """
        return self.debias(self._supported(support, n))

    def debias(self, rate: np.ndarray) -> np.ndarray:
        """Return the unbiased shares of answers, given the fraction of reports that support each."""
        return (rate - self.other) / (self.truth - self.other)

    def standard_error(self, support: np.ndarray, n: float) -> np.ndarray:
        """Return the estimated standard deviation of each share: the binomial spread of support/n over (p - q).

        It includes the sampling of people. The fraction of support estimates its own probability, which lies between q
        and p for every truth. The spread is therefore never taken to be less than the smaller spread of these two ends.
        """
        return self.spread(self._supported(support, n), n)

    def spread(self, rate: np.ndarray, n: float) -> np.ndarray:
        """Return the same as `standard_error`, given the fraction of n reports that support each answer."""
        calmest = min(end * (1 - end) for end in (self.truth, self.other))
        return np.sqrt(np.maximum(rate * (1 - rate), calmest) / n) / (self.truth - self.other)

    def variance(self, n: float, share: Share) -> Share:
        """Return the variance of the estimate of an answer that this share of n given people has.

        Their reports are independent: n·share of them support the answer with probability p, the others with
        probability q. The variance is q(1-q) / (n (p-q)²) + share (1-p-q) / (n (p-q)). Wang, Blocki, Li, Jha 2017,
        Theorem 2.
        """
        p, q = self.truth, self.other
        return (q * (1 - q) / (p - q) + share * (1 - p - q)) / (p - q) / self._people(n)

    def cell_deviation(self, n: float) -> float:
        """Return the standard deviation of the estimated share of an empty answer, from public values alone."""
        return math.sqrt(self.variance(n, 0.0))

    def _supported(self, support: np.ndarray, n: float) -> np.ndarray:
        if np.shape(support) != (self.categories,):
            raise UserError(
                f"randomized response: the support must have shape ({self.categories},), one number for each answer, "
                f"got shape {np.shape(support)}."
            )
        return np.asarray(support) / self._people(n)

    def _people(self, n: float) -> float:
        if not n >= 1:
            raise UserError(f"randomized response: n = {n!r} reports; give at least one report.")
        return n

    def _refuse(self, reports: np.ndarray, valid: bool) -> None:
        """Raise an error for reports of another oracle or of another domain, instead of a wrong estimate."""
        if not valid:
            raise UserError(
                f"these are not reports of {self}: got {reports.dtype} of shape {reports.shape}, "
                "or values out of range; read them with the oracle that made them."
            )


NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal
CHEBYSHEV_95 = math.sqrt(1 / 0.05)  # P(|X - EX| >= t sd) <= 1/t²


def intervals(estimate: float, standard_error: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return two 95 % intervals for a share, clipped to [0, 1]: the normal one, and Chebyshev's, for any distribution.

    Both treat the standard error as known, although it is estimated.
    """

    def around(width: float) -> tuple[float, float]:
        low, high = estimate - width * standard_error, estimate + width * standard_error
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high))

    return around(NORMAL_95), around(CHEBYSHEV_95)


def exact_interval(oracle: Oracle, support: float, n: float) -> tuple[float, float]:
    """Return a 95 % interval for a share that assumes nothing about its distribution, clipped to [0, 1].

    Among n people drawn at random the support is binomial. Clopper and Pearson's interval (1934) therefore covers its
    probability, and (probability - q) / (p - q) is the share. For n given people the support is a sum of unequal coins
    with that mean. Its tails are no heavier from one report off the mean on (Hoeffding 1956), so the interval covers
    their share at least as often. `support` and `n` need not be whole, if several reports of a person count as one.
    """
    from scipy.special import betaincinv

    low = betaincinv(support, n - support + 1, 0.025) if support > 0 else 0.0
    high = betaincinv(support + 1, n - support, 0.975) if support < n else 1.0
    ends = ((end - oracle.other) / (oracle.truth - oracle.other) for end in (low, high))
    lowest, highest = (float(min(1.0, max(0.0, end))) for end in ends)
    return lowest, highest
