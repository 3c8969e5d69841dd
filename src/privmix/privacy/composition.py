"""Composition: the total cost of several releases of the same records.

The accountant composes releases with a known ledger (`accounting.compose_ledgers`), at the δ that the other releases
leave of the limit. The other releases enter by basic composition with the most that they can have spent (Dwork and
Roth 2014, Theorem 3.16). If some guarantees are for a replaced unit and some for an added or removed unit, all are
converted to the former: ε doubles (ibid., Theorem 2.2), and δ grows by the factor e^ε + 1.

This is the cost of releases that are planned in advance. The decision whether and how to release again may instead
depend on earlier releases. For that case a limit on the sum is proven for basic composition (privacy filters: Rogers,
Roth, Ullman, Vadhan 2016) and for Rényi orders fixed in advance (Feldman, Zrnic 2021), but not for loss distributions
of mixed kinds. Plan your releases, or keep the plain sum of their ε below the limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.privacy.accounting import compose_ledgers, is_pure, to_replace_one
from privmix.privacy.ledger import DECIDING, Event

ROUNDING = 1e-9


@dataclass(frozen=True)
class ReleaseCost:
    """The cost of one release: an upper bound (ε, δ), and the ledger if it is known."""

    relation: str
    epsilon: float
    delta: float
    events: tuple[Event, ...] | None = None


@dataclass(frozen=True)
class TotalCost:
    """The cost of all releases together."""

    epsilon: float
    delta: float
    releases: int


def same_relation(releases: Sequence[ReleaseCost]) -> list[ReleaseCost]:
    """Return the releases in one relation: unchanged if all have the same, otherwise converted to replace-one."""
    if len({release.relation for release in releases}) > 1:
        return [_to_replace_one(release) for release in releases]
    return list(releases)


def total_cost(releases: Sequence[ReleaseCost], delta: float) -> TotalCost:
    """Return the smallest ε of all releases together with at most this δ; infinite if they need more δ."""
    releases = same_relation(releases)
    epsilon = math.fsum(release.epsilon for release in releases)
    needed = math.fsum(release.delta for release in releases)
    found = [(epsilon, needed)] if needed <= delta * (1 + ROUNDING) else []
    known = [
        release for release in releases if release.events is not None and _is_fixed_in_advance(release.events)
    ]
    others = [release for release in releases if release not in known]
    left = delta - math.fsum(release.delta for release in others)
    ledgers = [release.events for release in known if release.events is not None]
    pure = all(is_pure(ledger, "linear") for ledger in ledgers)
    if len(known) > 1 and (left > 0 or (left == 0 and pure)):
        together = compose_ledgers(ledgers, left)
        found.append((math.fsum([together.epsilon, *(other.epsilon for other in others)]), delta))
    best = min(found, default=(math.inf, needed))
    return TotalCost(*best, len(releases))


def _is_fixed_in_advance(events: Sequence[Event]) -> bool:
    """Return whether the noise was fixed in advance: it was not if any event follows a private selection or count."""
    return not any(isinstance(event, DECIDING) for event in events[:-1])


def _to_replace_one(release: ReleaseCost) -> ReleaseCost:
    """Convert the cost of a release to replace-one."""
    if release.relation == "replace_one":
        return release
    events = None if release.events is None else tuple(to_replace_one(release.events))
    factor = math.exp(min(release.epsilon, 700.0)) + 1
    return ReleaseCost("replace_one", 2 * release.epsilon, min(factor * release.delta, 1.0), events)
