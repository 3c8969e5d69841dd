"""The audit section: the game and the replay of each claim, and whether they detect planted mistakes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.report import defects
from privmix.report.audit_findings import findings, replay_verdict
from privmix.report.figures import FORBIDDEN, INK, MUTED, Series, drawing, series, svg
from privmix.report.format import count, percent, plain, three_digits
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

LOWEST = 1 / 30  # of the smallest claim: the chart draws smaller lower bounds at this level


@dataclass(frozen=True)
class AuditRow:
    """One mechanism at one epsilon: the claim, the lower bound of the game, and the replay."""

    mechanism: str
    trust: str
    epsilon: float
    proven: str
    share: str
    runs: str  # of the game, in each world
    by: str
    replayed: str
    used: str
    findings: tuple[str, ...]


@dataclass(frozen=True)
class AuditSection(PageSection):
    """All audited claims, and the planted mistakes that test the audit."""

    rows: tuple[AuditRow, ...]
    bounds: Markup | None  # chart of the lower bounds over the claims
    defects: defects.DefectMatrix
    outdated: bool  # whether the code of the audit has changed since the defects were measured


def build(run: RunResults) -> AuditSection | None:
    """Build the section; None if nothing was audited."""
    rows = audit_rows(run)
    if not rows:
        return None
    looks = {name: look for name, look in series(run.private, run.trust).items() if look.comparable}
    matrix = defects.load_matrix()
    outdated = matrix.is_outdated(run.audit_code)
    return AuditSection(tuple(rows), draw_bounds(run, looks), matrix, outdated)


def audit_rows(run: RunResults) -> list[AuditRow]:
    """Return one row per audited private mechanism and epsilon, over all datasets."""
    groups: dict[tuple[str, float], list[Outcome]] = {}
    for outcome in run.outcomes:
        if outcome.private:
            groups.setdefault((outcome.mechanism, outcome.epsilon), []).append(outcome)
    return [
        _row(outcomes)
        for outcomes in groups.values()
        if outcomes[0].audit or any(map(replay_verdict, outcomes))
    ]


def _row(outcomes: list[Outcome]) -> AuditRow:
    first, audit = outcomes[0], outcomes[0].audit
    verdicts = [verdict for verdict in map(replay_verdict, outcomes) if verdict]
    if audit is not None and audit.replay is not None:
        verdicts.append(audit.replay)
    shares = [verdict.used for verdict in verdicts if verdict.used is not None]
    best = max(audit.bounds, key=lambda bound: bound.lower, default=None) if audit else None
    how = [f"{best.score}, {best.pair}; {best.theorem}"] if best else []
    how += audit.notes if audit else []
    return AuditRow(
        mechanism=first.mechanism,
        trust=first.trust,
        epsilon=first.epsilon,
        proven=_at_least(best.lower) if best else "–",
        share=_share(audit) if audit and best else "",
        runs=f"{audit.runs:,}" if audit and best else "–",
        by="; ".join(how),
        replayed=_replay_counts(verdicts),
        used=percent(max(shares)) if shares else "–",
        findings=tuple(dict.fromkeys(said for outcome in outcomes for said in findings(outcome))),
    )


def _at_least(lower: float) -> str:
    return f"ε ≥ {three_digits(lower)}" if lower > 0 else "none"


def _share(audit: AuditFile) -> str:
    return percent(audit.lower / audit.epsilon) if math.isfinite(audit.epsilon) else ""


def _replay_counts(verdicts: list[ReplayVerdict]) -> str:
    if not verdicts:
        return "–"
    runs = sum(verdict.runs for verdict in verdicts)
    measurements = sum(verdict.releases for verdict in verdicts)
    return f"{count(runs, 'run')}, {count(measurements, 'measurement')}"


def draw_bounds(run: RunResults, looks: Mapping[str, Series]) -> Markup | None:
    """Draw the lower bounds over the claims, a line per mechanism; None if the game gave no bound."""
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
        axes.text(0.03, 0.97, "claim disproved", transform=axes.transAxes, va="top", fontsize=9, color=INK)
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
        axes.set_ylabel("lower bound on ε")
        names = ", ".join(bounds)
        label = f"Lower bounds on ε from the game, over the claimed ε, both axes logarithmic, for {names}."
        return svg(figure, "proven", label)
