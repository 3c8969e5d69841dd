"""Figures: one colour and marker per mechanism, SVG with CSS colours for a page, and files for papers.

Matplotlib draws in the light scheme. `svg` replaces each colour by a variable of the page's style sheet, so one drawing
serves the light scheme, the dark scheme and print.
"""

import base64
import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from privmix.artefacts.privacy_statement import holds_anywhere, randomises_records

INK, MUTED, GRID, SURFACE, FORBIDDEN = "#1b2026", "#5b6570", "#d9dee4", "#fdfefe", "#f6dfd9"
# Blue, vermillion, green, purple, mustard, indigo, crimson, teal, lime, brown: they differ in hue and in lightness.
# Markers and dashed lines (local mechanisms) also tell mechanisms apart.
SERIES = (
    "#0067a5", "#c14a00", "#00785a", "#a03d8a", "#806400", "#4a4fc0", "#b3213d", "#2c7787", "#587a00", "#94553a",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
VARIABLES = {
    INK: "--ink", MUTED: "--muted", GRID: "--grid", SURFACE: "--surface", FORBIDDEN: "--forbidden",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES)},
}  # fmt: skip
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "svg.fonttype": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "path.simplify": True,
}


DPI = 200  # of PNG files
# Name prefixes of the figures to keep, and the figures kept so far.
_KEPT: ContextVar[tuple[tuple[str, ...], dict[str, Figure]]] = ContextVar("kept", default=((), {}))


@dataclass(frozen=True)
class Series:
    """The look of a mechanism in every figure."""

    name: str
    number: int
    trust: str

    @property
    def local(self) -> bool:
        """Whether the mechanism is local."""
        return randomises_records(self.trust)

    @property
    def comparable(self) -> bool:
        """Whether its ε is comparable with the ε of other mechanisms."""
        return holds_anywhere(self.trust)

    @property
    def colour(self) -> str:
        """Colour in the light scheme."""
        return SERIES[self.number % len(SERIES)]

    @property
    def variable(self) -> str:
        """Colour as a CSS variable."""
        return VARIABLES[self.colour]

    @property
    def marker(self) -> str:
        """Marker; it differs from that of an earlier mechanism with the same colour."""
        return MARKERS[(self.number + self.number // len(SERIES)) % len(MARKERS)]

    @property
    def line(self) -> str | tuple[int, tuple[float, float]]:
        """Line style: solid for central mechanisms, dashed for local ones."""
        return (0, (4.0, 2.2)) if self.local else "-"

    @property
    def fill(self) -> str:
        """Marker fill: filled for central mechanisms, hollow for local ones."""
        return SURFACE if self.local else self.colour

    @property
    def label(self) -> str:
        """Name in a figure."""
        return f"{self.name} ({self.trust})" if self.local else self.name


def series(private: list[str], trust: Mapping[str, str]) -> dict[str, Series]:
    """Return the look of each private mechanism."""
    return {name: Series(name, number, trust[name]) for number, name in enumerate(private)}


@contextlib.contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """Yield a figure in the page's style, without pyplot's global state; sizes in inches."""
    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width, height))


@contextlib.contextmanager
def keep_figures(*beginnings: str) -> Iterator[dict[str, Figure]]:
    """Yield a dictionary that collects the figures that `svg` renders under names with these prefixes.

    The files for papers come from these figures, so they equal those of the page.
    """
    found: dict[str, Figure] = {}
    token = _KEPT.set((beginnings, found))
    try:
        yield found
    finally:
        _KEPT.reset(token)


def file_bytes(figure: Figure, name: str, kind: Literal["svg", "png"]) -> bytes:
    """Return a figure of the page as a file for papers: light scheme, white background, letters as outlines.

    Labelled lines get a legend; on the page, the legend is beside the figure.
    """
    handles, _ = figure.axes[0].get_legend_handles_labels()
    if handles and not figure.legends:
        figure.legend(
            handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9
        )
    stream = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({**STYLE, "svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(
            stream, format=kind, dpi=DPI, facecolor="white", bbox_inches="tight", metadata=metadata
        )
    return stream.getvalue()


def svg(figure: Figure, name: str, label: str) -> Markup:
    """Return the figure as an SVG element for an HTML page; `name` must be unique on the page."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(
            stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>\s*", "", text, flags=re.DOTALL)  # would apply to the whole page
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font: \1px var(--sans)", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    head, _, _ = text.partition(">")
    head += ">"
    [box] = re.findall(r'viewBox="[^"]+"', head)
    opening = f'<svg {box} role="img" aria-label="{escape(label)}">'
    beginnings, found = _KEPT.get()
    if name.startswith(beginnings):
        found[name] = figure
    return Markup(opening + text[len(head) :].strip())


def png(figure: Figure, dpi: int) -> str:
    """Return the figure as a `data:` URL."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, transparent=True, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Return the positions nearest to `wanted`, in the same order, `gap` apart, and inside [low, high] if they fit.

    Least squares under order constraints: neighbours that collide form a block around their mean.
    """
    order = sorted(range(len(wanted)), key=lambda item: wanted[item])
    blocks: list[list[float]] = []  # for each member, the wanted position of the first label
    for rank, item in enumerate(order):
        blocks.append([wanted[item] - rank * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    starts = [_mean(block) for block in blocks for _ in block]
    last = high - gap * (len(wanted) - 1)
    result = [0.0] * len(wanted)
    for rank, (item, start) in enumerate(zip(order, starts, strict=True)):
        result[item] = max(min(start, last), low) + rank * gap
    return result


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def figure_files(charts: Mapping[str, Figure]) -> dict[str, bytes]:
    """Return the charts as SVG and PNG files: names and contents. Narrow charts show the same and are left out."""
    return {
        f"{name.removesuffix('-wide')}.{kind}": file_bytes(figure, name, kind)
        for name, figure in charts.items()
        if not name.endswith("-narrow")
        for kind in ("svg", "png")
    }
