"""The frequency oracle: what all oracles share, with estimates, intervals, coins and packed reports.

An oracle is *pure* (Wang, Blocki, Li, Jha 2017): a report supports the person's own answer with probability p, and
any given other answer with a smaller probability q that is the same for all. Estimates need p, q and the number of
reports that support each answer, and nothing else.

Coins. A source's uniform numbers are multiples of 2^-53, so `uniform < t` has the probability t rounded up to the
next multiple. Ask for the event that protects (a lie, a stray bit): it happens at least as often as promised, so
that finite precision adds noise and never removes any.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource, measure
from privmix.privacy.noise_distributions import OracleNoise

# More than the rounding errors of a probability computed from epsilon in a handful of operations.
ROUNDED_UP = 1 + 2.0**-50
SMALLEST = 2.0**-53  # the chance of a uniform number that is 0


def lies(probability: float, shape: tuple[int, ...], source: NoiseSource) -> np.ndarray:
    """Independent events with at least this probability, above it by less than 2^-49 of it or by 2^-53."""
    return source.uniform(shape) < max(probability * ROUNDED_UP, SMALLEST)


def respond(codes: np.ndarray, categories: int, lie: float, source: NoiseSource) -> np.ndarray:
    """Each code, or with the probability `lie` one of the other codes uniformly."""
    lying = lies(lie, codes.shape, source)
    shift = 1 + source.integers(categories - 1, codes.shape)
    answers = codes + np.where(lying, shift, 0)
    return np.where(answers >= categories, answers - categories, answers)


BLOCK = 1 << 18  # numbers held at a time


def smallest_uint(values: int) -> np.dtype:
    """The smallest unsigned integer that holds 0 ... values - 1."""
    return np.min_scalar_type(values - 1)


def blocks(rows: int, width: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of rows such that a block of rows x width has about `size` numbers, and at least one row."""
    step = max(1, size // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def packed_bytes(categories: int) -> int:
    """How many bytes the marks of one report take."""
    return -(-categories // 8)


def pack(marks: np.ndarray) -> np.ndarray:
    """Rows of yes/no marks, eight to a byte; mark v is bit v mod 8 of byte v // 8."""
    return np.packbits(marks, axis=1, bitorder="little")


def has_mark(packed: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Whether each row has the mark beside it."""
    byte = packed[np.arange(len(packed)), np.asarray(marks) // 8]
    return (byte >> (np.asarray(marks) % 8).astype(np.uint8)) & 1 == 1


def count_marks(packed: np.ndarray, categories: int) -> np.ndarray:
    """How many rows have each mark."""
    total = np.zeros(categories, dtype=np.int64)
    for block in blocks(len(packed), categories):
        marks = np.unpackbits(packed[block], axis=1, count=categories, bitorder="little")
        total += marks.sum(axis=0, dtype=np.int64)
    return total


# Between these bounds the 53 bits of a coin keep every ratio below e^ε, and k counters fit in memory.
LEAST_EPSILON = 1e-6
MOST_CATEGORIES = 1 << 24


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
                f"randomized response needs a whole number of at least 2 answers and at most "
                f"{self.most_categories}, got {self.categories!r}."
            )
        object.__setattr__(self, "categories", categories)  # a plain integer, whatever numpy gave
        if not (math.isfinite(self.epsilon) and self.epsilon >= LEAST_EPSILON):
            raise UserError(
                f"randomized response: epsilon = {self.epsilon!r} must be finite, greater than 0 and at "
                f"least {LEAST_EPSILON:g}."
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
        """One report for each of the valid codes."""

    @abstractmethod
    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Whether each report supports the code beside it.

        A report is e^ε times as likely for the answers that it supports as for the others: so each oracle is built.
        """

    @abstractmethod
    def support(self, reports: np.ndarray) -> np.ndarray:
        """How many reports support each answer: post-processing of the reports."""

    def perturb(self, codes: np.ndarray, *, source: NoiseSource, ledger: Ledger, label: str) -> np.ndarray:
        """Each record's report, first axis as the codes'; written to the ledger as one ε-LDP channel."""
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

    def estimate(self, support: np.ndarray, n: int) -> np.ndarray:
        """Unbiased share of each answer among n reports: (support/n - q) / (p - q).

        E[support]/n = share p + (1 - share) q. Wang, Blocki, Li, Jha 2017, Theorem 1.
        """
        return self.debias(self._supported(support, n))

    def debias(self, rate: np.ndarray) -> np.ndarray:
        """Unbiased shares of answers that these parts of the reports support."""
        return (rate - self.other) / (self.truth - self.other)

    def standard_error(self, support: np.ndarray, n: int) -> np.ndarray:
        """Estimated standard deviation of each share: the binomial spread of support/n over (p - q).

        It counts the sampling of people too. The support is an estimate of its own probability, which lies between
        q and p whatever the truth: the spread is never taken to be less than at the calmer of these two ends.
        """
        return self.spread(self._supported(support, n), n)

    def spread(self, rate: np.ndarray, n: int) -> np.ndarray:
        """The same of shares that these parts of n reports support."""
        calmest = min(end * (1 - end) for end in (self.truth, self.other))
        return np.sqrt(np.maximum(rate * (1 - rate), calmest) / n) / (self.truth - self.other)

    def variance(self, n: int, share: float) -> float:
        """Variance of the estimate of an answer that this share of n given people have.

        Their reports are independent, n·share of them supporting the answer with probability p and the rest
        with q: q(1-q) / (n (p-q)²) + share (1-p-q) / (n (p-q)). Wang, Blocki, Li, Jha 2017, Theorem 2.
        """
        p, q = self.truth, self.other
        return (q * (1 - q) / (p - q) + share * (1 - p - q)) / (p - q) / self._people(n)

    def cell_deviation(self, n: int) -> float:
        """Standard deviation of the estimated share of an empty answer, from public values alone."""
        return math.sqrt(self.variance(n, 0.0))

    def _supported(self, support: np.ndarray, n: int) -> np.ndarray:
        if np.shape(support) != (self.categories,):
            raise UserError(
                f"randomized response: the support of {self.categories} answers must have as many numbers, "
                f"got shape {np.shape(support)}."
            )
        return np.asarray(support) / self._people(n)

    def _people(self, n: int) -> int:
        if not n >= 1:
            raise UserError(f"randomized response: n = {n!r} reports; shares need at least one.")
        return n

    def _refuse(self, reports: np.ndarray, valid: bool) -> None:
        """Reports of another oracle, or of another domain, are an error and not an estimate."""
        if not valid:
            raise UserError(
                f"these are not reports of {self}: got {reports.dtype} of shape {reports.shape}, "
                "in part outside its range; read them with the oracle that made them."
            )


NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal
CHEBYSHEV_95 = math.sqrt(1 / 0.05)  # P(|X - EX| >= t sd) <= 1/t²


def intervals(estimate: float, standard_error: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % intervals for a share, cut to [0, 1]: the normal one, and Chebyshev's, which needs no
    normality. Both take the standard error as known; it is itself estimated.
    """

    def around(width: float) -> tuple[float, float]:
        low, high = estimate - width * standard_error, estimate + width * standard_error
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high))

    return around(NORMAL_95), around(CHEBYSHEV_95)


def exact_interval(oracle: Oracle, support: float, n: float) -> tuple[float, float]:
    """A 95 % interval for a share that assumes nothing of its distribution, cut to [0, 1].

    Among n people drawn at random the support is binomial, so Clopper and Pearson's interval (1934) holds its
    probability, and (probability - q) / (p - q) is the share. For n given people the support is a sum of unequal coins
    of that mean, whose tails are no heavier from one report off it on (Hoeffding 1956): the interval covers their share
    at least as often. `support` and `n` need not be whole, where several reports of a person count as one.
    """
    from scipy.special import betaincinv

    low = betaincinv(support, n - support + 1, 0.025) if support > 0 else 0.0
    high = betaincinv(support + 1, n - support, 0.975) if support < n else 1.0
    ends = ((end - oracle.other) / (oracle.truth - oracle.other) for end in (low, high))
    return tuple(float(min(1.0, max(0.0, end))) for end in ends)
