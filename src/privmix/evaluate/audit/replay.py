"""Replay audit: what the releases of a mechanism really rest on, and whether they are all that gets out.

Runs of a mechanism are watched, and their releases are held fixed while one unit is changed (`privacy.witness`). That
shows for every release, exactly, what its noise must hide, with all that leads to it: scaling, starts, earlier
releases. So a verdict has no need of an attacker's luck: it finds in a few runs what no attack on outputs would.

What must hold, and is checked:

* noise is drawn in releases alone, and the ledger has these releases, each by its law's name;
* neither an event, nor the law of a release, nor what is done next depends on the records;
* no unit moves a release by more than its event in the ledger stands for;
* all that a unit moves adds up to no more than the claim, by the theorem of the claim; and so does the ledger;
* with all releases held fixed the output is the same, bit by bit;
* the noise has the scale and the shape that its law says, and no part of it comes twice (`noise_tests`).

All but the last are exact and raise no false alarm. The last is a test: on correct code a verdict has a finding with
probability 0.0001 at most (`noise_tests.ALARM`), however many releases, runs and pairs there are. Three runs on crafted
records find noise of half its scale in every mechanism here, where it is wrong in all releases; where it is wrong in
those of one label alone, of Gaussian noise, with probability 0.99 if a run has at least 20 numbers of it, 0.65 if 12.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from privmix.artefacts.verdict import Verdict
from privmix.errors import UserError
from privmix.evaluate.audit import noise_tests
from privmix.evaluate.audit.noise_tests import Drawn
from privmix.evaluate.audit.pair import Pair
from privmix.evaluate.audit.spending import (
    GRID,
    KIND,
    ROUNDING,
    Seen,
    allowed,
    joined,
    on_a_grid,
    spent,
    used,
)
from privmix.evaluate.audit.watched import Run, both, output_parts, watch
from privmix.mechanisms.base import Mechanism, Randomness, Release, Reports, Spec
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Event
from privmix.privacy.witness import Astray, Entry

NUMBERS, COINS = 32, 256  # of the noise that a verdict keeps


def replay(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    budget: Budget,
    randomness: Callable[[int], Randomness],
    runs: int = 3,
) -> Verdict:
    """The verdict on so many runs in the pairs' own worlds, in turn, each replayed in the worlds of all pairs."""
    watched = []
    for number in range(runs):
        pair = pairs[number % len(pairs)]
        run = watch(mechanism, pair.mine, pair.spec, budget, randomness(number))
        watched.append(Watched(run, pairs, whole=pair))
    return verdict(mechanism, watched, pairs[0].spec, budget, randomness(runs).search)


@dataclass(frozen=True, eq=False)
class Watched:
    """A run, the pairs of worlds in which its releases are replayed, and the one whose output is compared, if any."""

    run: Run
    pairs: Sequence[Pair]
    whole: Pair | None = None


def verdict(
    mechanism: Mechanism, watched: Sequence[Watched], spec: Spec, budget: Budget, rng: np.random.Generator
) -> Verdict:
    """What these runs show. `rng` is the audit's own, for discrete laws."""
    found, most = _Found(), 0.0
    for each in watched:
        _check_ledger(mechanism, each.run, spec, budget, found)
        for pair in each.pairs:
            most = max(most, _compare(mechanism, each.run, pair, budget, pair is each.whole, found))
    drawn = [drawn for number, each in enumerate(watched) for drawn in _drawn(each.run, number, rng)]
    return Verdict(
        runs=len(watched),
        releases=sum(len(each.run.tape.entries) for each in watched),
        used=most,
        findings=[*found.sentences, *noise_tests.findings(drawn, rng)],
        noise=_first(drawn),
    )


@dataclass(eq=False)
class _Found:
    """The worst case of each thing that does not hold."""

    worst: dict[tuple[str, ...], tuple[float, str]] = field(default_factory=dict)

    def add(self, sentence: str, *kind: str, size: float = 0.0) -> None:
        if kind not in self.worst or size > self.worst[kind][0]:
            self.worst[kind] = (size, sentence)

    @property
    def sentences(self) -> list[str]:
        return [sentence for _, sentence in self.worst.values()]


