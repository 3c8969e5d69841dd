"""The window on a dataset: which coordinates a picture of a model shows, and their limits in original units."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.fitted_model import FittedModel

ACROSS = 3.0  # inches of the horizontal axis
TALL = (1.2, 2.3)  # smallest and largest height of the vertical axis, in inches
SIGMAS = 2.0


class PlotData(Protocol):
    """Data to draw with a model: its domain, points, and places to mark; arrays (n, d) in original units."""

    @property
    def domain(self) -> Domain: ...
    @property
    def cloud(self) -> np.ndarray: ...
    @property
    def places(self) -> np.ndarray: ...


@dataclass(frozen=True)
class PlotWindow:
    """The window on a dataset that all its panels share."""

    domain: Domain
    columns: tuple[int, ...]  # drawn axes: one, or horizontal then vertical
    limits: tuple[tuple[float, float], ...]
    up: float  # inches of the vertical axis

    @property
    def axes(self) -> list[Axis]:
        """The drawn axes."""
        return [self.domain.axes[column] for column in self.columns]


def plot_columns(domain: Domain) -> tuple[int, ...]:
    """Return the first two coordinates; a map always has its longitude on the horizontal axis."""
    columns = tuple(range(min(2, len(domain.axes))))
    if [domain.axes[column].geographic for column in columns] == ["latitude", "longitude"]:
        return (1, 0)
    return columns


def plot_window(data: PlotData, models: list[FittedModel]) -> PlotWindow:
    """Return a window on all shown records; without records, on the models' ellipses inside the public box."""
    domain = data.domain
    columns = plot_columns(domain)
    seen = np.vstack([data.cloud, data.places])[:, columns]
    if not len(seen):
        seen = np.vstack([_extent(domain, model, columns) for model in models])
        bounds = np.array([[domain.axes[c].lower, domain.axes[c].upper] for c in columns])
        seen = np.clip(seen, bounds[:, 0], bounds[:, 1])
    return window_around(domain, columns, seen)


def window_around(domain: Domain, columns: tuple[int, ...], shown: np.ndarray) -> PlotWindow:
    """Return a window on points (n, len(columns)) in original units, with a margin."""
    low, high = shown.min(axis=0), shown.max(axis=0)
    smallest = np.array([4 * domain.axes[column].resolution for column in columns])
    margin = np.maximum(0.04 * (high - low), smallest)
    limits = [(float(a), float(b)) for a, b in zip(low - margin, high + margin, strict=True)]
    if len(columns) == 2 and [domain.axes[c].geographic for c in columns] == ["longitude", "latitude"]:
        return PlotWindow(domain, columns, *map_window(limits))
    return PlotWindow(domain, columns, tuple(limits), TALL[1])


def map_window(limits: list[tuple[float, float]]) -> tuple[tuple[tuple[float, float], ...], float]:
    """Return limits and height so that a kilometre north is as long as a kilometre east in the middle of the map."""
    (left, right), (low, high) = limits
    stretch = 1 / max(math.cos(math.radians((low + high) / 2)), 0.2)
    stretch = round(stretch, 9)  # the last digits of a cosine differ between machines
    height = min(max(ACROSS * (high - low) * stretch / (right - left), TALL[0]), TALL[1])
    more_across = max(0.0, ACROSS / height * (high - low) * stretch - (right - left)) / 2
    more_up = max(0.0, height / ACROSS * (right - left) / stretch - (high - low)) / 2
    return ((left - more_across, right + more_across), (low - more_up, high + more_up)), height


def original_units(
    domain: Domain, model: FittedModel, columns: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and covariances of the drawn coordinates in original units (the marginal of a Gaussian)."""
    index = list(columns)
    scale = np.array([domain.axes[column].scale for column in index])
    means = domain.denormalise(np.array(model.means))[:, index]
    covariances = np.array(model.covariances)[:, index][:, :, index]
    return means, covariances / np.outer(scale, scale)


def _extent(domain: Domain, model: FittedModel, columns: tuple[int, ...]) -> np.ndarray:
    means, covariances = original_units(domain, model, columns)
    reach = SIGMAS * np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return np.vstack([means - reach, means + reach])


def centres_outside(window: PlotWindow, model: FittedModel) -> int:
    """Count the components whose centre is outside the window."""
    means, _ = original_units(window.domain, model, window.columns)
    low, high = np.array(window.limits).T
    return int(np.any((means < low) | (means > high), axis=1).sum())


def ellipses_around(window: PlotWindow, model: FittedModel) -> int:
    """Count the components whose ellipse encloses the whole window and is therefore invisible."""
    if len(window.columns) < 2:
        return 0
    means, covariances = original_units(window.domain, model, window.columns)
    return sum(covers(window, mean, covariance) for mean, covariance in zip(means, covariances, strict=True))


def covers(window: PlotWindow, mean: np.ndarray, covariance: np.ndarray) -> bool:
    """Tell whether the ellipse contains all corners of the window and, because it is convex, all of the window."""
    (left, right), (low, high) = window.limits
    x, y = np.array([(x, y) for x in (left, right) for y in (low, high)]).T - mean[:, None]
    (a, b), (_, c) = covariance
    return bool(np.all(c * x * x - 2 * b * x * y + a * y * y <= SIGMAS * SIGMAS * (a * c - b * b)))


def axis_label(axis: Axis) -> str:
    """Return the label of an axis."""
    name = axis.name.replace("_", " ")
    return f"{name} ({axis.unit})" if axis.unit else name
