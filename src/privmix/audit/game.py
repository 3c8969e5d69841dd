"""Audit game: a mechanism runs many times in two neighbouring worlds, and an attacker guesses the world of each run.

The attacker knows both worlds, the mechanism and every measurement. Both worlds are replayed on the same measurements,
which gives these scores:

* the likelihood ratio of the measurements: the best score if they have their stated distributions;
* differences: measurements of one kind need fresh noise. Subtracting the statistics of a world from two consecutive
  measurements leaves their noise. If the same noise was used in both, it is equal in the true world only;
* the output: with all measurements held fixed, every world must give the same output bit by bit. If only one does, it
  is the true one;
* a score learned from the numbers themselves (`learned_attacker`).

The success of these guesses proves a lower bound on ε (Jagielski, Ullman, Oprea 2020; Nasr et al. 2023). A pilot
chooses the pair of worlds that differs most, and the learned score is trained. Both use separate runs, so the bounds
need no correction for them. The bounds are corrected for their number by Bonferroni's rule with fixed weights.
Everything after the last measurement is post-processing, so most runs stop there. The two runs with the same number get
the same randomness (see `bounds`).
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from privmix.artefacts.audit import EpsilonBound
from privmix.audit import bounds
from privmix.audit.bounds import FEWEST_RUNS
from privmix.audit.learned_attacker import RunNumbers, flatten_numbers, train_attacker
from privmix.audit.noise_tests import CONTINUOUS_NOISE
from privmix.audit.recording import (
    RecordedEvent,
    RecordedRun,
    ReplayMismatch,
    WorldPair,
    output_parts,
    record_run,
    repeat_run,
    replay_pair,
)
from privmix.mechanisms.base import CentralMechanism, Mechanism, Randomness, Release, Reports
from privmix.privacy.accounting import Budget, Claim, account, claim_distance
from privmix.privacy.hypothesis_testing import PairedScores, paired_auc
from privmix.privacy.ledger import Gaussian

DIGITS = 9  # of a score; rounding errors must not separate equal scores


@dataclass(frozen=True, eq=False)
class RunObservation:
    """One run. High scores speak for my world."""

    log_likelihood_ratio: float  # ln P(measurements | mine) - ln P(measurements | other); may be infinite
    difference: float  # how much more consecutive noise differs in the other world than in mine
    output: float  # 1 if only my world gives the output, -1 if only the other does, 0 otherwise
    said: RunNumbers  # the measured numbers and, of a complete run, those of its output


@dataclass(frozen=True, eq=False)
class GameRunner:
    """The mechanism, budget and randomness with which the game is played."""

    mechanism: Mechanism
    budget: Budget
    randomness: Callable[[int], Randomness]
    releases: int  # number of measurements after which a run may be stopped

    def observe_both(
        self, pair: WorldPair, number: int, complete: bool
    ) -> tuple[RunObservation, RunObservation]:
        """Run this number in my world and in the other."""
        turned = WorldPair(pair.name, pair.other, pair.mine, pair.spec)
        return self._observe(pair, 1, number, complete), self._observe(turned, -1, number, complete)

    def _observe(self, pair: WorldPair, sign: int, number: int, complete: bool) -> RunObservation:
        """Run the first world of the pair, which is mine if the sign is 1."""
        run = record_run(
            self.mechanism,
            pair.mine,
            pair.spec,
            self.budget,
            self.randomness(number),
            releases=None if complete else self.releases,
        )
        said = [
            *(flatten_numbers(entry.released) for entry in run.recording.entries),
            *_output_numbers(run.output),
        ]
        try:
            own, opposite = replay_pair(self.mechanism, run, pair, self.budget, whole=complete)
            ratio = _log_likelihood_ratio(
                own.entries, opposite.entries, fuller=len(pair.mine) >= len(pair.other)
            )
        except (ReplayMismatch, ValueError):
            return RunObservation(sign * math.inf, 0.0, float(sign), said)
        apart = _noise_change(opposite.entries) - _noise_change(own.entries)
        differs = complete and not _same_output(run, opposite.output) and self._repeats(pair, run)
        return RunObservation(sign * ratio, round(sign * apart, DIGITS), float(sign * differs), said)

    def _repeats(self, pair: WorldPair, run: RecordedRun) -> bool:
        """Whether the true world gives the output again. If not, another world need not give it either."""
        return _same_output(run, repeat_run(self.mechanism, run, pair.spec, self.budget).output)


def _log_likelihood_ratio(
    own: Sequence[RecordedEvent], opposite: Sequence[RecordedEvent], *, fuller: bool
) -> float:
    """Return the log-likelihood ratio of the measurements for the own world.

    For a secret sample, the distribution compares the sum with the unit to the sum without it, so the world with more
    records comes first.
    """
    first, second = (own, opposite) if fuller else (opposite, own)
    entries = zip(first, second, strict=False)
    ratio = sum(a.law.log_ratio(a.released, a.statistic, b.statistic) for a, b in entries)
    if math.isnan(ratio):
        return 0.0
    return round(float(ratio if fuller else -ratio), DIGITS)


def _noise_change(entries: Sequence[RecordedEvent]) -> float:
    """Sum the squared changes of the noise, in units of its scale, between consecutive measurements of a label."""
    before: dict[str, np.ndarray] = {}
    total = 0.0
    for entry in entries:
        if isinstance(entry.law, CONTINUOUS_NOISE):
            noise, label = entry.law.noise(entry.released, entry.statistic), entry.event.label
            if label in before and len(before[label]) == len(noise):
                total += float(np.square(noise - before[label]).sum())
            before[label] = noise
    return total


def _same_output(run: RecordedRun, output: Release | Reports | None) -> bool:
    assert run.output is not None  # both runs are complete
    assert output is not None
    return all(before == after for _, before, after in output_parts(run.output, output))


def _output_numbers(output: Release | Reports | None) -> RunNumbers:
    if not isinstance(output, Release):
        return []
    return [
        flatten_numbers(part)
        for part in (output.mixture, output.shares, output.proportions, output.transcript, output.notes)
    ]


REPORT_ALPHA, ALARM_ALPHA = 0.05, 0.01  # probability that any bound of an audit is wrong
MAIN = 0.8  # share of alpha for the likelihood ratio with the theorem that fits the ledger
PILOT, TRAINING = 100, 10  # one extra run per this many runs, to choose the pair and to train
CHEAP = 2  # all runs are complete if a complete run costs at most this many stopped runs
COMPLETE = 30  # otherwise one run in this many is complete
WITHOUT_ATTRIBUTES = (
    "The attribute counts were not attacked in the game, because an expensive search precedes them. "
    "The replay covers them."
)
EFFORT = 10_000  # function calls that a run of each world may cost; more expensive runs are played less often


@dataclass(frozen=True, eq=False)
class GameResult:
    """The bounds on the pair that showed most, and the claim between any two units."""

    claim: Claim
    runs: int  # of each world
    bounds: list[EpsilonBound]
    notes: list[str]


def play_game(
    mechanism: Mechanism,
    pairs: Sequence[WorldPair],
    budget: Budget,
    randomness: Callable[[int], Randomness],
    runs: int,
    games: int = 1,
) -> GameResult:
    """Play the game with `runs` runs of each world, or fewer if they are expensive.

    If an expensive search precedes the measurement of attributes, the game is played without attributes, with the whole
    budget for the coordinates. `games` is the number of games in the audit, for the correction. Equal numbers must give
    equal randomness, or always independent randomness.
    """
    first = pairs[0]
    tried = [
        record_run(mechanism, records, first.spec, budget, randomness(0))
        for records in (first.mine, first.other)
    ]
    assert tried[0].output is not None  # the run is complete
    claim = claim_between_units(mechanism, tried[0].output)
    gaussian = all(isinstance(entry.event, Gaussian) for each in tried for entry in each.recording.entries)
    table = GameRunner(mechanism, budget, randomness, max(len(each.recording.entries) for each in tried))
    plan = _plan(table, pairs[0], runs)
    if plan.runs < FEWEST_RUNS and isinstance(mechanism, CentralMechanism) and mechanism.attribute_share:
        alone = replace(cast(Any, mechanism), attribute_share=0.0)
        played = play_game(alone, pairs, budget, randomness, runs, games)
        return replace(played, notes=[*played.notes, WITHOUT_ATTRIBUTES])
    if plan.runs < FEWEST_RUNS:
        return GameResult(claim, 0, [], [plan.note])
    pilot = range(1, 1 + max(3, plan.runs // PILOT))
    pair = max(pairs, key=lambda each: _mean_separation(table, each, pilot))
    training = range(pilot.stop, pilot.stop + max(FEWEST_RUNS, plan.runs // TRAINING))
    judged = range(training.stop, training.stop + plan.runs)
    scored = _score_runs(table, pair, training, judged, plan.complete)
    found = _bounds(pair.name, scored, claim.delta, gaussian, games)
    return GameResult(claim, plan.runs, found, [plan.note] if plan.note else [])


@dataclass(frozen=True)
class _Plan:
    """The number of runs of each world, the number of complete runs, and a note on what is left out."""

    runs: int
    complete: int
    note: str


def _plan(table: GameRunner, pair: WorldPair, runs: int) -> _Plan:
    """Plan as many runs as requested and affordable. The cost is counted in calls, equal on every machine."""
    short, whole = (_count_calls(lambda: table.observe_both(pair, 0, complete)) for complete in (False, True))  # noqa: B023
    played = min(runs, int(runs * EFFORT / short))
    complete = played
    if whole > CHEAP * short:
        complete = min(played // COMPLETE, int(runs * EFFORT / 4 / whole))
    if played < FEWEST_RUNS:
        needed = math.ceil(FEWEST_RUNS * max(short / EFFORT, 1))
        note = (
            f"{runs} runs are too few for a bound on ε, because one run of this mechanism is expensive; "
            f"set `audit: runs` to {needed} or more."
        )
    elif complete < FEWEST_RUNS:
        needed = math.ceil(FEWEST_RUNS * max(COMPLETE * short / EFFORT, COMPLETE, 4 * whole / EFFORT))
        note = (
            "The steps after the last measurement were not attacked, because there are too few runs; "
            f"set `audit: runs` to {needed} or more."
        )
    else:
        note = ""
    return _Plan(played, complete if complete >= FEWEST_RUNS else 0, note)


def _count_calls(work: Callable[[], Any]) -> int:
    """Count the function calls of `work`. It runs once before, so that filling caches does not count."""
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


def claim_between_units(mechanism: Mechanism, release: Release | Reports) -> Claim:
    """Return the claim of a run between any two units, at any distance. For most mechanisms it is the claim."""
    if claim_distance(release.events) is None:
        return release.claim
    return account(release.events, release.claim.delta, mechanism.accountant)


def _bounds(
    pair: str, scored: dict[str, tuple[PairedScores, PairedScores]], delta: float, gaussian: bool, games: int
) -> list[EpsilonBound]:
    """Return all bounds of a game. `scored` has the scores of training and judged runs."""
    by_area, area = (
        ("Gaussian AUC", bounds.gaussian_epsilon_bound)
        if gaussian
        else ("pure AUC", bounds.pure_epsilon_bound)
    )
    main = {by_area} if gaussian else {by_area, "Clopper-Pearson"}
    found = []
    for score, (training, judged) in scored.items():
        auc = paired_auc(judged)[0]
        for theorem in (by_area, "Clopper-Pearson"):
            fits = score == "likelihood ratio" and theorem in main
            weight = MAIN / len(main) if fits else (1 - MAIN) / (2 * len(scored) - len(main))
            lower, alarm = (
                area(bounds.auc_lower_bound(judged, weight * level / games), delta)
                if theorem == by_area
                else _threshold_bound(training, judged, delta, weight * level / games)
                for level in (REPORT_ALPHA, ALARM_ALPHA)
            )
            found.append(
                EpsilonBound(pair=pair, score=score, theorem=theorem, auc=auc, lower=lower, alarm=alarm)
            )
    return found


def _threshold_bound(training: PairedScores, judged: PairedScores, delta: float, alpha: float) -> float:
    at = bounds.choose_threshold(training, len(judged), delta, alpha)
    errors = bounds.error_counts(judged, np.array([at]))
    return float(bounds.clopper_pearson_bound(*errors, len(judged), delta, alpha)[0])


def _score_runs(
    table: GameRunner, pair: WorldPair, training: range, judged: range, complete: int
) -> dict[str, tuple[PairedScores, PairedScores]]:
    """Return all scores of training and judged runs. The output and learned scores use only complete runs."""
    studied, played = (
        [table.observe_both(pair, number, number - numbered.start < complete) for number in numbered]
        for numbered in (training, judged)
    )
    learning = train_attacker(
        *([seen.said for seen in side] for side in zip(*(studied[:complete] or studied), strict=True))
    )
    scores: dict[str, Callable[[RunObservation], float]] = {
        "likelihood ratio": lambda seen: seen.log_likelihood_ratio,
        "difference": lambda seen: seen.difference,
        "learned": lambda seen: learning.log_odds(seen.said),
    }
    if complete:
        scores["output"] = lambda seen: seen.output

    def sides(name: str, runs: Sequence[tuple[RunObservation, RunObservation]]) -> PairedScores:
        some = runs[:complete] if complete and name in ("learned", "output") else runs
        return PairedScores(*np.array([[scores[name](seen) for seen in both] for both in some]).T)

    return {name: (sides(name, studied), sides(name, played)) for name in scores}


def _mean_separation(table: GameRunner, pair: WorldPair, pilot: range) -> float:
    """Return how much more the likelihood ratio favours my world in my runs than in the others, on average."""
    both = [table.observe_both(pair, number, complete=False) for number in pilot]
    return float(
        np.mean(
            [
                np.clip(mine.log_likelihood_ratio, -1e9, 1e9) - np.clip(other.log_likelihood_ratio, -1e9, 1e9)
                for mine, other in both
            ]
        )
    )
