"""The map from original units into the unit ball, from public bounds only.

normalised = (value - centre) * scale. With d coordinates, each coordinate that is not geographic gets the half
width 1/√d. The g geographic coordinates are isotropic in metres: a degree of longitude counts cos(latitude at
the centre of the public box) times a degree of latitude, and one further scale gives the block the half
diagonal √(g/d). So a corner of the public box has norm √((d-g)/d + g/d) = 1.
"""

import math
from collections.abc import Sequence

import numpy as np

from privmix.artefacts.domain import Axis
from privmix.catalog.entry import Column, Entry
from privmix.errors import UserError

_INSIDE = 1 - 1e-12  # so that rounding cannot push a corner out of the ball


def build_axes(entry: Entry) -> tuple[Axis, ...]:
    """The coordinates of the mixture, from the bounds that the entry states."""
    return axes_of_columns([entry.column(name) for name in entry.coordinates], entry.name)


def axes_of_columns(columns: Sequence[Column], where: str) -> tuple[Axis, ...]:
    """Return the coordinates for these number columns; an error names `where` they come from."""
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
    """Values drawn to the public bounds, and how many were outside in each column."""
    outside = np.count_nonzero((values < lower) | (values > upper), axis=0)
    return np.clip(values, lower, upper), outside


def _centre(column: Column) -> float:
    return column.lower + (column.upper - column.lower) / 2


def _half_width(column: Column) -> float:
    """About the centre as it was rounded."""
    return max(column.upper - _centre(column), _centre(column) - column.lower)


def _metres_ratios(columns: Sequence[Column], where: str) -> dict[str, float]:
    """Metres per degree of each geographic column, relative to a degree of latitude."""
    latitudes = [column for column in columns if column.geographic == "latitude"]
    for column in latitudes:
        if column.lower < -90 or column.upper > 90:
            raise UserError(
                f"{where}: column {column.name!r} is a latitude with bounds [{column.lower:g}, "
                f"{column.upper:g}]; a latitude lies in [-90, 90], mend its bounds."
            )
    middle = sum(map(_centre, latitudes)) / len(latitudes) if latitudes else 0.0
    return {
        column.name: math.cos(math.radians(middle)) if column.geographic == "longitude" else 1.0
        for column in columns
        if column.geographic
    }
