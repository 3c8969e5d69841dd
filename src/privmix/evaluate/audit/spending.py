"""What one unit was seen to use of a claim: the accountant's arithmetic on measured differences.

A release whose statistics are so far apart in two worlds is, for these two, a release of exactly that size: Gaussian
noise at a distance of μ has the multiplier 1/μ, whatever the ledger says. All of them together must not exceed what is
claimed, and each of them not what the ledger has for it.
"""

import dataclasses
import math
from collections.abc import Sequence

from privmix.mechanisms.base import Mechanism, Spec
from privmix.privacy.accounting import Claim, account, after_choice, nearby
from privmix.privacy.laws import (
    Channel,
    Choice,
    DoubleExponential,
    Law,
    Normal,
    PlanarExponential,
    SampledNormal,
    Splits,
)
from privmix.privacy.ledger import (
    Decomposition,
    Event,
    Gaussian,
    Laplace,
    PlanarLaplace,
    RandomizedResponse,
    SampledGaussian,
    Selection,
)

ROUNDING = 1e-6  # of a distance or a claim: what floating point makes of two equal ones
GRID = 1e-3  # of an epsilon that was computed on a grid
LEVELS = (
    8  # into which distances are rounded up before a grid, whose cost grows with the number of different ones
)

# The event that a law is written down as.
KIND: dict[type[Law], type[Event]] = {
    Normal: Gaussian,
    SampledNormal: SampledGaussian,
    DoubleExponential: Laplace,
    PlanarExponential: PlanarLaplace,
    Channel: RandomizedResponse,
    Choice: Selection,
    Splits: Decomposition,
}


@dataclasses.dataclass(frozen=True)
class Seen:
    """A release, and how far apart its statistics are in two worlds, in the unit of its event."""

    event: Event
    law: Law
    distance: float


def allowed(event: Event, times: int = 1) -> float:
    """The largest distance that so many such events together stand for."""
    if isinstance(event, Gaussian | SampledGaussian):
        return math.sqrt(times) / event.multiplier
    return times * event.epsilon


def joined(event: Event, distances: Sequence[float]) -> float:
    """The distance of several releases with the same event, of which one unit may be in each."""
    return math.hypot(*distances) if isinstance(event, Gaussian | SampledGaussian) else sum(distances)


def spent(events: Sequence[Event], mechanism: Mechanism, spec: Spec, delta: float) -> Claim:
    """What a mechanism says that such events add up to: by its own theorem, after the choice of a number if any."""
    choice: list[Event] = []
    if spec.candidates and not mechanism.chooses_components:
        choice = [event for event in events if isinstance(event, Selection)]
    rest = [event for event in events if event not in choice]
    total = account(nearby(rest), delta, mechanism.accountant)
    return after_choice(choice, total) if choice else total


def used(seen: Sequence[Seen], mechanism: Mechanism, spec: Spec, delta: float) -> Claim:
    """What these two worlds use up together."""
    if not all(math.isfinite(each.distance) for each in seen):
        return Claim(math.inf, delta)
    moved = [each for each in seen if each.distance > 0]
    coarse = on_a_grid([each.event for each in moved], mechanism)
    return spent([_event(each, coarse=coarse) for each in moved], mechanism, spec, delta)


def on_a_grid(events: Sequence[Event], mechanism: Mechanism) -> bool:
    """Whether these are added up by privacy-loss distributions, which have an error of their own."""
    return mechanism.accountant == "exact" and not all(isinstance(event, Gaussian) for event in events)


def _event(seen: Seen, *, coarse: bool) -> Event:
    """The event of a release of that size."""
    event, most = seen.event, allowed(seen.event)
    share = seen.distance / most
    if coarse:
        share = max(math.ceil(share * LEVELS - ROUNDING), 1) / LEVELS
    if isinstance(event, SampledGaussian):
        rate = getattr(seen.law, "rate", 1.0)
        return SampledGaussian(event.label, event.multiplier / share, rate)
    if isinstance(event, Gaussian):
        return Gaussian(event.label, event.multiplier / share)
    if isinstance(event, PlanarLaplace):
        # The loss grows in proportion to the distance: so does that of places which are close to each other.
        return dataclasses.replace(
            event, epsilon=event.epsilon * share, epsilon_within=event.epsilon_within * share
        )
    return dataclasses.replace(event, epsilon=event.epsilon * share)
