"""The cost of several releases of the same records together.

Releases with a known ledger are composed by the accountant (`accounting.compose_ledgers`), at the δ that the other
releases leave of the limit. The others enter by basic composition with the most they can have spent (Dwork and Roth
2014, Theorem 3.16). If some guarantees are for a unit replaced and some for a unit added or removed, all are
converted to the former: twice the ε (ibid., Theorem 2.2; δ grows by the factor e^ε + 1).

This is the cost of releases that were planned in advance. If whether and how to release again depends on earlier
releases, a limit on the sum is proven for basic composition (privacy filters: Rogers, Roth, Ullman, Vadhan 2016) and
for Rényi orders fixed in advance (Feldman, Zrnic 2021), but not for loss distributions of mixed kinds: plan your
releases, or keep the plain sum of their ε below the limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.privacy.accounting import compose_ledgers, is_pure, to_replace_one
from privmix.privacy.ledger import Event, Selection

ROUNDING = 1e-9


@dataclass(frozen=True)
class ReleaseCost:
    """One release: at most this, or by this ledger where it is known."""

    relation: str
    epsilon: float
    delta: float
    events: tuple[Event, ...] | None = None


@dataclass(frozen=True)
class TotalCost:
    """What releases have cost together."""

    epsilon: float
    delta: float
    releases: int


def total_cost(releases: Sequence[ReleaseCost], delta: float) -> TotalCost:
    """The smallest ε of all releases together at no more than this δ; infinite where they need more δ."""
    if len({release.relation for release in releases}) > 1:
        releases = [_to_replace_one(release) for release in releases]
    epsilon = math.fsum(release.epsilon for release in releases)
    needed = math.fsum(release.delta for release in releases)
    found = [(epsilon, needed)] if needed <= delta * (1 + ROUNDING) else []
    known = [
        release for release in releases if release.events is not None and _is_fixed_in_advance(release.events)
    ]
    others = [release for release in releases if release not in known]
    left = delta - math.fsum(release.delta for release in others)
    pure = all(is_pure(release.events, "linear") for release in known)
    if len(known) > 1 and (left > 0 or (left == 0 and pure)):
        together = compose_ledgers([release.events for release in known], left)
        found.append((math.fsum([together.epsilon, *(other.epsilon for other in others)]), delta))
    best = min(found, default=(math.inf, needed))
    return TotalCost(*best, len(releases))


def _is_fixed_in_advance(events: Sequence[Event]) -> bool:
    """Whether the ledger was fixed beforehand: after a private choice it was not."""
    return not any(isinstance(event, Selection) for event in events[:-1])


def _to_replace_one(release: ReleaseCost) -> ReleaseCost:
    """A release as it counts where a unit is replaced."""
    if release.relation == "replace_one":
        return release
    events = None if release.events is None else tuple(to_replace_one(release.events))
    factor = math.exp(min(release.epsilon, 700.0)) + 1
    return ReleaseCost("replace_one", 2 * release.epsilon, min(factor * release.delta, 1.0), events)
