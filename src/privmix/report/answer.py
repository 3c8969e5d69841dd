"""The answer: per dataset and trust model, which mechanism, what it costs, and what an attacker still learns."""

import math
from dataclasses import dataclass

from privmix.evaluate.limits import swap_ceiling
from privmix.report.alarm import broken_claims
from privmix.report.audits import audited, findings
from privmix.report.exposure import exposed_tile, isolated, unlimited
from privmix.report.frames import Estimate, Scores
from privmix.report.guarantee import guarantee, left_to_people
from privmix.report.knowledge import (
    Verdict,
    knowledge_kept,
    smallest_epsilon,
    thresholds,
    undecided,
    verdict,
    warning,
)
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import interval, listing, nats, percent, plain, rate, rounded


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


def answers(run: Run, scores: Scores) -> list[Answer]:
    """One answer per dataset and trust model, datasets in the order of the configuration.

    A mechanism that hides a place only among nearby ones takes no part: its ε is not that of the others.
    """
    epsilon = run.reference_epsilon
    if epsilon is None:
        return []
    trusts = [trust for trust in ("central", "local") if trust in {run.trust[name] for name in run.private}]
    return [
        _answer(run, scores, dataset, trust, epsilon) for dataset in run.settings.datasets for trust in trusts
    ]


def _answer(run: Run, scores: Scores, dataset: str, trust: str, epsilon: float) -> Answer:
    tried = [o for o in run.of(dataset) if o.trust == trust and o.epsilon == epsilon]
    metric = "holdout_gap" if scores.baseline(dataset) else "holdout_loglik"
    measured = [
        (gap, outcome)
        for outcome in tried
        if (gap := scores.estimate(dataset, outcome.mechanism, epsilon, metric)) and not math.isnan(gap.mean)
    ]
    if not measured:
        return Answer(dataset, trust, epsilon, None, "none", _nothing(tried, trust, epsilon))
    measured.sort(key=lambda pair: -pair[0].mean)
    gap, best = measured[0]
    kept = knowledge_kept(scores, run, dataset, gap) if metric == "holdout_gap" else None
    headline = _cost(best, gap, metric, len(measured), len(tried), epsilon)
    return Answer(
        dataset, trust, epsilon, best.mechanism, verdict(kept), headline,
        kept=_share(kept.mean) if kept else "",
        enough=smallest_epsilon(run, scores, dataset, trust),
        choice=_said(
            undecided(kept) if kept else None,
            thresholds(run, scores, dataset, trust),
            _runner_up(measured),
            _shadowless(scores, best),
        ),
        evidence=_said(
            _attack(run, scores, best), isolated(run, scores, best), audited(best), guarantee(run, best)
        ),
        warnings=(
            *findings(best),
            *broken_claims(run, scores, best),
            *_useless(run, scores, best, kept, metric),
        ),
        cautions=_said(left_to_people(run, best)),
        tiles=_tiles(run, scores, best, kept),
    )  # fmt: skip


def _said(*sentences: str | None) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence)


def _share(kept: float) -> str:
    return percent(min(max(kept, 0.0), 1.0))


def _tiles(run: Run, scores: Scores, best: Outcome, kept: Estimate | None) -> tuple[Tile, ...]:
    key = (best.dataset, best.mechanism, best.epsilon)
    tiles = []
    if kept:
        span = ""
        if kept.low is not None and kept.high is not None:
            low, high = _share(kept.low), _share(kept.high)
            span = f" ({low} to {high})" if low != high else ""
        tiles.append(Tile(_share(kept.mean), f"of the non-private model's knowledge{span}"))
    auc = scores.estimate(*key, "mia_loss_auc")
    if auc:
        ceiling = _ceiling(run, scores, best)
        against = "0.5 is guessing" if ceiling is None else f"limit {rate(ceiling)}"
        tiles.append(Tile(rate(auc.mean), f"attacker's AUC ({against})"))
    exposed = exposed_tile(run, scores, best, _swap_ceiling(scores, best))
    if exposed:
        tiles.append(Tile(*exposed))
    if best.audit is not None and best.audit.bounds:
        lower, claimed = rounded(best.audit.lower), rounded(best.audit.epsilon)
        tiles.append(Tile(f"ε ≥ {lower}", f"shown by attacks on crafted records; claimed: ε ≤ {claimed}"))
    return tuple(tiles)


def _ceiling(run: Run, scores: Scores, best: Outcome) -> float | None:
    """The most that the average attack may reach in expectation; None where the guarantee sets no limit to it."""
    return _swap_ceiling(scores, best) if run.limits_average(best.dataset) else None


def _swap_ceiling(scores: Scores, best: Outcome) -> float:
    key = (best.dataset, best.mechanism, best.epsilon)
    return swap_ceiling(best.epsilon, best.claimed_delta, scores.relation(*key))


def _nothing(tried: list[Outcome], trust: str, epsilon: float) -> str:
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


def _useless(run: Run, scores: Scores, best: Outcome, kept: Estimate | None, metric: str) -> tuple[str, ...]:
    if metric == "holdout_loglik":
        return ()
    if kept is None:
        return ("The non-private model itself is no better than a uniform box, so there is nothing to lose.",)
    sentence = warning(run, scores, best, kept)
    return (sentence,) if sentence else ()


def _shadowless(scores: Scores, best: Outcome) -> str | None:
    if scores.values(best.dataset, best.mechanism, best.epsilon, "mia_lira_auc"):
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


def _attack(run: Run, scores: Scores, best: Outcome) -> str | None:
    auc = scores.estimate(best.dataset, best.mechanism, best.epsilon, "mia_loss_auc")
    if auc is None:
        return None
    sentence = (
        f"A membership attacker who thresholds the density reaches AUC {rate(auc.mean)} (0.5 is guessing"
    )
    baseline = scores.baseline(best.dataset)
    if baseline:
        bare = scores.estimate(best.dataset, baseline.mechanism, math.inf, "mia_loss_auc")
        sentence += f"; {rate(bare.mean)} without privacy" if bare else ""
    ceiling = _ceiling(run, scores, best)
    if ceiling is None:
        why = "; ε hardly limits it, because it protects one record and people here hold several"
        return f"{sentence}){why if unlimited(run, best.dataset) else ''}."
    unit = run.materials[best.dataset].info.domain.unit
    sentence += f"); in expectation no attack on a single {unit} can exceed {rate(ceiling)}"
    nameless = run.entries[best.dataset].privacy.person_column is None
    sentence += "; whoever has several records is protected less." if nameless else "."
    if auc.mean > ceiling:
        sentence += " What is above that may be the chance of which records were held out."
    return sentence
