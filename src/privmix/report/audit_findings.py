"""What audits say of a model: what does not hold of it, what was shown of one that holds, the bounds as results."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.artefacts.scores import results_table
from privmix.audit.shared_noise import shared_noise_findings
from privmix.report.format import count, three_digits
from privmix.report.run import Outcome, RunResults


def mark_shared_noise(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes; the replays of those that share noise, which no single replay can see, have a finding more."""
    outcomes = list(outcomes)
    named = {name: part.replay for outcome in outcomes for name, part in _replays(outcome).items()}
    found = shared_noise_findings(named)

    def mark(outcome: Outcome) -> Outcome:
        parts = _replays(outcome)
        changed = {
            "audit" if part is outcome.audit else "model": part.model_copy(
                update={"replay": _add_finding(part.replay, found[name])}
            )
            for name, part in parts.items()
            if name in found
        }
        return replace(outcome, **changed)

    return [mark(outcome) for outcome in outcomes]


def findings(outcome: Outcome) -> tuple[str, ...]:
    """What does not hold of one model, a sentence each."""
    replay, audit = replay_verdict(outcome), outcome.audit
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
                f"ε = {three_digits(worst.alarm)} with 99\u00a0% confidence, but ε = {three_digits(audit.epsilon)} is "
                "claimed."
            )
    return tuple(dict.fromkeys(said))


def failing_mechanisms(run: RunResults) -> list[str]:
    """The mechanisms with a model that does not hold what it claims."""
    return list(dict.fromkeys(outcome.mechanism for outcome in run.outcomes if findings(outcome)))


def describe_audit(outcome: Outcome) -> str | None:
    """What audits have shown of one model that holds what it claims."""
    parts, audit, replay = [], outcome.audit, replay_verdict(outcome)
    if audit is not None and audit.bounds:
        parts.append(
            f"attacks on its releases from crafted records, in {count(audit.runs, 'run')} of each world, show "
            f"ε ≥ {three_digits(audit.lower)} with 95\u00a0% confidence, and at most {three_digits(audit.epsilon)} is "
            "claimed"
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


def bound_rows(outcomes: Iterable[Outcome]) -> pa.Table:
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


def replay_verdict(outcome: Outcome) -> ReplayVerdict | None:
    """What the replay of the model says, where there was one."""
    return outcome.model.replay if outcome.model else None


def _replays(outcome: Outcome) -> dict[str, ModelFile | AuditFile]:
    """What was replayed, by a name in words."""
    which = f"{outcome.mechanism} at ε = {outcome.epsilon:g}"
    parts = {f"{which} on {outcome.dataset}": outcome.model, f"{which} on crafted records": outcome.audit}
    return {name: part for name, part in parts.items() if part is not None and part.replay is not None}


def _add_finding(verdict: ReplayVerdict, finding: str) -> ReplayVerdict:
    return verdict.model_copy(update={"findings": [*verdict.findings, finding]})


def _unit(outcome: Outcome) -> str:
    return outcome.model.privacy.unit if outcome.model else "record"
