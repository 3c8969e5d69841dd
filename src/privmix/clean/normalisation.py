"""The map from original units into the unit ball, from public bounds only.

normalised = (value - centre) * scale. With d coordinates, each coordinate that is not geographic gets the half width
1/√d. The g geographic coordinates are isotropic in metres: a degree of longitude counts as cos(latitude at the centre
of the public box) degrees of latitude. One common scale gives this block the half diagonal √(g/d). So a corner of the
public box has norm √((d-g)/d + g/d) = 1.
"""

import math
from collections.abc import Sequence

import numpy as np

from privmix.artefacts.domain import Axis
from privmix.catalog.entry import Column, Entry
from privmix.errors import UserError

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
            lower=column.lower,
            upper=column.upper,
            resolution=column.resolution,
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


def _centre(column: Column) -> float:
    lower, upper = column.bounds
    return lower + (upper - lower) / 2


def _half_width(column: Column) -> float:
    """Return the largest distance of a bound from the rounded centre."""
    lower, upper = column.bounds
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
