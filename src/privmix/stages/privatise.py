"""Privatise: the records randomise themselves, and only their reports are written, in no order."""

import time
from collections.abc import Iterator
from pathlib import Path

from privmix import stages
from privmix.artefacts.clean import clean_info, train_parts
from privmix.artefacts.domain import Domain
from privmix.artefacts.private import PrivateInfo, PrivateWriter, private_writer
from privmix.artefacts.statement import BENCHMARK_NOTICE
from privmix.artefacts.verdict import Verdict
from privmix.errors import MechanismFailure
from privmix.evaluate.audit import gate
from privmix.mechanisms.base import Records
from privmix.mechanisms.collection import write_reports
from privmix.privacy.accounting import Claim
from privmix.stages import job as jobs


def parts(clean: Path, *, by_person: bool, **size: int) -> Iterator[Records]:
    """The training records, part by part; whose they are is read only where a person is the unit."""
    for points, codes, persons in train_parts(clean, with_persons=by_person, **size):
        yield Records(points, codes, persons)


def replayed(job: jobs.Job, clean: Path, domain: Domain, *, strict: bool) -> Verdict:
    """What a replay of the mechanism on the first of the records shows, or the end of the stage."""
    found = gate.of_channel(
        job.mechanism,
        gate.sample(parts(clean, by_person=domain.unit == "person", rows=gate.SAMPLE)),
        job.spec(domain),
        job.budget,
        lambda number: job.randomness(domain, "privatise", number),
    )
    return gate.let_through(found, job.described(domain), strict=strict)


def write_replicates(job: jobs.Job, clean: Path, writer: PrivateWriter, *, strict: bool) -> PrivateInfo:
    """The reports of every replicate, and what the file says of them."""
    domain = clean_info(clean).domain
    spec, by_person = job.spec(domain), domain.unit == "person"
    reports, asked, seconds, verdict, failure = [], [], [], None, None
    claim, events = Claim(job.budget.epsilon, job.budget.delta), ()
    try:
        verdict = replayed(job, clean, domain, strict=strict)
        for replicate in range(job.replicates):
            began = time.perf_counter()
            rng = job.randomness(domain, "privatise", replicate)
            records = parts(clean, by_person=by_person)
            said, rows = write_reports(job.mechanism, records, spec, job.budget, rng, writer)
            claim, events = said.claim, tuple(said.events)
            reports.append(rows)
            asked.append(dict(said.asked))
            seconds.append(time.perf_counter() - began)
    except MechanismFailure as error:
        failure = str(error)
    return PrivateInfo(
        notice=BENCHMARK_NOTICE,
        domain=domain,
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        privacy=job.privacy(domain, claim, events, failure is not None),
        reports=reports,
        asked=asked,
        seconds=seconds,
        notes=[] if failure else job.mechanism.remarks(events, spec, job.mechanism.plan(spec, job.budget)),
        replay=verdict,
        failure=failure,
    )


def main() -> None:
    """Read the clean records, write one report per record and replicate.

    It makes benchmarks alone: a file that may be published is made by `privmix release`, which keeps account of it.
    """
    parser = jobs.parser("privatise", __doc__)
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    jobs.add_strict(parser)
    job, given = jobs.parse(parser)
    with private_writer(given.output) as writer:
        writer.info = write_replicates(job, given.clean, writer, strict=given.strict)


if __name__ == "__main__":
    stages.run("privatise", main)
