"""Upper limits of vectors of independent noise: of their weighted length, and of their sum.

A limit is a quantile of a law that has no closed form. It is computed from many draws of the law with a public seed, so
every machine computes the same limit, and as an order statistic that lies above the quantile except with probability
DOUBT over seeds. No record is involved, and no draw here protects one.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

LEAST_DRAWS = 200_000
MOST_NUMBERS = 40_000_000  # of all draws of a law
DOUBT = 1e-6  # probability that a limit lies below its quantile
MARGIN = 4 * math.log(
    1 / DOUBT
)  # expected draws above a quantile, so that an order statistic above it is certain
SEED = 20_180_318

Law = Literal["laplace", "gaussian"]


@dataclass(frozen=True)
class VectorNoise:
    """Independent noise of mean 0 in each entry of a vector."""

    law: Law
    deviation: float  # standard deviation of an entry

    def largest_length(self, parts: np.ndarray, probability: float) -> float:
        """Return t with P(‖e‖_parts ≤ t) ≥ probability, where ‖e‖²_parts = Σ e_k²/r_k - (Σ e_k)² for parts r of one.

        It is the length of e - r Σe in the norm Σ v_k²/r_k: expand the square and use Σ r_k = 1. Infinite if the law
        would need too many draws.
        """
        draws = _needed_draws(probability)
        if draws * len(parts) > MOST_NUMBERS:
            return math.inf
        return self.deviation * _above(_lengths(self.law, tuple(parts.tolist()), draws), probability)

    def largest_sum(self, entries: int, probability: float) -> float:
        """Return t with P(|Σ e_k| ≤ t) ≥ probability, for a vector of this many entries; infinite as above."""
        draws = _needed_draws(probability)
        if 2 * draws > MOST_NUMBERS:
            return math.inf
        return self.deviation * _above(_sums(self.law, entries, draws), probability)


def _needed_draws(probability: float) -> int:
    return max(LEAST_DRAWS, math.ceil(MARGIN / (1 - probability)))


@lru_cache(maxsize=8)
def _lengths(law: Law, parts: tuple[float, ...], draws: int) -> np.ndarray:
    shape = (draws, len(parts))
    drawn = (
        _generator().standard_normal(shape)
        if law == "gaussian"
        else _generator().laplace(0.0, math.sqrt(0.5), shape)
    )
    squares = np.square(drawn) @ (1 / np.array(parts)) - np.square(drawn.sum(axis=1))
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


@lru_cache(maxsize=8)
def _sums(law: Law, entries: int, draws: int) -> np.ndarray:
    """Draw sums. A Laplace number is a difference of exponential ones, so their sum is one of gamma numbers."""
    if law == "gaussian":
        return np.asarray(math.sqrt(entries) * np.abs(_generator().standard_normal(draws)))
    up, down = _generator().standard_gamma(entries, (2, draws))
    return np.asarray(math.sqrt(0.5) * np.abs(up - down))


def _generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(SEED))


def _above(values: np.ndarray, probability: float) -> float:
    """Return an order statistic that lies above the quantile, except with probability DOUBT.

    The number of draws above the quantile is binomial with mean m = n (1 - probability). It is below m - √(2 m ln(1 /
    DOUBT)) with probability at most DOUBT (Chernoff's bound of the lower tail), so that many largest draws lie above.
    m ≥ MARGIN makes that number positive.
    """
    mean = len(values) * (1 - probability)
    above = math.floor(mean - math.sqrt(2 * mean * math.log(1 / DOUBT)))
    return float(np.partition(values, -above)[-above])
