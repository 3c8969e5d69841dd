"""Replay audit: how far one unit moves the statistics behind measurements, and whether anything else leaks.

Runs of a mechanism are recorded, and their measurements are held fixed while one unit is changed (`audit.recording`).
This shows for every measurement, exactly, the difference that its noise must hide, including everything that leads to
it: scaling, starts, earlier measurements. So a verdict does not depend on the luck of an attacker: a few runs find what
no attack on outputs finds.

Checked:

* noise is drawn only in measurements, and the ledger has these measurements, each with its kind of noise;
* no event, no noise distribution and no next step depends on the records;
* no unit moves a measurement by more than its event in the ledger states;
* the moves of one unit add up to no more than the claim, by the theorem of the claim; and so does the ledger. Two
  worlds whose statistics are a distance μ apart under Gaussian noise use exactly the multiplier 1/μ, whatever the
  ledger says;
* with all measurements held fixed, the output is the same, bit by bit;
* the noise has the scale and the shape of its distribution, and no part of it repeats (`noise_tests`).

All checks but the last are exact and raise no false alarm. The last is a test: on correct code a verdict has a finding
with probability 0.0001 at most (`noise_tests.ALARM`), for any number of measurements, runs and pairs. Three runs on
crafted records find noise of half its scale in every mechanism here if it is wrong in all measurements. If it is wrong
only in the Gaussian measurements of one label, they find it with probability 0.99 if a run has at least 20 numbers of
it, 0.65 if 12.

Every private model is audited this way. A fit is recorded, which costs nothing. Its first run is replayed once, as a
whole, with a canary outside the box: one more fit. The other canaries are tested on crafted records, where a replay
takes milliseconds. A local mechanism randomizes more records than fit in memory. So LOCAL_RUNS other runs of the same
mechanism, spec, budget and streams are recorded, on the first SAMPLE_ROWS training records: every record goes through
the same randomizer, whatever their number. The verdict on a release keeps nothing that depends on records or noise. A
release with a finding is refused; a benchmark with a finding is marked.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.audit import noise_tests
from privmix.audit.canaries import neighbours_with_canary
from privmix.audit.noise_tests import NoiseDraw, low_bit_findings
from privmix.audit.recording import (
    RecordedEvent,
    RecordedRun,
    ReplayMismatch,
    WorldPair,
    output_parts,
    record_run,
    replay_pair,
)
from privmix.errors import UserError
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec
from privmix.privacy.accounting import Budget, Claim, compose_run, nearby_events
from privmix.privacy.ledger import (
    Decomposition,
    Event,
    Gaussian,
    Laplace,
    NoisyMaximum,
    PlanarLaplace,
    RandomizedResponse,
    RecordCount,
    SampledGaussian,
    Selection,
)
from privmix.privacy.noise_distributions import (
    ExponentialMechanism,
    GaussianNoise,
    LaplaceMaximum,
    LaplaceNoise,
    NoiseDistribution,
    OracleNoise,
    PlanarLaplaceNoise,
    PrivTreeDecisions,
    SampledGaussianNoise,
)

ROUNDING = 1e-6  # relative floating-point error of a distance or a claim
GRID_ERROR = 1e-3  # relative error of an epsilon that was computed on a grid
LEVELS = 8  # distances are rounded up to this many levels before a grid; its cost grows with their number

# The noise distribution behind each event in the ledger.
EVENT_LAWS: dict[type[Event], type[NoiseDistribution]] = {
    Gaussian: GaussianNoise,
    SampledGaussian: SampledGaussianNoise,
    Laplace: LaplaceNoise,
    RecordCount: LaplaceNoise,
    PlanarLaplace: PlanarLaplaceNoise,
    RandomizedResponse: OracleNoise,
    Selection: ExponentialMechanism,
    NoisyMaximum: LaplaceMaximum,
    Decomposition: PrivTreeDecisions,
}


@dataclasses.dataclass(frozen=True)
class MeasuredDistance:
    """A measurement, and the distance of its statistics in two worlds, in the unit of its event."""

    event: Event
    law: NoiseDistribution
    distance: float


def allowed_distance(event: Event, times: int = 1) -> float:
    """Return the largest distance that `times` such events together allow."""
    if isinstance(event, Gaussian | SampledGaussian):
        return math.sqrt(times) / event.noise_multiplier
    return times * event.epsilon


def combine_distances(event: Event, distances: Sequence[float]) -> float:
    """Return the distance of several measurements with the same event if one unit may be in each."""
    return math.hypot(*distances) if isinstance(event, Gaussian | SampledGaussian) else sum(distances)


def claim_of_distances(seen: Sequence[MeasuredDistance], mechanism: Mechanism, delta: float) -> Claim:
    """Return the ε and δ that the measured distances between two worlds use together."""
    if not all(math.isfinite(each.distance) for each in seen):
        return Claim(math.inf, delta)
    moved = [each for each in seen if each.distance > 0]
    coarse = uses_grid([each.event for each in moved], mechanism)
    events = [_measured_event(each, coarse=coarse) for each in moved]
    return compose_run(nearby_events(events), delta, mechanism.accountant)


def uses_grid(events: Sequence[Event], mechanism: Mechanism) -> bool:
    """Whether these events are added up by privacy-loss distributions, which have a numerical error."""
    return mechanism.accountant == "exact" and not all(isinstance(event, Gaussian) for event in events)


def _measured_event(seen: MeasuredDistance, *, coarse: bool) -> Event:
    """Return the event of a measurement with this distance."""
    event, most = seen.event, allowed_distance(seen.event)
    share = seen.distance / most
    if coarse:
        share = max(math.ceil(share * LEVELS - ROUNDING), 1) / LEVELS
    if isinstance(event, SampledGaussian):
        rate = getattr(seen.law, "rate", 1.0)
        return SampledGaussian(event.label, event.noise_multiplier / share, rate)
    if isinstance(event, Gaussian):
        return Gaussian(event.label, event.noise_multiplier / share)
    if isinstance(event, PlanarLaplace):
        # The loss is proportional to the distance, also for places that are close to each other.
        return dataclasses.replace(
            event, epsilon=event.epsilon * share, epsilon_within=event.epsilon_within * share
        )
    return dataclasses.replace(event, epsilon=event.epsilon * share)


NUMBERS, COINS = 32, 256  # of the noise, kept in a verdict


def replay_audit(
    mechanism: Mechanism,
    pairs: Sequence[WorldPair],
    budget: Budget,
    randomness: Callable[[int], Randomness],
    runs: int = 3,
) -> ReplayVerdict:
    """Record `runs` runs in the pairs' own worlds, in turn, and replay each in the worlds of all pairs."""
    watched = []
    for number in range(runs):
        pair = pairs[number % len(pairs)]
        run = record_run(mechanism, pair.mine, pair.spec, budget, randomness(number))
        watched.append(ReplayCase(run, pairs, whole=pair))
    return verdict(mechanism, watched, pairs[0].spec, budget, randomness(runs).search)


