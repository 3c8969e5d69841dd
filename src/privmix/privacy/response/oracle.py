"""What all frequency oracles share: a report supports some answers, and the shares follow from the support.

An oracle is *pure* (Wang, Blocki, Li, Jha 2017): a report supports the person's own answer with a
probability p, and any given other answer with a smaller probability q that is the same for all. All estimates
need nothing else of an oracle than p, q and how many reports support each answer.
"""

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privmix.errors import UserError
from privmix.privacy.laws import Channel
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource
from privmix.privacy.release import release

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
        return release(
            RandomizedResponse(label, self.epsilon),
            Channel(self.epsilon, self.truth, self.supports),
            codes,
            lambda: self._randomise(codes, source),
            source=source,
            ledger=ledger,
        )

    def estimate(self, support: np.ndarray, n: int) -> np.ndarray:
        """Unbiased share of each answer among n reports: (support/n - q) / (p - q).

        E[support]/n = share p + (1 - share) q. Wang, Blocki, Li, Jha 2017, Theorem 1.
        """
        return self.debiased(self._supported(support, n))

    def debiased(self, rate: np.ndarray) -> np.ndarray:
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
