"""Composition of events of several kinds by privacy-loss distributions (Koskela, Jälkö, Honkela 2020).

The distributions are those of `dp_accounting`. Its discretisation is pessimistic ("connect the dots": Doroshenko et
al. 2022), so the result is an upper bound at every interval, and tight when the interval is small.
"""

import math
from collections import Counter
from collections.abc import Sequence

from privmix.privacy.ledger import Event, Gaussian, Laplace, PureEvent, SampledGaussian

FINENESS = 100  # intervals within the smallest release: overstates epsilon by less than 1e-5 of it
SAMPLED_FINENESS = 20  # the same for releases on a sample, of which there are many: by less than 5e-4
MOST_POINTS = 2e4  # of one release on a sample
TAIL = 8.0  # deviations of the Gaussian part that a grid spans, for an estimate of its size


def grid_points(events: Sequence[Event]) -> float:
    """About how many points the composed distribution needs: what it costs, before anything is computed."""
    pure = [event.epsilon for event in events if isinstance(event, PureEvent)]
    sampled = [sampled_deviation(event) for event in events if isinstance(event, SampledGaussian)]
    mu = math.hypot(_gaussian_mu(events), *sampled)
    span = 2 * sum(pure) + mu * mu + 2 * TAIL * mu
    return span / _interval(events)


def sampled_deviation(event: SampledGaussian) -> float:
    """Deviation of the likelihood ratio of one release on a sample: q √(exp(1/σ²) - 1), at most 1.

    Many of them are nearly one Gaussian release of the root of their squared sum (Bu, Dong, Long, Su 2020, Theorem 5).
    """
    return min(event.rate * math.sqrt(math.expm1(min(event.noise_multiplier**-2, 700.0))), 1.0)


def _sampled_tail(event: SampledGaussian) -> float:
    """The loss of one release on a sample where its noise is TAIL deviations out: ln(1 - q + q exp(TAIL/σ + 1/2σ²))."""
    inverse = 1 / event.noise_multiplier
    return math.log1p(event.rate * math.expm1(min(TAIL * inverse + inverse**2 / 2, 700.0)))


def _gaussian_mu(events: Sequence[Event]) -> float:
    return math.hypot(*(1 / event.noise_multiplier for event in events if isinstance(event, Gaussian)))


def _interval(events: Sequence[Event]) -> float:
    """The step h of the grid: a share of the smallest release.

    Rounding to the grid adds up to h²/4 to the variance of each release's loss, so of n releases on samples and the
    Gaussian ones together, of variance μ² in all, h is a share of μ/√n. At a tiny rate the loss is tiny but for a
    long tail; there h is what divides the tail into MOST_POINTS, and the bound is less tight.
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
    """The epsilon of all releases together at this delta: an upper bound, tight up to discretisation.

    Releases enter as add-or-remove, because the ledger's noise is already relative to the sensitivity. Gaussian
    releases are first put together exactly, mu = sqrt(sum mu²) (Dong, Roth, Su 2022, Corollary 2). A release on a
    sample has two distributions, for a unit added and for one removed; each is composed by itself, and the larger
    epsilon holds (Zhu, Dong, Wang 2022, Theorem 11).
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
            # Every epsilon-DP release is dominated by binary randomized response (Kairouz et al. 2015).
            one = pld.from_privacy_parameters(
                pld.common.DifferentialPrivacyParameters(event.epsilon, 0.0),
                value_discretization_interval=interval,
            )
        parts.append(one.self_compose(count))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))
