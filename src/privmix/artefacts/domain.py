"""The public domain of a dataset: coordinates, attributes, privacy unit. It contains nothing from any record.

A column of numbers may also hold values that are no coordinate: blanks, and declared atoms such as 0. It then has a
*state*: 0 if the record has the coordinate, then one for each atom, then one for the blank. States are attributes. One
attribute can hold the states of several columns, because blanks often come together.
"""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from privmix.artefacts.io import Artefact


class Axis(Artefact):
    """One coordinate of the mixture: normalised = (value - centre) * scale."""

    name: str
    description: str
    unit: str
    geographic: Literal["latitude", "longitude"] | None
    lower: float
    upper: float
    resolution: float
    centre: float
    scale: float
    kind: Literal["number", "integer", "date", "ordinal"] = "number"
    labels: tuple[str, ...] = ()  # of an ordinal, in their order; its coordinate is the position, from 0
    atoms: tuple[float, ...] = ()  # values with a share of their own
    blank: bool = False  # whether a blank is a value

    @property
    def step(self) -> float | None:
        """Distance of neighbouring values on their lattice, or None if there is no lattice."""
        return None if self.kind == "number" else 1.0

    @property
    def values(self) -> tuple[float, float]:
        """The smallest and the largest value. On a lattice, the bounds of the axis are those of their cells."""
        half = (self.step or 0.0) / 2
        return self.lower + half, self.upper - half

    def settle(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the value for each coordinate in the column's unit: on the lattice, and within the bounds.

        On a lattice, an atom is no value of a coordinate, which moves to the next value: on its own side of the atom,
        or inside the bounds.
        """
        least, most = self.values
        if self.step is None:
            return np.clip(coordinates, least, most)
        while least in self.atoms and least < most:
            least += self.step
        while most in self.atoms and least < most:
            most -= self.step
        values = np.clip(np.floor(coordinates + 0.5), least, most)
        for atom in self.atoms:
            if least < atom < most:
                values = np.where(values == atom, np.where(coordinates < atom, atom - 1, atom + 1), values)
        return np.asarray(values)

    @property
    def narrowest(self) -> float:
        """Smallest standard deviation of a component, in the column's unit.

        For real numbers it is the resolution. A value on a lattice stands for its cell, of width w, and the density of
        a component times w must not be above 1, since it stands for the share of a cell: 1/(σ√(2π)) ≤ 1/w.
        """
        return self.resolution if self.step is None else self.resolution / math.sqrt(2 * math.pi)


class Attribute(Artefact):
    """A categorical attribute with its public list of values. A record stores the index of its value.

    The values of an attribute of states are all combinations of the states of its axes, the last axis fastest.
    """

    name: str
    description: str
    values: tuple[str, ...]
    boolean: bool = False
    blank: bool = False  # whether the last value is a blank
    state_of: tuple[str, ...] = ()  # the axes whose states this is
    sizes: tuple[int, ...] = ()  # number of states of each of these axes, if there are several

    def states(self, codes: np.ndarray) -> dict[str, np.ndarray]:
        """Return the state of each of its axes, by name, from the codes of this attribute."""
        if len(self.state_of) < 2:
            return dict.fromkeys(self.state_of, codes)
        return dict(zip(self.state_of, np.unravel_index(codes, self.sizes), strict=True))


class Domain(Artefact):
    """Everything that is public about a dataset. The fit of a local mechanism sees only this and the reports."""

    dataset: str
    title: str
    axes: tuple[Axis, ...]
    attributes: tuple[Attribute, ...]
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    max_records_per_person: int
    visibility: Literal["public", "synthetic", "sensitive"]
    rows: int  # public number of training records: exact if all neighbouring datasets share it, else expected
    persons: int | None = (
        None  # public number of their persons, if the unit is a person and the number is known
    )

    @property
    def lower(self) -> np.ndarray:
        """Lower corner of the public box in normalised units."""
        return np.array([(axis.lower - axis.centre) * axis.scale for axis in self.axes])

    @property
    def upper(self) -> np.ndarray:
        """Upper corner of the public box in normalised units."""
        return np.array([(axis.upper - axis.centre) * axis.scale for axis in self.axes])

    @property
    def resolution(self) -> np.ndarray:
        """Public smallest scale of interest per axis in normalised units."""
        return np.array([axis.resolution * axis.scale for axis in self.axes])

    @property
    def floor(self) -> np.ndarray:
        """Smallest variance of a component per axis in normalised units."""
        return np.array([axis.narrowest * axis.scale for axis in self.axes]) ** 2

    @property
    def rounding(self) -> np.ndarray:
        """Variance that rounding to the lattice adds to a smooth distribution (Sheppard 1898), normalised, per axis."""
        return np.array([(axis.step or 0.0) * axis.scale for axis in self.axes]) ** 2 / 12

    @property
    def states(self) -> dict[int, Attribute]:
        """The attribute with the state of each axis that a record may lack, by the number of the axis."""
        numbers = {axis.name: number for number, axis in enumerate(self.axes)}
        return {numbers[name]: each for each in self.attributes for name in each.state_of}

    def axis_states(self, codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the states of the axes, by name, as far as `codes` has them."""
        found: dict[str, np.ndarray] = {}
        for attribute in self.attributes:
            if attribute.name in codes:
                found |= attribute.states(codes[attribute.name])
        return found

    def absent(self, codes: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """Return which coordinates each of the `rows` records lacks, (n, d). Its point has a placeholder there."""
        absent = np.zeros((rows, len(self.axes)), dtype=bool)
        states = self.axis_states(codes)
        for number, axis in enumerate(self.axes):
            if axis.name in states:
                absent[:, number] = states[axis.name] != 0
        return absent

    def normalise(self, values: np.ndarray) -> np.ndarray:
        """Convert original units to normalised coordinates."""
        return (values - [axis.centre for axis in self.axes]) * [axis.scale for axis in self.axes]

    def denormalise(self, points: np.ndarray) -> np.ndarray:
        """Convert normalised coordinates back to original units."""
        return points / [axis.scale for axis in self.axes] + [axis.centre for axis in self.axes]
