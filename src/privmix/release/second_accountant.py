"""The second accountant of `privmix verify`, which inverts the characteristic function of the total privacy loss.

The claim of a release comes from a composition theorem or from the privacy-loss distributions of `dp_accounting`. This
accountant shares no code with either: it derives the losses again and composes them by their transforms (Zhu, Dong,
Wang 2022, "Optimal accounting of differential privacy via characteristic function").

Method. Let P, Q be the pair of distributions that dominates an event, and L = ln(P/Q) under P. Losses add up over
events, so their transforms M(z) = E e^(zL) multiply. With z = c + it, for every c > 0,

    δ(ε) = E (1 - e^(ε-L))₊ = 1/2π ∫ M(z) e^(-zε) / (z (z + 1)) dt,

because the integral of (1 - e^-x) e^(-zx) over x > 0 is 1/(z (z + 1)). At the saddle point c of the integrand no terms
cancel, so a small δ keeps its digits (Alghamdi et al. 2023, "The saddle-point method in differential privacy").

Error. Everything errs to the same side: `delta` is a lower bound of the true δ, up to rounding errors. So no correct
claim is refused. It is close to the true δ: a claim that is too small by 1e-3 of ε is refused.

* The integral becomes a sum over t = nh. By Poisson's summation formula that sum is Σ_k e^(-ckT) δ(ε - kT) with
  T = 2π/h: δ(ε), and terms that are never negative. Those of k ≥ 1 are at most e^(-ckT), since δ ≤ 1. For k ≤ -1,
  δ(x) ≤ M(b) e^(-bx) b^b / (b + 1)^(b + 1) for every b > 0, because (1 - e^-y) e^(-by) is largest at e^-y = b/(b + 1).
  Both bounds are subtracted.
* The sum ends at some t. The rest is at most M(c) e^(-cε - μ²t²/2) / (πt), where μ is that of all Gaussian events
  together, and is subtracted. Where other events slow the decay, δ(ε) is replaced by its mean E δ(ε + U), which is
  smaller: U is a sum of three uniform numbers in 0 ... w, and divides the rest by (wt/2)³.

The losses of the events:

* Gaussian noise, μ = 1/(noise multiplier): L is N(μ²/2, μ²), and M(z) = exp(μ² z (z + 1) / 2).
* A pure event is dominated by binary randomized response (Kairouz, Oh, Viswanath 2015): L = ±ε, with the odds e^ε.
* Laplace noise of scale 1/ε on 0 or 1: L = ε below 0, with probability 1/2; L = -ε above 1, with e^-ε/2; and
  L = ε (1 - 2x) at x between. M(z) = e^(zε) (1 + u + (1 - u)/w) / 2 with w = 2z + 1 and u = e^(-εw).
* Gaussian noise on a sample: (1 - q) N(0, σ²) + q N(1, σ²) against N(0, σ²) if a unit is removed, and the reverse if it
  is added; the larger δ counts. M has no closed form, so the output is cut into bins, and bins with a loss far above
  ε are merged: this is post-processing, so δ does not grow.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.privacy.ledger import Event, Gaussian, Laplace, PureEvent, SampledGaussian

NAME = "inversion of the characteristic function of the privacy loss"
TOLERANCE = 1e-6  # of ε: claims are stored and compared with this precision
PRECISION = 1e-3  # of δ: numerical error at which refinement stops
ROUNDING = 1e-9  # of δ: floating-point errors of all terms
MOST_TERMS = 1 << 18
SHIFT, SHIFTS = 1e-4, 3  # the width w of a uniform number, as a share of ε, and the number of terms of U
BINS = 40  # for each standard deviation of the noise on a sample
MERGED = 3.0  # times ε: outputs with a larger loss are one bin
REACH = 10.0  # standard deviations on each side that are cut into bins; the probability beyond is 1e-23


def epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the least ε of all events together at this δ: a lower bound, close to the true one.

    At δ = 0 it is exact: pure events have the largest loss Σ ε, and Gaussian noise has no bound.
    """
    if delta <= 0:
        return sum(event.epsilon if isinstance(event, PureEvent) else math.inf for event in events)
    found = 0.0
    for loss in _losses(events):
        if loss.delta(found) > delta:
            found = _epsilon(loss, delta)
    return found


def exceeds(events: Sequence[Event], delta: float, claimed: float) -> float | None:
    """Return the least ε of the events if it exceeds the claim, otherwise None."""
    limit = claimed * (1 + TOLERANCE)
    if delta > 0 and all(loss.delta(limit) <= delta for loss in _losses(events)):
        return None
    found = epsilon(events, delta)
    return found if found > limit else None