@dataclass(frozen=True, eq=False)
class ReplayCase:
    """A run, the pairs of worlds for its replay, and the pair whose output is compared, if any."""

    run: RecordedRun
    pairs: Sequence[WorldPair]
    whole: WorldPair | None = None


def verdict(
    mechanism: Mechanism, watched: Sequence[ReplayCase], spec: Spec, budget: Budget, rng: np.random.Generator
) -> ReplayVerdict:
    """Return the verdict on these runs. `rng` is the audit's own stream, for discrete distributions."""
    found, most = _Findings(), 0.0
    for each in watched:
        _check_ledger(mechanism, each.run, spec, budget, found)
        for pair in each.pairs:
            most = max(most, _compare(mechanism, each.run, pair, budget, pair is each.whole, found))
    drawn = [drawn for number, each in enumerate(watched) for drawn in _noise_draws(each.run, number, rng)]
    return ReplayVerdict(
        runs=len(watched),
        releases=sum(len(each.run.recording.entries) for each in watched),
        used=most,
        findings=[*found.sentences, *noise_tests.noise_findings(drawn, rng)],
        noise=_first_noise(drawn),
    )


@dataclass(eq=False)
class _Findings:
    """The worst case of each kind of finding."""

    worst: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict)

    def add(self, sentence: str, *kind: str, size: float = 0.0) -> None:
        if kind not in self.worst or size > self.worst[kind][0]:
            self.worst[kind] = (size, sentence)

    @property
    def sentences(self) -> list[str]:
        return [sentence for _, sentence in self.worst.values()]


