"""Fitted models as pictures: 2σ ellipses in original units, over the records if these may be shown."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.report.figures import INK, MUTED, drawing, png, svg

LEFT, RIGHT, BOTTOM, TOP = 0.56, 0.06, 0.42, 0.06  # inches around the axes of a panel
ACROSS = 3.0  # inches of the horizontal axis
TALL = (1.2, 2.3)  # smallest and largest height of the vertical axis, in inches
SIGMAS = 2.0
POINT = "#808a94"  # readable on white and on black: a bitmap has no colour scheme


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
    low, high = seen.min(axis=0), seen.max(axis=0)
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
    apart = np.array([(x, y) for x in (left, right) for y in (low, high)]) - mean
    return bool(np.all(np.sum(apart * np.linalg.solve(covariance, apart.T).T, axis=1) <= SIGMAS**2))


def draw_records(window: PlotWindow, data: PlotData) -> str | None:
    """Draw the records as one transparent bitmap below all panels; None if there is nothing to show."""
    if not len(data.cloud) or len(window.columns) < 2:
        return None
    with drawing(ACROSS, window.up) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        _window(axes, window)
        points = data.cloud[:, window.columns]
        axes.scatter(points[:, 0], points[:, 1], s=2.2, color=POINT, alpha=0.6, linewidths=0)
        return png(figure, dpi=180)


def draw_model(
    window: PlotWindow,
    data: PlotData,
    model: FittedModel,
    colour: str,
    name: str,
    label: str,
    bitmap: str | None,
) -> Markup:
    """Draw one model; `bitmap` is the id of the page's image of the records."""
    width, height = LEFT + ACROSS + RIGHT, BOTTOM + window.up + TOP
    with drawing(width, height) as figure:
        box = (LEFT / width, BOTTOM / height, ACROSS / width, window.up / height)
        axes = figure.add_axes(box)
        if len(window.columns) == 1:
            _density(axes, window, data, model, colour)
        else:
            _ellipses(axes, window, data, model, colour)
        drawn = svg(figure, name, label)
    return _on_bitmap(drawn, bitmap, window) if bitmap else drawn


def _on_bitmap(drawn: Markup, bitmap: str, window: PlotWindow) -> Markup:
    left, top, across, up = (72 * inches for inches in (LEFT, TOP, ACROSS, window.up))
    image = f'<use href="#{bitmap}" transform="translate({left:g} {top:g}) scale({across:g} {up:g})"/>'
    head, _, rest = drawn.partition(">")
    return Markup(f"{head}>{image}{rest}")


def _window(axes: Axes, window: PlotWindow) -> None:
    axes.set_xlim(*window.limits[0])
    axes.set_ylim(*window.limits[1])


def axis_label(axis: Axis) -> str:
    """Return the label of an axis."""
    name = axis.name.replace("_", " ")
    return f"{name} ({axis.unit})" if axis.unit else name


def _ellipses(axes: Axes, window: PlotWindow, data: PlotData, model: FittedModel, colour: str) -> None:
    _window(axes, window)
    means, covariances = original_units(window.domain, model, window.columns)
    heaviest = max(model.weights)
    for weight, mean, covariance in zip(model.weights, means, covariances, strict=True):
        if covers(window, mean, covariance):
            continue  # its fill would cover the whole picture
        values, vectors = np.linalg.eigh(covariance)
        width, height = 2 * SIGMAS * np.sqrt(np.maximum(values, 0))
        angle = math.degrees(math.atan2(vectors[1, 0], vectors[0, 0]))
        strength = 0.45 + 0.55 * math.sqrt(weight / heaviest)
        shape = {"xy": mean, "width": width, "height": height, "angle": angle}
        axes.add_patch(Ellipse(**shape, facecolor=colour, alpha=0.25 * weight, linewidth=0))
        axes.add_patch(Ellipse(**shape, fill=False, edgecolor=colour, alpha=strength, linewidth=1.3))
    axes.plot(*means.T, linestyle="none", marker="+", color=colour, markersize=5, markeredgewidth=1.2)
    for place in data.places[:, window.columns]:
        axes.plot(
            *place,
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.4,
        )
    _labels(axes, window)


def _labels(axes: Axes, window: PlotWindow) -> None:
    axes.set_xlabel(axis_label(window.axes[0]), fontsize=9, labelpad=2)
    axes.set_ylabel(axis_label(window.axes[1]), fontsize=9, labelpad=2)
    axes.tick_params(labelsize=8, length=2.5, pad=2)
    axes.locator_params(nbins=5)
    axes.ticklabel_format(useOffset=False)


def _density(axes: Axes, window: PlotWindow, data: PlotData, model: FittedModel, colour: str) -> None:
    low, high = window.limits[0]
    if len(data.cloud):
        axes.hist(data.cloud[:, 0], bins=60, range=(low, high), density=True, color=MUTED, alpha=0.35)
    means, covariances = original_units(window.domain, model, window.columns)
    x = np.linspace(low, high, 600)
    variances = covariances[:, 0]
    bells = np.exp(-((x - means) ** 2) / (2 * variances)) / np.sqrt(2 * np.pi * variances)
    axes.plot(x, np.array(model.weights) @ bells, color=colour, linewidth=1.5)
    for place in data.places[:, 0]:
        axes.axvline(place, color=INK, linewidth=1.0, linestyle=":")
    axes.set_xlim(low, high)
    axes.set_ylim(0, None)
    axes.set_xlabel(axis_label(window.axes[0]), fontsize=9, labelpad=2)
    axes.set_ylabel("density", fontsize=9, labelpad=2)
    axes.set_yticks([])
    axes.tick_params(labelsize=8, length=2.5, pad=2)
