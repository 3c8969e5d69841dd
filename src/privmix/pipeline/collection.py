"""Collect the reports of a local mechanism: replay the mechanism first, then write every replicate."""

import time
from collections.abc import Iterator
from pathlib import Path

from privmix.artefacts.clean import iterate_train_records, read_clean_info
from privmix.artefacts.domain import Domain
from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.artefacts.private import PrivateInfo, PrivateWriter
from privmix.audit import replay
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms.base import Records
from privmix.mechanisms.local.base import LocalMechanism, write_reports
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.accounting import Claim
from privmix.privacy.ledger import Event


def read_records(clean: Path, *, by_person: bool, **size: int) -> Iterator[Records]:
    """Yield the training records part by part. Persons are read only if a person is the unit."""
    for points, codes, persons in iterate_train_records(clean, with_persons=by_person, **size):
        yield Records(points, codes, persons)


def replay_randomizer(job: MechanismJob, clean: Path, domain: Domain, *, strict: bool) -> ReplayVerdict:
    """Replay the mechanism on the first records and return the verdict. A finding ends a strict stage."""
    found = replay.audit_local_mechanism(
        job.mechanism,
        replay.first_records(read_records(clean, by_person=domain.unit == "person", rows=replay.SAMPLE_ROWS)),
        job.spec(domain),
        job.budget,
        lambda number: job.randomness(domain, "privatise", number),
    )
    return replay.require_passed(found, job.description(domain), strict=strict)


def write_replicates(
    job: MechanismJob, clean: Path, writer: PrivateWriter, *, strict: bool, dataset: str | None = None
) -> PrivateInfo:
    """Write the reports of every replicate and return the metadata of the file."""
    info, mechanism = read_clean_info(clean), job.mechanism
    domain = info.domain
    info.check_dataset(dataset or domain.dataset, clean)
    if not isinstance(mechanism, LocalMechanism):
        raise UserError(
            f"{job.name} is not a local mechanism, so it makes no reports; fit it to the clean records."
        )
    spec, by_person = job.spec(domain), domain.unit == "person"
    reports, asked, seconds, verdict, failure = [], [], [], None, None
    claim, events = Claim(job.budget.epsilon, job.budget.delta), tuple[Event, ...]()
    try:
        verdict = replay_randomizer(job, clean, domain, strict=strict)
        for replicate in range(job.replicates):
            began = time.perf_counter()
            rng = job.randomness(domain, "privatise", replicate)
            records = read_records(clean, by_person=by_person)
            said, rows = write_reports(mechanism, records, spec, job.budget, rng, writer)
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
        notes=[] if failure else mechanism.remarks(events, spec, mechanism.plan(spec, job.budget)),
        replay=verdict,
        failure=failure,
    )
