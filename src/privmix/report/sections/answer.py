"""The answer section: which mechanism for each dataset and trust model, its cost, what an attacker still learns."""

import math
from dataclasses import dataclass

from privmix.report.audit_findings import describe_audit, findings
from privmix.report.format import interval, listing, nats, percent, plain, rate, three_digits
from privmix.report.guarantee import (
    auc_ceiling,
    describe_guarantee,
    group_privacy,
    protected_unit,
    why_unlimited,
)
from privmix.report.knowledge import (
    BADGES,
    Verdict,
    indecision,
    knowledge_share,
    smallest_epsilon,
    thresholds,
    verdict,
    warning,
)
from privmix.report.results import Estimate, Results
from privmix.report.run import Material, Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.worst_record import attack_tile, broken_claims, describe_attack


@dataclass(frozen=True)
class Tile:
    """One figure that must be seen at first sight."""

    value: str
    label: str


@dataclass(frozen=True)
class Answer:
    """What one dataset gets under one trust model at the reference epsilon."""

    dataset: str
    trust: str
    epsilon: float
    mechanism: str | None
    verdict: Verdict
    headline: str  # the answer in one sentence
    kept: str = ""  # the share of the non-private model's knowledge, where that is known
    enough: str = ""  # from which epsilon nearly all of it is kept
    choice: tuple[str, ...] = ()  # what bears on the choice of a mechanism and of ε
    evidence: tuple[str, ...] = ()  # attack, audit and guarantee in words
    warnings: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()


@dataclass(frozen=True)
class DatasetAnswers:
    """The answers for one dataset."""

    name: str
    title: str
    answers: tuple[Answer, ...]
    material: Material | None


@dataclass(frozen=True)
class AnswerSection(PageSection):
    """The answers for every dataset."""

    datasets: tuple[DatasetAnswers, ...]
    unit: str | None  # whom the models protect
    badges: dict[Verdict, str]


def build(run: RunResults, results: Results) -> AnswerSection:
    """The section."""
    found = answers(run, results)
    datasets = tuple(
        DatasetAnswers(
            name=name,
            title=run.entries[name].title,
            answers=tuple(answer for answer in found if answer.dataset == name),
            material=run.materials.get(name),
        )
        for name in run.settings.datasets
    )
    return AnswerSection(datasets, protected_unit(run), BADGES)


def answers(run: RunResults, results: Results) -> list[Answer]:
    """One answer per dataset and trust model, datasets in the order of the configuration.

    A mechanism that hides a place only among nearby ones takes no part: its ε is not that of the others.
    """
    epsilon = run.reference_epsilon
    if epsilon is None:
        return []
    trusts = [trust for trust in ("central", "local") if trust in {run.trust[name] for name in run.private}]
    return [
        _answer(run, results, dataset, trust, epsilon)
        for dataset in run.settings.datasets
        for trust in trusts
    ]


def _answer(run: RunResults, results: Results, dataset: str, trust: str, epsilon: float) -> Answer:
    tried = [o for o in run.of(dataset) if o.trust == trust and o.epsilon == epsilon]
    metric = "holdout_gap" if results.baseline(dataset) else "holdout_loglik"
    measured = [
        (gap, outcome)
        for outcome in tried
        if (gap := results.estimate(dataset, outcome.mechanism, epsilon, metric)) and not math.isnan(gap.mean)
    ]
    if not measured:
        return Answer(dataset, trust, epsilon, None, "none", _no_result(tried, trust, epsilon))
    measured.sort(key=lambda pair: -pair[0].mean)
    gap, best = measured[0]
    kept = knowledge_share(run, results, dataset, gap) if metric == "holdout_gap" else None
    headline = _cost(best, gap, metric, len(measured), len(tried), epsilon)
    return Answer(
        dataset, trust, epsilon, best.mechanism, verdict(kept), headline,
        kept=_share(kept.mean) if kept else "",
        enough=smallest_epsilon(run, results, dataset, trust),
        choice=_sentences(
            indecision(kept) if kept else None,
            thresholds(run, results, dataset, trust),
            _runner_up(measured),
            _shadow_remark(results, best),
        ),
        evidence=_sentences(
            _attack(run, results, best),
            describe_attack(run, results, best),
            describe_audit(best),
            describe_guarantee(best),
        ),
        warnings=(
            *findings(best),
            *broken_claims(run, results, best),
            *_use_warning(run, results, best, kept, metric),
        ),
        cautions=_sentences(group_privacy(run, best)),
        tiles=_tiles(run, results, best, kept),
    )  # fmt: skip


def _sentences(*sentences: str | None) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence)


def _share(kept: float) -> str:
    return percent(min(max(kept, 0.0), 1.0))


