"""Canaries: units that make a mechanism leak as much as it can, and the pairs of worlds that differ in one of them.

A unit has the most influence at the edge of the public box. There its coordinates are longest, and it is far enough
from all others to be alone in one component. If a unit is replaced, the two alternatives are as far apart as possible
(for means), or at right angles (for second moments). One canary lies outside the box, because a mechanism must not rely
on records to lie inside. If records may lack coordinates, one canary lacks them in the other world only, and one in
both. Without coordinates, a canary has the first or the last value of every attribute. No canary depends on the
records.
"""

from dataclasses import dataclass

import numpy as np

from privmix.audit.recording import WorldPair
from privmix.mechanisms.base import Records, Spec
from privmix.privacy.sensitivity import Neighbours

OUTSIDE = 10.0  # distance from the centre, in half-widths of the box


@dataclass(frozen=True, eq=False)
class Canary:
    """The place of a unit, and its place in the other world if it is replaced."""

    name: str
    place: np.ndarray
    alternative: np.ndarray
    lacks: tuple[bool, bool] = (False, False)  # whether the unit and its alternative lack coordinates
    last: tuple[bool, bool] = (
        False,
        True,
    )  # whether they have the last value of every attribute, or the first


def list_canaries(spec: Spec) -> list[Canary]:
    """Return the canaries of a public box."""
    lower, upper = spec.domain.lower, spec.domain.upper
    if not spec.domain.axes:
        return [
            Canary("first values", lower, upper),
            Canary("last values", lower, upper, last=(True, False)),
        ]
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    first = np.eye(len(half))[0]
    beside = np.where(first > 0, lower, upper)
    lacking = [
        Canary("with and without coordinates", upper, lower, (False, True)),
        Canary("without coordinates", upper, lower, (True, True)),
    ]
    return [
        Canary("opposite corners", upper, lower),
        Canary("neighbouring corners", upper, beside),
        Canary("opposite edges", centre + first * half, centre - first * half),
        *(lacking if spec.domain.states else []),
        Canary("outside the box", centre + OUTSIDE * half, centre - OUTSIDE * half),
    ]


def canary_pairs(others: Records, spec: Spec, neighbours: Neighbours) -> list[WorldPair]:
    """Return worlds with one more unit: a canary in one world, its alternative or no unit in the other."""
    return [
        WorldPair(
            canary.name,
            _append_unit(others, canary.place, spec, neighbours, last=canary.last[0], lacks=canary.lacks[0]),
            _append_unit(
                others, canary.alternative, spec, neighbours, last=canary.last[1], lacks=canary.lacks[1]
            )
            if _is_replace_one(neighbours)
            else others,
            spec,
        )
        for canary in list_canaries(spec)
    ]


def neighbours_with_canary(records: Records, spec: Spec, neighbours: Neighbours) -> list[WorldPair]:
    """Return the records with neighbouring datasets in which a canary replaces the last unit, or is added."""
    rest = (
        records.select(_rows_without_last_unit(records, neighbours))
        if _is_replace_one(neighbours)
        else records
    )
    return [
        WorldPair(
            canary.name,
            records,
            _append_unit(rest, canary.place, spec, neighbours, last=canary.last[0], lacks=canary.lacks[0]),
            spec,
        )
        for canary in list_canaries(spec)
    ]


def _is_replace_one(neighbours: Neighbours) -> bool:
    return neighbours.relation == "replace_one"


def _rows_without_last_unit(records: Records, neighbours: Neighbours) -> np.ndarray:
    """Return the rows of all units but the last."""
    units = records.units(neighbours.unit)
    return np.flatnonzero(units < units.max(initial=0))


def _append_unit(
    others: Records,
    place: np.ndarray,
    spec: Spec,
    neighbours: Neighbours,
    *,
    last: bool = False,
    lacks: bool = False,
) -> Records:
    """Append one unit with the largest allowed number of records, all at this place.

    All have the first value of every attribute, or the last. `lacks`: whether they lack each coordinate that a record
    may lack.
    """
    count = neighbours.records
    codes = {
        attribute.name: np.full(
            count, len(attribute.values) - 1 if (lacks if attribute.state_of else last) else 0
        )
        for attribute in spec.domain.attributes
    }
    persons = None
    if others.persons is not None:
        persons = np.full(count, others.persons.max(initial=0) + 1, dtype=others.persons.dtype)
    return Records.concatenate([others, Records(np.tile(place, (count, 1)), codes, persons)])
