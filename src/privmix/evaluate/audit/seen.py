"""What an attacker sees of one run, and what replaying both worlds on the same releases tells him.

* The likelihood ratio of the releases: his best score if they were drawn from their laws.
* Differences: between releases of one kind the noise must be fresh. Taking the statistics of a world off two releases
  in a row leaves their noise; if that was the same in both, it is so in the true world alone.
* The output: with all releases held fixed every world must give it bit by bit. If only one does, it is the true one.
* The numbers themselves, for attackers who learn (`attackers`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.evaluate.audit.attackers import Said, numbers
from privmix.evaluate.audit.floats import CONTINUOUS
from privmix.evaluate.audit.pair import Pair
from privmix.evaluate.audit.watched import Run, again, both, output_parts, watch
from privmix.mechanisms.base import Mechanism, Randomness, Release, Reports
from privmix.privacy.accounting import Budget
from privmix.privacy.witness import Astray, Entry

DIGITS = 9  # of a score: rounding must not tell equal ones apart


@dataclass(frozen=True, eq=False)
class Seen:
    """One run. Scores are high if they speak for my world."""

    ratio: float  # ln P(releases | mine) - ln P(releases | other); infinite if one world cannot release them
    difference: (
        float  # how much more the noise of one release differs from the next in the other world than in mine
    )
    output: float  # 1 if my world alone gives the output, -1 if the other does, 0 if both do or nobody looked
    said: Said  # the numbers released, and of a complete run those of its output


@dataclass(frozen=True, eq=False)
class Table:
    """Where the game is played."""

    mechanism: Mechanism
    budget: Budget
    randomness: Callable[[int], Randomness]
    releases: int  # after so many a run may be stopped

    def both(self, pair: Pair, number: int, complete: bool) -> tuple[Seen, Seen]:
        """The run of that number in my world, and in the other."""
        turned = Pair(pair.name, pair.other, pair.mine, pair.spec)
        return self._seen(pair, 1, number, complete), self._seen(turned, -1, number, complete)

    def _seen(self, pair: Pair, sign: int, number: int, complete: bool) -> Seen:
        """A run in the first world of the pair, which is mine if the sign is 1."""
        run = watch(
            self.mechanism,
            pair.mine,
            pair.spec,
            self.budget,
            self.randomness(number),
            releases=None if complete else self.releases,
        )
        said = [*(numbers(entry.released) for entry in run.tape.entries), *_output(run.output)]
        try:
            own, opposite = both(self.mechanism, run, pair, self.budget, whole=complete)
            ratio = _ratio(own.entries, opposite.entries, fuller=len(pair.mine) >= len(pair.other))
        except (Astray, ValueError):
            return Seen(sign * math.inf, 0.0, float(sign), said)
        apart = _apart(opposite.entries) - _apart(own.entries)
        differs = complete and not _same(run, opposite.output) and self._repeats(pair, run)
        return Seen(sign * ratio, round(sign * apart, DIGITS), float(sign * differs), said)

    def _repeats(self, pair: Pair, run: Run) -> bool:
        """Whether the true world gives the output again: otherwise that of another world need not either."""
        return _same(run, again(self.mechanism, run, pair.spec, self.budget).output)


def _ratio(own: Sequence[Entry], opposite: Sequence[Entry], *, fuller: bool) -> float:
    """The log-likelihood ratio of the releases for the own world.

    Of a secret sample the law compares the sum that has the unit with the one that has it not, so the fuller world is
    the first.
    """
    first, second = (own, opposite) if fuller else (opposite, own)
    entries = zip(first, second, strict=False)
    ratio = sum(a.law.log_ratio(a.released, a.statistic, b.statistic) for a, b in entries)
    if math.isnan(ratio):
        return 0.0
    return round(float(ratio if fuller else -ratio), DIGITS)


def _apart(entries: Sequence[Entry]) -> float:
    """The sum of squares of what changes in the noise, over its scale, from one release of a label to the next."""
    before: dict[str, np.ndarray] = {}
    total = 0.0
    for entry in entries:
        if isinstance(entry.law, CONTINUOUS):
            noise, label = entry.law.noise(entry.released, entry.statistic), entry.event.label
            if label in before and len(before[label]) == len(noise):
                total += float(np.square(noise - before[label]).sum())
            before[label] = noise
    return total


def _same(run: Run, output: Release | Reports | None) -> bool:
    return all(before == after for _, before, after in output_parts(run.output, output))


def _output(output: Release | Reports | None) -> Said:
    if not isinstance(output, Release):
        return []
    return [numbers(part) for part in (output.mixture, output.proportions, output.transcript, output.notes)]
