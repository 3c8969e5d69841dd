"""From the ledger to (epsilon, delta), under the composition theorem of one's choice.

`linear` and `advanced` treat each release as (epsilon_i, delta_i); `zcdp` and `rdp` add up divergences;
`exact` is tight: Gaussian releases compose to one Gaussian, and a mixture of kinds goes through
privacy-loss distributions.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Event, Gaussian, Laplace, RandomizedResponse

Composition = Literal["linear", "advanced", "zcdp", "rdp", "exact"]
ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """What may be spent in all."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise UserError(f"budget: epsilon = {self.epsilon!r} must be greater than 0.")
        if not 0 <= self.delta < 1:
            raise UserError(f"budget: delta = {self.delta!r} must be at least 0 and less than 1.")


@dataclass(frozen=True)
class Claim:
    """What a ledger adds up to."""

    epsilon: float
    delta: float


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of a mu-GDP release at epsilon, exact for every epsilon >= 0 (Balle and Wang 2018, Theorem 8)."""
    upper = _normal_cdf(-epsilon / mu + mu / 2)
    tail = _normal_cdf(-epsilon / mu - mu / 2)
    return upper - (math.exp(epsilon + math.log(tail)) if tail > 0 else 0.0)


def _bisect(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Largest x in [low, high] with `holds`, which is true below and false above; from the true side."""
    while high - low > tolerance * abs(low):
        middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@functools.cache
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release has at most this delta."""
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = mu * mu + mu * math.sqrt(2 * math.log(1 / delta)) + 1  # above the zCDP bound
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high


@functools.cache
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian release is (epsilon, delta)-DP: the least noise is 1/mu sensitivities."""
    if not 0 < delta < 1:
        raise UserError(
            f"Gaussian noise cannot give delta = {delta!r}; set `delta` between 0 and 1, "
            "for instance 1e-6, or choose a pure mechanism."
        )
    return largest(lambda mu: gaussian_delta(epsilon, mu) <= delta)


def largest(holds: Callable[[float], bool], start: float = 1.0, tolerance: float = 1e-12) -> float:
    """Largest x > 0 with `holds`, true for small x and false for large: bracketed, then bisected in log space."""
    low = high = start
    while not holds(low):
        low /= 2
        if low < 1e-300:
            raise UserError("no amount of noise satisfies the budget; raise epsilon or delta.")
    while holds(high):
        high *= 2
        if high > 1e300:
            return math.inf
    return _bisect(holds, low, high, tolerance)


def _pure_epsilons(events: Sequence[Event]) -> list[float]:
    return [event.epsilon for event in events if not isinstance(event, Gaussian)]


def _gaussian_mus(events: Sequence[Event]) -> list[float]:
    return [1 / event.multiplier for event in events if isinstance(event, Gaussian)]


def linear(events: Sequence[Event], delta: float) -> float:
    """Basic composition: epsilons add up, and Gaussian releases share delta equally."""
    mus = _gaussian_mus(events)
    return sum(_pure_epsilons(events)) + sum(gaussian_epsilon(mu, delta / len(mus)) for mu in mus)


def advanced(events: Sequence[Event], delta: float) -> float:
    """Advanced composition of unequal releases (Kairouz, Oh, Viswanath 2015, Theorem 3.5).

    Half of delta is the theorem's slack, the other half is shared by the Gaussian releases; without any
    Gaussian release the slack is all of it. The theorem's own minimum includes basic composition.
    """
    mus = _gaussian_mus(events)
    slack = delta / 2 if mus else delta
    epsilons = _pure_epsilons(events) + [gaussian_epsilon(mu, delta / 2 / len(mus)) for mu in mus]
    drift = sum(e * math.tanh(e / 2) for e in epsilons)
    spread = math.sqrt(2 * math.log(1 / slack) * sum(e * e for e in epsilons)) if slack > 0 else math.inf
    return min(sum(epsilons), drift + spread)


def zcdp(events: Sequence[Event], delta: float) -> float:
    """rho adds up; epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Propositions 1.3 and 1.4)."""
    rho = sum(e * e for e in _pure_epsilons(events)) / 2 + sum(mu * mu for mu in _gaussian_mus(events)) / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)


