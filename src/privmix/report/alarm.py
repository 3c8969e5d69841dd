"""The alarm: whether the attack on the most exposed person beats what the claimed (epsilon, delta) allows.

Only that game is evidence: it repeats the mechanism with one record and with that record replaced. The average loss
attack compares training with held-out records, which also differ by the chance of the split.
A dataset plays the game once for each mechanism and epsilon. All its alarms together are false with a probability of
1 % (Bonferroni), as far as the interval of the AUC holds.
"""

from statistics import NormalDist

from privmix.evaluate.limits import swap_ceiling
from privmix.evaluate.membership import auc_interval
from privmix.report.frames import Scores
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import count, plain, rate, rounded

CONFIDENCE = 0.99
METRIC = "mia_worst_record_auc"


def proven(auc: float, runs: int, games: int) -> float:
    """The AUC that one of so many games proves, with `runs` models of each world.

    Two-sided: an attack that is surely wrong is as good as one that is surely right.
    """
    quantile = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * games))
    low, high = auc_interval(auc, runs, runs, quantile)
    return max(low, 1 - high)


def broken_claims(run: Run, scores: Scores, outcome: Outcome) -> tuple[str, ...]:
    """A warning where the game proves more than the claim allows."""
    reached = scores.values(outcome.dataset, outcome.mechanism, outcome.epsilon, METRIC)
    if not outcome.private or not reached:
        return ()
    games = len(_played(run, scores, outcome.dataset))
    sure = proven(reached[0], run.settings.evaluation.worst_record_runs, games)
    allowed = _allowed(scores, outcome)
    if sure <= allowed:
        return ()
    apart = max(reached[0], 1 - reached[0])
    return (
        f"{outcome.mechanism} seems to break its own claim: the attack on the most exposed person tells the two cases "
        f"apart with AUC {rate(apart)}, which proves at least {rate(sure)} (99\u00a0% confidence over all "
        f"{count(games, 'game')} on this dataset), but ε = {rounded(outcome.limiting_epsilon)} allows at most "
        f"{rate(allowed)}. "
        "Do not use it before an audit has cleared it.",
    )


def reach(run: Run, scores: Scores, dataset: str) -> str | None:
    """Up to which epsilon a perfect attack would raise the alarm; None where it would at all, or nobody played."""
    played = _played(run, scores, dataset)
    runs = run.settings.evaluation.worst_record_runs
    compared = [o for o in played if o.comparable]
    beyond = [o.epsilon for o in compared if not _can_prove(run, scores, o, len(played))]
    if not beyond:
        return None
    within = [o.epsilon for o in compared if o.epsilon < min(beyond)]
    where = f"only up to ε = {plain(max(within))}" if within else "at no ε of this run"
    return (
        f"With {count(runs, 'run')} in each world, this game can show a broken claim {where}; "
        "raise evaluation.worst_record_runs."
    )


def modest(run: Run, scores: Scores, outcome: Outcome) -> str | None:
    """The same in short for one mechanism and epsilon."""
    played = _played(run, scores, outcome.dataset)
    if outcome not in played or _can_prove(run, scores, outcome, len(played)):
        return None
    runs = run.settings.evaluation.worst_record_runs
    return f"With {count(runs, 'run')} in each world this cannot show a broken claim."


def _can_prove(run: Run, scores: Scores, outcome: Outcome, games: int) -> bool:
    """Whether a perfect attack would raise the alarm."""
    return proven(1.0, run.settings.evaluation.worst_record_runs, games) > _allowed(scores, outcome)


def _played(run: Run, scores: Scores, dataset: str) -> list[Outcome]:
    """The jobs of a dataset that claim something and whose most exposed person was attacked."""
    return [
        outcome
        for outcome in run.of(dataset)
        if outcome.private and scores.values(dataset, outcome.mechanism, outcome.epsilon, METRIC)
    ]


def _allowed(scores: Scores, outcome: Outcome) -> float:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)
    return swap_ceiling(outcome.limiting_epsilon, outcome.claimed_delta, scores.relation(*key))
