"""Findings of the audits: broken claims, a summary of each audit that passed, and the lower bounds as results."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.artefacts.scores import results_table
from privmix.audit.shared_noise import shared_noise_findings
from privmix.report.format import count, three_digits
from privmix.report.run import Outcome, RunResults


def mark_shared_noise(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes, with a finding added to replays that share noise, which no single replay can detect."""
    outcomes = list(outcomes)
    replays = {
        name: part.replay
        for outcome in outcomes
        for name, part in zip(_replay_names(outcome), (outcome.model, outcome.audit), strict=True)
        if part is not None and part.replay is not None
    }
    found = shared_noise_findings(replays)

    def mark(outcome: Outcome) -> Outcome:
        model, audit = outcome.model, outcome.audit
        on_records, on_crafted = _replay_names(outcome)
        if model is not None and on_records in found:
            model = model.model_copy(update={"replay": _add_finding(replays[on_records], found[on_records])})
        if audit is not None and on_crafted in found:
            audit = audit.model_copy(update={"replay": _add_finding(replays[on_crafted], found[on_crafted])})
        return replace(outcome, model=model, audit=audit)

    return [mark(outcome) for outcome in outcomes]


def findings(outcome: Outcome) -> tuple[str, ...]:
    """Return the broken claims of one model, a sentence each."""
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
                f"{outcome.mechanism} breaks its claim: an attack on its measurements ({worst.pair}) proves at least "
                f"ε = {three_digits(worst.alarm)} with 99\u00a0% confidence, but the claim is "
                f"ε = {three_digits(audit.epsilon)}."
            )
    return tuple(dict.fromkeys(said))


def failing_mechanisms(run: RunResults) -> list[str]:
    """Return the mechanisms with a model that breaks its claim."""
    return list(dict.fromkeys(outcome.mechanism for outcome in run.outcomes if findings(outcome)))


def describe_audit(outcome: Outcome) -> str | None:
    """Summarize the audits of one model."""
    parts, audit, replay = [], outcome.audit, replay_verdict(outcome)
    if audit is not None and audit.bounds:
        parts.append(
            f"the game on crafted records ({count(audit.runs, 'run')} of each world) proves "
            f"ε ≥ {three_digits(audit.lower)} with 95\u00a0% confidence; the claim is "
            f"ε = {three_digits(audit.epsilon)}"
        )
    if replay is not None and replay.passed:
        parts.append(
            f"a replay of {count(replay.runs, 'run')} found no measurement that one {_unit(outcome)} changes by more "
            "than its sensitivity, and no other dependence on the records"
        )
    if not parts:
        return None
    sentence = "; ".join(parts)
    return f"Audit: {sentence}."


def bound_rows(outcomes: Iterable[Outcome]) -> pa.Table:
    """Return `audit_epsilon_lower` of every model with a bound on its mechanism, as rows of results."""
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
    """Return the verdict of the model's replay, or None."""
    return outcome.model.replay if outcome.model else None


def _replay_names(outcome: Outcome) -> tuple[str, str]:
    """Return the names of the model's replay and of the audit's replay in words."""
    which = f"{outcome.mechanism} at ε = {outcome.epsilon:g}"
    return f"{which} on {outcome.dataset}", f"{which} on crafted records"


def _add_finding(verdict: ReplayVerdict, finding: str) -> ReplayVerdict:
    return verdict.model_copy(update={"findings": [*verdict.findings, finding]})


def _unit(outcome: Outcome) -> str:
    return outcome.model.privacy.unit if outcome.model else "record"
