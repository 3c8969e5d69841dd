"""The public domain of the columns of an entry, and the map from original units into the unit ball.

normalised = (value - centre) * scale. With d coordinates, each coordinate that is not geographic gets the half width
1/√d. The g geographic coordinates are isotropic in metres: a degree of longitude counts as cos(latitude at the centre
of the public box) degrees of latitude. One common scale gives this block the half diagonal √(g/d). So a corner of the
public box has norm √((d-g)/d + g/d) = 1.

A value of an integer, a date (in days) or an ordinal (its position) stands for its cell, from half a step below it to
half a step above, so the box of such a coordinate is half a step wider than its bounds on both sides.

A column with atoms or modelled blanks has a state, which is an attribute (`artefacts.domain`). In place of a missing
coordinate, a record has a public placeholder: the middle of the box for a blank, and the atom itself for an atom.
"""

import datetime
import math
from collections.abc import Sequence

import numpy as np

from privmix.artefacts.domain import Attribute, Axis
from privmix.catalog.entry import EPOCH, Column, Entry, state_name, to_number
from privmix.errors import UserError

GIVEN, BLANK = "given", "blank"
_INSIDE = 1 - 1e-12  # keeps the corners inside the ball despite rounding


def build_axes(entry: Entry) -> tuple[Axis, ...]:
    """Return the coordinates of the mixture, from the bounds in the entry."""
    return axes_of_columns([entry.column(name) for name in entry.coordinates], entry.name)


def axes_of_columns(columns: Sequence[Column], where: str) -> tuple[Axis, ...]:
    """Return the coordinates of these number columns; an error says `where` they come from."""
    share = _INSIDE / math.sqrt(len(columns))
    ratios = _metres_ratios(columns, where)
    block = math.hypot(
        *(_half_width(column) * ratios[column.name] for column in columns if column.geographic)
    )
    geographic = [column for column in columns if column.geographic]
    return tuple(
        Axis(
            name=column.name,
            description=column.description,
            unit=column.unit,
            geographic=column.geographic,
            lower=_box(column)[0],
            upper=_box(column)[1],
            resolution=column.resolution or 1.0,
            kind=column.type,
            labels=column.values,
            atoms=tuple(map(to_number, column.atoms)),
            centre=_centre(column),
            scale=share * math.sqrt(len(geographic)) * ratios[column.name] / block
            if column.geographic
            else share / _half_width(column),
        )
        for column in columns
    )


def clip(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Clip values to the public bounds. Return them and the number of values outside in each column."""
    outside = np.count_nonzero((values < lower) | (values > upper), axis=0)
    return np.clip(values, lower, upper), outside


def axis_column(axis: Axis) -> Column:
    """Return the column of a catalog entry that gives this axis."""

    def bound(value: float) -> float | datetime.date:
        return EPOCH + datetime.timedelta(days=int(value)) if axis.kind == "date" else value

    bounded = axis.kind != "ordinal"
    return Column(
        name=axis.name,
        description=axis.description,
        type=axis.kind,
        unit=axis.unit,
        geographic=axis.geographic,
        lower=bound(axis.values[0]) if bounded else None,
        upper=bound(axis.values[1]) if bounded else None,
        bound_reason="public",
        resolution=axis.resolution,
        values=axis.labels,
        atoms=tuple(map(bound, axis.atoms)),
    )


def build_attributes(entry: Entry) -> tuple[Attribute, ...]:
    """Return the attributes of an entry: the declared ones, then the states of its coordinates."""
    declared = (
        Attribute(
            name=column.name,
            description=column.description,
            values=(*column.listed, BLANK) if column.models_blanks else column.listed,
            boolean=column.type == "boolean",
            blank=column.models_blanks,
        )
        for column in map(entry.column, entry.attributes)
    )
    states = (
        state_attribute(axis, entry.column(axis.name).models_blanks)
        for axis in build_axes(entry)
        if axis.atoms or entry.column(axis.name).models_blanks
    )
    return (*declared, *states)


def state_attribute(axis: Axis, blank: bool) -> Attribute:
    """Return the state of a coordinate that may be an atom or a blank."""
    return Attribute(
        name=state_name(axis.name),
        description=f"Whether `{axis.name}` is given, or which other value it has",
        values=(GIVEN, *(format_value(axis, atom) for atom in axis.atoms), *([BLANK] if blank else [])),
        blank=blank,
        state_of=axis.name,
    )


def format_value(axis: Axis, value: float) -> str:
    """Return a value of an axis as text in the form of the source."""
    if axis.kind == "date":
        return str(EPOCH + datetime.timedelta(days=int(value)))
    return axis.labels[int(value)] if axis.kind == "ordinal" else f"{value:.15g}"


def find_states(
    values: np.ndarray, axes: Sequence[Axis], attributes: Sequence[Attribute]
) -> dict[str, np.ndarray]:
    """Return the codes of each state among the attributes, given the values of all axes, (n, d). NaN is a blank."""
    codes = {}
    for state in attributes:
        for column, axis in zip(values.T, axes, strict=True):
            if axis.name == state.state_of:
                codes[state.name] = np.zeros(len(values), dtype=np.int16)
                for number, atom in enumerate(axis.atoms, start=1):
                    codes[state.name][column == atom] = number
                codes[state.name][np.isnan(column)] = 1 + len(axis.atoms)
    return codes


def _box(column: Column) -> tuple[float, float]:
    """Return the bounds of the coordinate: of a value on a lattice, the bounds of its cell."""
    lower, upper = column.bounds
    half = 0.0 if column.type == "number" else 0.5
    return lower - half, upper + half


def _centre(column: Column) -> float:
    lower, upper = _box(column)
    return lower + (upper - lower) / 2


def _half_width(column: Column) -> float:
    """Return the largest distance of a bound from the rounded centre."""
    lower, upper = _box(column)
    return max(upper - _centre(column), _centre(column) - lower)


def _metres_ratios(columns: Sequence[Column], where: str) -> dict[str, float]:
    """Return the metres per degree of each geographic column, relative to a degree of latitude."""
    latitudes = [column for column in columns if column.geographic == "latitude"]
    for column in latitudes:
        lower, upper = column.bounds
        if lower < -90 or upper > 90:
            raise UserError(
                f"{where}: column {column.name!r} is a latitude with bounds [{lower:g}, {upper:g}]; "
                "a latitude lies in [-90, 90], so correct its bounds."
            )
    middle = sum(map(_centre, latitudes)) / len(latitudes) if latitudes else 0.0
    return {
        column.name: math.cos(math.radians(middle)) if column.geographic == "longitude" else 1.0
        for column in columns
        if column.geographic
    }