def _check_ledger(
    mechanism: Mechanism, run: RecordedRun, spec: Spec, budget: Budget, found: _Findings
) -> None:
    """Check that the ledger has all measurements, and that it adds up to the claim."""
    tape, output = run.recording, run.output
    assert output is not None  # the run is complete
    released, events, claim = [entry.event for entry in tape.entries], list(output.events), output.claim
    for kind in tape.unaccounted:
        found.add(
            f"{kind} noise is drawn outside of a measurement, so it is not in the ledger; "
            "measure only through privacy.noise.",
            "loose",
            kind,
        )
    for entry in tape.entries:
        if EVENT_LAWS.get(type(entry.event)) is not type(entry.law):
            found.add(
                f"{entry.event.label}: the ledger says {entry.event.kind}, but {type(entry.law).__name__} was drawn; "
                "write the event of the noise that is drawn.",
                "kind",
                entry.event.label,
            )
    # In a local mechanism every unit goes through some of the channels; the ledger has the cost of one unit.
    alike = (
        dict.fromkeys(released).keys() == dict.fromkeys(events).keys()
        if mechanism.randomises_records
        else released == events
    )
    if not alike:
        found.add(
            f"the ledger does not match the measurements: {_count_labels(released)} were drawn, but the ledger has "
            f"{_count_labels(events)}; write each measurement into the ledger once.",
            "ledger",
        )
    total = compose_run(nearby_events(events), budget.delta, mechanism.accountant)
    if total.epsilon > claim.epsilon * (1 + _slack(events, mechanism)) or total.delta > claim.delta:
        found.add(
            f"the ledger adds up to ε = {total.epsilon:.4g}, δ = {total.delta:.2g}, but ε = {claim.epsilon:.4g}, "
            f"δ = {claim.delta:.2g} is claimed; claim the result of the accountant.",
            "claim",
            size=total.epsilon,
        )
    if claim.epsilon > budget.epsilon * (1 + ROUNDING) or claim.delta > budget.delta:
        found.add(
            f"ε = {claim.epsilon:.4g}, δ = {claim.delta:.2g} is claimed, but the budget is ε = {budget.epsilon:.4g}, "
            f"δ = {budget.delta:.2g}; spend no more than the budget.",
            "budget",
            size=claim.epsilon,
        )


