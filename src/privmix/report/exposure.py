"""Who is exposed most, how well an attack finds them, and whom the guarantee leaves without a limit."""

import math

from privmix.report.alarm import modest
from privmix.report.frames import Scores
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import count, distance, nearest, rate


def worst_person(run: Run, dataset: str) -> str | None:
    """The isolated person's name in the catalog, as the scores say it."""
    infos = (outcome.scores_info for outcome in run.of(dataset))
    return next((info.worst_person for info in infos if info and info.worst_person), None)


def isolated(run: Run, scores: Scores, best: Outcome) -> str | None:
    """How well the isolated person is found in one mechanism's models, and in those without privacy."""
    person = worst_person(run, best.dataset)
    attacked, near = _attacked(run, scores, best), _nearest_centre(scores, best)
    if person is None or not (attacked or near):
        return None
    start = f"The most exposed person is {person}, alone in a far place"
    return f"{start}: {attacked} {near}".rstrip() if attacked else f"{start}. {near}"


def _attacked(run: Run, scores: Scores, best: Outcome) -> str:
    here, bare = (_auc(scores, *key) for key in (_key(best), _bare(scores, best)))
    if not here:
        return ""
    most, known = run.settings.evaluation.worst_record_records, run.materials.get(best.dataset)
    some = f" of {count(most, 'record')}" if known and most < known.domain.rows else ""
    sentence = f"in models{some} that this mechanism makes, an attack on them reaches {here}"
    sentence += f"; without privacy it reaches {bare}." if bare else "."
    return " ".join(filter(None, (sentence, modest(run, scores, best))))


def _auc(scores: Scores, dataset: str, mechanism: str, epsilon: float) -> str | None:
    auc = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc")
    low = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc_low")
    high = scores.values(dataset, mechanism, epsilon, "mia_worst_record_auc_high")
    bounds = f" (95\u00a0% interval {rate(low[0])} to {rate(high[0])})" if low and high else ""
    return f"AUC {rate(auc[0])}{bounds}" if auc else None


def _nearest_centre(scores: Scores, best: Outcome) -> str:
    away, bare = (
        scores.values(*key, "worst_record_distance_km") for key in (_key(best), _bare(scores, best))
    )
    if not away:
        return ""
    whose = f"of any of {count(len(away), 'replicate')} " if len(away) > 1 else ""
    sentence = f"The nearest centre {whose}is {distance(min(away))} away"
    return f"{sentence} (without privacy: {nearest(bare)})." if bare else f"{sentence}."


def _key(outcome: Outcome) -> tuple[str, str, float]:
    return outcome.dataset, outcome.mechanism, outcome.epsilon


def _bare(scores: Scores, best: Outcome) -> tuple[str, str, float]:
    """The model without privacy; where there is none, nothing was measured of it either."""
    baseline = scores.baseline(best.dataset)
    return best.dataset, baseline.mechanism if baseline else "", math.inf


def exposed_tile(run: Run, scores: Scores, best: Outcome, ceiling: float) -> tuple[str, str] | None:
    """The AUC against the isolated person, and in a few words what to hold it against."""
    person = worst_person(run, best.dataset)
    auc, low, high = (
        scores.values(*_key(best), f"mia_worst_record_auc{end}") for end in ("", "_low", "_high")
    )
    if person is None or not auc:
        return None
    name = person.replace("-", "\u2011")  # a name is not broken over two lines
    away, near = (
        scores.values(*key, "worst_record_distance_km") for key in (_key(best), _bare(scores, best))
    )
    if modest(run, scores, best) and away:  # what a few runs cannot tell, the models themselves can
        without = f" (without privacy: {nearest(near)})" if near else ""
        return distance(min(away)), f"from {name} to the nearest centre of a model{without}"
    bare = scores.values(*_bare(scores, best), "mia_worst_record_auc")
    against = [f"{low[0]:.2f} to {high[0]:.2f}"] if low and high else []
    against.append(f"limit {rate(ceiling)}")
    against += [f"{rate(bare[0])} without privacy"] if bare else []
    return rate(auc[0]), f"AUC against {name} ({'; '.join(against)})"


def unlimited(run: Run, dataset: str) -> str | None:
    """Why the guarantee sets no limit to the average attack; None where it does, or where nothing is known."""
    if dataset not in run.materials or run.materials[dataset].protects_people:
        return None
    sentence = (
        "The guarantee at ε is for one record; people here hold several, so it hardly limits an attack on all of a "
        "person's records"
    )
    person = worst_person(run, dataset)
    return f"{sentence}; the limit on one record is shown for {person}." if person else f"{sentence}."
