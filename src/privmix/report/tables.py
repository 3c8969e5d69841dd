"""The tables of the page: attacks, results, failures. Rows hold text that is ready to print."""

import math
from dataclasses import dataclass

from privmix.evaluate.limits import swap, swap_ceiling, tpr_ceiling
from privmix.report.alarm import broken_claims
from privmix.report.audits import findings
from privmix.report.frames import Scores
from privmix.report.knowledge import knowledge_kept
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import distance, nats, percent, plain, plus_minus, rate, seconds

TPR_METRIC = "mia_loss_tpr_at_fpr_"


@dataclass(frozen=True)
class AttackRow:
    """What attackers reach against one mechanism at one epsilon, and what the guarantee allows in expectation."""

    mechanism: str
    trust: str
    epsilon: float
    auc: str
    ceiling: str | None  # None where nothing limits the attack
    rates: tuple[tuple[str, str | None], ...]  # reached and allowed, per false-positive rate
    worst: str
    worst_ceiling: str | None
    away: str
    broken: bool


def false_positive_rates(scores: Scores, dataset: str) -> list[str]:
    """The rates at which the attack on a dataset was measured, as the metrics write them."""
    found = [name.removeprefix(TPR_METRIC) for name in scores.metrics(dataset) if name.startswith(TPR_METRIC)]
    return sorted(found, key=float)


def attack_rows(run: Run, scores: Scores, dataset: str) -> list[AttackRow]:
    """One row per mechanism and epsilon with a measured attack, where epsilons compare."""
    fprs = false_positive_rates(scores, dataset)
    return [
        _attack_row(run, scores, outcome, fprs)
        for outcome in run.of(dataset)
        if outcome.comparable and scores.values(dataset, outcome.mechanism, outcome.epsilon, "mia_loss_auc")
    ]


def _attack_row(run: Run, scores: Scores, outcome: Outcome, fprs: list[str]) -> AttackRow:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)
    claim = (outcome.epsilon, outcome.claimed_delta, scores.relation(*key))
    ceiling = rate(swap_ceiling(*claim)) if outcome.private else None
    limited = outcome.private and run.limits_average(outcome.dataset)
    reached = []
    for fpr in fprs:
        tpr = scores.estimate(*key, TPR_METRIC + fpr)
        allowed = percent(float(tpr_ceiling(float(fpr), *swap(*claim)))) if limited else None
        reached.append((percent(tpr.mean) if tpr else "–", allowed))
    worst = scores.values(*key, "mia_worst_record_auc")
    low = scores.values(*key, "mia_worst_record_auc_low")
    high = scores.values(*key, "mia_worst_record_auc_high")
    away = scores.values(*key, "worst_record_distance_km")
    steps = scores.values(*key, "worst_record_distance_resolutions")
    return AttackRow(
        mechanism=outcome.mechanism,
        trust=outcome.trust,
        epsilon=outcome.epsilon,
        auc=plus_minus(scores.estimate(*key, "mia_loss_auc"), rate),
        ceiling=ceiling if limited else None,
        rates=tuple(reached),
        worst=(rate(worst[0]) + (f" [{rate(low[0])}, {rate(high[0])}]" if low and high else ""))
        if worst
        else "–",
        worst_ceiling=ceiling,
        away=_short(distance(min(away))) if away else f"{min(steps):.3g} resolutions" if steps else "–",
        broken=bool(findings(outcome) or broken_claims(run, scores, outcome)),
    )


@dataclass(frozen=True)
class Measured:
    """The numbers behind a row of results: means over replicates, None where nothing was measured."""

    delta: float | None = None
    replicates: int | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    density_kept: float | None = None
    knowledge_kept: float | None = None
    loglik: float | None = None
    attack_auc: float | None = None
    seconds_fit: float | None = None
    seconds_privatise: float | None = None


