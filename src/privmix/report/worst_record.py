"""The attack on the most exposed person: its result in words, and whether it breaks a claimed (ε, δ).

Only this game is evidence of a broken claim: it repeats the mechanism with one record and with that record
replaced. The average loss attack compares training with held-out records, which also differ by the chance of the split.
A dataset plays the game once for each mechanism and epsilon. The probability of any false alarm on a dataset is at
most 1 % (Bonferroni), as far as the interval of the AUC holds.
"""

import math
from statistics import NormalDist

from privmix.privacy.hypothesis_testing import newcombe_interval
from privmix.report.format import count, distance, nearest, plain, rate, three_digits
from privmix.report.guarantee import auc_ceiling
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults

CONFIDENCE = 0.99
METRIC = "mia_worst_record_auc"


def auc_lower_bound(auc: float, runs: int, games: int) -> float:
    """Return the AUC that one of `games` games proves, with `runs` models of each world.

    Two-sided: an attack that is surely wrong is as good as one that is surely right.
    """
    quantile = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * games))
    low, high = newcombe_interval(auc, runs, runs, quantile)
    return max(low, 1 - high)


def broken_claims(run: RunResults, results: Results, outcome: Outcome) -> tuple[str, ...]:
    """Return a warning if the game proves more than the claim allows."""
    reached = results.values(*outcome.key, METRIC)
    if not outcome.private or not reached:
        return ()
    games = len(_games(run, results, outcome.dataset))
    sure = auc_lower_bound(reached[0], run.settings.evaluation.worst_record_runs, games)
    allowed = auc_ceiling(results, outcome)
    if sure <= allowed:
        return ()
    apart = max(reached[0], 1 - reached[0])
    return (
        f"{outcome.mechanism} seems to break its own claim: the worst-record attack reaches AUC {rate(apart)}. This "
        f"proves an AUC of at least {rate(sure)} (99\u00a0% confidence over all {count(games, 'attack')} on this "
        f"dataset), but ε = {three_digits(outcome.limiting_epsilon)} allows at most {rate(allowed)}. "
        "Do not use the mechanism until the cause is found.",
    )


def reach(run: RunResults, results: Results, dataset: str) -> str | None:
    """Describe up to which epsilon the game can show a broken claim; None if it always can, or without games."""
    games = _games(run, results, dataset)
    runs = run.settings.evaluation.worst_record_runs
    compared = [o for o in games if o.comparable]
    beyond = [o.epsilon for o in compared if not _can_prove(run, results, o, len(games))]
    if not beyond:
        return None
    within = [o.epsilon for o in compared if o.epsilon < min(beyond)]
    where = f"only up to ε = {plain(max(within))}" if within else "at no tested ε"
    return (
        f"With {count(runs, 'run')} in each world, the worst-record attack can disprove a claim {where}. "
        "Set `evaluation.worst_record_runs` higher."
    )


def weakness(run: RunResults, results: Results, outcome: Outcome) -> str | None:
    """Say that the game of one mechanism and epsilon cannot show a broken claim; None if it can."""
    games = _games(run, results, outcome.dataset)
    if outcome not in games or _can_prove(run, results, outcome, len(games)):
        return None
    runs = run.settings.evaluation.worst_record_runs
    return f"With {count(runs, 'run')} in each world, this attack cannot disprove the claim."


def _can_prove(run: RunResults, results: Results, outcome: Outcome, games: int) -> bool:
    """Tell whether a perfect attack would raise the alarm."""
    return auc_lower_bound(1.0, run.settings.evaluation.worst_record_runs, games) > auc_ceiling(
        results, outcome
    )


def _games(run: RunResults, results: Results, dataset: str) -> list[Outcome]:
    """Return the private jobs of a dataset with an attack on the most exposed person."""
    return [
        outcome for outcome in run.of(dataset) if outcome.private and results.values(*outcome.key, METRIC)
    ]


def describe_attack(run: RunResults, results: Results, best: Outcome) -> str | None:
    """Describe the attack on the isolated person with one mechanism's models and with the non-private model."""
    person = run.worst_person(best.dataset)
    attacked, near = _auc_sentence(run, results, best), _distance_sentence(results, best)
    if person is None or not (attacked or near):
        return None
    start = f"The most exposed person is {person}, far from all others."
    return " ".join(filter(None, (start, attacked, near)))


def _auc_sentence(run: RunResults, results: Results, best: Outcome) -> str:
    here, bare = (_auc(results, *key) for key in (best.key, _non_private_key(results, best)))
    if not here:
        return ""
    most, known = run.settings.evaluation.worst_record_records, run.materials.get(best.dataset)
    some = f" of {count(most, 'record')}" if known and most < known.domain.rows else ""
    sentence = f"On models{some}, the worst-record attack reaches {here}"
    sentence += f"; non-private: {bare}." if bare else "."
    return " ".join(filter(None, (sentence, weakness(run, results, best))))


def _auc(results: Results, dataset: str, mechanism: str, epsilon: float) -> str | None:
    auc = results.values(dataset, mechanism, epsilon, "mia_worst_record_auc")
    low = results.values(dataset, mechanism, epsilon, "mia_worst_record_auc_low")
    high = results.values(dataset, mechanism, epsilon, "mia_worst_record_auc_high")
    bounds = f" (95\u00a0% interval {rate(low[0])} to {rate(high[0])})" if low and high else ""
    return f"AUC {rate(auc[0])}{bounds}" if auc else None


def _distance_sentence(results: Results, best: Outcome) -> str:
    away, bare = (
        results.values(*key, "worst_record_distance_km")
        for key in (best.key, _non_private_key(results, best))
    )
    if not away:
        return ""
    whose = f"of any of {count(len(away), 'replicate')} " if len(away) > 1 else ""
    sentence = f"The nearest centre {whose}is {distance(min(away))} away"
    return f"{sentence} (non-private: {nearest(bare)})." if bare else f"{sentence}."


def _non_private_key(results: Results, best: Outcome) -> tuple[str, str, float]:
    """Return the key of the non-private model; without one, a key that has no results."""
    baseline = results.baseline(best.dataset)
    return best.dataset, baseline.mechanism if baseline else "", math.inf


def attack_tile(run: RunResults, results: Results, best: Outcome, ceiling: float) -> tuple[str, str] | None:
    """Return the AUC of the attack on the isolated person, and a label with values to compare; None without attack."""
    person = run.worst_person(best.dataset)
    auc, low, high = (
        results.values(*best.key, f"mia_worst_record_auc{end}") for end in ("", "_low", "_high")
    )
    if person is None or not auc:
        return None
    name = person.replace("-", "\u2011")  # no line break inside a name
    away, near = (
        results.values(*key, "worst_record_distance_km")
        for key in (best.key, _non_private_key(results, best))
    )
    if weakness(run, results, best) and away:  # what a few runs cannot tell, the models themselves can
        without = f"; non-private: {distance(min(near))}" if near else ""
        far = f"distance from {name} (a person far from all others) to the nearest component centre"
        return distance(min(away)), f"{far}{without}"
    bare = results.values(*_non_private_key(results, best), "mia_worst_record_auc")
    against = [f"95\u00a0% interval: {low[0]:.2f} to {high[0]:.2f}"] if low and high else []
    against += ["0.5 = guessing", f"limit {rate(ceiling)}"]
    against += [f"non-private: {rate(bare[0])}"] if bare else []
    who = f"{name}, a person far from all others"
    return rate(auc[0]), f"AUC of the worst-record attack on {who} ({'; '.join(against)})"