def _check_ledger(mechanism: Mechanism, run: Run, spec: Spec, budget: Budget, found: _Found) -> None:
    """The ledger has what was released, and adds up to the claim."""
    tape, output = run.tape, run.output
    released, events, claim = [entry.event for entry in tape.entries], list(output.events), output.claim
    for kind in tape.loose:
        found.add(
            f"{kind} noise is drawn outside of a release, so that no ledger has it; "
            "release through privacy.noise alone.",
            "loose",
            kind,
        )
    for entry in tape.entries:
        if type(entry.event) is not KIND.get(type(entry.law)):
            found.add(
                f"{entry.event.label}: the ledger says {entry.event.kind}, but noise of another kind "
                f"({type(entry.law).__name__}) was drawn.",
                "kind",
                entry.event.label,
            )
    # Of a local mechanism's channels everybody goes through some; the ledger has what one of them costs.
    alike = (
        dict.fromkeys(released).keys() == dict.fromkeys(events).keys()
        if mechanism.randomises_records
        else released == events
    )
    if not alike:
        found.add(
            f"the ledger does not have what was released: {_listed(released)} were drawn, but {_listed(events)} are "
            "written down; write each release into the ledger once.",
            "ledger",
        )
    total = spent(events, mechanism, spec, budget.delta)
    if total.epsilon > claim.epsilon * (1 + _slack(events, mechanism)) or total.delta > claim.delta:
        found.add(
            f"the ledger adds up to ε = {total.epsilon:.4g}, δ = {total.delta:.2g}, but ε = {claim.epsilon:.4g}, "
            f"δ = {claim.delta:.2g} is claimed; claim what the accountant says.",
            "claim",
            size=total.epsilon,
        )
    if claim.epsilon > budget.epsilon * (1 + ROUNDING) or claim.delta > budget.delta:
        found.add(
            f"ε = {claim.epsilon:.4g}, δ = {claim.delta:.2g} is claimed, but the budget is ε = {budget.epsilon:.4g}, "
            f"δ = {budget.delta:.2g}; spend no more than that.",
            "budget",
            size=claim.epsilon,
        )


def _compare(mechanism: Mechanism, run: Run, pair: Pair, budget: Budget, whole: bool, found: _Found) -> float:
    """The share of the claim that this pair uses; what does not hold is added to what was found."""
    unit = mechanism.relation(pair.spec).unit
    try:
        mine, other = both(mechanism, run, pair, budget, whole=whole)
    except Exception as error:  # whatever it is: fixed releases do not fit the other records
        if not (isinstance(error, Astray) and run.tape.loose):
            found.add(_broken(error, unit, pair), "astray", _said(error))
        return 0.0
    if not len(mine.entries) == len(other.entries) == len(run.tape.entries):
        found.add(
            f"with one {unit} changed ({pair.name}) there are fewer releases; "
            "their number must follow from public and released values alone.",
            "fewer",
        )
        return math.inf
    if whole:
        _check_output(run.output, other.output, unit, pair, found)
    seen: list[Seen] = []
    for before, after in zip(mine.entries, other.entries, strict=True):
        label = before.event.label
        if before.event != after.event or before.law != after.law:
            found.add(
                f"{label}: the noise itself depends on one {unit} ({pair.name}): {_stated(before)} becomes "
                f"{_stated(after)}; compute its scale from public and released values alone.",
                "law",
                label,
            )
        try:
            distance = before.law.distance(before.released, before.statistic, after.statistic)
        except (ValueError, IndexError):
            found.add(
                f"{label}: how many numbers are released depends on one {unit} ({pair.name}); "
                "their number must follow from public and released values alone.",
                "size",
                label,
            )
            return math.inf
        seen.append(Seen(before.event, before.law, distance))
    _check_distances(mechanism, run.output.events, seen, unit, pair, found)
    total, claim = used(seen, mechanism, pair.spec, budget.delta), run.output.claim
    if total.epsilon > claim.epsilon * (1 + _slack([each.event for each in seen], mechanism)):
        found.add(
            f"one {unit} ({pair.name}) uses ε = {total.epsilon:.4g} in {len(seen)} releases together, but "
            f"ε = {claim.epsilon:.4g} is claimed; scale the noise for all of them.",
            "together",
            size=total.epsilon,
        )
    return total.epsilon / claim.epsilon if claim.epsilon else math.inf


