"""Generalized randomized response (GRR): report the true answer, or another one."""

import math
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import Oracle, respond, smallest_uint


@dataclass(frozen=True)
class GeneralizedResponse(Oracle):
    """k-ary randomized response (GRR): the truth with probability p, otherwise another answer uniformly.

    p = e^ε / (e^ε + k - 1) and q = 1 / (e^ε + k - 1) for each other answer, so p/q = e^ε: ε-LDP. No other symmetric
    channel is more truthful. Kairouz, Oh, Viswanath 2016, eq. (8). k = 2 is Warner's response. The variance of an
    empty answer is (e^ε + k - 2) / (n (e^ε - 1)²) (direct encoding in Wang, Blocki, Li, Jha 2017).
    """

    @classmethod
    def two_coins(cls) -> "GeneralizedResponse":
        """Return the survey with two coins: on heads tell the truth, on tails let the second coin answer. ε = ln 3."""
        return cls(2, math.log(3))

    @classmethod
    def from_gamma(cls, gamma: float) -> "GeneralizedResponse":
        """Return RR_γ: a true yes/no answer with probability 1/2 + γ. ε = ln((1/2 + γ) / (1/2 - γ))."""
        if not 0 < gamma < 0.5:
            raise UserError(f"randomized response: gamma = {gamma!r} must lie between 0 and 1/2.")
        return cls(2, math.log((0.5 + gamma) / (0.5 - gamma)))

    @property
    def other(self) -> float:
        """q: the probability of one given other answer."""
        return math.exp(-self.epsilon) / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    @property
    def truth(self) -> float:
        """p: the probability of the true answer."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    @property
    def report(self) -> np.dtype:
        """Type of one report: an answer, in the smallest unsigned integer."""
        return smallest_uint(self.categories)

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw one answer per record."""
        lie = (self.categories - 1) * self.other
        answers = respond(codes.astype(np.int64), self.categories, lie, source)
        return answers.astype(self.report)

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether each answer is the code."""
        return np.asarray(reports) == codes

    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count how often each answer was given."""
        reports = np.asarray(reports)
        self._refuse(reports, reports.ndim == 1 and reports.dtype.kind in "iu")
        self._refuse(reports, not len(reports) or (reports.min() >= 0 and reports.max() < self.categories))
        return np.bincount(reports, minlength=self.categories)

    def estimate(self, support: np.ndarray, n: float | None = None) -> np.ndarray:
        """Return the unbiased share of each answer: (support/n - q) / (p - q).

        Each report supports exactly one answer, so the default of n is the sum of the support.
        """
        return super().estimate(support, int(np.sum(support)) if n is None else n)

    def standard_error(self, support: np.ndarray, n: float | None = None) -> np.ndarray:
        """Return the estimated standard deviation of each share: the binomial spread of support/n over (p - q)."""
        return super().standard_error(support, int(np.sum(support)) if n is None else n)

    def probability_table(self) -> np.ndarray:
        """Return P(answer | truth): a row for each truth, a column for each answer."""
        table = np.full((self.categories, self.categories), self.other)
        np.fill_diagonal(table, self.truth)
        return table