def _tiles(run: RunResults, results: Results, best: Outcome, kept: Estimate | None) -> tuple[Tile, ...]:
    tiles = []
    if kept:
        span = ""
        if kept.low is not None and kept.high is not None:
            low, high = _share(kept.low), _share(kept.high)
            span = f" ({low} to {high})" if low != high else ""
        tiles.append(Tile(_share(kept.mean), f"of the non-private model's knowledge{span}"))
    auc = results.estimate(*best.key, "mia_loss_auc")
    if auc:
        ceiling = _ceiling(run, results, best)
        against = "0.5 is guessing" if ceiling is None else f"limit {rate(ceiling)}"
        tiles.append(Tile(rate(auc.mean), f"attacker's AUC ({against})"))
    exposed = attack_tile(run, results, best, auc_ceiling(results, best))
    if exposed:
        tiles.append(Tile(*exposed))
    if best.audit is not None and best.audit.bounds:
        lower, claimed = three_digits(best.audit.lower), three_digits(best.audit.epsilon)
        tiles.append(Tile(f"ε ≥ {lower}", f"shown by attacks on crafted records; claimed: ε ≤ {claimed}"))
    return tuple(tiles)


def _ceiling(run: RunResults, results: Results, best: Outcome) -> float | None:
    """The most that the average attack may reach in expectation; None where the guarantee sets no limit to it."""
    return auc_ceiling(results, best) if run.limits_average(best.dataset) else None


def _no_result(tried: list[Outcome], trust: str, epsilon: float) -> str:
    if len(tried) == 1:
        return f"The only {trust} mechanism, {tried[0].mechanism}, has no result at ε = {plain(epsilon)}."
    return f"None of the {len(tried)} {trust} mechanisms has a result at ε = {plain(epsilon)}."


def _cost(best: Outcome, gap: Estimate, metric: str, measured: int, tried: int, epsilon: float) -> str:
    of = f"of {tried} {best.trust} mechanisms"
    if tried == 1:
        place = f"the only {best.trust} mechanism"
    elif measured == 1:
        place = f"the only one with a result {of}"
    else:
        place = f"the best {of}" if measured == tried else f"the best of {measured} with a result {of}"
    start = f"At ε = {plain(epsilon)}, {best.mechanism}, {place},"
    if metric == "holdout_loglik":
        return (
            f"{start} reaches a held-out log-likelihood of {nats(gap.mean)} nats per record ({interval(gap)}); "
            "this run has no non-private model to compare it with."
        )
    if not math.isfinite(gap.mean):
        return f"{start} gives some held-out records no density at all."
    return (
        f"{start} assigns an unseen record {percent(_density(gap.mean))} of the density that the non-private model "
        f"assigns: a gap of {nats(gap.mean)} nats ({interval(gap)})."
    )


def _density(gap: float) -> float:
    return math.exp(min(gap, 700.0))


def _use_warning(
    run: RunResults, results: Results, best: Outcome, kept: Estimate | None, metric: str
) -> tuple[str, ...]:
    if metric == "holdout_loglik":
        return ()
    if kept is None:
        return ("The non-private model itself is no better than a uniform box, so there is nothing to lose.",)
    sentence = warning(run, results, best, kept)
    return (sentence,) if sentence else ()


def _shadow_remark(results: Results, best: Outcome) -> str | None:
    if results.values(*best.key, "mia_lira_auc"):
        return None
    return (
        f"{best.mechanism} was attacked by its density, and not with shadow models, which are stronger "
        "(evaluation.shadow_mechanisms)."
    )


def _runner_up(measured: list[tuple[Estimate, Outcome]]) -> str | None:
    gap, best = measured[0]
    if gap.low is None:
        return None
    close = [outcome for other, outcome in measured[1:] if other.mean >= gap.low]
    if not close:
        return None
    verb = "is" if len(close) == 1 else "are"
    sentence = f"{listing([each.mechanism for each in close])} {verb} as good as {best.mechanism} within its interval"
    deltas = [each.claimed_delta for each in (best, *close)]
    return (
        f"{sentence}; {best.mechanism} alone has δ = 0."
        if not deltas[0] and all(deltas[1:])
        else f"{sentence}."
    )


def _attack(run: RunResults, results: Results, best: Outcome) -> str | None:
    auc = results.estimate(*best.key, "mia_loss_auc")
    if auc is None:
        return None
    sentence = (
        f"A membership attacker who thresholds the density reaches AUC {rate(auc.mean)} (0.5 is guessing"
    )
    baseline = results.baseline(best.dataset)
    if baseline:
        bare = results.estimate(best.dataset, baseline.mechanism, math.inf, "mia_loss_auc")
        sentence += f"; {rate(bare.mean)} without privacy" if bare else ""
    ceiling = _ceiling(run, results, best)
    if ceiling is None:
        why = "; ε hardly limits it, because it protects one record and people here hold several"
        return f"{sentence}){why if why_unlimited(run, best.dataset) else ''}."
    unit = run.materials[best.dataset].info.domain.unit
    sentence += f"); in expectation no attack on a single {unit} can exceed {rate(ceiling)}"
    nameless = run.entries[best.dataset].privacy.person_column is None
    sentence += "; whoever has several records is protected less." if nameless else "."
    if auc.mean > ceiling:
        sentence += " What is above that may be the chance of which records were held out."
    return sentence
