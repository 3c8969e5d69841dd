"""The gate that every private model passes: a replay of the runs that made it.

A fit is watched, which costs nothing; its first run is replayed once, as a whole, beside a canary outside the box: one
more fit. What the other canaries show is seen on crafted records, where a replay takes milliseconds.

A local mechanism randomises more records than fit in memory, so that not its own run is watched but RUNS others of the
same mechanism, spec, budget and streams, on the first SAMPLE training records: every record goes through the
same channel, whatever their number.

Of a release nothing is kept that depends on records or on noise; it is refused where a benchmark would be marked.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from privmix.artefacts.verdict import Verdict
from privmix.errors import UserError
from privmix.evaluate.audit.canaries import beside
from privmix.evaluate.audit.floats import low_bits
from privmix.evaluate.audit.replay import Watched, verdict
from privmix.evaluate.audit.watched import Run, watch
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec
from privmix.privacy.accounting import Budget

SAMPLE = 4096
RUNS = 3


def of_fits(
    mechanism: Mechanism, runs: Sequence[Run], spec: Spec, budget: Budget, rng: np.random.Generator
) -> Verdict:
    """The verdict on the runs of a central mechanism on the same records."""
    outside = beside(runs[0].records, spec, mechanism.relation(spec))[-1]
    watched = [Watched(runs[0], [outside], whole=outside), *(Watched(run, []) for run in runs[1:])]
    return verdict(mechanism, watched, spec, budget, rng)


def of_channel(
    mechanism: Mechanism,
    records: Records,
    spec: Spec,
    budget: Budget,
    randomness: Callable[[int], Randomness],
    *,
    exact: bool = False,
) -> Verdict:
    """The verdict on a local mechanism, from runs on some records; `exact`: of noise that may be published."""
    neighbours = mechanism.relation(spec)
    # The last unit's records last: no other record then moves, and draws for another key, where a canary replaces them.
    records = records.taken(np.argsort(records.units(neighbours.unit), kind="stable"))
    pairs = beside(records, spec, neighbours)
    runs = [watch(mechanism, records, spec, budget, randomness(number)) for number in range(RUNS)]
    watched = [Watched(run, pairs, whole=pairs[number % len(pairs)]) for number, run in enumerate(runs)]
    found = verdict(mechanism, watched, spec, budget, randomness(RUNS).search)
    if not exact:
        return found
    shown = dict.fromkeys(sentence for run in runs for sentence in low_bits(run.tape))
    return found.model_copy(update={"findings": [*found.findings, *shown], "used": None, "noise": []})


def sample(parts: Iterable[Records]) -> Records:
    """The first SAMPLE of the records, of which there must be a part, empty or not."""
    held: list[Records] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= SAMPLE:
            break
    records = Records.joined(held)
    return records.taken(np.arange(min(len(records), SAMPLE)))


def let_through(found: Verdict, what: str, *, strict: bool) -> Verdict:
    """The same verdict; where the gate is strict, a finding is an error."""
    if strict and not found.passed:
        more = len(found.findings) - 1
        raise UserError(
            f"{what} fails its replay: {found.findings[0].rstrip('.')}"
            + (f" (and {more} more finding{'s' if more > 1 else ''})" if more else "")
            + "; nothing was written, mend the mechanism."
        )
    return found
