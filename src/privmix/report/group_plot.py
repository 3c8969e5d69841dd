"""Pictures of groups: the gap of each group at each ε, with corrected intervals."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from privmix.evaluate.simultaneous import Spread
from privmix.report.figures import INK, MARKERS, MUTED, SERIES, drawing, spread, svg
from privmix.report.format import plain

MOST_LINES = 8
LONGEST_NAME = 16
WIDTH, HEIGHT = 4.0, 2.6  # inches
LEFT, BOTTOM, TOP = 0.55, 0.5, 0.32
LETTER = 0.085  # width of a letter of a name


@dataclass(frozen=True)
class GroupLine:
    """One group: its gap and interval at each ε."""

    name: str
    points: tuple[tuple[float, Spread], ...]


def draw_groups(lines: list[GroupLine], epsilons: list[float], name: str, label: str) -> Markup:
    """Draw one line per group with its name at the right end; groups side by side at each ε."""
    shown = lines[:MOST_LINES]
    names = [
        line.name if len(line.name) <= LONGEST_NAME else line.name[: LONGEST_NAME - 1] + "…" for line in shown
    ]
    right = 0.15 + LETTER * max(map(len, names))
    with drawing(WIDTH, HEIGHT) as figure:
        box = (LEFT / WIDTH, BOTTOM / HEIGHT, 1 - (LEFT + right) / WIDTH, 1 - (BOTTOM + TOP) / HEIGHT)
        axes = figure.add_axes(box)
        axes.grid(axis="y")
        axes.axhline(0, color=INK, linewidth=1.1)
        ends = []
        for number, line in enumerate(shown):
            colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
            shift = 0.09 * (number - (len(shown) - 1) / 2) * min(1.0, 6 / len(shown))
            places = np.array([epsilons.index(epsilon) + shift for epsilon, _ in line.points])
            means = np.array([each.mean for _, each in line.points])
            axes.plot(places, means, color=colour, marker=marker, markersize=5, linewidth=1.3)
            for place, (_, each) in zip(places, line.points, strict=True):
                if each.low is not None and each.high is not None:
                    axes.plot([place, place], [each.low, each.high], color=colour, linewidth=1.1)
            ends.append((names[number], colour, float(means[-1])))
        axes.set_xlim(-0.45, len(epsilons) - 0.55)
        axes.set_xticks(range(len(epsilons)), [plain(epsilon) for epsilon in epsilons])
        axes.set_xlabel("ε (smaller protects more)")
        axes.set_title("gap, nats per record", fontsize=10, color=MUTED, pad=6, loc="left")
        axes.yaxis.set_major_formatter(lambda value, _: plain(round(value, 10)))
        place_of = axes.transData + axes.transAxes.inverted()
        wanted = [float(np.clip(place_of.transform((0.0, value))[1], 0, 1)) for _, _, value in ends]
        step = 0.17 / (HEIGHT - BOTTOM - TOP)
        for (text, colour, _), start, end in zip(ends, wanted, spread(wanted, step, 0.0, 1.0), strict=True):
            axes.plot(
                [1.0, 1.03],
                [start, end],
                transform=axes.transAxes,
                color=colour,
                linewidth=0.8,
                clip_on=False,
            )
            axes.text(1.04, end, text, transform=axes.transAxes, color=colour, va="center", fontsize=9)
        return svg(figure, name, label)