@dataclass(frozen=True)
class _Pure:
    """Binary randomized response."""

    epsilon: float

    def log_moment(self, c: float) -> float:
        e = self.epsilon
        return c * e - math.log1p(math.exp(-e)) + math.log1p(math.exp(-e * (2 * c + 1)))

    def ratio(self, c: float, step: float, terms: int) -> np.ndarray:
        upper = 1 / (1 + math.exp(-self.epsilon * (2 * c + 1)))
        turn = np.exp(1j * self.epsilon * step * np.arange(terms))
        return upper * turn + (1 - upper) / turn


@dataclass(frozen=True)
class _Laplace:
    """Laplace noise."""

    epsilon: float

    def log_moment(self, c: float) -> float:
        return c * self.epsilon + math.log(self._bracket(c).real / 2)

    def ratio(self, c: float, step: float, terms: int) -> np.ndarray:
        turns = 1j * step * np.arange(terms)
        return np.exp(turns * self.epsilon) * self._bracket(c + turns) / self._bracket(c).real

    def _bracket(self, z: np.ndarray | float) -> np.ndarray:
        """Return 1 + u + (1 - u)/w."""
        w = 2 * z + 1
        return 1 + np.exp(-self.epsilon * w) - np.expm1(-self.epsilon * w) / w


@dataclass(frozen=True, eq=False)
class _Binned:
    """Finitely many losses with their log probabilities."""

    losses: np.ndarray
    log_probabilities: np.ndarray

    def merged_above(self, limit: float) -> "_Binned":
        """Merge all outputs with a loss above the limit: post-processing. Large losses would slow the sums down."""
        high = self.losses > limit
        if high.sum() < 2:
            return self
        mine = np.logaddexp.reduce(self.log_probabilities[high])
        other = np.logaddexp.reduce(self.log_probabilities[high] - self.losses[high])
        return _Binned(
            np.append(self.losses[~high], mine - other), np.append(self.log_probabilities[~high], mine)
        )

    def log_moment(self, c: float) -> float:
        exponents = self.log_probabilities + c * self.losses
        top = exponents.max()
        return float(top + np.log(np.exp(exponents - top).sum()))

    def ratio(self, c: float, step: float, terms: int) -> np.ndarray:
        """At n = side i + j, e^(inhL) factors into a term of i and a term of j, so a matrix product gives all n."""
        side = math.isqrt(max(terms - 1, 0)) + 1
        weights = np.exp(self.log_probabilities + c * self.losses - self.log_moment(c))
        turns = 1j * step * np.outer(np.arange(side), self.losses)
        return ((weights * np.exp(side * turns)) @ np.exp(turns).T).ravel()[:terms]


@dataclass(frozen=True)
class _TotalLoss:
    """The loss of all events: one μ for all Gaussian events, and the other events with their counts."""

    mu: float
    others: dict["_Pure | _Laplace | _Binned", int]

    def log_moment(self, c: float) -> float:
        """Return ln M(c)."""
        gaussian = self.mu**2 * c * (c + 1) / 2
        return gaussian + sum(count * other.log_moment(c) for other, count in self.others.items())

    def ratio(self, c: float, step: float, terms: int) -> np.ndarray:
        """Return M(c + it) / M(c) at t = 0, step, 2 step ..."""
        t = step * np.arange(terms)
        whole = np.exp(self.mu**2 / 2 * (1j * t * (2 * c + 1) - t * t))
        for other, count in self.others.items():
            whole *= other.ratio(c, step, terms) ** count
        return whole

    def log_chernoff(self, b: float, epsilon: float) -> float:
        """Return ln of the bound on δ(ε) by b > 0."""
        return self.log_moment(b) - b * epsilon - b * math.log1p(1 / b) - math.log1p(b)

    def delta(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε), relative error about PRECISION if MOST_TERMS suffice."""
        others = [
            other.merged_above(MERGED * epsilon) if isinstance(other, _Binned) else other
            for other in self.others
        ]
        return _TotalLoss(self.mu, dict(zip(others, self.others.values(), strict=True)))._delta(epsilon)

    def _delta(self, epsilon: float) -> float:
        def exponent(c: float) -> float:
            return self.log_moment(c) - c * epsilon - math.log(c) - math.log1p(c)

        c = _lowest(exponent)
        lowest, apart = exponent(c), 0.01 * c
        if lowest < -600:
            return 0.0
        curvature = (exponent(c + apart) + exponent(c - apart) - 2 * lowest) / apart**2
        about = lowest - math.log(2 * math.pi * curvature) / 2  # ln δ by Laplace's method
        error, period = PRECISION / 2 * math.exp(about), (12 - about) / c
        while (repeated := self._repeated(c, epsilon, period)) > error:
            period *= 1.5
        step, size = 2 * math.pi / period, math.exp(self.log_moment(c) - c * epsilon)
        width, terms = SHIFT * epsilon if self.others else 0.0, 256
        while size * self._rest(step * (terms - 1), width) > error and terms < MOST_TERMS:
            terms *= 2
        z = c + 1j * step * np.arange(terms)
        values = self.ratio(c, step, terms) * np.exp((c - z) * epsilon) / (z * (z + 1))
        values = (values * _shift_transform(z, width)).real
        found = size * step / math.pi * float(values.sum() - values[0] / 2)
        return max(found * (1 - ROUNDING) - size * self._rest(step * (terms - 1), width) - repeated, 0.0)

    def _rest(self, t: float, width: float) -> float:
        """Return the bound on the integral beyond t, relative to M(c) e^(-cε)."""
        shifted = min(1.0, (2 / (t * width)) ** SHIFTS) if width else 1.0
        return shifted * math.exp(-((self.mu * t) ** 2) / 2) / (math.pi * t)

    def _repeated(self, c: float, epsilon: float, period: float) -> float:
        """Return the bound on the terms k ≠ 0 of Poisson's sum."""

        def log_lower(more: float) -> float:
            return (
                self.log_chernoff(c + more, epsilon) - more * period - math.log(-math.expm1(-more * period))
            )

        upper = math.exp(-c * period) / -math.expm1(-c * period)
        return upper + math.exp(min(log_lower(_lowest(log_lower)), 700.0))


