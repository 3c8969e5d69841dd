"""Fitted models as pictures: 2σ ellipses in original units, over the records if these may be shown."""

import math

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from privmix.artefacts.fitted_model import FittedModel
from privmix.report.figures import INK, MUTED, drawing, png, svg
from privmix.report.plot_window import (
    ACROSS,
    SIGMAS,
    PlotData,
    PlotWindow,
    axis_label,
    covers,
    original_units,
)

LEFT, RIGHT, BOTTOM, TOP = 0.56, 0.06, 0.42, 0.06  # inches around the axes of a panel
POINT = "#808a94"  # readable on white and on black: a bitmap has no colour scheme


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