def _compare(
    mechanism: Mechanism, run: RecordedRun, pair: WorldPair, budget: Budget, whole: bool, found: _Findings
) -> float:
    """Return the share of the claim that this pair uses; add findings to `found`."""
    unit = mechanism.relation(pair.spec).unit
    assert run.output is not None  # the run is complete
    try:
        mine, other = replay_pair(mechanism, run, pair, budget, whole=whole)
    except Exception as error:  # any error: the fixed measurements do not fit the other records
        if not (isinstance(error, ReplayMismatch) and run.recording.unaccounted):
            found.add(_describe_failure(error, unit, pair), "astray", _error_text(error))
        return 0.0
    if not len(mine.entries) == len(other.entries) == len(run.recording.entries):
        found.add(
            f"with one {unit} changed ({pair.name}), there are fewer measurements; "
            "compute their number only from public and measured values.",
            "fewer",
        )
        return math.inf
    if whole:
        assert other.output is not None
        _check_output(run.output, other.output, unit, pair, found)
    seen: list[MeasuredDistance] = []
    for before, after in zip(mine.entries, other.entries, strict=True):
        label = before.event.label
        if before.event != after.event or before.law != after.law:
            found.add(
                f"{label}: the noise itself depends on one {unit} ({pair.name}): {_describe_event(before)} becomes "
                f"{_describe_event(after)}; compute its scale only from public and measured values.",
                "law",
                label,
            )
        try:
            distance = before.law.distance(before.released, before.statistic, after.statistic)
        except (ValueError, IndexError):
            found.add(
                f"{label}: the number of measured values depends on one {unit} ({pair.name}); "
                "compute it only from public and measured values.",
                "size",
                label,
            )
            return math.inf
        seen.append(MeasuredDistance(before.event, before.law, distance))
    _check_distances(mechanism, run.output.events, seen, unit, pair, found)
    total, claim = claim_of_distances(seen, mechanism, budget.delta), run.output.claim
    if total.epsilon > claim.epsilon * (1 + _slack([each.event for each in seen], mechanism)):
        found.add(
            f"one {unit} ({pair.name}) uses ε = {total.epsilon:.4g} in {len(seen)} measurements together, but "
            f"ε = {claim.epsilon:.4g} is claimed; scale the noise for all measurements.",
            "together",
            size=total.epsilon,
        )
    return total.epsilon / claim.epsilon if claim.epsilon else math.inf


def _check_distances(
    mechanism: Mechanism,
    events: Sequence[Event],
    seen: Sequence[MeasuredDistance],
    unit: str,
    pair: WorldPair,
    found: _Findings,
) -> None:
    """Check that no measurement depends on one unit by more than its event allows.

    In a local mechanism one unit gives as many reports as the ledger has events of a kind, through any of the channels.
    """
    if not mechanism.randomises_records:
        moved = [(each.event, each.distance, allowed_distance(each.event)) for each in seen]
    else:
        times = Counter(events)
        moved = [
            (
                event,
                combine_distances(event, [each.distance for each in seen if each.event == event]),
                allowed_distance(event, max(times[event], 1)),
            )
            for event in dict.fromkeys(each.event for each in seen)
        ]
    for event, distance, most in moved:
        if not distance <= most * (1 + ROUNDING):
            found.add(
                f"{event.label}: one {unit} ({pair.name}) changes it by {distance:.4g} in units of its noise, but "
                f"the ledger allows {most:.4g}; bound the contribution of one {unit}, or draw more noise.",
                "distance",
                event.label,
                size=distance / most,
            )


def _check_output(
    mine: Release | Reports, other: Release | Reports, unit: str, pair: WorldPair, found: _Findings
) -> None:
    for part, before, after in output_parts(mine, other):
        if before != after:
            found.add(
                f"with all measurements held fixed, changing one {unit} ({pair.name}) changes the {part}: information "
                "leaks outside the measurements; compute the output only from measured and public values.",
                "output",
                part,
            )


def _noise_draws(run: RecordedRun, number: int, rng: np.random.Generator) -> list[NoiseDraw]:
    """Return the noise of each measurement of a run."""
    turns: Counter[str] = Counter()
    found = []
    for entry in run.recording.entries:
        label, law = entry.event.label, entry.law
        noise = law.noise(entry.released, entry.statistic)
        scores = law.scores(entry.released, entry.statistic, rng)
        found.append(NoiseDraw(label, number, turns[label], law, scores, noise))
        turns[label] += 1
    return found


def _first_noise(drawn: Sequence[NoiseDraw]) -> list[float]:
    """Return the first numbers of the noise of the first run; without numbers, which of the first reports are true."""
    noise = [each.noise for each in drawn if each.run == 0]
    numbers = np.concatenate([np.empty(0), *(each for each in noise if each.dtype != bool)])
    coins = np.concatenate([np.empty(0, bool), *(each for each in noise if each.dtype == bool)])
    return (numbers[:NUMBERS] if len(numbers) else coins[:COINS].astype(float)).tolist()