@dataclass(frozen=True)
class ResultRow:
    """One mechanism at one epsilon."""

    mechanism: str
    trust: str
    epsilon: float
    loglik: str
    gap: str
    density: str
    kept: str
    auc: str
    fit: str
    privatise: str
    best: bool
    failure: str | None
    measured: Measured  # the same, to sort by and to save


def result_rows(run: Run, scores: Scores, dataset: str) -> list[ResultRow]:
    """Every job of a dataset whose ε compares with that of others, failures too."""
    best = _best(run, scores, dataset)
    compared = [outcome for outcome in run.of(dataset) if outcome.comparable]
    return [_result_row(run, scores, outcome, outcome in best) for outcome in compared]


def _best(run: Run, scores: Scores, dataset: str) -> list[Outcome]:
    """The private outcome with the best held-out likelihood per trust model and epsilon."""
    leaders: dict[tuple[str, float], tuple[float, Outcome]] = {}
    for outcome in run.of(dataset):
        value = scores.estimate(dataset, outcome.mechanism, outcome.epsilon, "holdout_loglik")
        if outcome.private and value and not math.isnan(value.mean):
            group = (outcome.trust, outcome.epsilon)
            if group not in leaders or value.mean > leaders[group][0]:
                leaders[group] = (value.mean, outcome)
    return [outcome for _, outcome in leaders.values()]


def _result_row(run: Run, scores: Scores, outcome: Outcome, best: bool) -> ResultRow:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)
    loglik, gap = scores.estimate(*key, "holdout_loglik"), scores.estimate(*key, "holdout_gap")
    kept = knowledge_kept(scores, run, outcome.dataset, gap) if gap else None
    fit, privatise = scores.estimate(*key, "seconds_fit"), scores.estimate(*key, "seconds_privatise")
    auc = scores.estimate(*key, "mia_loss_auc")
    return ResultRow(
        mechanism=outcome.mechanism,
        trust=outcome.trust,
        epsilon=outcome.epsilon,
        loglik=nats(loglik.mean) if loglik else "–",
        gap=plus_minus(gap),
        density=_short(percent(math.exp(min(gap.mean, 700.0)))) if gap else "–",
        kept="–" if kept is None else _short(percent(max(kept.mean, 0.0))),
        auc=plus_minus(auc, rate),
        fit=seconds(fit.mean) if fit else "–",
        privatise=seconds(privatise.mean) if privatise else "–",
        best=best,
        failure=outcome.failure,
        measured=Measured(
            delta=outcome.claimed_delta if loglik else None,
            replicates=loglik.count if loglik else None,
            gap=gap.mean if gap else None,
            gap_low=gap.low if gap else None,
            gap_high=gap.high if gap else None,
            density_kept=math.exp(min(gap.mean, 700.0)) if gap else None,
            knowledge_kept=None if kept is None else max(kept.mean, 0.0),
            loglik=loglik.mean if loglik else None,
            attack_auc=auc.mean if auc else None,
            seconds_fit=fit.mean if fit else None,
            seconds_privatise=privatise.mean if privatise else None,
        ),
    )


def _short(words: str) -> str:
    return words.replace("less than ", "<").replace("over ", ">")


@dataclass(frozen=True)
class FailureRow:
    """A job without a result, and why."""

    dataset: str
    mechanism: str
    epsilon: str
    reason: str


def failure_rows(run: Run) -> list[FailureRow]:
    """All jobs without a result; epsilons of one mechanism with one reason share a row."""
    grouped: dict[tuple[str, str, str], list[float]] = {}
    for outcome in run.outcomes:
        if outcome.failure:
            key = (outcome.dataset, outcome.mechanism, outcome.failure)
            grouped.setdefault(key, []).append(outcome.epsilon)
    return [
        FailureRow(dataset, mechanism, ", ".join(plain(epsilon) for epsilon in epsilons), reason)
        for (dataset, mechanism, reason), epsilons in grouped.items()
    ]
