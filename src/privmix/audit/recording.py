"""Recordings of a mechanism's runs: each measurement with the exact statistic behind it, and runs that replay them.

A `RecordingNoise` replaces a noise source. For each measurement it records the statistic, the noise distribution and
the noisy result. It also records all other draws, which do not depend on data (samples, blocks, turns). A
`ReplayedNoise` gives a mechanism the same measurements and draws again, for any records, and records the statistics
that the mechanism computes from them. This shows

* the statistics behind the same measurements if one unit is changed: for each measurement, the exact difference that
  the noise must hide, including everything that leads to it (scaling, starts, earlier measurements);
* whether anything else leaks: with all measurements held fixed, a mechanism must give the same output for any
  records.

A central mechanism runs as a whole. For a local mechanism only the reports are made: its fit sees only reports and
public values, so it cannot reveal more than they do.

A recording is private: it stays in memory and is discarded.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from privmix.artefacts.fitted_model import FittedModel
from privmix.errors import UserError
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Event
from privmix.privacy.noise import NoiseSource
from privmix.privacy.noise_distributions import NoiseDistribution, SampledGaussianNoise


@dataclass(frozen=True, eq=False)
class RecordedEvent:
    """One measurement: its event, its noise distribution, its statistic and its noisy result."""

    event: Event
    law: NoiseDistribution
    statistic: Any
    released: Any


@dataclass(frozen=True, eq=False)
class Recording:
    """All measurements of one run, in order, and all draws that do not depend on data."""

    entries: list[RecordedEvent] = field(default_factory=list)
    draws: list[np.ndarray] = field(default_factory=list)
    unaccounted: list[str] = field(default_factory=list)  # kinds of noise outside of any measurement


class RecordingNoise:
    """Draws real noise from another source and records it.

    With `releases`, `StopRun` stops the mechanism after this number of measurements: the rest is computed from them.
    """

    def __init__(self, source: NoiseSource, *, releases: int | None = None) -> None:
        self.recording = Recording()
        self._source, self._releases = source, releases
        self._drawing = False

    def watch(self, event: Event, law: NoiseDistribution, statistic: Any, draw: Callable[[], Any]) -> Any:
        """Draw and record."""
        self._drawing = True
        try:
            released = draw()
        finally:
            self._drawing = False
        self.recording.entries.append(RecordedEvent(event, law, _copy(statistic), _copy(released)))
        if len(self.recording.entries) == self._releases:
            raise StopRun
        return released

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add Laplace noise of the source."""
        return self._noticed("laplace", self._source.add_laplace(values, scale))

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Add Gaussian noise of the source."""
        return self._noticed("gaussian", self._source.add_gaussian(values, sigma))

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add planar Laplace noise of the source."""
        return self._noticed("planar laplace", self._source.add_planar_laplace(values, scale))

    def planar_scale(self, scale: float) -> float:
        """Return the scale of the source."""
        return self._source.planar_scale(scale)

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """Return the rounding of the source."""
        return self._source.rounding(size, norm)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw from the source; recorded unless it is part of a measurement."""
        return self._remembered(self._source.uniform(shape))

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Draw from the source; recorded unless it is part of a measurement."""
        return self._remembered(self._source.integers(high, shape))

    def _noticed(self, kind: str, noisy: np.ndarray) -> np.ndarray:
        if not self._drawing:
            self.recording.unaccounted.append(kind)
        return noisy

    def _remembered(self, drawn: np.ndarray) -> np.ndarray:
        if not self._drawing:
            self.recording.draws.append(drawn.copy())
        return drawn


