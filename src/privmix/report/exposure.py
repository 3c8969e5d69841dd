"""Who is exposed most, how well an attack finds them, and whether any attack beats what the claim allows."""

from privmix.report.frames import Scores
from privmix.report.limits import swap_ceiling
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import distance, plain, rate


def worst_person(run: Run, dataset: str) -> str | None:
    """The isolated person's name in the catalog, as the scores say it."""
    infos = (outcome.scores_info for outcome in run.of(dataset))
    return next((info.worst_person for info in infos if info and info.worst_person), None)


def found(scores: Scores, dataset: str, mechanism: str, epsilon: float) -> str | None:
    """How well the isolated person is found in one mechanism's models."""
    auc = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc")
    away = scores.values(dataset, mechanism, epsilon, "worst_record_distance_km")
    parts = []
    if auc:
        low = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc_low")
        high = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc_high")
        bounds = f" (95\u00a0% interval {rate(low[0])} to {rate(high[0])})" if low and high else ""
        parts.append(f"an attack on them reaches AUC {rate(auc[0])}{bounds}")
    if away:
        parts.append(f"the nearest component's centre is {distance(min(away))} away")
    return ", and ".join(parts) or None


def broken_claims(scores: Scores, outcome: Outcome) -> tuple[str, ...]:
    """An alarm where the attack on the worst record beats what the claimed (epsilon, delta) allows.

    Only that game is evidence: it repeats the mechanism with and without one record. The average loss attack
    compares training with held-out records, which also differ by the chance of the split.
    """
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)
    low = scores.values(*key, "mia_worst_record_auc_low")
    high = scores.values(*key, "mia_worst_record_auc_high")
    if not outcome.private or not low or not high:
        return ()
    # An attack that is surely wrong is as good as one that is surely right.
    sure = max(low[0], 1 - high[0])
    allowed = swap_ceiling(outcome.epsilon, scores.delta(*key), scores.relation(*key))
    if sure <= allowed:
        return ()
    return (
        f"{outcome.mechanism} seems to break its own claim: the attack on the most exposed person tells the two cases "
        f"apart with AUC {rate(sure)} even at the cautious end of its 95\u00a0% interval, but ε = "
        f"{plain(outcome.epsilon)} allows at most {rate(allowed)}. Do not use it before an audit has cleared it.",
    )
