"""Public cells of a column: the candidates of a quantile, the bins of a histogram, and the options of a choice."""

import math
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.mechanisms.base import Records

MOST_CELLS = (
    4096  # candidates of a quantile: more make its interval wider, and their step is 1/4096 of the range
)


@dataclass(frozen=True)
class AxisCells:
    """Equal cells between the public bounds of an axis, in its own unit. A value on a lattice lies inside a cell."""

    axis: Axis
    edges: np.ndarray  # (C + 1,)

    @property
    def number(self) -> int:
        """The number of cells."""
        return len(self.edges) - 1

    def place(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the cell of each normalised coordinate, each from its own record alone."""
        values = coordinates / self.axis.scale + self.axis.centre
        if self.axis.step is not None:
            values = np.rint(values)
        cells = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(cells, 0, self.number - 1)

    def ends(self, cell: int) -> tuple[float, float]:
        """Return the smallest and the largest value in a cell."""
        lower, upper = float(self.edges[cell]), float(self.edges[cell + 1])
        if self.axis.step is None:
            return lower, upper
        least, most = self.axis.values
        return max(math.ceil(lower), least), min(math.ceil(upper) - 1, most)

    def middle(self, cell: int) -> float:
        """Return the value in the middle of a cell: a possible value of the column."""
        lower, upper = self.ends(cell)
        return float(self.axis.settle(np.array((lower + upper) / 2)))


def quantile_cells(axis: Axis) -> AxisCells:
    """Return the candidates of a quantile: values on a lattice, or cells of the resolution, at most `MOST_CELLS`."""
    wanted = (axis.upper - axis.lower) / (axis.step or axis.resolution)
    if axis.step is None:
        return equal_cells(axis, min(MOST_CELLS, max(1, math.ceil(wanted - 1e-9))))
    each = math.ceil(round(wanted) / MOST_CELLS)  # whole values in a cell
    number = math.ceil(round(wanted) / each)
    edges = np.minimum(axis.lower + each * np.arange(number + 1.0), axis.upper)
    return AxisCells(axis, edges)


def equal_cells(axis: Axis, number: int) -> AxisCells:
    """Return this many cells of equal width."""
    return AxisCells(axis, np.linspace(axis.lower, axis.upper, number + 1))


def find_axis(domain: Domain, column: str | None) -> int | None:
    """Return the number of the axis of this name, or None."""
    return next((number for number, axis in enumerate(domain.axes) if axis.name == column), None)


def find_attribute(domain: Domain, column: str | None) -> Attribute | None:
    """Return the attribute of this name, or None."""
    return next((each for each in domain.attributes if each.name == column), None)


def has_value(records: Records, number: int, domain: Domain) -> np.ndarray:
    """Return which records have this coordinate, (n,)."""
    return np.asarray(~domain.absent(records.codes, len(records))[:, number])


def options(attribute: Attribute) -> tuple[str, ...]:
    """Return the values among which the most frequent is chosen: all but the blank."""
    return attribute.values[: len(attribute.values) - attribute.blank]


def number_of_states(axis: Axis) -> int:
    """Return the number of states of an axis beside a given value: its atoms and its blank."""
    return len(axis.atoms) + axis.blank
