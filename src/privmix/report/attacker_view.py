"""The attacker's view: the two errors of an attack that ε allows, and how sure an attacker can become."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from privmix.attacks.limits import (
    equal_error_floor,
    positive_predictive_value,
    posterior_ceiling,
    swap_guarantee,
    tpr_ceiling,
)
from privmix.report.figures import FORBIDDEN, INK, MUTED, Series, drawing, svg
from privmix.report.format import compact, percent, plain
from privmix.report.results import Results
from privmix.report.run import Outcome

PRIORS = (0.01, 0.1, 0.5)  # of the table without scripts
START = 10  # of the slider, in per cent


@dataclass(frozen=True)
class BeliefRow:
    """How sure an attacker can become at one ε, and how often the alarms of the measured attack are right."""

    epsilon: float
    swap_epsilon: float  # the ε between two datasets in which two units swap places; infinite without privacy
    mechanism: str  # the mechanism with the highest true-positive rate at this ε
    tpr: float | None
    cells: tuple[tuple[str, str | None], ...]  # measured, and at most; for each of `PRIORS`


@dataclass(frozen=True)
class AttackerView:
    """The attacker's view of one dataset."""

    picture: Markup | None
    attack: str  # the attack of the picture and of the table
    corner: str  # the rate at which both errors can be equal
    fpr: float | None  # false-positive rate of the measured attack
    rows: tuple[BeliefRow, ...]
    doubled: bool  # whether ε counts twice, because a swap removes one unit and adds another
    priors: tuple[str, ...] = tuple(map(percent, PRIORS))
    start: int = START

    @property
    def measured(self) -> bool:
        """Whether any attack was measured at the false-positive rate."""
        return any(row.tpr is not None for row in self.rows)


def describe_view(
    results: Results,
    outcomes: Sequence[Outcome],
    looks: Mapping[str, Series],
    epsilon: float,
    limit: tuple[float, float],
    rates: Sequence[str],
    *,
    limits_average: bool,
) -> AttackerView:
    """Return the attacker's view at the reference `epsilon`; `limit` is its (epsilon, delta) for a swap.

    If the guarantee does not limit the average attack, LiRA takes its place: it attacks single records.
    """
    compared = [outcome for outcome in outcomes if outcome.comparable]
    attack = "the loss attack" if limits_average else "LiRA"
    shown = [o for o in compared if o.scores_info and (not o.private or o.epsilon == epsilon)]
    curves = [
        (o, o.scores_info.roc if limits_average else o.scores_info.lira_roc) for o in shown if o.scores_info
    ]
    curves = [(outcome, curve) for outcome, curve in curves if len(curve) > 1]
    rate = rates[-1] if rates else None
    budgets = sorted({outcome.epsilon for outcome in compared}, key=lambda each: (math.isfinite(each), each))
    metric = f"mia_{'loss' if limits_average else 'lira'}_tpr_at_fpr_{rate}"
    rows = [
        _belief_row(results, [o for o in compared if o.epsilon == each], metric, rate) for each in budgets
    ]
    return AttackerView(
        picture=draw_errors(curves, looks, epsilon, limit, attack) if curves else None,
        attack=attack,
        corner=percent(equal_error_floor(*limit)),
        fpr=None if rate is None else float(rate),
        rows=tuple(row for row in rows if row and (row.tpr is not None or math.isfinite(row.swap_epsilon))),
        doubled=limit[0] > epsilon,
    )


def _belief_row(
    results: Results, outcomes: Sequence[Outcome], metric: str, fpr: str | None
) -> BeliefRow | None:
    """Compare the limit with the mechanism whose attack finds most members; None if there is no model."""
    made = [outcome for outcome in outcomes if outcome.failure is None]
    if not made:
        return None
    found = [(results.estimate(*outcome.key, metric), outcome) for outcome in made]
    reached = max(((each.mean, outcome.mechanism) for each, outcome in found if each), default=None)
    swap = max(swap_guarantee(o.epsilon, o.claimed_delta, results.relation(*o.key))[0] for o in made)
    tpr = None if reached is None else reached[0]
    return BeliefRow(
        epsilon=made[0].epsilon,
        swap_epsilon=swap,
        mechanism="" if reached is None else reached[1],
        tpr=tpr,
        cells=tuple(
            (
                describe_right_alarms(prior, tpr, fpr),
                compact(percent(posterior_ceiling(prior, swap))) if math.isfinite(swap) else None,
            )
            for prior in PRIORS
        ),
    )


def describe_right_alarms(prior: float, tpr: float | None, fpr: str | None) -> str:
    """Format the share of right alarms of a measured attack, or a dash."""
    if tpr is None or fpr is None:
        return "–"
    value = positive_predictive_value(prior, tpr, float(fpr))
    return "–" if value is None else compact(percent(value))


def draw_errors(
    curves: Sequence[tuple[Outcome, Sequence[tuple[float, float]]]],
    looks: Mapping[str, Series],
    epsilon: float,
    limit: tuple[float, float],
    attack: str,
) -> Markup:
    """Draw false alarm and missed detection of measured attacks on linear axes, and the region that ε rules out."""
    dataset = curves[0][0].dataset
    with drawing(4.3, 4.0) as figure:
        axes = figure.add_axes((0.19, 0.13, 0.75, 0.84))
        corner = equal_error_floor(*limit)
        x = np.unique(np.append(np.linspace(0, 1, 201), corner))
        floor = 1 - tpr_ceiling(x, *limit)
        axes.fill_between(x, 0, floor, color=FORBIDDEN, linewidth=0)
        axes.plot(x, floor, color=MUTED, linewidth=1.0)
        axes.plot((0, 1), (1, 0), color=MUTED, linewidth=1.0, linestyle=":")
        for outcome, curve in curves:
            look = looks.get(outcome.mechanism)
            alarms, found = np.array(curve, dtype=float).T
            axes.plot(
                alarms, 1 - found, color=look.colour if look else INK, linewidth=1.4,
                linestyle=look.line if look else "-", label=look.label if look else outcome.mechanism,
            )  # fmt: skip
        axes.plot([corner], [corner], "o", color=INK, markersize=5)
        axes.annotate(
            f"{percent(corner)} each", (corner, corner), (-7, -7), textcoords="offset points", ha="right", va="top",
            fontsize=9, color=INK,
        )  # fmt: skip
        axes.text(
            0.985, 0.955, "dotted: guessing", transform=axes.transAxes, ha="right", fontsize=9, color=MUTED
        )
        ticks = np.linspace(0, 1, 6)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false alarm", ylabel="missed detection")
        axes.set_xticks(ticks, [percent(tick) for tick in ticks])
        axes.set_yticks(ticks, [percent(tick) for tick in ticks])
        names = ", ".join(outcome.mechanism for outcome, _ in curves)
        label = (
            f"{dataset}: false alarm against missed detection of {attack} for {names}. At ε = {plain(epsilon)}, no "
            f"attack gets below {percent(corner)} of both in expectation."
        )
        return svg(figure, f"errors-{dataset}", label)
