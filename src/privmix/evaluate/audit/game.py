"""Audit game: a mechanism runs many times in two neighbouring worlds, and an attacker guesses from what he sees which.

He knows both worlds, the mechanism and everything that the theorem says is released (`seen`). His best score is the
likelihood ratio of the releases; others are for noise that comes twice, for what gets out beside the releases, and one
knows no law and learns what differs. How well they guess proves a lower bound on ε (Jagielski, Ullman, Oprea 2020; Nasr
et al. 2023).

A pilot chooses the pair of worlds that shows most, and who learns is trained, with runs of their own: so the bounds
need no correction for that. They are corrected for their number by Bonferroni's rule with fixed weights. What
follows the last release is post-processing, so most runs are stopped there. The two runs of one number get the same
randomness, which `bounds` explains.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmix.artefacts.audit import Bound
from privmix.evaluate.audit import bounds
from privmix.evaluate.audit.attackers import trained
from privmix.evaluate.audit.bounds import FEWEST
from privmix.evaluate.audit.pair import Pair
from privmix.evaluate.audit.seen import Seen, Table
from privmix.evaluate.audit.watched import watch
from privmix.evaluate.membership import Sides, paired_auc
from privmix.mechanisms.base import Mechanism, Randomness, Release, Reports
from privmix.privacy.accounting import Budget, Claim, account, distance
from privmix.privacy.ledger import Gaussian

REPORTED, ALARMED = 0.05, 0.01  # chances that a bound is wrong; of all bounds of an audit together
MAIN = 0.8  # of them for the likelihood ratio by the theorem that fits the ledger
PILOT, TRAINING = 100, 10  # one in so many runs is played before, to choose the pair and to learn
CHEAP = 2  # times what a stopped run costs: up to there all runs are played to their end,
COMPLETE = 30  # else one in so many
EFFORT = 10_000  # calls of functions that a run of each world may cost; dearer ones are played less often


@dataclass(frozen=True, eq=False)
class Game:
    """What was proven of a mechanism on the pair that showed most, against what it claims between any two units."""

    claim: Claim
    runs: int  # of each world
    bounds: list[Bound]
    notes: list[str]


def play(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    budget: Budget,
    randomness: Callable[[int], Randomness],
    runs: int,
    games: int = 1,
) -> Game:
    """The game with so many runs of each world, or fewer where they are dear; it may be one of an audit's games.

    Equal numbers must give equal randomness, or always independent randomness.
    """
    first = pairs[0]
    tried = [
        watch(mechanism, records, first.spec, budget, randomness(0)) for records in (first.mine, first.other)
    ]
    claim = claimed(mechanism, tried[0].output)
    gaussian = all(isinstance(entry.event, Gaussian) for each in tried for entry in each.tape.entries)
    table = Table(mechanism, budget, randomness, max(len(each.tape.entries) for each in tried))
    plan = _plan(table, pairs[0], runs)
    if plan.runs < FEWEST:
        return Game(claim, 0, [], [plan.note])
    pilot = range(1, 1 + max(3, plan.runs // PILOT))
    pair = max(pairs, key=lambda each: _shown(table, each, pilot))
    training = range(pilot.stop, pilot.stop + max(FEWEST, plan.runs // TRAINING))
    judged = range(training.stop, training.stop + plan.runs)
    scored = _scored(table, pair, training, judged, plan.complete)
    found = _bounds(pair.name, scored, claim.delta, gaussian, games)
    return Game(claim, plan.runs, found, [plan.note] if plan.note else [])


@dataclass(frozen=True)
class _Plan:
    """How many runs of each world are played, how many of them to the end, and what that leaves out."""

    runs: int
    complete: int
    note: str


def _plan(table: Table, pair: Pair, runs: int) -> _Plan:
    """As many as are asked for and affordable; the price is counted in calls, which are the same on every machine."""
    short, whole = (_calls(lambda: table.both(pair, 0, complete)) for complete in (False, True))  # noqa: B023
    played = min(runs, int(runs * EFFORT / short))
    complete = played
    if whole > CHEAP * short:
        complete = min(played // COMPLETE, int(runs * EFFORT / 4 / whole))
    if played < FEWEST:
        needed = math.ceil(FEWEST * max(short / EFFORT, 1))
        note = f"{runs} runs are too few for a bound on so dear a mechanism; set `audit: runs` to {needed} or more."
    elif complete < FEWEST:
        needed = math.ceil(FEWEST * max(COMPLETE * short / EFFORT, COMPLETE, 4 * whole / EFFORT))
        note = (
            "What follows the last release was not attacked, since there are too few runs for it; "
            f"set `audit: runs` to {needed} or more."
        )
    else:
        note = ""
    return _Plan(played, complete if complete >= FEWEST else 0, note)


def _calls(work: Callable[[], Any]) -> int:
    """How many functions are called; once before, so that what is remembered is not counted."""
    work()
    counted = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


def claimed(mechanism: Mechanism, release: Release | Reports) -> Claim:
    """What a run claims between any two units, however far apart; for most that is its claim."""
    if distance(release.events) is None:
        return release.claim
    return account(release.events, release.claim.delta, mechanism.accountant)


def _bounds(
    pair: str, scored: dict[str, tuple[Sides, Sides]], delta: float, gaussian: bool, games: int
) -> list[Bound]:
    """All bounds of a game. `scored` has the scores of training and judged runs."""
    by_area, area = ("Gaussian AUC", bounds.gaussian_auc) if gaussian else ("pure AUC", bounds.pure_auc)
    main = {by_area} if gaussian else {by_area, "Clopper-Pearson"}
    found = []
    for score, (training, judged) in scored.items():
        auc = paired_auc(judged)[0]
        for theorem in (by_area, "Clopper-Pearson"):
            fits = score == "likelihood ratio" and theorem in main
            weight = MAIN / len(main) if fits else (1 - MAIN) / (2 * len(scored) - len(main))
            lower, alarm = (
                area(bounds.auc_lower(judged, weight * level / games), delta)
                if theorem == by_area
                else _by_threshold(training, judged, delta, weight * level / games)
                for level in (REPORTED, ALARMED)
            )
            found.append(Bound(pair=pair, score=score, theorem=theorem, auc=auc, lower=lower, alarm=alarm))
    return found


def _by_threshold(training: Sides, judged: Sides, delta: float, alpha: float) -> float:
    at = bounds.threshold(training, len(judged), delta, alpha)
    errors = bounds.rates(judged, np.array([at]))
    return float(bounds.clopper_pearson(*errors, len(judged), delta, alpha)[0])


def _scored(
    table: Table, pair: Pair, training: range, judged: range, complete: int
) -> dict[str, tuple[Sides, Sides]]:
    """All scores of training runs and of judged ones; the output's, and what is learned with it, of complete runs."""
    studied, played = (
        [table.both(pair, number, number - numbered.start < complete) for number in numbered]
        for numbered in (training, judged)
    )
    learning = trained(
        *([seen.said for seen in side] for side in zip(*(studied[:complete] or studied), strict=True))
    )
    scores: dict[str, Callable[[Seen], float]] = {
        "likelihood ratio": lambda seen: seen.ratio,
        "difference": lambda seen: seen.difference,
        "learned": lambda seen: learning.classified(seen.said),
    }
    if complete:
        scores["output"] = lambda seen: seen.output

    def sides(name: str, runs: Sequence[tuple[Seen, Seen]]) -> Sides:
        some = runs[:complete] if complete and name in ("learned", "output") else runs
        return Sides(*np.array([[scores[name](seen) for seen in both] for both in some]).T)

    return {name: (sides(name, studied), sides(name, played)) for name in scores}


def _shown(table: Table, pair: Pair, pilot: range) -> float:
    """How much more the likelihood ratio says for my world in mine than in the other, on average."""
    both = [table.both(pair, number, complete=False) for number in pilot]
    return float(
        np.mean([np.clip(mine.ratio, -1e9, 1e9) - np.clip(other.ratio, -1e9, 1e9) for mine, other in both])
    )
