"""Making what is released: one run of a mechanism on all records, with exact noise, replayed before anybody sees it.

A rehearsal on records that are made up goes before it. What cannot work (too many coordinates, no δ) fails there, where
nothing is spent; and its ledger, which public values fix, says beforehand what the run will cost.

A central run is recorded, and the recording is replayed in memory and then discarded. Of a local
mechanism other runs of the same channels on some of the records are replayed (`evaluate.audit.gate`). A finding ends
the release. The noise was drawn then, and counts as spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privmix.artefacts.private import PrivateInfo, private_writer, read_private
from privmix.errors import UserError
from privmix.evaluate.audit import gate
from privmix.evaluate.audit.floats import low_bits
from privmix.evaluate.audit.watched import Recorder
from privmix.mechanisms import running
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec, reports_of
from privmix.mechanisms.collection import write_reports
from privmix.mixture import kernel
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import ExactNoise
from privmix.privacy.streams import fresh

MADE_UP = 64  # records of a rehearsal


@dataclass(frozen=True)
class Task:
    """Which mechanism runs, on which public values, with which budget."""

    mechanism: Mechanism
    spec: Spec
    budget: Budget
    described: str  # in a few words, for messages

    @property
    def local(self) -> bool:
        """Whether the records randomise themselves."""
        return self.mechanism.randomises_records


def randomness() -> Randomness:
    """Exact noise of the operating system's entropy, and a stream for searches that nobody can repeat."""
    return Randomness(ExactNoise(), fresh())


def made_up(task: Task) -> Records:
    """Records of a rehearsal, uniform in the public box."""
    domain, rng = task.spec.domain, fresh()
    places = rng.uniform(domain.lower, domain.upper, (MADE_UP, len(domain.axes)))
    codes = {a.name: rng.integers(len(a.values), size=MADE_UP) for a in domain.attributes}
    return Records(places, codes, np.arange(MADE_UP, dtype=np.uint64))


def central(task: Task, records: Records) -> Release:
    """The release of a trusted curator, unless its replay finds anything."""
    kernel.compiled()  # now, so that no pass can depend on whether an earlier one has loaded it
    recorder = Recorder(randomness())
    release = running.fit(task.mechanism, records, task.spec, task.budget, recorder.randomness)
    run = recorder.recorded(records, release)
    found = gate.of_fits(task.mechanism, [run], task.spec, task.budget, fresh())
    _check([*found.findings, *low_bits(run.tape)], task)
    return release


def local(task: Task, records: Records, path: Path, said: Callable[[Reports, int], PrivateInfo]) -> Release:
    """The model behind reports that are written to `path`, in no order; `said` gives what their file says of itself."""
    some = records.taken(np.arange(min(len(records), gate.SAMPLE)))
    found = gate.of_channel(
        task.mechanism, some, task.spec, task.budget, lambda number: randomness(), exact=True
    )
    _check(found.findings, task)
    rng = randomness()
    with private_writer(path) as writer:
        writer.info = said(*write_reports(task.mechanism, [records], task.spec, task.budget, rng, writer))
    info, [columns] = read_private(path)
    return running.fit(task.mechanism, reports_of(info, 0, columns), task.spec, task.budget, rng)


def _check(findings: Sequence[str], task: Task) -> None:
    """Refuse what a replay has found something in; the sentence is for the curator, and in no file of a release."""
    if findings:
        raise UserError(
            f"{task.described} fails the replay of its own run: {findings[0].rstrip('.')}; nothing is released. "
            "Noise was drawn and counts as spent. Report this as a defect of the mechanism."
        )
