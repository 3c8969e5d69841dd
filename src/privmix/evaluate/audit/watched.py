"""Runs of a mechanism that were watched, and what their releases would have rested on in other worlds.

A central mechanism is run as a whole. Of a local one only the reports are made: its fit sees them and public values
alone, so that it can add nothing to what they tell.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

from privmix.artefacts.fitted import Fitted
from privmix.evaluate.audit.pair import Pair
from privmix.mechanisms import running
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec
from privmix.privacy.accounting import Budget
from privmix.privacy.laws import SampledNormal
from privmix.privacy.witness import Enough, Entry, Replay, Tape, Witness


@dataclass(frozen=True, eq=False)
class Run:
    """What went in, what was released and what came out. All of it but the output is private."""

    records: Records
    tape: Tape
    output: Release | Reports | None  # None of a run that was stopped after its last release
    rng: Randomness  # the source, and the other stream as it was before the run


class Recorder:
    """Records one run: a mechanism that is given `randomness` in the place of `rng` draws the same from it.

    With `releases`, the mechanism is stopped by `Enough` after so many.
    """

    def __init__(self, rng: Randomness, *, releases: int | None = None) -> None:
        self._before = Randomness(rng.noise, copy.deepcopy(rng.search))
        self._witness = Witness(rng.noise, releases=releases)
        self.randomness = Randomness(self._witness, rng.search)

    def recorded(self, records: Records, output: Release | Reports | None) -> Run:
        """The run on these records, which gave that output."""
        return Run(records, self._witness.tape, output, self._before)


def watch(
    mechanism: Mechanism,
    records: Records,
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    *,
    releases: int | None = None,
) -> Run:
    """A recorded run; stopped after so many releases, if given."""
    recorder = Recorder(rng, releases=releases)
    try:
        output = _played(mechanism, records, spec, budget, recorder.randomness)
    except Enough:
        output = None
    return recorder.recorded(records, output)


@dataclass(frozen=True, eq=False)
class World:
    """What the releases of a run rest on with other records, and what then comes out, unless that was left out."""

    entries: list[Entry]
    output: Release | Reports | None


def both(
    mechanism: Mechanism, run: Run, pair: Pair, budget: Budget, *, whole: bool = False
) -> tuple[World, World]:
    """The worlds of a pair under the releases of that run; of the other one the output too where the `whole` is asked.

    Where releases rest on samples, the unit that makes the difference is in all of them.
    """
    sampled = any(isinstance(entry.law, SampledNormal) for entry in run.tape.entries)

    def world(own: Records, opposite: Records, *, short: bool) -> World:
        return _replayed(
            mechanism, run, own, pair.spec, budget, sampled=sampled and len(own) >= len(opposite), short=short
        )

    if pair.mine is run.records and not sampled:
        mine = World(run.tape.entries, run.output)
    else:
        mine = world(pair.mine, pair.other, short=True)
    return mine, world(pair.other, pair.mine, short=not whole)


def again(mechanism: Mechanism, run: Run, spec: Spec, budget: Budget) -> World:
    """The same records under the same releases: what comes out must be the same, or something else is random."""
    return _replayed(mechanism, run, run.records, spec, budget, sampled=False, short=False)


def output_parts(mine: Release | Reports, other: Release | Reports) -> Iterable[tuple[str, object, object]]:
    """Each part of an output in both worlds, written so that equal means equal bit by bit."""
    yield "ledger", list(mine.events), list(other.events)
    yield "claim", mine.claim, other.claim
    if isinstance(mine, Reports):
        yield "questions asked", dict(mine.asked), dict(other.asked)
        yield "names of reports", list(mine.columns), list(other.columns)
        for name in mine.columns:
            yield f"reports {name!r}", mine.columns[name].tobytes(), other.columns[name].tobytes()
    else:
        stored = [each.stored(0, 0.0) for each in (mine, other)]
        for name in Fitted.model_fields:
            before, after = (each.model_dump_json(include={name}) for each in stored)
            yield name, before, after


def _replayed(
    mechanism: Mechanism,
    run: Run,
    records: Records,
    spec: Spec,
    budget: Budget,
    *,
    sampled: bool,
    short: bool,
) -> World:
    replay = Replay(run.tape, run.rng.noise, sampled=sampled, short=short)
    rng = Randomness(replay, copy.deepcopy(run.rng.search))
    try:
        output = _played(mechanism, records, spec, budget, rng)
    except Enough:
        output = None
    return World(replay.entries, output)


def _played(
    mechanism: Mechanism, records: Records, spec: Spec, budget: Budget, rng: Randomness
) -> Release | Reports:
    if mechanism.randomises_records:
        return mechanism.privatise(records, spec, budget, rng)
    return running.fit(mechanism, records, spec, budget, rng)
