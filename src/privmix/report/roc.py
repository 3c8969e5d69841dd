"""The ROC of an attack at one epsilon, and what the guarantee allows to it where it sets a limit."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from markupsafe import Markup

from privmix.evaluate.limits import tpr_ceiling
from privmix.report.figures import FORBIDDEN, INK, MUTED, Series, drawing, svg
from privmix.report.outcomes import Outcome
from privmix.report.phrases import percent, plain

LOWEST = 1e-4
_NAMES = {"loss": "the loss attack", "LiRA": "LiRA"}


def roc(
    dataset: str,
    outcomes: list[Outcome],
    looks: Mapping[str, Series],
    epsilon: float,
    limit: tuple[float, float] | None,
    attack: Literal["loss", "LiRA"] = "loss",
) -> Markup | None:
    """Log-log ROC of the models at `epsilon` and of the non-private ones; None when no curve was made.

    `limit` is the (epsilon, delta) between two datasets in which two people have changed places, or None.
    """
    infos = [(outcome, outcome.scores_info) for outcome in outcomes if outcome.scores_info is not None]
    drawn = [(outcome, info.roc if attack == "loss" else info.lira_roc) for outcome, info in infos]
    curves = [(outcome, _above_zero(points)) for outcome, points in drawn if len(points) > 1]
    curves = [(outcome, curve) for outcome, curve in curves if len(curve)]
    if not curves:
        return None
    finest = min(float(curve[:, 0].min()) for _, curve in curves)
    start = max(LOWEST, 10.0 ** np.floor(np.log10(finest)))
    with drawing(4.3, 4.0) as figure:
        axes = figure.add_axes((0.17, 0.13, 0.81, 0.85))
        x = np.geomspace(start, 1, 200)
        if limit:
            ceiling = tpr_ceiling(x, *limit)
            axes.fill_between(x, ceiling, 1, color=FORBIDDEN, linewidth=0)
            axes.plot(x, ceiling, color=MUTED, linewidth=1.0)
            axes.text(
                0.03, 0.97, f"beyond the limit at ε = {plain(epsilon)}", transform=axes.transAxes, va="top",
                fontsize=9, color=INK,
            )  # fmt: skip
        axes.plot(x, x, color=MUTED, linewidth=1.0, linestyle=":")
        for outcome, curve in curves:
            look = looks.get(outcome.mechanism)
            axes.plot(
                *curve.T, color=look.colour if look else INK, linewidth=1.4, linestyle=look.line if look else "-",
                label=look.label if look else outcome.mechanism,
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=(start, 1), ylim=(start, 1))
        ticks = 10.0 ** np.arange(np.log10(start).round(), 1)
        words = [percent(tick) for tick in ticks]
        axes.set_xticks(ticks, words)
        axes.set_yticks(ticks, words)
        axes.set_xlabel("false-positive rate")
        axes.set_ylabel("true-positive rate")
        axes.minorticks_off()
        axes.text(
            0.97, 0.04, "dotted: guessing", transform=axes.transAxes, ha="right", fontsize=9, color=MUTED
        )
        names = ", ".join(outcome.mechanism for outcome, _ in curves)
        region = ", with the region that ε allows in expectation" if limit else ""
        label = f"{dataset}: ROC of {_NAMES[attack]}, both axes logarithmic, for {names}{region}."
        return svg(figure, f"roc-{attack.lower()}-{dataset}", label)


def _above_zero(points: list[tuple[float, float]]) -> np.ndarray:
    """The part of a ROC that logarithmic axes can show."""
    curve = np.array(points, dtype=float)
    return curve[(curve[:, 0] > 0) & (curve[:, 1] > 0)]