def _slack(events: Sequence[Event], mechanism: Mechanism) -> float:
    return GRID_ERROR if uses_grid(events, mechanism) else ROUNDING


def _count_labels(events: Sequence[Event]) -> str:
    counts = Counter(event.label for event in events)
    return ", ".join(f"{count} x {label!r}" for label, count in counts.items()) or "none"


def _describe_event(entry: RecordedEvent) -> str:
    scale = getattr(entry.law, "scale", None)
    return f"{entry.event}" + ("" if scale is None else f" at scale {scale:.4g}")


def _error_text(error: Exception) -> str:
    """Return the text of our own errors, and only the type of others: their text may quote a record."""
    return str(error) if isinstance(error, UserError) else type(error).__name__


def _describe_failure(error: Exception, unit: str, pair: WorldPair) -> str:
    if isinstance(error, ReplayMismatch):
        return f"{error} ({pair.name}): the next step depends on a {unit}, not only on measurements."
    return (
        f"with one {unit} changed ({pair.name}) and all measurements held fixed, the run fails "
        f"({_error_text(error)})."
    )


SAMPLE_ROWS = 4096
LOCAL_RUNS = 3


def audit_fits(
    mechanism: Mechanism, runs: Sequence[RecordedRun], spec: Spec, budget: Budget, rng: np.random.Generator
) -> ReplayVerdict:
    """Return the verdict on the runs of a central mechanism on the same records."""
    pairs = neighbours_with_canary(runs[0].records, spec, mechanism.relation(spec))
    pairs = pairs[-2:] if spec.domain.states else pairs[-1:]
    watched = [ReplayCase(runs[0], pairs, whole=pairs[0]), *(ReplayCase(run, []) for run in runs[1:])]
    return verdict(mechanism, watched, spec, budget, rng)


def audit_local_mechanism(
    mechanism: Mechanism,
    records: Records,
    spec: Spec,
    budget: Budget,
    randomness: Callable[[int], Randomness],
    *,
    exact: bool = False,
) -> ReplayVerdict:
    """Return the verdict on a local mechanism, from runs on some records; `exact`: for noise that may be published."""
    neighbours = mechanism.relation(spec)
    # The last unit's records come last. So no other record moves and gets another draw when a canary replaces them.
    records = records.select(np.argsort(records.units(neighbours.unit), kind="stable"))
    pairs = neighbours_with_canary(records, spec, neighbours)
    runs = [record_run(mechanism, records, spec, budget, randomness(number)) for number in range(LOCAL_RUNS)]
    watched = [ReplayCase(run, pairs, whole=pairs[number % len(pairs)]) for number, run in enumerate(runs)]
    found = verdict(mechanism, watched, spec, budget, randomness(LOCAL_RUNS).search)
    if not exact:
        return found
    shown = dict.fromkeys(sentence for run in runs for sentence in low_bit_findings(run.recording))
    return found.model_copy(update={"findings": [*found.findings, *shown], "used": None, "noise": []})


def first_records(parts: Iterable[Records]) -> Records:
    """Return the first SAMPLE_ROWS records. There must be at least one part, which may be empty."""
    held: list[Records] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= SAMPLE_ROWS:
            break
    records = Records.concatenate(held)
    return records.select(np.arange(min(len(records), SAMPLE_ROWS)))


def require_passed(found: ReplayVerdict, what: str, *, strict: bool) -> ReplayVerdict:
    """Return the verdict unchanged; if `strict`, raise an error for a finding."""
    if strict and not found.passed:
        more = len(found.findings) - 1
        raise UserError(
            f"{what} fails its replay: {found.findings[0].rstrip('.')}"
            + (f" (and {more} more finding{'s' if more > 1 else ''})" if more else "")
            + "; nothing was written. Fix the mechanism and run again."
        )
    return found