class ReplayedNoise:
    """Repeats the measurements and draws of a recording; `entries` has the statistics of the replay.

    There may be one unit more or fewer at the end. An additional unit has the draw 0. With `sampled`, the last unit is
    in every sample, whatever its draw. With `short`, `StopRun` stops the mechanism once the last statistic is known:
    the rest is computed from measurements.
    """

    def __init__(
        self, tape: Recording, source: NoiseSource, *, sampled: bool = False, short: bool = False
    ) -> None:
        self.entries: list[RecordedEvent] = []
        self._tape, self._source, self._sampled, self._short = tape, source, sampled, short
        self._drawn = 0

    def watch(self, event: Event, law: NoiseDistribution, statistic: Any, draw: Callable[[], Any]) -> Any:
        """Return the recorded measurement."""
        if len(self.entries) == len(self._tape.entries):
            raise ReplayMismatch(f"with one unit changed, there is an extra measurement {event.label!r}")
        before = self._tape.entries[len(self.entries)]
        if type(event) is not type(before.event) or event.label != before.event.label:
            raise ReplayMismatch(
                f"with one unit changed, {event.label!r} is measured instead of {before.event.label!r}"
            )
        self.entries.append(RecordedEvent(event, law, _copy(statistic), before.released))
        if self._short and len(self.entries) == len(self._tape.entries):
            raise StopRun
        return _copy(before.released)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Raise an error: a recording has no noise outside of measurements."""
        raise ReplayMismatch("noise is drawn outside of a measurement")

    add_gaussian = add_planar_laplace = add_laplace

    def planar_scale(self, scale: float) -> float:
        """Return the scale of the source."""
        return self._source.planar_scale(scale)

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """Return the rounding of the source."""
        return self._source.rounding(size, norm)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the recorded draw."""
        drawn = self._next(shape)
        if self._sampled:
            drawn[-1:] = 0.0
        return drawn

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return the recorded draw."""
        return self._next(shape)

    def _next(self, shape: tuple[int, ...]) -> np.ndarray:
        if self._drawn == len(self._tape.draws):
            raise ReplayMismatch("with one unit changed, there is an extra draw")
        before = self._tape.draws[self._drawn]
        self._drawn += 1
        drawn = np.zeros(shape, dtype=before.dtype)
        if before.shape[1:] != drawn.shape[1:]:
            raise ReplayMismatch("with one unit changed, the draws have another shape")
        common = min(len(before), len(drawn))
        drawn[:common] = before[:common]
        return drawn


class StopRun(BaseException):
    """Everything needed has been recorded. Not an Exception, so that no mechanism handles it as its own error."""


class ReplayMismatch(UserError):
    """A mechanism acts differently if one unit is changed and all measurements are held fixed."""


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, eq=False)
class WorldPair:
    """Neighbouring datasets: they differ in their last unit, which one of them may lack.

    The spec is public, so it is the same in both.
    """

    name: str  # of the difference, for readers
    mine: Records
    other: Records
    spec: Spec


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """The records, measurements and output of a run. All of it but the output is private."""

    records: Records
    recording: Recording
    output: Release | Reports | None  # None if the run was stopped after its last measurement
    rng: Randomness  # the noise source, and the search stream before the run


class Recorder:
    """Records one run: a mechanism that gets `randomness` instead of `rng` draws the same values.

    With `releases`, `StopRun` stops the mechanism after this number of measurements.
    """

    def __init__(self, rng: Randomness, *, releases: int | None = None) -> None:
        self._before = Randomness(rng.noise, copy.deepcopy(rng.search))
        self._witness = RecordingNoise(rng.noise, releases=releases)
        self.randomness = Randomness(self._witness, rng.search)

    def finish(self, records: Records, output: Release | Reports | None) -> RecordedRun:
        """Return the recorded run on these records with this output."""
        return RecordedRun(records, self._witness.recording, output, self._before)


def record_run(
    mechanism: Mechanism,
    records: Records,
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    *,
    releases: int | None = None,
) -> RecordedRun:
    """Run the mechanism and record it; with `releases`, stop after this number of measurements."""
    recorder = Recorder(rng, releases=releases)
    try:
        output = _run_mechanism(mechanism, records, spec, budget, recorder.randomness)
    except StopRun:
        output = None
    return recorder.finish(records, output)


@dataclass(frozen=True, eq=False)
class ReplayedWorld:
    """The statistics behind the measurements of a run with other records, and the output, unless it was left out."""

    entries: list[RecordedEvent]
    output: Release | Reports | None


def replay_pair(
    mechanism: Mechanism, run: RecordedRun, pair: WorldPair, budget: Budget, *, whole: bool = False
) -> tuple[ReplayedWorld, ReplayedWorld]:
    """Replay both worlds of a pair on the measurements of a run; with `whole`, also compute the other world's output.

    If measurements use samples, the unit that makes the difference is in all of them.
    """
    sampled = any(isinstance(entry.law, SampledGaussianNoise) for entry in run.recording.entries)

    def world(own: Records, opposite: Records, *, short: bool) -> ReplayedWorld:
        return _replay(
            mechanism, run, own, pair.spec, budget, sampled=sampled and len(own) >= len(opposite), short=short
        )

    if pair.mine is run.records and not sampled:
        mine = ReplayedWorld(run.recording.entries, run.output)
    else:
        mine = world(pair.mine, pair.other, short=True)
    return mine, world(pair.other, pair.mine, short=not whole)


def repeat_run(mechanism: Mechanism, run: RecordedRun, spec: Spec, budget: Budget) -> ReplayedWorld:
    """Replay the same records. The output must be the same; otherwise something else is random."""
    return _replay(mechanism, run, run.records, spec, budget, sampled=False, short=False)


def output_parts(mine: Release | Reports, other: Release | Reports) -> Iterable[tuple[str, object, object]]:
    """Yield each part of an output in both worlds, in a form in which equal means equal bit by bit."""
    yield "ledger", list(mine.events), list(other.events)
    yield "claim", mine.claim, other.claim
    if isinstance(mine, Reports):
        assert isinstance(other, Reports)
        yield "questions asked", dict(mine.asked), dict(other.asked)
        yield "names of reports", list(mine.columns), list(other.columns)
        for name in mine.columns:
            yield f"reports {name!r}", mine.columns[name].tobytes(), other.columns[name].tobytes()
    else:
        assert isinstance(other, Release)
        stored = [each.to_artefact(0, 0.0) for each in (mine, other)]
        for name in FittedModel.model_fields:
            before, after = (each.model_dump_json(include={name}) for each in stored)
            yield name, before, after


def _replay(
    mechanism: Mechanism,
    run: RecordedRun,
    records: Records,
    spec: Spec,
    budget: Budget,
    *,
    sampled: bool,
    short: bool,
) -> ReplayedWorld:
    replay = ReplayedNoise(run.recording, run.rng.noise, sampled=sampled, short=short)
    rng = Randomness(replay, copy.deepcopy(run.rng.search))
    try:
        output = _run_mechanism(mechanism, records, spec, budget, rng)
    except StopRun:
        output = None
    return ReplayedWorld(replay.entries, output)


def _run_mechanism(
    mechanism: Mechanism, records: Records, spec: Spec, budget: Budget, rng: Randomness
) -> Release | Reports:
    if mechanism.randomises_records:
        return mechanism.privatise(records, spec, budget, rng)
    return mechanism_run.fit(mechanism, records, spec, budget, rng)
