"""Audit game: a mechanism runs many times in two neighbouring worlds, and an attacker guesses from what he sees which.

He knows both worlds, the mechanism and everything that the theorem says is released. His best score is the likelihood
ratio of the releases, which a replay of the other world on the same releases gives exactly; two further attackers know
no law and learn what differs, for what gets out beside the releases. How well they guess proves a lower bound on ε
(Jagielski, Ullman, Oprea 2020; Nasr et al. 2023).

A pilot chooses the pair of worlds that shows most, and the learning ones are trained, with runs of their own: so the
bounds need no correction for that. They are corrected for their number by Bonferroni's rule with fixed weights. What
follows the last release is post-processing, so most runs are stopped there. The two runs of one number get the same
randomness, which `bounds` explains.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmix.artefacts import Bound
from privmix.evaluate.audit import bounds
from privmix.evaluate.audit.attackers import Said, numbers, trained
from privmix.evaluate.audit.bounds import FEWEST, Sides
from privmix.evaluate.audit.pair import Pair
from privmix.mechanisms.base import Mechanism, Randomness, Release
from privmix.mechanisms.running import run
from privmix.privacy.accounting import Budget, Claim, account, distance
from privmix.privacy.laws import SampledNormal
from privmix.privacy.ledger import Gaussian
from privmix.privacy.witness import Astray, Entry, Replay, Witness

REPORTED, ALARMED = 0.05, 0.01  # chances that a bound is wrong; of all bounds of an audit together
MAIN = 0.8  # of them for the likelihood ratio by the theorem that fits the ledger
PILOT, TRAINING = 100, 10  # one in so many runs is played before, to choose the pair and to learn
COMPLETE = 30  # one in so many runs is played to its end
DIGITS = 9  # of a likelihood ratio: rounding must not tell equal ones apart
EFFORT = 10_000  # calls of functions that a run of each world may cost; dearer ones are played less often


@dataclass(frozen=True, eq=False)
class Game:
    """What was proven of a mechanism on the pair that showed most, against what it claims between any two units."""

    claim: Claim
    runs: int  # of each world
    bounds: list[Bound]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class _Seen:
    """One run as the attacker sees it."""

    ratio: float  # ln P(releases | mine) - ln P(releases | other)
    released: Said
    output: Said


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
    tapes = []
    for world in (1, 0):
        witness = Witness(randomness(0).noise)
        release = _finished(mechanism, pairs[0], world, budget, witness, randomness(0))
        tapes.append(witness.tape.entries)
    claim = claimed(mechanism, release)
    gaussian = all(isinstance(entry.event, Gaussian) for entries in tapes for entry in entries)
    table = _Table(mechanism, budget, randomness, max(map(len, tapes)))
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


def _plan(table: "_Table", pair: Pair, runs: int) -> _Plan:
    """As many as are asked for and affordable; the price is counted in calls, which are the same on every machine."""
    short, whole = (_calls(lambda: table.both(pair, 0, complete)) for complete in (False, True))  # noqa: B023
    played = min(runs, int(runs * EFFORT / short))
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


def claimed(mechanism: Mechanism, release: Release) -> Claim:
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
        auc = bounds.auc(judged)[0]
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
    table: "_Table", pair: Pair, training: range, judged: range, complete: int
) -> dict[str, tuple[Sides, Sides]]:
    """The scores of all attackers, of training runs and of judged ones; the last attacker's of complete runs alone."""
    studied = [table.both(pair, number, number - training.start < complete) for number in training]
    filtering = trained(*([seen.released for seen in side] for side in zip(*studied, strict=True)))
    whole = studied[:complete] or studied
    learning = trained(
        *([[*seen.released, *seen.output] for seen in side] for side in zip(*whole, strict=True))
    )

    def marks(both: tuple[_Seen, _Seen]) -> list[tuple[float, float, float]]:
        return [
            (
                seen.ratio,
                filtering.difference(seen.released),
                learning.classified([*seen.released, *seen.output]),
            )
            for seen in both
        ]

    groups = (
        np.array([marks(both) for both in studied]),
        np.array([marks(table.both(pair, number, number - judged.start < complete)) for number in judged]),
    )
    names = ("likelihood ratio", "difference", "learned")
    return {
        name: tuple(
            Sides(*(group[:complete] if name == "learned" and complete else group)[:, :, column].T)
            for group in groups
        )
        for column, name in enumerate(names)
    }


