"""Pictures of a synthetic table beside held-out records: histograms of one column, and maps of one pair."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from privmix.artefacts.domain import Domain
from privmix.artefacts.usefulness import ColumnComparison, TableComparison
from privmix.report.figures import INK, MUTED, drawing, svg
from privmix.report.plot_window import axis_label

WIDTH, HEIGHT = 3.6, 2.6  # inches
BOX = (0.18, 0.19, 0.78, 0.75)  # axes within the figure
LEVELS = 8  # of opacity in a map
MOST_NAMES = 8  # values of a category with labels
MOST_LEVEL = 3  # labels that are not turned
TURNED = 0.15  # height of turned labels
LONGEST = 12  # characters of a label


def draw_column(domain: Domain, column: ColumnComparison, colour: str, name: str, label: str) -> Markup:
    """Draw the shares of the bins or values: held-out records in grey, synthetic rows as a line or as bars."""
    with drawing(WIDTH, HEIGHT) as figure:
        axes = figure.add_axes(BOX)
        if column.edges:
            edges = np.array(column.edges)
            axes.stairs(column.real, edges, fill=True, color=MUTED, alpha=0.45)
            axes.stairs(column.synthetic, edges, color=colour, linewidth=1.8)
            axes.set_xlim(*_filled(edges, np.add(column.real, column.synthetic)))
        else:
            places = np.arange(len(column.real))
            axes.bar(places - 0.2, column.real, width=0.4, color=MUTED, alpha=0.45)
            axes.bar(places + 0.2, column.synthetic, width=0.4, color=colour)
        _label_bins(axes, "x", domain, column)
        axes.set_xlabel(_title(domain, column.name), fontsize=9, labelpad=2)
        axes.set_ylabel("share", fontsize=9, labelpad=2)
        axes.tick_params(labelsize=8, length=2.5, pad=2)
        return svg(figure, name, label)


def draw_pair(
    domain: Domain, compared: TableComparison, side: str, colour: str, name: str, label: str
) -> Markup:
    """Draw the two-way marginal of the worst pair; `side` is real or synthetic. Darker bins have more rows."""
    joint = compared.worst_joint
    assert joint is not None, "a table with one column has no pair"
    columns = [compared.column(each) for each in joint.columns]
    tables = {"real": np.array(joint.real), "synthetic": np.array(joint.synthetic)}
    if _is_map(domain, joint.columns):  # longitude on the horizontal axis
        columns, tables = columns[::-1], {key: table.T for key, table in tables.items()}
    shown, highest = tables[side], max(table.max() for table in tables.values())
    edges = [_edges(column) for column in columns]
    with drawing(WIDTH, HEIGHT) as figure:
        axes = figure.add_axes(BOX)
        level = np.ceil(np.sqrt(shown / highest) * LEVELS).astype(int)
        for each in range(1, LEVELS + 1):
            cells = [_rectangle(edges, *where) for where in np.argwhere(level == each)]
            if cells:
                path = Outline.make_compound_path(*cells)
                axes.add_patch(PathPatch(path, facecolor=colour, alpha=each / LEVELS, linewidth=0))
        mass = tables["real"] + tables["synthetic"]
        axes.set_xlim(*_filled(edges[0], mass.sum(axis=1)))
        axes.set_ylim(*_filled(edges[1], mass.sum(axis=0)))
        _label_bins(axes, "x", domain, columns[0])
        _label_bins(axes, "y", domain, columns[1])
        axes.set_xlabel(_title(domain, columns[0].name), fontsize=9, labelpad=2)
        axes.set_ylabel(_title(domain, columns[1].name), fontsize=9, labelpad=2)
        axes.tick_params(labelsize=8, length=2.5, pad=2, colors=MUTED, labelcolor=INK)
        return svg(figure, name, label)


def _label_bins(axes: Axes, axis: Literal["x", "y"], domain: Domain, column: ColumnComparison) -> None:
    """Label numbers, or the values of a category if they are few and each has its own bin."""
    if column.edges:
        axes.locator_params(axis=axis, nbins=5)
        axes.ticklabel_format(axis=axis, useOffset=False)
        return
    values = next((each.values for each in domain.attributes if each.name == column.name), ())
    if len(values) != len(column.real) or len(values) > MOST_NAMES:
        values = ()
    texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in values]
    (axes.set_xticks if axis == "x" else axes.set_yticks)(range(len(texts)), texts)
    if axis == "x" and len(texts) > MOST_LEVEL:
        axes.set_xticks(range(len(texts)), texts, rotation=30, ha="right")
        left, low, width, height = BOX
        axes.set_position((left, low + TURNED, width, height - TURNED))


def _is_map(domain: Domain, names: tuple[str, str]) -> bool:
    kinds = {axis.name: axis.geographic for axis in domain.axes}
    return [kinds.get(name) for name in names] == ["latitude", "longitude"]


def _edges(column: ColumnComparison) -> np.ndarray:
    return np.array(column.edges) if column.edges else np.arange(len(column.real) + 1) - 0.5


def _filled(edges: np.ndarray, mass: np.ndarray) -> tuple[float, float]:
    """Return the edges around all bins with rows, and one bin on each side: public bounds can be wide."""
    seen = np.flatnonzero(mass > 0)
    first, last = max(seen[0] - 1, 0), min(seen[-1] + 2, len(edges) - 1)
    return float(edges[first]), float(edges[last])


def _rectangle(edges: Sequence[np.ndarray], column: int, row: int) -> Outline:
    left, right = edges[0][column : column + 2]
    low, high = edges[1][row : row + 2]
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    return Outline(corners, closed=True)


def _title(domain: Domain, name: str) -> str:
    axis = next((axis for axis in domain.axes if axis.name == name), None)
    return name.replace("_", " ") if axis is None else axis_label(axis)
