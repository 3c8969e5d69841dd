"""What several releases of the same records cost together.

Releases whose ledgers are known add up by the accountant (`accounting.total`), at the δ that the
others leave of the limit; the others by basic composition with what they might have spent (Dwork and Roth 2014, Theorem
3.16). Where some guarantees are for a unit replaced and some for one added or removed, all are brought to the former:
twice the ε (ibid., Theorem 2.2; of δ, e^ε + 1 times as much).

That is the sum of releases which were planned beforehand. If whether and how to release again is decided in the light
of earlier releases, a limit on the sum is proven for basic composition (privacy filters: Rogers, Roth, Ullman, Vadhan
2016) and for Rényi orders fixed beforehand (Feldman, Zrnic 2021), not for loss distributions of mixed kinds: plan your
releases, or keep the plain sum of their ε below the limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.privacy.accounting import is_pure, total, under_replace_one
from privmix.privacy.ledger import Event, Selection

ROUNDING = 1e-9


@dataclass(frozen=True)
class Spent:
    """One release: at most this, or by this ledger where it is known."""

    relation: str
    epsilon: float
    delta: float
    events: tuple[Event, ...] | None = None


@dataclass(frozen=True)
class Sum:
    """What releases have cost together."""

    epsilon: float
    delta: float
    releases: int


def summed(releases: Sequence[Spent], delta: float) -> Sum:
    """The smallest ε of all releases together at no more than this δ; infinite where they need more δ."""
    if len({release.relation for release in releases}) > 1:
        releases = [_replacing(release) for release in releases]
    epsilon = math.fsum(release.epsilon for release in releases)
    needed = math.fsum(release.delta for release in releases)
    found = [(epsilon, needed)] if needed <= delta * (1 + ROUNDING) else []
    known = [release for release in releases if release.events is not None and _adds_up(release.events)]
    others = [release for release in releases if release not in known]
    left = delta - math.fsum(release.delta for release in others)
    pure = all(is_pure(release.events, "linear") for release in known)
    if len(known) > 1 and (left > 0 or (left == 0 and pure)):
        together = total([release.events for release in known], left)
        found.append((math.fsum([together.epsilon, *(other.epsilon for other in others)]), delta))
    best = min(found, default=(math.inf, needed))
    return Sum(*best, len(releases))


def _adds_up(events: Sequence[Event]) -> bool:
    """Whether the ledger was fixed beforehand: after a private choice it was not."""
    return not any(isinstance(event, Selection) for event in events[:-1])


def _replacing(release: Spent) -> Spent:
    """A release as it counts where a unit is replaced."""
    if release.relation == "replace_one":
        return release
    events = None if release.events is None else tuple(under_replace_one(release.events))
    factor = math.exp(min(release.epsilon, 700.0)) + 1
    return Spent("replace_one", 2 * release.epsilon, min(factor * release.delta, 1.0), events)
