"""What audits say of each claim: what was proven, what replays have shown, and what does not hold."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from privmix.artefacts.audit import Audit
from privmix.artefacts.model import ModelFile
from privmix.artefacts.scores import results_table
from privmix.artefacts.verdict import Verdict
from privmix.evaluate.audit.shared_noise import shared
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import count, percent, rounded


@dataclass(frozen=True)
class AuditRow:
    """One mechanism at one epsilon: the claim beside what attacks prove of it."""

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


def audit_rows(run: Run) -> list[AuditRow]:
    """One row per private mechanism and epsilon of which anything was audited, over all datasets."""
    groups: dict[tuple[str, float], list[Outcome]] = {}
    for outcome in run.outcomes:
        if outcome.private:
            groups.setdefault((outcome.mechanism, outcome.epsilon), []).append(outcome)
    return [
        _row(outcomes) for outcomes in groups.values() if outcomes[0].audit or any(map(_verdict, outcomes))
    ]


def with_shared_noise(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes; the replays of those that share noise, which no single replay can see, have a finding more."""
    outcomes = list(outcomes)
    named = {name: part.replay for outcome in outcomes for name, part in _replayed_parts(outcome).items()}
    found = shared(named)

    def marked(outcome: Outcome) -> Outcome:
        parts = _replayed_parts(outcome)
        changed = {
            "audit" if part is outcome.audit else "model": part.model_copy(
                update={"replay": _with(part.replay, found[name])}
            )
            for name, part in parts.items()
            if name in found
        }
        return replace(outcome, **changed)

    return [marked(outcome) for outcome in outcomes]


def findings(outcome: Outcome) -> tuple[str, ...]:
    """What does not hold of one model, a sentence each."""
    replay, audit = _verdict(outcome), outcome.audit
    said = (
        [f"{outcome.mechanism} fails its replay: {finding}" for finding in replay.findings] if replay else []
    )
    if audit is not None:
        if audit.replay is not None:
            said += [
                f"{outcome.mechanism} fails its replay on crafted records: {finding}"
                for finding in audit.replay.findings
            ]
        worst = max(audit.bounds, key=lambda bound: bound.alarm, default=None)
        if worst is not None and audit.alarmed:
            said.append(
                f"{outcome.mechanism} breaks its claim: an attack on its releases ({worst.pair}) proves at least "
                f"ε = {rounded(worst.alarm)} with 99\u00a0% confidence, but ε = {rounded(audit.epsilon)} is claimed."
            )
    return tuple(dict.fromkeys(said))


def proven_rows(outcomes: Iterable[Outcome]) -> pa.Table:
    """`audit_epsilon_lower` of every model of whose mechanism anything was proven, as rows of results."""
    return results_table(
        [
            {
                "dataset": outcome.dataset,
                "mechanism": outcome.mechanism,
                "method": outcome.method,
                "trust": outcome.trust,
                "epsilon": outcome.epsilon,
                "delta": outcome.model.privacy.budget_delta,
                "unit": outcome.model.privacy.unit,
                "relation": outcome.model.privacy.relation,
                "replicate": 0,
                "metric": "audit_epsilon_lower",
                "value": outcome.audit.lower,
            }
            for outcome in outcomes
            if outcome.model is not None and outcome.audit is not None and outcome.audit.bounds
        ]
    )


def audited(outcome: Outcome) -> str | None:
    """What audits have shown of one model that holds what it claims."""
    parts, audit, replay = [], outcome.audit, _verdict(outcome)
    if audit is not None and audit.bounds:
        parts.append(
            f"attacks on its releases from crafted records, in {count(audit.runs, 'run')} of each world, show "
            f"ε ≥ {rounded(audit.lower)} with 95\u00a0% confidence, and at most {rounded(audit.epsilon)} is claimed"
        )
    if replay is not None and replay.passed:
        parts.append(
            f"a replay of {count(replay.runs, 'run')}, with some records changed for others, found no release that "
            f"rests on more of one {_unit(outcome)} than its noise was made for, and nothing else that depends on it"
        )
    if not parts:
        return None
    sentence = "; ".join(parts)
    return f"Audit: {sentence}."


def failing(run: Run) -> list[str]:
    """The mechanisms with a model that does not hold what it claims."""
    return list(dict.fromkeys(outcome.mechanism for outcome in run.outcomes if findings(outcome)))


def _row(outcomes: list[Outcome]) -> AuditRow:
    first, audit = outcomes[0], outcomes[0].audit
    verdicts = [verdict for verdict in map(_verdict, outcomes) if verdict]
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
        share=_share(audit) if best else "",
        runs=f"{audit.runs:,}" if best else "–",
        by="; ".join(how),
        replayed=_replayed(verdicts),
        used=percent(max(shares)) if shares else "–",
        findings=tuple(dict.fromkeys(said for outcome in outcomes for said in findings(outcome))),
    )


def _replayed_parts(outcome: Outcome) -> dict[str, ModelFile | Audit]:
    """What was replayed, by a name in words."""
    which = f"{outcome.mechanism} at ε = {outcome.epsilon:g}"
    parts = {f"{which} on {outcome.dataset}": outcome.model, f"{which} on crafted records": outcome.audit}
    return {name: part for name, part in parts.items() if part is not None and part.replay is not None}


def _with(verdict: Verdict, finding: str) -> Verdict:
    return verdict.model_copy(update={"findings": [*verdict.findings, finding]})


def _verdict(outcome: Outcome) -> Verdict | None:
    return outcome.model.replay if outcome.model else None


def _unit(outcome: Outcome) -> str:
    return outcome.model.privacy.unit if outcome.model else "record"


def _at_least(lower: float) -> str:
    return f"≥ {rounded(lower)}" if lower > 0 else "nothing"


def _share(audit: Audit) -> str:
    return percent(audit.lower / audit.epsilon) if math.isfinite(audit.epsilon) else ""


def _replayed(verdicts: list[Verdict]) -> str:
    if not verdicts:
        return "–"
    runs, releases = (sum(getattr(verdict, name) for verdict in verdicts) for name in ("runs", "releases"))
    return f"{count(runs, 'run')}, {count(releases, 'release')}"
