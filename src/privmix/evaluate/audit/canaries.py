"""Canaries: units that make a mechanism show as much as it can, and the pairs of worlds that differ in one of them.

What a unit changes is largest at the edge of the public box: there its coordinates are longest, and it is far enough
from all others to be in one component alone. Where a unit is replaced, the two it is compared with stand as far apart
as they can (for means), or at right angles (for second moments). One canary lies outside the box, for a mechanism must
not believe that nobody does. No canary depends on the records.
"""

from dataclasses import dataclass

import numpy as np

from privmix.evaluate.audit.pair import Pair
from privmix.mechanisms.base import Records, Spec
from privmix.privacy.relation import Neighbours

OUTSIDE = 10.0  # half-widths of the box from its centre


@dataclass(frozen=True, eq=False)
class Canary:
    """Where a unit stands, and where it stands in the other world if one is replaced."""

    name: str
    place: np.ndarray
    rival: np.ndarray


def battery(spec: Spec) -> list[Canary]:
    """The canaries of a public box."""
    lower, upper = spec.domain.lower, spec.domain.upper
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    first = np.eye(len(half))[0]
    beside = np.where(first > 0, lower, upper)
    return [
        Canary("opposite corners", upper, lower),
        Canary("neighbouring corners", upper, beside),
        Canary("opposite edges", centre + first * half, centre - first * half),
        Canary("outside the box", centre + OUTSIDE * half, centre - OUTSIDE * half),
    ]


def planted(others: Records, spec: Spec, neighbours: Neighbours) -> list[Pair]:
    """Worlds in which one more unit joins the others: a canary in one, its rival or nobody in the other."""
    return [
        Pair(
            canary.name,
            _joined(others, canary.place, spec, neighbours),
            _joined(others, canary.rival, spec, neighbours, last=True) if _replaced(neighbours) else others,
            spec,
        )
        for canary in battery(spec)
    ]


def beside(records: Records, spec: Spec, neighbours: Neighbours) -> list[Pair]:
    """The records as they are, and neighbours of them in which a canary takes the last unit's place, or joins."""
    rest = records.taken(_rest(records, neighbours)) if _replaced(neighbours) else records
    return [
        Pair(canary.name, records, _joined(rest, canary.place, spec, neighbours), spec)
        for canary in battery(spec)
    ]


def _replaced(neighbours: Neighbours) -> bool:
    return neighbours.relation == "replace_one"


def _rest(records: Records, neighbours: Neighbours) -> np.ndarray:
    """The rows of all but the last unit."""
    units = records.units(neighbours.unit)
    return np.flatnonzero(units < units.max(initial=0))


def _joined(
    others: Records, place: np.ndarray, spec: Spec, neighbours: Neighbours, *, last: bool = False
) -> Records:
    """The others and, as the last unit, as many records as one may have, all at that place.

    All have the first value of every attribute, or the last.
    """
    count = neighbours.records
    codes = {
        attribute.name: np.full(count, len(attribute.values) - 1 if last else 0)
        for attribute in spec.domain.attributes
    }
    persons = None
    if others.persons is not None:
        persons = np.full(count, others.persons.max(initial=0) + 1, dtype=others.persons.dtype)
    return Records.joined([others, Records(np.tile(place, (count, 1)), codes, persons)])