def _check_distances(
    mechanism: Mechanism, events: Sequence[Event], seen: Sequence[Seen], unit: str, pair: Pair, found: _Found
) -> None:
    """No release rests on more of one unit than its event stands for.

    In a local mechanism one unit gives as many reports as the ledger has events of a kind, through any of the channels.
    """
    if not mechanism.randomises_records:
        moved = [(each.event, each.distance, allowed(each.event)) for each in seen]
    else:
        times = Counter(events)
        moved = [
            (
                event,
                joined(event, [each.distance for each in seen if each.event == event]),
                allowed(event, max(times[event], 1)),
            )
            for event in dict.fromkeys(each.event for each in seen)
        ]
    for event, distance, most in moved:
        if not distance <= most * (1 + ROUNDING):
            found.add(
                f"{event.label}: one {unit} ({pair.name}) moves it by {distance:.4g} in units of its noise, "
                f"{distance / most:.3g} times the {most:.4g} that the ledger states; bound what one {unit} adds, or "
                "draw more noise.",
                "distance",
                event.label,
                size=distance / most,
            )


def _check_output(
    mine: Release | Reports, other: Release | Reports, unit: str, pair: Pair, found: _Found
) -> None:
    for part, before, after in output_parts(mine, other):
        if before != after:
            found.add(
                f"with all releases held fixed, one {unit} ({pair.name}) changes the {part}: something gets out beside "
                "the releases; compute it from released and public values alone.",
                "output",
                part,
            )


def _drawn(run: Run, number: int, rng: np.random.Generator) -> list[Drawn]:
    """The noise of each release of a run."""
    turns: Counter[str] = Counter()
    found = []
    for entry in run.tape.entries:
        label, law = entry.event.label, entry.law
        noise = law.noise(entry.released, entry.statistic)
        scores = law.scores(entry.released, entry.statistic, rng)
        found.append(Drawn(label, number, turns[label], law, scores, noise))
        turns[label] += 1
    return found


def _first(drawn: Sequence[Drawn]) -> list[float]:
    """The first numbers of the noise of the first run; where it has none, which of the first reports are true."""
    noise = [each.noise for each in drawn if each.run == 0]
    numbers = np.concatenate([np.empty(0), *(each for each in noise if each.dtype != bool)])
    coins = np.concatenate([np.empty(0, bool), *(each for each in noise if each.dtype == bool)])
    return (numbers[:NUMBERS] if len(numbers) else coins[:COINS].astype(float)).tolist()


def _slack(events: Sequence[Event], mechanism: Mechanism) -> float:
    return GRID if on_a_grid(events, mechanism) else ROUNDING


def _listed(events: Sequence[Event]) -> str:
    counts = Counter(event.label for event in events)
    return ", ".join(f"{count} x {label!r}" for label, count in counts.items()) or "none"


def _stated(entry: Entry) -> str:
    scale = getattr(entry.law, "scale", None)
    return f"{entry.event}" + ("" if scale is None else f" at scale {scale:.4g}")


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def _broken(error: Exception, unit: str, pair: Pair) -> str:
    if isinstance(error, Astray):
        return f"{error} ({pair.name}): what happens next depends on a {unit} beside the releases."
    return f"with one {unit} changed ({pair.name}) and all releases held fixed, the run breaks off ({_said(error)})."
