"""The picture of a release page: the components of the model over synthetic rows, as one SVG element.

Its text is the same on every machine, so `privmix verify` compares it byte for byte. No drawing library is used: most
numbers come from sums, products, quotients and square roots, and all are rounded to tenths of a unit. This also hides
the last digits of cosines, angles and exponentials, which differ between machines. The style sheet of the page gives
the colours and the size of the letters.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from markupsafe import Markup

from privmix.release.folder import Gaussians, ReleasedModel
from privmix.report.plot_window import ACROSS, PlotWindow, axis_label, covers, plot_columns, window_around

LEFT, RIGHT, TOP, BOTTOM = 96, 36, 36, 66  # units around the frame
WIDTH = 520  # units of the frame
LAYERS = 4  # groups of rows, drawn over each other: a place with many rows is darker
BINS = 52
STEPS_ACROSS, STEPS_UP = 5, 6  # most steps between the ticks of an axis
LONGEST = 40  # characters of a label
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Frame:
    """The rectangle of the axes, and the limits of both axes."""

    across: tuple[float, float]
    up: tuple[float, float]
    height: int  # units

    @property
    def bottom(self) -> int:
        """The lower edge."""
        return TOP + self.height

    @property
    def scales(self) -> tuple[float, float]:
        """Units of the picture for each unit of an axis."""
        return WIDTH / (self.across[1] - self.across[0]), self.height / (self.up[1] - self.up[0])

    def x(self, value: float) -> float:
        """Return the horizontal place of a value."""
        return LEFT + (value - self.across[0]) * self.scales[0]

    def y(self, value: float) -> float:
        """Return the vertical place of a value."""
        return self.bottom - (value - self.up[0]) * self.scales[1]


def draw_model(model: ReleasedModel, rows: np.ndarray) -> Markup:
    """Draw the model over synthetic rows (n, d) in original units: two coordinates, or the density of the only one."""
    columns = plot_columns(model.domain)
    window = window_around(model.domain, columns, rows[:, columns])
    height = round(WIDTH * window.up / ACROSS)
    labels = [axis_label(axis) for axis in window.axes]
    if len(columns) == 1:
        frame, content = _density(model.original, rows[:, 0], window.limits[0], height)
        axes = _axis_across(frame, labels[0]) + _label_up("density")
    else:
        frame = Frame(window.limits[0], window.limits[1], height)
        content = _points(frame, rows[:, columns]) + _ellipses(frame, window, model.original)
        axes = _axis_across(frame, labels[0]) + _axis_up(frame, labels[1])
    described = (
        f"{len(model.original.weights)} components of the model over {len(rows)} synthetic rows: "
        f"{' and '.join(labels)}"
    )
    box = Markup('x="{}" y="{}" width="{}" height="{}"').format(LEFT, TOP, WIDTH, height)
    return Markup(
        '<svg class="model" viewBox="0 0 {} {}" role="img" aria-label="{}">\n'
        '<clipPath id="inside"><rect {}/></clipPath>\n{}<g clip-path="url(#inside)">\n{}</g>\n'
        '<rect class="frame" {}/>\n</svg>'
    ).format(LEFT + WIDTH + RIGHT, frame.bottom + BOTTOM, described, box, axes, content, box)


def _number(value: float) -> str:
    """Return a number with at most one decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _path(name: str, steps: Iterable[str]) -> Markup:
    return Markup('<path class="{}" d="{}"/>\n').format(name, "".join(steps))


def _points(frame: Frame, rows: np.ndarray) -> Markup:
    places = [f"M{_number(frame.x(x))} {_number(frame.y(y))}h0" for x, y in rows.tolist()]
    return Markup("").join(_path("rows", places[layer::LAYERS]) for layer in range(LAYERS))