def _shift_transform(z: np.ndarray, width: float) -> np.ndarray:
    """Return E e^(-zU) for U the sum of SHIFTS uniform numbers in 0 ... width."""
    return (-np.expm1(-z * width) / (z * width)) ** SHIFTS if width else np.ones(len(z))


def _losses(events: Sequence[Event]) -> list[_TotalLoss]:
    """Return the total loss: one value, or two if removing and adding a unit differ."""
    squares = 0.0
    symmetric: Counter[_Pure | _Laplace | _Binned] = Counter()
    sampled: Counter[tuple[float, float]] = Counter()
    for event in events:
        if isinstance(event, Gaussian) or (isinstance(event, SampledGaussian) and event.rate == 1):
            squares += event.noise_multiplier**-2
        elif isinstance(event, SampledGaussian):
            sampled[event.noise_multiplier, event.rate] += 1
        else:
            symmetric[(_Laplace if isinstance(event, Laplace) else _Pure)(event.epsilon)] += 1
    mu = math.sqrt(squares)
    if not sampled:
        return [_TotalLoss(mu, dict(symmetric))] if events else []
    directions = zip(*(_binned(*parameters) for parameters in sampled), strict=True)
    return [_TotalLoss(mu, symmetric | dict(zip(own, sampled.values(), strict=True))) for own in directions]


def _binned(sigma: float, rate: float) -> tuple[_Binned, _Binned]:
    """Return the binned losses of an event on a sample: for a unit removed, and for a unit added."""
    shift = 1 / sigma
    if shift < 2 * REACH:
        inner = np.linspace(-REACH, REACH + shift, math.ceil(BINS * (2 * REACH + shift)) + 1)
    else:
        around = np.linspace(-REACH, REACH, math.ceil(BINS * 2 * REACH) + 1)
        inner = np.concatenate([around, around + shift])
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    without, inside = _log_masses(edges), _log_masses(edges - shift)
    with_unit = np.logaddexp(math.log1p(-rate) + without, math.log(rate) + inside)
    loss = with_unit - without
    return _Binned(loss, with_unit), _Binned(-loss, without)


def _log_masses(edges: np.ndarray) -> np.ndarray:
    """Return ln of the standard normal probability between edges, at full precision in both tails."""
    from scipy.special import log_ndtr

    low, high = edges[:-1], edges[1:]
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))


def _epsilon(loss: _TotalLoss, delta: float) -> float:
    """Return the ε at which the lower bound of δ(ε) equals δ. It lies between 0 and the ε of the upper bound."""
    from scipy.optimize import brentq

    def conversion(b: float) -> float:
        return (loss.log_chernoff(b, 0.0) - math.log(delta)) / b

    @functools.cache
    def excess(epsilon: float) -> float:
        return math.log(max(loss.delta(epsilon), 1e-300) / delta)

    highest = conversion(_lowest(conversion)) * (1 + TOLERANCE)
    low = next(share * highest for share in (0.9, 0.5, 0.0) if excess(share * highest) > 0)
    return float(brentq(excess, low, highest, xtol=1e-12, rtol=1e-7))


def _lowest(function: Callable[[float], float]) -> float:
    """Return the approximate minimiser of a function on positive numbers that first falls, then rises."""
    from scipy.optimize import minimize_scalar

    return math.exp(minimize_scalar(lambda x: function(math.exp(x)), bounds=(-35, 35), method="bounded").x)
