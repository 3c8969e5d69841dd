"""Claimed against proven: what attacks on the releases prove of each claimed epsilon."""

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from privmix.report.figures import FORBIDDEN, INK, MUTED, Series, drawing, svg
from privmix.report.outcomes import Run
from privmix.report.phrases import plain

LOWEST = 1 / 30  # of the smallest claim: what is proven below that is drawn there


def proven(run: Run, looks: Mapping[str, Series]) -> Markup | None:
    """Both axes logarithmic, a line per mechanism; None where nothing was proven of anything."""
    bounds: dict[str, dict[float, float]] = {}
    for outcome in run.outcomes:
        if outcome.audit is not None and outcome.audit.bounds and outcome.mechanism in looks:
            bounds.setdefault(outcome.mechanism, {})[outcome.epsilon] = outcome.audit.lower
    if not bounds:
        return None
    claims = sorted({epsilon for line in bounds.values() for epsilon in line})
    low, high = claims[0] * LOWEST, claims[-1] * 2
    with drawing(4.3, 4.0) as figure:
        axes = figure.add_axes((0.17, 0.13, 0.81, 0.85))
        x = np.array([claims[0] / 2, high])
        axes.fill_between(x, x, high, color=FORBIDDEN, linewidth=0)
        axes.plot(x, x, color=MUTED, linewidth=1.0)
        axes.text(
            0.03, 0.97, "more than is claimed", transform=axes.transAxes, va="top", fontsize=9, color=INK
        )
        for name, line in bounds.items():
            look = looks[name]
            found = [max(line[epsilon], low) for epsilon in sorted(line)]
            axes.plot(
                sorted(line), found, color=look.colour, linewidth=1.4, linestyle=look.line, marker=look.marker,
                markersize=5, label=look.label,
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=(x[0], high), ylim=(low, high))
        axes.set_xticks(claims, [plain(claim) for claim in claims])
        axes.set_yticks(claims, [plain(claim) for claim in claims])
        axes.minorticks_off()
        axes.set_xlabel("claimed ε")
        axes.set_ylabel("proven ε, at least")
        names = ", ".join(bounds)
        label = f"Lower bounds on ε that attacks prove, against the claimed ε, both logarithmic, for {names}."
        return svg(figure, "proven", label)
