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
    """A categorical attribute with its public list of values; a record stores the index."""

    name: str
    description: str
    values: tuple[str, ...]


class Domain(Artefact):
    """What is public about a dataset, and all that a local mechanism's fit may know of it."""

    dataset: str
    title: str
    axes: tuple[Axis, ...]
    attributes: tuple[Attribute, ...]
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    max_records_per_person: int
    visibility: Literal["public", "synthetic", "sensitive"]
    rows: int  # a public number of training records: exact where the relation keeps it, else as expected
    persons: int | None = (
        None  # a public number of people behind them, where people are the unit and it is known
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
        """Original units to normalised coordinates."""
        return (values - [axis.centre for axis in self.axes]) * [axis.scale for axis in self.axes]

    def denormalise(self, points: np.ndarray) -> np.ndarray:
        """Normalised coordinates back to original units."""
        return points / [axis.scale for axis in self.axes] + [axis.centre for axis in self.axes]
