"""The public domain of a dataset: coordinates, attributes, privacy unit. It contains nothing from any record."""

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


class Attribute(Artefact):
    """A categorical attribute with its public list of values. A record stores the index of its value."""

    name: str
    description: str
    values: tuple[str, ...]


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

    def normalise(self, values: np.ndarray) -> np.ndarray:
        """Convert original units to normalised coordinates."""
        return (values - [axis.centre for axis in self.axes]) * [axis.scale for axis in self.axes]

    def denormalise(self, points: np.ndarray) -> np.ndarray:
        """Convert normalised coordinates back to original units."""
        return points / [axis.scale for axis in self.axes] + [axis.centre for axis in self.axes]
