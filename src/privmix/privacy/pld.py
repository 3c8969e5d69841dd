"""Privacy-loss distributions (PLD): composition of events of several kinds (Koskela, Jälkö, Honkela 2020).

The distributions come from `dp_accounting`. Its discretisation is pessimistic ("connect the dots": Doroshenko et
al. 2022), so the result is an upper bound at every interval, and tight if the interval is small.
"""

import math
from collections import Counter
from collections.abc import Sequence

from privmix.privacy.ledger import Event, Gaussian, Laplace, PureEvent, SampledGaussian

FINENESS = 100  # intervals within the smallest event: overstates epsilon by less than 1e-5 of it
SAMPLED_FINENESS = 20  # the same for events on a sample, which are many: by less than 5e-4
MOST_POINTS = 2e4  # of one event on a sample
TAIL = 8.0  # standard deviations of the Gaussian part that a grid spans, to estimate its size


def grid_points(events: Sequence[Event]) -> float:
    """Estimate the number of points of the composed distribution: its cost, before anything is computed."""
    pure = [event.epsilon for event in events if isinstance(event, PureEvent)]
    sampled = [sampled_deviation(event) for event in events if isinstance(event, SampledGaussian)]
    mu = math.hypot(_gaussian_mu(events), *sampled)
    span = 2 * sum(pure) + mu * mu + 2 * TAIL * mu
    return span / _interval(events)


def sampled_deviation(event: SampledGaussian) -> float:
    """Return the standard deviation of the likelihood ratio of one event on a sample: q √(exp(1/σ²) - 1), at most 1.

    Many such events are nearly one Gaussian event, whose μ is the root of the sum of their squares (Bu, Dong, Long, Su
    2020, Theorem 5).
    """
    return min(event.rate * math.sqrt(math.expm1(min(event.noise_multiplier**-2, 700.0))), 1.0)


def _sampled_tail(event: SampledGaussian) -> float:
    """Return the loss of one event on a sample at noise of TAIL standard deviations.

    It is ln(1 - q + q exp(TAIL/σ + 1/2σ²)).
    """
    inverse = 1 / event.noise_multiplier
    return math.log1p(event.rate * math.expm1(min(TAIL * inverse + inverse**2 / 2, 700.0)))


def _gaussian_mu(events: Sequence[Event]) -> float:
    return math.hypot(*(1 / event.noise_multiplier for event in events if isinstance(event, Gaussian)))


def _interval(events: Sequence[Event]) -> float:
    """Return the step h of the grid: a share of the smallest event.

    Rounding to the grid adds up to h²/4 to the variance of each event's loss. For n events on samples together with the
    Gaussian events, of total variance μ², h is therefore a share of μ/√n. At a tiny rate the loss is tiny except for a
    long tail. In that case h divides the tail into MOST_POINTS points, and the bound is less tight.
    """
    mu = _gaussian_mu(events)
    on_samples = [event for event in events if isinstance(event, SampledGaussian)]
    steps = [event.epsilon / FINENESS for event in events if isinstance(event, PureEvent)]
    if on_samples:
        together = math.hypot(mu, *map(sampled_deviation, on_samples)) / math.sqrt(len(on_samples) + (mu > 0))
        longest = max(map(_sampled_tail, set(on_samples)))
        steps.append(max(together / SAMPLED_FINENESS, longest / MOST_POINTS))
    elif mu > 0:
        steps.append(mu / FINENESS)
    return min(steps)


def composed_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the epsilon of all events together at this delta: an upper bound, tight up to discretisation.

    Events enter as add-or-remove, because the ledger's noise is already relative to the sensitivity. Gaussian events
    are first composed exactly, mu = sqrt(sum mu²) (Dong, Roth, Su 2022, Corollary 2). An event on a sample has two
    distributions, one for a unit added and one for a unit removed. Each is composed separately, and the larger epsilon
    holds (Zhu, Dong, Wang 2022, Theorem 11).
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    counts = Counter(event for event in events if not isinstance(event, Gaussian))
    mu, interval = _gaussian_mu(events), _interval(events)
    parts = []
    if mu > 0:
        parts.append(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval))
    for event, count in counts.items():
        if isinstance(event, SampledGaussian):
            one = pld.from_gaussian_mechanism(
                event.noise_multiplier, sampling_prob=event.rate, value_discretization_interval=interval
            )
        elif isinstance(event, Laplace):
            one = pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=interval)
        else:
            # Binary randomized response dominates every epsilon-DP measurement (Kairouz et al. 2015).
            one = pld.from_privacy_parameters(
                pld.common.DifferentialPrivacyParameters(event.epsilon, 0.0),
                value_discretization_interval=interval,
            )
        parts.append(one.self_compose(count))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))
