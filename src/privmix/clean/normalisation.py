"""The public domain of the columns of an entry, and the map from original units into the unit ball.

normalised = (value - centre) * scale. With d coordinates, each coordinate that is not geographic gets the half width
1/√d. The g geographic coordinates are isotropic in metres: a degree of longitude counts as cos(latitude at the centre
of the public box) degrees of latitude. One common scale gives this block the half diagonal √(g/d). So a corner of the
public box has norm √((d-g)/d + g/d) = 1.

A value of an integer, a date (in days) or an ordinal (its position) stands for its cell, from half a step below it to
half a step above, so the box of such a coordinate is half a step wider than its bounds on both sides.

A column with atoms or modelled blanks has a state, which is an attribute (`artefacts.domain`). In place of a missing
coordinate, a record has a public placeholder: the middle of the box for a blank, and the atom, or the bound next to it,
for an atom.
"""

import datetime
import itertools
import math
from collections.abc import Sequence

import numpy as np

from privmix.artefacts.domain import Attribute, Axis
from privmix.catalog.entry import EPOCH, Column, Entry, state_name, to_number
from privmix.errors import UserError

GIVEN, BLANK = "given", "blank"
MOST_STATES = 16  # values of an attribute that holds the states of several axes
_INSIDE = 1 - 1e-12  # keeps the corners inside the ball despite rounding


def build_axes(entry: Entry) -> tuple[Axis, ...]:
    """Return the coordinates of the mixture, from the bounds in the entry."""
    return axes_of_columns([entry.column(name) for name in entry.coordinates], entry.name)


def axes_of_columns(columns: Sequence[Column], where: str) -> tuple[Axis, ...]:
    """Return the coordinates of these number columns; an error says `where` they come from."""
    share = _INSIDE / math.sqrt(max(len(columns), 1))
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
            blank=column.models_blanks,
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
        missing="model" if axis.blank else None,
    )


def build_attributes(entry: Entry) -> tuple[Attribute, ...]:
    """Return the attributes of an entry: the declared ones, then the states of its coordinates."""
    declared = (column_attribute(entry.column(name)) for name in entry.attributes)
    return (*declared, *state_attributes(build_axes(entry)))


def column_attribute(column: Column) -> Attribute:
    """Return the attribute of a categorical column."""
    return Attribute(
        name=column.name,
        description=column.description,
        values=(*column.listed, BLANK) if column.models_blanks else column.listed,
        boolean=column.type == "boolean",
        blank=column.models_blanks,
    )


def attribute_column(attribute: Attribute) -> Column:
    """Return the column of a catalog entry that gives this attribute. An ordinal gives the same as a category."""
    listed = attribute.values[: len(attribute.values) - attribute.blank]
    return Column(
        name=attribute.name,
        description=attribute.description,
        type="boolean" if attribute.boolean else "category",
        values=() if attribute.boolean else listed,
        missing="model" if attribute.blank else None,
    )


def state_attributes(axes: Sequence[Axis]) -> list[Attribute]:
    """Return the attributes of states. Axes share one, in their order, while its values are at most `MOST_STATES`."""
    groups: list[list[Axis]] = []
    for axis in axes:
        if len(_states(axis)) > 1:
            if groups and math.prod(len(_states(each)) for each in [*groups[-1], axis]) <= MOST_STATES:
                groups[-1].append(axis)
            else:
                groups.append([axis])
    return [_state_attribute(group) for group in groups]


def _states(axis: Axis) -> list[str]:
    """Return the names of the states of an axis."""
    return [GIVEN, *(format_value(axis, atom) for atom in axis.atoms), *([BLANK] if axis.blank else [])]


def _state_attribute(group: Sequence[Axis]) -> Attribute:
    names = [axis.name for axis in group]
    if len(group) == 1:
        values = _states(group[0])
    else:
        values = [
            ", ".join(f"{name} {state}" for name, state in zip(names, states, strict=True) if state != GIVEN)
            or GIVEN
            for states in itertools.product(*map(_states, group))
        ]
    return Attribute(
        name=state_name(*names),
        description=f"Which of {', '.join(f'`{name}`' for name in names)} are given, and the others' values"
        if len(group) > 1
        else f"Whether `{names[0]}` is given, or which other value it has",
        values=tuple(values),
        state_of=tuple(names),
        sizes=tuple(len(_states(axis)) for axis in group) if len(group) > 1 else (),
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
    columns = {axis.name: (axis, column) for axis, column in zip(axes, values.T, strict=True)}
    codes = {}
    for attribute in attributes:
        if attribute.state_of:
            states = [_find_state(*columns[name]) for name in attribute.state_of]
            combined = states[0] if len(states) == 1 else np.ravel_multi_index(states, attribute.sizes)
            codes[attribute.name] = combined.astype(np.int16)
    return codes


def _find_state(axis: Axis, column: np.ndarray) -> np.ndarray:
    state = np.zeros(len(column), dtype=np.int64)
    for number, atom in enumerate(axis.atoms, start=1):
        state[column == atom] = number
    state[np.isnan(column)] = 1 + len(axis.atoms)
    return state


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
