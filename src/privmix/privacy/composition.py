"""Composition: the total cost of several releases of the same records.

The accountant composes releases with a known ledger (`accounting.compose_ledgers`), at the δ that the other releases
leave of the limit. The other releases enter by basic composition with the most that they can have spent (Dwork and
Roth 2014, Theorem 3.16). If some guarantees are for a replaced unit and some for an added or removed unit, all are
converted to the former: ε doubles (ibid., Theorem 2.2), and δ grows by the factor e^ε + 1.

`total_cost` is the cost of releases that are planned in advance. It must not limit releases whose number, mechanisms
or budgets depend on earlier releases: composition of loss distributions is not proven for that case. The spending
account uses basic composition instead, which is a privacy filter (Rogers, Roth, Ullman, Vadhan 2016):

Theorem. Release j is (ε_j, δ_j)-private, and its mechanism and (ε_j, δ_j) may depend on all earlier outputs. If a
release is made only while Σε_j ≤ E and Σδ_j ≤ D still hold with it, all releases together are (E, D)-private.
Proof by induction over the number of releases to come, for at most n releases; any n, so also without a bound. If none
comes, P = Q. Let P and Q be the distributions of the outputs on neighbouring
datasets, and P_1, Q_1 those of the first output v. Given the past, (ε_1, δ_1) is fixed. The measure min(P_1, e^ε_1 Q_1)
lacks at most δ_1 of the mass of P_1, because P_1(S) - e^ε_1 Q_1(S) ≤ δ_1 for every S. After v, the filter holds with
E - ε_1 and D - δ_1, so by induction P(S|v) ≤ e^(E - ε_1) Q(S|v) + D - δ_1. Integrate over min(P_1, e^ε_1 Q_1):
P(S) ≤ ∫ e^ε_1 Q_1(dv) e^(E - ε_1) Q(S|v) + (D - δ_1) + δ_1 = e^E Q(S) + D. ∎
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.privacy.accounting import compose_ledgers, is_pure, to_replace_one
from privmix.privacy.ledger import Event, decides

ROUNDING = 1e-9
MOST_EXPONENT = 600.0  # beyond it, the δ of a group is 1


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
    return not any(decides(event) for event in events[:-1])


def group_cost(epsilon: float, delta: float, steps: int) -> tuple[float, float]:
    """Return (ε, δ) between datasets that are `steps` neighbouring datasets apart (group privacy).

    P_0 ≤ e^ε P_1 + δ ≤ e^{2ε} P_2 + e^ε δ + δ ≤ …, so ε grows to kε and δ to δ(1 + e^ε + … + e^{(k-1)ε}) after k steps.
    """
    if delta == 0:
        return steps * epsilon, 0.0
    if (steps - 1) * epsilon > MOST_EXPONENT:
        return steps * epsilon, 1.0
    # (e^{kε} - 1) / (e^ε - 1), written so that it cannot overflow
    series = math.expm1(-steps * epsilon) / math.expm1(-epsilon) if epsilon > 0 else float(steps)
    factor = math.exp((steps - 1) * epsilon) * series
    return steps * epsilon, min(delta * factor, 1.0)


def _to_replace_one(release: ReleaseCost) -> ReleaseCost:
    """Convert the cost of a release to replace-one: remove one unit and add another."""
    if release.relation == "replace_one":
        return release
    events = None if release.events is None else tuple(to_replace_one(release.events))
    return ReleaseCost("replace_one", *group_cost(release.epsilon, release.delta, 2), events)
