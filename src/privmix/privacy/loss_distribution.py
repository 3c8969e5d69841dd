"""Composition of releases of several kinds by privacy-loss distributions (Koskela, Jälkö, Honkela 2020).

The distributions are `dp_accounting`'s. Its discretisation is pessimistic ("connect the dots": Doroshenko et al.
2022), so what comes out is an upper bound at every interval, and tight when the interval is small.
"""

import math
from collections import Counter
from collections.abc import Sequence

from privmix.privacy.ledger import Event, Gaussian, Laplace

FINENESS = 100  # intervals within the smallest release: overstates epsilon by less than 1e-5 of it
TAIL = 8.0  # deviations of the Gaussian part that a grid spans, for an estimate of its size


def grid_points(events: Sequence[Event]) -> float:
    """About how many points the composed distribution needs: what it costs, before anything is computed."""
    mus = [1 / event.multiplier for event in events if isinstance(event, Gaussian)]
    pure = [event.epsilon for event in events if not isinstance(event, Gaussian)]
    mu = math.hypot(*mus)
    span = 2 * sum(pure) + mu * mu + 2 * TAIL * mu
    return FINENESS * span / min([*pure, mu] if mus else pure)


def privacy_loss(events: Sequence[Event], delta: float) -> float:
    """The epsilon of all releases together at this delta: an upper bound, tight up to discretisation.

    Releases enter as add-or-remove, because the ledger's noise is already relative to the sensitivity. Gaussian
    releases are first put together exactly, mu = sqrt(sum mu²) (Dong, Roth, Su 2022, Corollary 2).
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    counts = Counter(event for event in events if not isinstance(event, Gaussian))
    mus = [1 / event.multiplier for event in events if isinstance(event, Gaussian)]
    mu = math.hypot(*mus)
    interval = min([event.epsilon for event in counts] + [mu] * bool(mus)) / FINENESS
    parts = []
    if mus:
        parts.append(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval))
    for event, count in counts.items():
        if isinstance(event, Laplace):
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