def _ellipses(frame: Frame, window: PlotWindow, mixture: Gaussians) -> Markup:
    """Draw the 1σ and 2σ ellipses of the components, and their centres."""
    wide, tall = frame.scales
    drawn, centres, (first, second) = Markup(""), [], window.columns
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        place = f"{_number(frame.x(mean[first]))} {_number(frame.y(mean[second]))}"
        centres.append(f"M{place}m-6 0h12m-6-6v12")
        a, b, c = covariance[first][first], covariance[first][second], covariance[second][second]
        if covers(window, np.array([mean[first], mean[second]]), np.array([[a, b], [b, c]])):
            continue  # its fill would cover the whole picture
        a, b, c = a * wide * wide, -b * wide * tall, c * tall * tall
        middle, apart = (a + c) / 2, (a - c) / 2
        root = math.sqrt(apart * apart + b * b)
        axes = math.sqrt(middle + root), math.sqrt(max(middle - root, 0.0))
        drawn += Markup(
            '<g class="component" transform="translate({}) rotate({})" fill-opacity="{:.2f}" '
            'stroke-opacity="{:.2f}"><ellipse rx="{}" ry="{}"/><ellipse class="one-sigma" rx="{}" ry="{}"/></g>\n'
        ).format(
            place,
            _number(math.degrees(0.5 * math.atan2(b, apart))),
            0.25 * weight,
            0.45 + 0.55 * math.sqrt(weight / max(mixture.weights)),
            *(_number(sigmas * axis) for sigmas in (2, 1) for axis in axes),
        )
    return drawn + _path("centres", centres)


def _density(
    mixture: Gaussians, rows: np.ndarray, limits: tuple[float, float], height: int
) -> tuple[Frame, Markup]:
    """Draw the density of the only coordinate over a histogram of the rows."""
    low, high = limits
    counts, edges = np.histogram(rows, bins=BINS, range=limits)
    bars = counts / (len(rows) * (high - low) / BINS)
    x = low + (high - low) * np.arange(WIDTH + 1) / WIDTH
    curve = np.zeros(len(x))
    for weight, [mean], [[variance]] in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        curve += weight * np.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    frame = Frame(limits, (0.0, 1.05 * float(max(bars.max(), curve.max()))), height)
    steps = [f"M{LEFT} {frame.bottom}"]
    for right, bar in zip(edges[1:].tolist(), bars.tolist(), strict=True):
        steps.append(f"V{_number(frame.y(bar))}H{_number(frame.x(right))}")
    steps.append(f"V{frame.bottom}Z")
    line = [f"{LEFT + place} {_number(frame.y(value))}" for place, value in enumerate(curve.tolist())]
    return frame, _path("bars", steps) + _path("density", ["M", "L".join(line)])


def _axis_across(frame: Frame, label: str) -> Markup:
    places, texts, power = _ticks(*frame.across, STEPS_ACROSS)
    drawn = _path("grid", [f"M{_number(frame.x(place))} {TOP}v{frame.height}" for place in places])
    for place, text in zip(places, texts, strict=True):
        drawn += _text("across", frame.x(place), frame.bottom + 8, text)
    return drawn + _text("across", LEFT + WIDTH / 2, frame.bottom + 38, _shorten(label) + power)


def _axis_up(frame: Frame, label: str) -> Markup:
    places, texts, power = _ticks(*frame.up, STEPS_UP)
    drawn = _path("grid", [f"M{LEFT} {_number(frame.y(place))}h{WIDTH}" for place in places])
    for place, text in zip(places, texts, strict=True):
        drawn += _text("up", LEFT - 8, frame.y(place), text)
    return drawn + _label_up(_shorten(label) + power)


def _label_up(text: str) -> Markup:
    """Write the label of the vertical axis above it, where it has space."""
    return _text("above", LEFT, TOP - 12, text)


def _text(name: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>\n').format(name, _number(x), _number(y), text)


def _shorten(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"


def _ticks(low: float, high: float, most: int) -> tuple[list[float], list[str], str]:
    """Return the ticks between two limits, their labels, and a power of ten for the label of the axis.

    Ticks are multiples of 1, 2 or 5 times a power of ten.
    """
    least = math.floor(math.log10(high - low)) - 2
    steps = (Decimal(digit).scaleb(power) for power in itertools.count(least) for digit in (1, 2, 5))
    step = next(step for step in steps if high - low <= most * float(step))
    first, last = math.ceil(low / float(step)), math.floor(high / float(step))
    ticks = [number * step for number in range(first, last + 1)]
    largest = max(map(abs, ticks))
    power = 0 if Decimal("0.001") <= largest < 10**6 else largest.adjusted()
    labels = [f"{tick.scaleb(-power):,f}".replace("-", "−") for tick in ticks]
    return (
        [float(tick) for tick in ticks],
        labels,
        f" × 10{str(power).translate(SUPERSCRIPTS)}" if power else "",
    )
