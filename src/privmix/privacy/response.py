"""Randomized response: each record answers for itself, and the share of each answer is estimated without bias."""

import math
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource

NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal
CHEBYSHEV_95 = math.sqrt(1 / 0.05)  # P(|X - EX| >= t sd) <= 1/t²


@dataclass(frozen=True)
class GeneralizedResponse:
    """k-ary randomized response (GRR): the truth with probability p, else another answer uniformly.

    p = e^ε / (e^ε + k - 1) and q = 1 / (e^ε + k - 1) for each other answer, so p/q = e^ε: ε-LDP, and no other
    symmetric channel is more truthful. Kairouz, Oh, Viswanath 2016, eq. (8). k = 2 is Warner's response.
    """

    categories: int
    epsilon: float

    def __post_init__(self) -> None:
        if self.categories < 2:
            raise UserError(f"randomized response needs at least 2 answers, got {self.categories}.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise UserError(
                f"randomized response: epsilon = {self.epsilon!r} must be finite and greater than 0."
            )

    @classmethod
    def two_coins(cls) -> "GeneralizedResponse":
        """The survey with two coins: heads, say the truth; tails, let the second coin answer. ε = ln 3."""
        return cls(2, math.log(3))

    @classmethod
    def from_gamma(cls, gamma: float) -> "GeneralizedResponse":
        """RR_γ: a yes/no truth with probability 1/2 + γ. ε = ln((1/2 + γ) / (1/2 - γ))."""
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

    def perturb(self, codes: np.ndarray, *, source: NoiseSource, ledger: Ledger, label: str) -> np.ndarray:
        """Each record's answer; written to the ledger as one ε-LDP channel."""
        if len(codes) and not (codes.min() >= 0 and codes.max() < self.categories):
            raise UserError(f"randomized response {label!r}: codes must lie in 0 ... {self.categories - 1}.")
        ledger.append(RandomizedResponse(label, self.epsilon))
        # Asked this way round, the coin's finite precision rounds towards more lies, whatever epsilon.
        lies = source.uniform(codes.shape) < (self.categories - 1) * self.other
        shift = 1 + source.integers(self.categories - 1, codes.shape)
        return np.where(lies, (codes + shift) % self.categories, codes)

    def estimate(self, counts: np.ndarray) -> np.ndarray:
        """Unbiased share of each answer from the counts of reports: (c/n - q) / (p - q)."""
        return (counts / counts.sum() - self.other) / (self.truth - self.other)

    def standard_error(self, counts: np.ndarray) -> np.ndarray:
        """Estimated standard deviation of each share: the binomial spread of c/n over (p - q)."""
        share = counts / counts.sum()
        return np.sqrt(share * (1 - share) / counts.sum()) / (self.truth - self.other)

    def cell_deviation(self, reports: int) -> float:
        """Standard deviation of the estimated share of an empty answer, from public values alone."""
        return math.sqrt(self.other * (1 - self.other) / reports) / (self.truth - self.other)


def intervals(estimate: float, standard_error: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % intervals for a share, cut to [0, 1]: the normal one and Chebyshev's, which needs no normality."""

    def around(width: float) -> tuple[float, float]:
        low, high = estimate - width * standard_error, estimate + width * standard_error
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high))

    return around(NORMAL_95), around(CHEBYSHEV_95)


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """Norm-sub: the nearest non-negative shares that sum to one (Wang et al. 2020, §4.2). Post-processing."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    kept = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(shares - excess[kept], 0.0)
