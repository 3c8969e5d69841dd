"""Accounting: compute (ε, δ) from the ledger under a composition theorem.

`linear` and `advanced` treat each event as (ε_i, δ_i). `zcdp` and `rdp` add up divergences. `exact` is tight:
Gaussian events compose to one Gaussian, and events of mixed kinds are composed by privacy-loss distributions
(`privacy.pld`). `split` is nearly tight for a few large pure events beside Gaussian events, and is quick to compute.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import (
    STATISTIC,
    Event,
    Gaussian,
    Laplace,
    PlanarLaplace,
    PureEvent,
    SampledGaussian,
    check_kind,
    check_member,
    check_positive,
    check_probability,
    decides,
)
from privmix.privacy.pld import composed_epsilon, grid_points

Composition = Literal["linear", "advanced", "zcdp", "rdp", "exact"]
Theorem = Composition | Literal["split"]
ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """The largest total (ε, δ) that may be spent."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise UserError(f"budget: epsilon = {self.epsilon!r} must be greater than 0.")
        if not 0 <= self.delta < 1:
            raise UserError(f"budget: delta = {self.delta!r} must be at least 0 and less than 1.")


@dataclass(frozen=True)
class Claim:
    """The (ε, δ) of a ledger. With planar Laplace noise it holds for records at nearby places (`nearby_events`)."""

    epsilon: float
    delta: float


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _mills(x: float) -> float:
    """Return Mills' ratio Φ(-x) / φ(x) for x > -30; from x = 25 on by its asymptotic series (error below 1e-16)."""
    if x < 25:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    term = total = 1.0
    for odd in range(1, 17, 2):
        term *= -odd / x / x
        total += term
    return total / x


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of a mu-GDP measurement, exact for every epsilon >= 0 (Balle and Wang 2018, Theorem 8).

    delta = Φ(-a) - e^ε Φ(-b) with a = ε/μ - μ/2 and b = a + μ. Since e^ε φ(b) = φ(a), the second term is
    φ(a) M(b) for Mills' ratio M, which never overflows. If both terms are nearly equal (small μ), their
    difference φ(a) (M(a) - M(b)) is the integral of -M'(x) = 1 - x M(x) from a to b. It is computed by Gauss's
    three-point rule.
    """
    if not epsilon >= 0:
        raise UserError(f"gaussian_delta: epsilon = {epsilon!r} must be at least 0.")
    if not mu > 0:
        raise UserError(f"gaussian_delta: mu = {mu!r} must be greater than 0.")
    if mu == math.inf or epsilon == math.inf:
        return 0.0 if mu < math.inf else 1.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi) if abs(a) < 1e9 else 0.0
    if density == 0.0 or mu > 1e-2:
        return max(0.0, _normal_cdf(-a) - density * _mills(b))
    middle, reach = (a + b) / 2, math.sqrt(0.15) * mu
    nodes = ((middle - reach, 5), (middle, 8), (middle + reach, 5))
    return density * mu * sum(weight * (1 - x * _mills(x)) for x, weight in nodes) / 18


def _bisect(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Return the largest x in [low, high] with `holds`, which is true below it and false above; `holds(x)` is true."""
    while high - low > tolerance * abs(low):
        middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@functools.cache
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a mu-GDP measurement has at most this delta."""
    check_probability(delta, "gaussian_epsilon: delta")
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
    """Return the largest mu for which Gaussian noise is (epsilon, delta)-DP: the least noise is 1/mu sensitivities."""
    check_positive(epsilon, "Gaussian noise: epsilon")
    check_probability(delta, "Gaussian noise: delta")
    return find_largest(lambda mu: gaussian_delta(epsilon, mu) <= delta)


def find_largest(holds: Callable[[float], bool], start: float = 1.0, tolerance: float = 1e-12) -> float:
    """Return the largest x > 0 with `holds`, which is true for small x and false for large x.

    The search brackets x and then bisects in log space.
    """
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
    return [event.epsilon for event in events if isinstance(event, PureEvent)]


def _gaussian_mus(events: Sequence[Event]) -> list[float]:
    return [1 / event.noise_multiplier for event in events if isinstance(event, Gaussian)]


def linear(events: Sequence[Event], delta: float) -> float:
    """Return epsilon by basic composition: epsilons add up, and Gaussian events share delta equally."""
    mus = _gaussian_mus(events)
    return sum(_pure_epsilons(events)) + sum(gaussian_epsilon(mu, delta / len(mus)) for mu in mus)


def advanced(events: Sequence[Event], delta: float) -> float:
    """Return epsilon by advanced composition of unequal events (Kairouz, Oh, Viswanath 2015, Theorem 3.5).

    Half of delta is the theorem's slack, and the Gaussian events share the other half. Without Gaussian events, the
    slack is all of delta. The theorem's own minimum includes basic composition.
    """
    mus = _gaussian_mus(events)
    slack = delta / 2 if mus else delta
    epsilons = _pure_epsilons(events) + [gaussian_epsilon(mu, delta / 2 / len(mus)) for mu in mus]
    drift = sum(e * math.tanh(e / 2) for e in epsilons)
    spread = math.sqrt(2 * math.log(1 / slack)) * math.hypot(*epsilons) if slack > 0 else math.inf
    return min(sum(epsilons), drift + spread)


def zcdp(events: Sequence[Event], delta: float) -> float:
    """Return epsilon by zCDP: rho adds up, and epsilon = rho + 2 sqrt(rho ln(1/delta)).

    (Bun and Steinke 2016, Propositions 1.3 and 1.4.)
    """
    size = math.hypot(*_pure_epsilons(events), *_gaussian_mus(events))  # rho = size² / 2
    return size * size / 2 + size * math.sqrt(2 * math.log(1 / delta))


ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)


def _renyi(event: Event) -> np.ndarray:
    """Return the Rényi divergence of an event at each of ORDERS (Mironov 2017, Table II and Proposition 5)."""
    order = ORDERS
    if isinstance(event, Gaussian):
        mu = 1 / event.noise_multiplier
        return order * (mu * mu / 2)
    e = cast(PureEvent, event).epsilon  # `account` refuses sampled Gaussian events
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
    """Return epsilon by RDP: divergences add up. Conversion: Canonne, Kamath, Steinke 2020, Proposition 12."""
    with np.errstate(over="ignore"):  # an infinite divergence is a valid bound, but never the smallest
        divergence = sum(count * _renyi(event) for event, count in Counter(events).items())
    epsilons = divergence + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(epsilons)))


def exact(events: Sequence[Event], delta: float) -> float:
    """Return epsilon by tight composition.

    For Gaussian events alone, mu = sqrt(sum mu²) (Dong, Roth, Su 2022, Corollary 2). Other ledgers are composed by
    privacy-loss distributions, except a single pure event.
    """
    if all(isinstance(event, Gaussian) for event in events):
        return gaussian_epsilon(math.hypot(*_gaussian_mus(events)), delta)
    if len(events) == 1 and isinstance(events[0], PureEvent):
        return events[0].epsilon
    return composed_epsilon(events, delta)


def split(events: Sequence[Event], delta: float) -> float:
    """Return epsilon of two parts that add up by basic composition.

    In the first part, the epsilons of pure events add up. In the second, all Gaussian events are one Gaussian event.
    """
    mus = _gaussian_mus(events)
    return sum(_pure_epsilons(events)) + (gaussian_epsilon(math.hypot(*mus), delta) if mus else 0.0)


THEOREMS: dict[Theorem, Callable[[Sequence[Event], float], float]] = {
    "linear": linear,
    "advanced": advanced,
    "zcdp": zcdp,
    "rdp": rdp,
    "exact": exact,
    "split": split,
}


def is_pure(events: Sequence[Event], composition: Theorem) -> bool:
    """Return whether the claim needs no delta: all events are pure, and they add up linearly or there is only one."""
    pure = all(isinstance(event, PureEvent) for event in events)
    return pure and (composition in ("linear", "split") or len(events) == 1)


def account(events: Sequence[Event], delta: float, composition: Theorem) -> Claim:
    """Return the (epsilon, delta) of these events together; delta is 0 if the claim is pure."""
    check_member(composition, THEOREMS, "accounting: composition")
    for event in events:
        check_kind(event)
    if not events:
        return Claim(0.0, 0.0)
    if is_pure(events, composition):
        return Claim(sum(_pure_epsilons(events)), 0.0)
    check_probability(delta, f"composition {composition!r} of {len(events)} measurements: delta")
    if composition != "exact" and any(isinstance(event, SampledGaussian) for event in events):
        raise UserError(
            f"Gaussian measurements on a random sample need exact composition, got {composition!r}; "
            "set `composition: exact`."
        )
    return Claim(THEOREMS[composition](events, delta), delta)


def nearby_events(events: Iterable[Event]) -> list[Event]:
    """Return the events as they count for two records whose places are at most the ledger's `within_m` apart.

    The density ratio of planar Laplace noise depends on the distance alone. For such records the event therefore
    counts `epsilon_within`. All other events count in full. For any two records of the domain, use the ledger
    unchanged.
    """
    return [
        dataclasses.replace(event, epsilon=event.epsilon_within)
        if isinstance(event, PlanarLaplace)
        else event
        for event in events
    ]


def claim_distance(events: Iterable[Event]) -> float | None:
    """Return the distance in metres up to which a claim of this ledger holds; None if it holds for any two records."""
    return min((event.within_m for event in events if isinstance(event, PlanarLaplace)), default=None)


def claim(events: Sequence[Event], budget: Budget, composition: Theorem) -> Claim:
    """Return the claim of a finished run, and raise an error if it exceeds the budget.

    If the claim holds up to a distance (`claim_distance`), the budget is for that distance too.
    """
    spent = account(nearby_events(events), budget.delta, composition)
    if spent.epsilon > budget.epsilon * (1 + ROUNDING):
        raise UserError(
            f"the ledger spends epsilon = {spent.epsilon:.6g}, more than the budget {budget.epsilon:.6g} "
            f"(delta = {budget.delta:g}, {composition} composition); this is a defect of the mechanism."
        )
    return spent


ATTRIBUTE_COUNTS = "attribute counts"  # label of the measurement of attributes, the last of a run


def compose_run(events: Sequence[Event], delta: float, composition: Theorem) -> Claim:
    """Return the claim of a whole run: measurements by the theorem of the mechanism, and what comes before and after.

    Pure measurements that decide something (a number of components or of records) come before. Their ε is added (basic
    composition): theorems that add up divergences turn one small pure event into a large ε. The measurement of
    attributes comes after. If all measurements are Gaussian, exact composition covers it too. Otherwise its ε and δ
    are added; it has half of δ if its noise is Gaussian (`mechanisms.shared.attribute_counts`). Statistics come last.
    The ε of pure ones is added. Gaussian ones occur only if all noise of the mechanism is Gaussian, and compose with
    it.
    """
    added = [event for event in events if event.label.startswith(STATISTIC) and isinstance(event, PureEvent)]
    events = [event for event in events if event not in added]
    deciding = [*added, *(event for event in events if decides(event))]
    tables = [event for event in events if event.label == ATTRIBUTE_COUNTS]
    rest = [event for event in events if event not in deciding and event not in tables]
    first = account(deciding, 0.0, "linear").epsilon
    if not tables or (composition == "exact" and all(isinstance(e, Gaussian) for e in (*rest, *tables))):
        total = account([*rest, *tables], delta, composition)
        return Claim(first + total.epsilon, total.delta)
    share = delta if is_pure(tables, "linear") else delta / 2
    main, last = account(rest, share, composition), account(tables, share, "split")
    return Claim(first + main.epsilon + last.epsilon, main.delta + last.delta)


AFFORDABLE = 2e6  # points of a privacy-loss distribution: a few seconds


@dataclass(frozen=True)
class ComposedClaim:
    """The (ε, δ) of several ledgers together, and the theorem that proves it."""

    epsilon: float
    delta: float
    theorem: Theorem


def compose_ledgers(ledgers: Iterable[Sequence[Event]], delta: float) -> ComposedClaim:
    """Return the (ε, δ) of publishing everything that these ledgers describe, by the tightest theorem.

    All ledgers are of one dataset, unit and relation (`to_replace_one` converts add-or-remove to replace-one).
    Every theorem here bounds the same loss at the same delta, so the smallest bound holds. A measurement may depend on
    earlier ones: all theorems hold for adaptive composition if the privacy parameters are fixed in advance. Exact
    composition takes part unless its privacy-loss distribution would need more than AFFORDABLE points.

    Leave out a non-private model: it has no ledger and no total. Leave out a ledger whose noise was fixed after a
    private selection or count: another result would have given another ledger. Such a ledger costs what it claims,
    which you add to the total by basic composition.
    """
    ledgers = [list(ledger) for ledger in ledgers]
    if any(decides(event) for ledger in ledgers for event in ledger[:-1]):
        raise UserError(
            "a ledger with events after a private selection or count cannot be composed with other ledgers; "
            "leave it out and add the epsilon and delta that it claims."
        )
    events = [event for ledger in ledgers for event in ledger]
    for event in events:
        check_kind(event)
    mixed = len(events) > 1 and any(not isinstance(event, Gaussian) for event in events)
    too_long = mixed and grid_points(events) > AFFORDABLE
    # Pure events need no delta, but only by basic composition. All other events need one.
    names: list[Theorem] = ["linear"] if is_pure(events, "linear") and delta == 0 else list(THEOREMS)
    if any(isinstance(event, SampledGaussian) for event in events):
        names, too_long = ["exact"], False  # no other theorem here covers them
    claims = {name: account(events, delta, name) for name in names if not (name == "exact" and too_long)}
    best = min(claims, key=lambda name: claims[name].epsilon)
    return ComposedClaim(claims[best].epsilon, claims[best].delta, best)


def to_replace_one(events: Iterable[Event]) -> list[Event]:
    """Convert an add-or-remove ledger to replace-one: half the noise, because the change is twice as large.

    To replace a unit is to remove one and to add another. A statistic therefore moves by at most twice its
    sensitivity, and the multiplier halves. Likelihood ratios multiply, so an epsilon doubles (Dwork and Roth 2014,
    Theorem 2.2). A measurement on a random sample counts as one on all units. Given which other units are in the
    sample, and whether the replaced unit is, it is a Gaussian measurement. By joint convexity no divergence is larger
    than that of the Gaussian measurement. The conversion cannot be reversed.
    """
    return [
        Gaussian(event.label, event.noise_multiplier / 2)
        if isinstance(event, Gaussian | SampledGaussian)
        else dataclasses.replace(event, epsilon=2 * event.epsilon)
        for event in events
    ]
