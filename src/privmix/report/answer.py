"""The answer: per dataset and trust model, which mechanism, what it costs, and what an attacker still learns."""

import math
from dataclasses import dataclass
from typing import Literal

from privmix.report.alarm import broken_claims
from privmix.report.exposure import found, unlimited, worst_person
from privmix.report.frames import Estimate, Scores, uniform_loglik
from privmix.report.limits import swap_ceiling
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import (
    count,
    interval,
    listing,
    nats,
    neighbours,
    percent,
    plain,
    rate,
)  # fmt: skip

GOOD_SHARE = 0.9
USEFUL_SHARE = 0.5
Verdict = Literal["good", "fair", "poor", "unknown", "none"]


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
    details: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()


def knowledge_kept(scores: Scores, run: Run, dataset: str, gap: float) -> float | None:
    """Share of the non-private model's held-out gain over the uniform box that a model keeps.

    1 is as good as the non-private model, 0 as good as knowing the public box alone. Unlike a number of nats it
    means the same in any dimension. None where the non-private model itself knows nothing.
    """
    baseline = scores.baseline(dataset)
    if baseline is None or dataset not in run.materials:
        return None
    gain = baseline.holdout_loglik - uniform_loglik(run.materials[dataset].info.domain)
    return 1 + gap / gain if gain > 0 else None


def answers(run: Run, scores: Scores) -> list[Answer]:
    """One answer per dataset and trust model, datasets in the order of the configuration."""
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
    kept = knowledge_kept(scores, run, dataset, gap.mean) if metric == "holdout_gap" else None
    verdict = _verdict(kept)
    headline = _cost(best, gap, metric, len(tried), epsilon)
    return Answer(
        dataset, trust, epsilon, best.mechanism, verdict, headline,
        details=tuple(
            sentence
            for sentence in (
                _knowledge(kept),
                _smallest_epsilon(run, scores, dataset, trust),
                _runner_up(measured),
                _attack(run, scores, best),
                _isolated(run, scores, best),
                _claim(best),
            )
            if sentence
        ),
        warnings=(*_useless(kept, gap, best, metric), *broken_claims(run, scores, best)),
        tiles=_tiles(run, scores, best, gap, metric),
    )  # fmt: skip


def _tiles(run: Run, scores: Scores, best: Outcome, gap: Estimate, metric: str) -> tuple[Tile, ...]:
    key = (best.dataset, best.mechanism, best.epsilon)
    tiles = []
    if metric == "holdout_gap":
        span = ""
        if gap.low is not None and gap.high is not None:
            low, high = percent(_density(gap.low)), percent(_density(gap.high))
            span = f" ({low} to {high})" if low != high else ""
        tiles.append(Tile(percent(_density(gap.mean)), f"of the non-private density{span}"))
    auc = scores.estimate(*key, "mia_loss_auc")
    if auc:
        ceiling = _ceiling(run, scores, best)
        against = "0.5 is guessing" if ceiling is None else f"limit {rate(ceiling)}"
        tiles.append(Tile(rate(auc.mean), f"attacker's AUC ({against})"))
    exposed = scores.values(*key, "mia_worst_record_auc")
    person = worst_person(run, best.dataset)
    if exposed and person:
        person = person.replace("-", "\u2011")  # a name is not broken over two lines
        tiles.append(Tile(rate(exposed[0]), f"AUC against {person}{_without_privacy(scores, best)}"))
    return tuple(tiles)


def _ceiling(run: Run, scores: Scores, best: Outcome) -> float | None:
    """The most that the average attack may reach in expectation; None where the guarantee sets no limit to it."""
    if not run.limits_average(best.dataset):
        return None
    key = (best.dataset, best.mechanism, best.epsilon)
    return swap_ceiling(best.epsilon, scores.delta(*key), scores.relation(*key))


def _without_privacy(scores: Scores, best: Outcome) -> str:
    baseline = scores.baseline(best.dataset)
    bare = baseline and scores.values(best.dataset, baseline.mechanism, math.inf, "mia_worst_record_auc")
    return f" ({rate(bare[0])} without privacy)" if bare else ""


def _verdict(kept: float | None) -> Verdict:
    if kept is None:
        return "unknown"
    return "good" if kept >= GOOD_SHARE else "fair" if kept >= USEFUL_SHARE else "poor"


