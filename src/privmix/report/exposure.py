"""Who is exposed most, how well an attack finds them, and whom the guarantee leaves without a limit."""

from privmix.report.frames import Scores
from privmix.report.outcomes import Run
from privmix.report.phrases import distance, rate


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


def unlimited(run: Run, dataset: str) -> str | None:
    """Why the guarantee sets no limit to the average attack; None where it does, or where nothing is known."""
    if dataset not in run.materials or run.materials[dataset].protects_people:
        return None
    sentence = (
        "The guarantee at ε is for one record; people here hold several, so it sets no limit to an attack on all of a "
        "person's records"
    )
    person = worst_person(run, dataset)
    return f"{sentence}; the limit on one record is shown for {person}." if person else f"{sentence}."
