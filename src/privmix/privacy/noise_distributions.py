"""Noise distributions: the distribution of each measurement given its statistic, for audits to compare with the draws.

A distribution has four methods. Their results depend on exact statistics, so only audits call them:

* `log_ratio`: ln P(value | mine) - ln P(value | other), the privacy loss of this measurement between two datasets
  with these statistics;
* `distance`: the largest loss of the pair, in the unit of the ledger's event: μ for Gaussian noise, otherwise ε;
* `scores`: numbers that are independent and standard normal if the value was drawn from the distribution, by the
  probability integral transform (Rosenblatt 1952); discrete distributions are made continuous with a uniform number
  that the audit draws;
* `noise`: the added noise divided by its scale, in the order of the draws, or whether each report is true.
  No two measurements may share it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

SMALLEST = 5e-324
WINDOW = 45.0  # scales about the largest score in which a noisy maximum lies


class NoiseDistribution(Protocol):
    """The methods that an audit needs of a measurement's distribution."""

    def log_ratio(self, released: Any, mine: Any, other: Any) -> float: ...
    def distance(self, released: Any, mine: Any, other: Any) -> float: ...
    def scores(self, released: Any, statistic: Any, rng: np.random.Generator) -> np.ndarray: ...
    def noise(self, released: Any, statistic: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class GaussianNoise:
    """The statistic plus independent N(0, scale²) numbers."""

    scale: float

    def log_ratio(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return (‖r - s'‖² - ‖r - s‖²) / 2σ², computed without cancellation."""
        step = np.ravel(mine - other) / self.scale
        return float(step @ np.ravel((released - mine) / self.scale + (mine - other) / (2 * self.scale)))

    def distance(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return μ = ‖s - s'‖₂ / σ (Dong, Roth, Su 2022, Theorem 1)."""
        return float(np.linalg.norm(np.ravel(mine - other))) / self.scale

    def scores(self, released: np.ndarray, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the noise divided by its scale."""
        return self.noise(released, statistic)

    def noise(self, released: np.ndarray, statistic: np.ndarray) -> np.ndarray:
        """Return the noise divided by its scale."""
        return np.ravel(released - statistic) / self.scale


@dataclass(frozen=True)
class SampledGaussianNoise:
    """The sum over a secret sample of the units plus independent N(0, scale²) numbers.

    `mine` is the sum with a unit and `other` the sum without it, over the same sample of the other units. The unit is
    in the sample with probability `rate`.
    """

    scale: float
    rate: float

    def log_ratio(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return ln((1 - q) + q N(r; s, σ²) / N(r; s', σ²)): `mine` is a mixture over whether the unit is sampled."""
        inside = GaussianNoise(self.scale).log_ratio(released, mine, other)
        return float(np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + inside))

    def distance(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return μ of the difference that the unit makes if it is in the sample."""
        return GaussianNoise(self.scale).distance(released, mine, other)

    def scores(self, released: np.ndarray, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the noise divided by its scale."""
        return GaussianNoise(self.scale).scores(released, statistic, rng)

    def noise(self, released: np.ndarray, statistic: np.ndarray) -> np.ndarray:
        """Return the noise divided by its scale."""
        return GaussianNoise(self.scale).noise(released, statistic)


@dataclass(frozen=True)
class LaplaceNoise:
    """The statistic plus independent Laplace(scale) numbers."""

    scale: float

    def log_ratio(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return (‖r - s'‖₁ - ‖r - s‖₁) / b."""
        return float((np.abs(released - other) - np.abs(released - mine)).sum()) / self.scale

    def distance(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return ε = ‖s - s'‖₁ / b (Dwork, McSherry, Nissim, Smith 2006, Theorem 1)."""
        return float(np.abs(mine - other).sum()) / self.scale

    def scores(self, released: np.ndarray, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the noise divided by its scale, as normal numbers of the same rank."""
        return laplace_to_normal(self.noise(released, statistic))

    def noise(self, released: np.ndarray, statistic: np.ndarray) -> np.ndarray:
        """Return the noise divided by its scale."""
        return np.ravel(released - statistic) / self.scale


@dataclass(frozen=True)
class PlanarLaplaceNoise:
    """Each row (n, 2) plus an independent vector e of density ∝ exp(-‖e‖ / scale)."""

    scale: float

    def log_ratio(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return Σ (‖r - s'‖ - ‖r - s‖) / scale over rows."""
        farther = np.linalg.norm(released - other, axis=1) - np.linalg.norm(released - mine, axis=1)
        return float(farther.sum()) / self.scale

    def distance(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return ε = Σ ‖s - s'‖ / scale, by the triangle inequality."""
        return float(np.linalg.norm(mine - other, axis=1).sum()) / self.scale

    def scores(self, released: np.ndarray, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return length ρ, with survival (1 + ρ) exp(-ρ), and direction of each row's noise, as normal numbers."""
        step = (released - statistic) / self.scale
        length = np.linalg.norm(step, axis=1)
        turn = np.arctan2(step[:, 1], step[:, 0]) / (2 * np.pi) + 0.5
        return np.concatenate(
            [
                -_normal_quantile(np.log1p(length) - length),
                _normal_quantile(np.log(np.maximum(turn, SMALLEST))),
            ]
        )

    def noise(self, released: np.ndarray, statistic: np.ndarray) -> np.ndarray:
        """Return the noise divided by its scale."""
        return np.ravel(released - statistic) / self.scale


@dataclass(frozen=True)
class OracleNoise:
    """Each code's report through a pure frequency oracle.

    Up to a factor that depends on the report alone, the likelihood of a report is e^ε for the answers that it supports
    and 1 for the others. This holds for every oracle in `privacy.oracles`.
    """

    epsilon: float
    truth: float
    supports: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(compare=False)

    def log_ratio(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return ε for each report that supports only `mine`, minus ε for each report that supports only `other`."""
        more = np.count_nonzero(self.supports(released, mine)) - np.count_nonzero(
            self.supports(released, other)
        )
        return self.epsilon * more

    def distance(self, released: np.ndarray, mine: np.ndarray, other: np.ndarray) -> float:
        """Return ε times the number of records whose answers differ."""
        return self.epsilon * np.count_nonzero(mine != other)

    def scores(self, released: np.ndarray, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the number of reports that support the truth, which is binomial, as one normal number."""
        told = self.noise(released, statistic)
        return np.array([binomial_to_normal(np.count_nonzero(told), len(told), self.truth, rng)][: len(told)])

    def noise(self, released: np.ndarray, statistic: np.ndarray) -> np.ndarray:
        """Return whether each report supports the truth."""
        return self.supports(released, statistic)


@dataclass(frozen=True)
class ExponentialMechanism:
    """One option, drawn with probabilities in proportion to exp(statistic)."""

    def log_ratio(self, released: int, mine: np.ndarray, other: np.ndarray) -> float:
        """Return the difference of the option's log probabilities."""
        return float(_log_probabilities(mine)[released] - _log_probabilities(other)[released])

    def distance(self, released: int, mine: np.ndarray, other: np.ndarray) -> float:
        """Return the largest difference of any option's log probabilities.

        It is infinite if an option is possible in only one of the two worlds.
        """
        first, second = _log_probabilities(mine), _log_probabilities(other)
        possible = np.isfinite(first) | np.isfinite(second)
        return float(np.abs(first[possible] - second[possible]).max())

    def scores(self, released: int, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the option's position among all options, as one normal number."""
        chances = np.exp(_log_probabilities(statistic))
        return np.array([_randomized_quantile(chances[:released].sum(), chances[released + 1 :].sum(), rng)])

    def noise(self, released: int, statistic: np.ndarray) -> np.ndarray:
        """Return no noise: the selected option does not determine it."""
        return np.empty(0)


@dataclass(frozen=True)
class LaplaceMaximum:
    """The option with the largest score after independent Laplace(scale) noise on each."""

    scale: float

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return P(i) = ∫ f(x - s_i) Π_{j≠i} F(x - s_j) dx, by Gauss's rule between the scores, where f has its kinks.

        Below the largest score by 45 scales lies less than 1e-19 of the mass, and above it too.
        """
        places, which, times = np.unique(scores / self.scale, return_inverse=True, return_counts=True)
        top = places[-1]
        kept = (
            places > top - 2 * WINDOW
        )  # options further below never win, and never lose another option its place
        ends = np.unique([*np.linspace(top - WINDOW, top + WINDOW, 181), *places[places > top - WINDOW]])
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = np.diff(ends)[:, None] / 2
        x = (ends[:-1, None] + half * (1 + nodes)).ravel()
        below = np.zeros(len(x))
        for place, number in zip(places[kept], times[kept], strict=True):
            below += number * _laplace_log_cdf(x - place)
        each = np.zeros(len(places))
        for option in np.flatnonzero(kept):
            apart = x - places[option]
            density = np.exp(-np.abs(apart) + below - _laplace_log_cdf(apart)) / 2
            each[option] = (half * weights).ravel() @ density
        found = each[which]
        return np.asarray(found / found.sum())

    def log_ratio(self, released: int, mine: np.ndarray, other: np.ndarray) -> float:
        """Return the difference of the option's log probabilities."""
        first, second = (self.probabilities(scores)[released] for scores in (mine, other))
        return float(np.log(max(first, SMALLEST)) - np.log(max(second, SMALLEST)))

    def distance(self, released: int, mine: np.ndarray, other: np.ndarray) -> float:
        """Return (max d - min d) / scale for the differences d of the scores: see `privacy.selection`."""
        return float(np.ptp(mine - other)) / self.scale

    def scores(self, released: int, statistic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the option's position among all options, as one normal number."""
        chances = self.probabilities(statistic)
        return np.array([_randomized_quantile(chances[:released].sum(), chances[released + 1 :].sum(), rng)])

    def noise(self, released: int, statistic: np.ndarray) -> np.ndarray:
        """Return no noise: the selected option does not determine it."""
        return np.empty(0)


def _laplace_log_cdf(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.minimum(x, 0) - np.log(2), np.log1p(-np.exp(-np.maximum(x, 0)) / 2))


@dataclass(frozen=True)
class PrivTreeDecisions:
    """Decisions: which of the hidden scores are above 0 after Laplace(scale) noise.

    A statistic is a function that takes a measured shape and returns the scores of its nodes, level by level. `hidden`
    contains the noise that was drawn for them, divided by its scale.
    """

    scale: float
    hidden: list[np.ndarray] = field(default_factory=list, compare=False)

    def log_ratio(self, released: Any, mine: Callable[[Any], list], other: Callable[[Any], list]) -> float:
        """Return the sum over decisions of the difference of their log probabilities."""
        return float(self._log_probability(released, mine) - self._log_probability(released, other))

    def distance(self, released: Any, mine: Callable[[Any], list], other: Callable[[Any], list]) -> float:
        """Return the loss of these decisions: the largest loss of a pair depends on which nodes are split."""
        return abs(self.log_ratio(released, mine, other))

    def scores(self, released: Any, statistic: Any, rng: np.random.Generator) -> np.ndarray:
        """Return the hidden noise as normal numbers."""
        return laplace_to_normal(self.noise(released, statistic))

    def noise(self, released: Any, statistic: Any) -> np.ndarray:
        """Return the hidden noise, level by level."""
        return np.concatenate([np.empty(0), *self.hidden])

    def _log_probability(self, released: Any, statistic: Callable[[Any], list]) -> float:
        total = 0.0
        for split, scores in zip(released.splits, statistic(released), strict=False):
            upwards = np.where(split, scores, -np.asarray(scores)) / self.scale
            # ln P(x + Laplace(1) > 0): x - ln 2 below 0, and ln(1 - exp(-x) / 2) above.
            total += np.where(
                upwards < 0, upwards - np.log(2), np.log1p(-np.exp(-np.maximum(upwards, 0)) / 2)
            ).sum()
        return float(total)


def laplace_to_normal(values: np.ndarray) -> np.ndarray:
    """Convert Laplace(1) numbers to standard normal numbers of the same rank, with full precision in the tails."""
    return np.copysign(_normal_quantile(-np.abs(values) - np.log(2)), values)


def binomial_to_normal(
    number: int | np.integer, trials: int, chance: float, rng: np.random.Generator
) -> float:
    """Convert a number of successes to a standard normal number of the same rank."""
    from scipy.special import bdtr, bdtrc

    below = bdtr(number - 1, trials, chance) if number else 0.0
    above = bdtrc(number, trials, chance) if number < trials else 0.0
    return _randomized_quantile(below, above, rng)


def _normal_quantile(log_probability: np.ndarray) -> np.ndarray:
    """Return the quantile of the standard normal distribution at this log probability."""
    from scipy.special import ndtri_exp

    return ndtri_exp(np.minimum(log_probability, 0.0))


def _log_probabilities(exponents: np.ndarray) -> np.ndarray:
    top = exponents.max()
    return exponents - (top + np.log(np.exp(exponents - top).sum()))


def _randomized_quantile(below: float, above: float, rng: np.random.Generator) -> float:
    """Draw a normal number for an outcome with this much probability below and above it, uniform in between."""
    part, inside = rng.random(), max(1.0 - below - above, 0.0)
    if below <= above:
        return float(_normal_quantile(np.log(max(below + part * inside, SMALLEST))))
    return -float(_normal_quantile(np.log(max(above + part * inside, SMALLEST))))
