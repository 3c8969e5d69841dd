"""The picture of the errors of a noisy number: independent draws at each ε around the true value."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from privmix.report.figures import INK, MUTED, SERIES, drawing, svg
from privmix.report.format import plain

WIDTH, HEIGHT = 3.6, 2.6  # inches
BOX = (0.2, 0.17, 0.77, 0.76)  # axes within the figure
SPREAD = 0.32  # half the width of the draws of one ε, in distances of two ε


def draw_errors(
    epsilons: Sequence[float],
    errors: Sequence[np.ndarray],
    within: Sequence[float],
    distances: Sequence[str],
    axis: str,
    name: str,
    label: str,
) -> Markup:
    """Draw the errors of each ε as dots in the order of the draws, with bars at ± `within` and a line at no error.

    `distances` are the texts of `within`, for the labels below the draws.
    """
    with drawing(WIDTH, HEIGHT) as figure:
        axes = figure.add_axes(BOX)
        axes.axhline(0.0, color=INK, linewidth=1.2, linestyle=(0, (4.0, 2.2)))
        for place, (drawn, reach) in enumerate(zip(errors, within, strict=True)):
            across = place + np.linspace(-SPREAD, SPREAD, len(drawn))
            # One path of many short dashes: a marker of its own for each draw would take 20 times as many bytes.
            (dots,) = axes.plot(
                np.column_stack([across - 0.018, across + 0.018, np.full(len(drawn), np.nan)]).ravel(),
                np.column_stack([drawn, drawn, np.full(len(drawn), np.nan)]).ravel(),
                color=SERIES[0], linewidth=2.4, alpha=0.55, solid_capstyle="butt",
            )  # fmt: skip
            dots.get_path().should_simplify = False
            for side in (-reach, reach):
                axes.plot([place - 0.42, place + 0.42], [side, side], color=MUTED, linewidth=1.2)
        most = max(1.02 * max(float(np.abs(drawn).max()) for drawn in errors), 1.1 * max(within))
        axes.set_ylim(-most, most)
        axes.set_xlim(-0.5, len(epsilons) - 0.5)
        axes.set_xticks(
            range(len(epsilons)),
            [
                f"ε = {plain(epsilon)}\n{distance}"
                for epsilon, distance in zip(epsilons, distances, strict=True)
            ],
        )
        axes.locator_params(axis="y", nbins=5)
        axes.yaxis.set_major_formatter(lambda value, _: plain(value))
        axes.set_ylabel(axis, fontsize=9, labelpad=2)
        axes.tick_params(labelsize=8, length=2.5, pad=2)
        axes.tick_params(axis="x", length=0)
        return svg(figure, name, label)
