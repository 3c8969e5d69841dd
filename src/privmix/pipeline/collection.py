"""Collect the reports of a local mechanism: replay the mechanism first, then write every replicate."""

import time
from collections.abc import Iterator
from pathlib import Path

from privmix.artefacts.clean import iterate_train_records, read_clean_info
from privmix.artefacts.domain import Domain
from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.artefacts.private import PrivateInfo, PrivateWriter
from privmix.audit import replay
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records
from privmix.mechanisms.local.base import write_reports
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.accounting import Claim


def read_records(clean: Path, *, by_person: bool, **size: int) -> Iterator[Records]:
    """The training records, part by part; whose they are is read only where a person is the unit."""
    for points, codes, persons in iterate_train_records(clean, with_persons=by_person, **size):
        yield Records(points, codes, persons)


def replay_randomizer(job: MechanismJob, clean: Path, domain: Domain, *, strict: bool) -> ReplayVerdict:
    """What a replay of the mechanism on the first of the records shows, or the end of the stage."""
    found = replay.audit_local_mechanism(
        job.mechanism,
        replay.first_records(read_records(clean, by_person=domain.unit == "person", rows=replay.SAMPLE_ROWS)),
        job.spec(domain),
        job.budget,
        lambda number: job.randomness(domain, "privatise", number),
    )
    return replay.require_passed(found, job.description(domain), strict=strict)


def write_replicates(job: MechanismJob, clean: Path, writer: PrivateWriter, *, strict: bool) -> PrivateInfo:
    """The reports of every replicate, and what the file says of them."""
    domain = read_clean_info(clean).domain
    spec, by_person = job.spec(domain), domain.unit == "person"
    reports, asked, seconds, verdict, failure = [], [], [], None, None
    claim, events = Claim(job.budget.epsilon, job.budget.delta), ()
    try:
        verdict = replay_randomizer(job, clean, domain, strict=strict)
        for replicate in range(job.replicates):
            began = time.perf_counter()
            rng = job.randomness(domain, "privatise", replicate)
            records = read_records(clean, by_person=by_person)
            said, rows = write_reports(job.mechanism, records, spec, job.budget, rng, writer)
            claim, events = said.claim, tuple(said.events)
            reports.append(rows)
            asked.append(dict(said.asked))
            seconds.append(time.perf_counter() - began)
    except MechanismFailure as error:
        failure = str(error)
    return PrivateInfo(
        **job.header(domain, claim, events, failed=failure is not None),
        reports=reports,
        asked=asked,
        seconds=seconds,
        notes=[] if failure else job.mechanism.remarks(events, spec, job.mechanism.plan(spec, job.budget)),
        replay=verdict,
        failure=failure,
    )
