"""The second opinion on a ledger: `dp_accounting` composes the releases itself, one by one.

Ours puts Gaussian releases together by a closed form, and adds up others by the theorem of the mechanism; theirs is the
composition of privacy-loss distributions (Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022), which is tight for
all of them. So it exceeds a right claim by no more than its grid: a share of ε, and a step for each pure release, whose
loss is rounded up to whole steps.
"""

import math
from collections import Counter
from collections.abc import Sequence

from privmix.privacy.ledger import Event, Gaussian, Laplace, PureEvent, SampledGaussian
from privmix.privacy.pld import sampled_deviation

FINENESS = 50  # grid steps within one release
LEAST_DELTA = 1e-12  # their composition drops tails, so that no ε holds at δ = 0
TOLERANCE = 2e-3  # of ε, by which their grid may overstate it
MOST_POINTS = 3e6


def epsilon(events: Sequence[Event], delta: float) -> float:
    """Their ε of all releases together, at this δ or the least that they can speak of; an upper bound."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if not events:
        return 0.0
    step = _step(events)
    total = None
    for event, count in Counter(events).items():
        if isinstance(event, Gaussian):
            one = pld.from_gaussian_mechanism(event.noise_multiplier, value_discretization_interval=step)
        elif isinstance(event, SampledGaussian):
            one = pld.from_gaussian_mechanism(
                event.noise_multiplier, sampling_prob=event.rate, value_discretization_interval=step
            )
        elif isinstance(event, Laplace):
            one = pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=step)
        else:
            parameters = pld.common.DifferentialPrivacyParameters(event.epsilon, 0.0)
            one = pld.from_privacy_parameters(parameters, value_discretization_interval=step)
        part = one.self_compose(count)
        total = part if total is None else total.compose(part)
    return float(total.get_epsilon_for_delta(max(delta, LEAST_DELTA)))


def exceeds(events: Sequence[Event], delta: float, claimed: float) -> float | None:
    """Their ε, if it is more than the claim by more than their grid explains."""
    found = epsilon(events, delta)
    rounding = _step(events) * sum(isinstance(event, PureEvent) for event in events) if events else 0.0
    return found if found > claimed * (1 + TOLERANCE) + rounding else None


def _step(events: Sequence[Event]) -> float:
    """A share of the smallest release, but no grid of more points than can be had in seconds."""
    pure = [event.epsilon for event in events if isinstance(event, PureEvent)]
    mus = [1 / event.noise_multiplier for event in events if isinstance(event, Gaussian)]
    mus += [sampled_deviation(event) for event in events if isinstance(event, SampledGaussian)]
    whole = math.hypot(*mus)
    span = 2 * sum(pure) + whole * whole + 16 * whole
    return max(min([*pure, *mus]) / FINENESS, span / MOST_POINTS)