def _shown(table: "_Table", pair: Pair, pilot: range) -> float:
    """How much more the likelihood ratio says for my world in mine than in the other, on average."""
    both = [table.both(pair, number, complete=False) for number in pilot]
    return float(
        np.mean([np.clip(mine.ratio, -1e9, 1e9) - np.clip(other.ratio, -1e9, 1e9) for mine, other in both])
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """Where the game is played."""

    mechanism: Mechanism
    budget: Budget
    randomness: Callable[[int], Randomness]
    releases: int  # after so many a run may be stopped

    def both(self, pair: Pair, number: int, complete: bool) -> tuple[_Seen, _Seen]:
        """The run of that number in my world, and in the other."""
        return self._seen(pair, 0, number, complete), self._seen(pair, 1, number, complete)

    def _seen(self, pair: Pair, world: int, number: int, complete: bool) -> _Seen:
        rng = self.randomness(number)
        witness = Witness(rng.noise)
        if complete:
            release = _finished(self.mechanism, pair, world, self.budget, witness, rng)
        else:
            release = self._stopped(pair, world, witness, rng)
        said = [numbers(entry.released) for entry in witness.tape.entries]
        return _Seen(self._ratio(pair, world, number, witness), said, _output(release))

    def _ratio(self, pair: Pair, world: int, number: int, witness: Witness) -> float:
        """The log-likelihood ratio of one run's releases; infinite if the other world cannot release them."""
        tape = witness.tape
        # Of a secret sample the law compares the sum that has the unit with the one that has it not.
        fuller = int(len(pair.other) > len(pair.mine))
        sampled = any(isinstance(entry.law, SampledNormal) for entry in tape.entries)

        def rested(there: int) -> list[Entry]:
            if there == world and not (sampled and there == fuller):
                return tape.entries
            rng = self.randomness(number)
            replay = Replay(tape, rng.noise, sampled=sampled and there == fuller)
            self._stopped(pair, there, replay, rng)
            return replay.entries

        try:
            entries = zip(rested(fuller), rested(1 - fuller), strict=False)
            ratio = sum(a.law.log_ratio(a.released, a.statistic, b.statistic) for a, b in entries)
        except (Astray, ValueError):
            return -math.inf if world else math.inf
        ratio = round(float(ratio), DIGITS)
        return 0.0 if math.isnan(ratio) else (-ratio if fuller else ratio)

    def _stopped(self, pair: Pair, world: int, source: Any, rng: Randomness) -> Release | None:
        try:
            return _finished(self.mechanism, pair, world, self.budget, _Until(source, self.releases), rng)
        except _Enough:
            return None


def _finished(
    mechanism: Mechanism, pair: Pair, world: int, budget: Budget, source: Any, rng: Randomness
) -> Release:
    records = pair.other if world else pair.mine
    return run(mechanism, records, pair.spec, budget, Randomness(source, rng.search))


def _output(release: Release | None) -> Said:
    if release is None:
        return []
    return [
        numbers(part) for part in (release.mixture, release.proportions, release.transcript, release.notes)
    ]


class _Enough(BaseException):
    """So many releases were made; no mechanism may take it for an error of its own."""


class _Until:
    """A witness or a replay that ends the run after so many releases."""

    def __init__(self, source: Any, releases: int) -> None:
        self._source, self._left = source, releases

    def watch(self, *release: Any) -> Any:
        """The source's, unless it is the last one."""
        released = self._source.watch(*release)
        self._left -= 1
        if not self._left:
            raise _Enough
        return released

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