def _renyi(event: Event) -> np.ndarray:
    """Rényi divergence of a release at each of ORDERS (Mironov 2017, Table II and Proposition 5)."""
    order = ORDERS
    if isinstance(event, Gaussian):
        return order / (2 * event.multiplier**2)
    e = event.epsilon
    if isinstance(event, Laplace):
        stay = np.log(order / (2 * order - 1)) + (order - 1) * e
        flip = np.log((order - 1) / (2 * order - 1)) - order * e
    else:
        # The extreme pair of an epsilon-DP channel is binary randomized response.
        log_p, log_q = -math.log1p(math.exp(-e)), -e - math.log1p(math.exp(-e))
        stay = order * log_p + (1 - order) * log_q
        flip = order * log_q + (1 - order) * log_p
    return np.logaddexp(stay, flip) / (order - 1)


def rdp(events: Sequence[Event], delta: float) -> float:
    """Rényi divergences add up; converted by Canonne, Kamath, Steinke 2020, Proposition 12."""
    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1
    total = sum(count * _renyi(event) for event, count in counts.items())
    epsilons = total + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(epsilons)))


def exact(events: Sequence[Event], delta: float) -> float:
    """Tight composition: mu = sqrt(sum mu²) for Gaussians alone (Dong, Roth, Su 2022, Corollary 2), else PLD."""
    if all(isinstance(event, Gaussian) for event in events):
        return gaussian_epsilon(math.sqrt(sum(mu * mu for mu in _gaussian_mus(events))), delta)
    if len(events) == 1:
        return events[0].epsilon
    return privacy_loss(events, delta)


def privacy_loss(events: Sequence[Event], delta: float) -> float:
    """epsilon by `dp_accounting`'s privacy-loss distributions: an upper bound, tight up to discretisation.

    Releases enter as add-or-remove, because the ledger's noise is already relative to the sensitivity.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    smallest = min([*_pure_epsilons(events), *_gaussian_mus(events)])
    interval = smallest / 100  # overstates epsilon by less than 1e-5 of it
    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1
    total = None
    for event, count in counts.items():
        if isinstance(event, Gaussian):
            # count Gaussians are one Gaussian with sqrt(count) times the sensitivity, exactly.
            part = pld.from_gaussian_mechanism(
                event.multiplier / math.sqrt(count), value_discretization_interval=interval
            )
        elif isinstance(event, Laplace):
            one = pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=interval)
            part = one.self_compose(count)
        else:
            one = pld.from_privacy_parameters(
                pld.common.DifferentialPrivacyParameters(event.epsilon, 0.0),
                value_discretization_interval=interval,
            )
            part = one.self_compose(count)
        total = part if total is None else total.compose(part)
    return float(total.get_epsilon_for_delta(delta))


THEOREMS: dict[str, Callable[[Sequence[Event], float], float]] = {
    "linear": linear,
    "advanced": advanced,
    "zcdp": zcdp,
    "rdp": rdp,
    "exact": exact,
}


def is_pure(events: Sequence[Event], composition: Composition) -> bool:
    """Whether the claim needs no delta: pure releases, added up linearly or single."""
    pure = not any(isinstance(event, Gaussian) for event in events)
    return pure and (composition == "linear" or len(events) == 1)


def account(events: Sequence[Event], delta: float, composition: Composition) -> Claim:
    """The (epsilon, delta) that these releases cost together; delta is 0 where the claim is pure."""
    for event in events:
        if not isinstance(event, (Gaussian, Laplace, RandomizedResponse)):
            raise UserError(
                f"accounting: unknown release {type(event).__name__}; add it to the ledger's kinds."
            )
    if not events:
        return Claim(0.0, 0.0)
    if is_pure(events, composition):
        return Claim(sum(_pure_epsilons(events)), 0.0)
    if not 0 < delta < 1:
        raise UserError(
            f"composition {composition!r} of {len(events)} releases needs 0 < delta < 1, got {delta!r}; "
            "set `delta`, for instance to 1e-6."
        )
    return Claim(THEOREMS[composition](events, delta), delta)


def claim(events: Sequence[Event], budget: Budget, composition: Composition) -> Claim:
    """The claim of a finished run, refused if it exceeds the budget."""
    spent = account(events, budget.delta, composition)
    if spent.epsilon > budget.epsilon * (1 + ROUNDING):
        raise UserError(
            f"the ledger spends epsilon = {spent.epsilon:.6g}, more than the budget {budget.epsilon:.6g} "
            f"(delta = {budget.delta:g}, {composition} composition); this is a defect of the mechanism."
        )
    return spent