def _nothing(tried: list[Outcome], trust: str, epsilon: float) -> str:
    if len(tried) == 1:
        return f"The only {trust} mechanism, {tried[0].mechanism}, has no result at ε = {plain(epsilon)}."
    return f"None of the {len(tried)} {trust} mechanisms has a result at ε = {plain(epsilon)}."


def _cost(best: Outcome, gap: Estimate, metric: str, tried: int, epsilon: float) -> str:
    place = (
        f"the best of {tried} {best.trust} mechanisms" if tried > 1 else f"the only {best.trust} mechanism"
    )
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


def _knowledge(kept: float | None) -> str | None:
    if kept is None or kept <= 0:
        return None
    return (
        f"It keeps {percent(min(kept, 1.0))} of what the non-private model knows beyond the public bounds "
        "(held-out gain over a uniform box)."
    )


def _smallest_epsilon(run: Run, scores: Scores, dataset: str, trust: str) -> str | None:
    """At which epsilon: the smallest of the sweep at which some mechanism keeps nearly everything."""
    epsilons = sorted({outcome.epsilon for outcome in run.outcomes if outcome.private})
    if scores.baseline(dataset) is None or len(epsilons) < 2:
        return None
    for epsilon in epsilons:
        for outcome in run.of(dataset):
            gap = scores.estimate(dataset, outcome.mechanism, epsilon, "holdout_gap")
            if outcome.trust == trust and outcome.epsilon == epsilon and gap:
                kept = knowledge_kept(scores, run, dataset, gap.mean)
                if kept is not None and kept >= GOOD_SHARE:
                    return (
                        f"The smallest ε of this run at which a {trust} mechanism keeps {percent(GOOD_SHARE)} is "
                        f"{plain(epsilon)} ({outcome.mechanism})."
                    )
    return f"No ε of this run lets a {trust} mechanism keep {percent(GOOD_SHARE)} of it."


def _runner_up(measured: list[tuple[Estimate, Outcome]]) -> str | None:
    gap, _ = measured[0]
    if gap.low is None:
        return None
    close = [outcome.mechanism for other, outcome in measured[1:] if other.mean >= gap.low]
    if not close:
        return None
    verb = "lies" if len(close) == 1 else "lie"
    return f"{listing(close)} {verb} within its interval: the choice between them is open."


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
        why = "; ε sets no limit to it, because it protects one record and people here hold several"
        return f"{sentence}){why if unlimited(run, best.dataset) else ''}."
    sentence += f"); in expectation no attack can exceed {rate(ceiling)}."
    if auc.mean > ceiling:
        sentence += " What is above that is the chance of which records were held out."
    return sentence


def _isolated(run: Run, scores: Scores, best: Outcome) -> str | None:
    person = worst_person(run, best.dataset)
    here = found(scores, best.dataset, best.mechanism, best.epsilon)
    if person is None or here is None:
        return None
    sentence = f"The most exposed person is {person}, alone in a far place: in this model {here}"
    baseline = scores.baseline(best.dataset)
    bare = found(scores, best.dataset, baseline.mechanism, math.inf) if baseline else None
    return f"{sentence}; without privacy {bare}." if bare else f"{sentence}."


def _claim(best: Outcome) -> str | None:
    if best.model is None:
        return None
    privacy = best.model.privacy
    releases = count(sum(row.get("count", 1) for row in privacy.ledger), "noisy release")
    return (
        f"The guarantee: ε = {plain(privacy.epsilon)}, δ = {plain(privacy.delta)} for "
        f"{neighbours(privacy.unit, privacy.relation)}, from a ledger of {releases}"
        f"{' per record' if best.trust == 'local' else ''}."
    )


def _useless(kept: float | None, gap: Estimate, best: Outcome, metric: str) -> tuple[str, ...]:
    if metric == "holdout_loglik":
        return ()
    if kept is None:
        return ("The non-private model itself is no better than a uniform box, so there is nothing to lose.",)
    if kept <= 0:
        return (
            f"Nothing useful is possible here: {best.mechanism} describes unseen records no better than the "
            "public bounds alone, which cost no privacy at all.",
        )
    if kept < USEFUL_SHARE:
        return (
            f"Of little use: {best.mechanism} keeps less than {percent(USEFUL_SHARE)} of what the non-private "
            "model knows; more records, a larger ε, fewer components or another trust model would help.",
        )
    return ()
