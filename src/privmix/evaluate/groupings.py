"""Groups of records: the values of every attribute, and public bins of declared coordinates.

The unit of the bootstrap is the person if persons have several records. Otherwise it is the place, if the coordinates
are a position and positions repeat: records of one place are not independent. Otherwise it is the record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.artefacts.domain import Axis, Domain
from privmix.errors import UserError

FEWEST_RECORDS = 100  # held-out records of a group that is measured
FEWEST_UNITS = 30  # people or places of these records
MOST_GROUPS = 20  # of one grouping: the largest
MOST_RECORDS = 20_000  # held-out records with stored densities


@dataclass(frozen=True)
class GroupingSpec:
    """A declared grouping: a column, with a number of public bins for a coordinate that is no ordinal."""

    name: str
    bins: int | None = None

    @classmethod
    def parse(cls, text: str) -> "GroupingSpec":
        """Read `column` or `column:bins`."""
        name, _, bins = text.rpartition(":")
        return cls(name, int(bins)) if name and bins.isdigit() else cls(text)

    def __str__(self) -> str:
        return self.name if self.bins is None else f"{self.name}:{self.bins}"


@dataclass(frozen=True, eq=False)
class Grouping:
    """One group for each record, by number; -1 for a record without a group."""

    name: str
    labels: tuple[str, ...]
    codes: np.ndarray
    edges: np.ndarray | None = None  # of bins, normalised, without the outer ones
    axis: int | None = None  # the coordinate behind the bins


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The held-out records that are measured: which rows, their weights and their units."""

    rows: np.ndarray
    weights: np.ndarray  # 1, or 1 / number of records of the person if the unit is a person
    units: np.ndarray  # number of each record's person or place, from 0


def make_groupings(clean: CleanData, declared: Sequence[GroupingSpec] = ()) -> list[Grouping]:
    """Return the groupings of all records: every attribute except states of coordinates, then the declared ones."""
    domain = clean.info.domain
    found = [
        Grouping(each.name, each.values, clean.codes[each.name].astype(np.int64))
        for each in domain.attributes
        if not each.state_of
    ]
    names = {each.name for each in found}
    return [*found, *(_bin(clean, domain, each) for each in declared if each.name not in names)]


def _bin(clean: CleanData, domain: Domain, spec: GroupingSpec) -> Grouping:
    number = next((i for i, axis in enumerate(domain.axes) if axis.name == spec.name), None)
    if number is None:
        raise UserError(
            f"roles.groups names {spec.name!r}, which is not a column of {domain.dataset}'s model."
        )
    axis = domain.axes[number]
    labels, edges = bin_labels(axis, spec.bins)
    inner = (edges[1:-1] - axis.centre) * axis.scale
    codes = np.searchsorted(inner, clean.points[:, number], side="right")
    codes[domain.absent(clean.codes, len(clean.points))[:, number]] = -1
    return Grouping(spec.name, labels, codes, inner, number)


def bin_labels(axis: Axis, bins: int | None) -> tuple[tuple[str, ...], np.ndarray]:
    """Return labels and edges of equal bins between the public bounds; an ordinal without bins keeps its values."""
    if bins is None:
        assert axis.labels, "only an ordinal is grouped without bins"
        return axis.labels, np.linspace(axis.lower, axis.upper, len(axis.labels) + 1)
    edges = np.linspace(axis.lower, axis.upper, bins + 1)
    if axis.step is not None:  # cells of whole numbers: 0 to 9, 10 to 19
        firsts, lasts = np.ceil(edges[:-1]), np.ceil(edges[1:]) - 1
        pairs = zip(firsts, lasts, strict=True)
        return tuple(
            _name(axis, a) if a == b else f"{_name(axis, a)} to {_name(axis, b)}" for a, b in pairs
        ), edges
    shown = [f"{edge:.4g}" for edge in edges]
    return tuple(f"{low} to {high}" for low, high in pairwise(shown)), edges


def _name(axis: Axis, value: float) -> str:
    if axis.labels:
        return axis.labels[int(value)]
    return str(np.datetime64(int(value), "D")) if axis.kind == "date" else f"{value + 0.0:.0f}"


def number_units(clean: CleanData) -> tuple[np.ndarray, str]:
    """Return the number of each record's unit, and what a unit is: person, place or record."""
    persons = number_persons(clean.person)
    if len(persons) and persons.max() + 1 < len(persons):
        return persons, "person"
    if any(axis.geographic for axis in clean.info.domain.axes):
        _, places = np.unique(clean.points, axis=0, return_inverse=True)
        if places.max(initial=-1) + 1 < len(places):
            return places.reshape(-1), "place"
    return persons, "record"


def select_held_out(clean: CleanData, units: np.ndarray) -> HeldOut:
    """Select the held-out records to measure: all, or MOST_RECORDS at equal steps."""
    rows = np.flatnonzero(~clean.train)
    if len(rows) > MOST_RECORDS:
        rows = rows[np.linspace(0, len(rows) - 1, MOST_RECORDS).astype(np.int64)]
    weights = np.ones(len(rows))
    if clean.info.domain.unit == "person":
        owner = number_persons(clean.person[rows])
        weights = 1 / np.bincount(owner)[owner]
    return HeldOut(rows, weights, units[rows])


def large_groups(grouping: Grouping, held_out: HeldOut) -> np.ndarray:
    """Return the numbers of the groups with enough held-out records, in order: at most MOST_GROUPS, the largest."""
    codes = grouping.codes[held_out.rows]
    grouped = codes >= 0
    records = np.bincount(codes[grouped], minlength=len(grouping.labels))
    pairs = np.unique(np.stack([codes[grouped], held_out.units[grouped]]), axis=1)
    units = np.bincount(pairs[0], minlength=len(grouping.labels))
    enough = np.flatnonzero((records >= FEWEST_RECORDS) & (units >= FEWEST_UNITS))
    return np.sort(enough[np.argsort(-records[enough], kind="stable")][:MOST_GROUPS])


@dataclass(frozen=True, eq=False)
class HeldOutGroups:
    """The measured held-out records of a dataset with their groups, which join stored log densities."""

    held_out: HeldOut
    unit: str  # person, place or record
    groupings: dict[str, Grouping]  # codes of the held-out records only


def held_out_groups(clean: CleanData, declared: Sequence[GroupingSpec] = ()) -> HeldOutGroups:
    """Return the measured held-out records with their groups."""
    units, kind = number_units(clean)
    held_out = select_held_out(clean, units)
    groupings = {
        each.name: Grouping(each.name, each.labels, each.codes[held_out.rows])
        for each in make_groupings(clean, declared)
    }
    return HeldOutGroups(held_out, kind, groupings)
