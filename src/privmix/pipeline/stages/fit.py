"""Fit the mixture of each replicate to the records (central) or to their reports (local), and replay the fits."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.io import write_json
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.audit import replay
from privmix.audit.recording import Recorder
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records, Release
from privmix.mechanisms.run import MechanismJob
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.privacy.accounting import Claim
from privmix.privacy.ledger import Event


def audit_replicates(
    job: MechanismJob, given: jobs.FitInput, recorders: Sequence[Recorder], releases: Sequence[Release]
) -> ReplayVerdict | None:
    """Return the verdict of a replay of the fits; for a local mechanism, the verdict of privatise."""
    if not job.mechanism.private or job.mechanism.randomises_records:
        return given.verdict
    fits = zip(recorders, given.replicates, releases, strict=True)
    runs = [recorder.finish(cast(Records, records), release) for recorder, records, release in fits]
    search = job.randomness(given.domain, "replay").search
    return replay.audit_fits(job.mechanism, runs, job.spec(given.domain), job.budget, search)


def main() -> None:
    """Fit every replicate, then replay. If the mechanism cannot work on this data, record the failure."""
    parser = jobs.job_parser("fit", __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--clean", type=Path, help="clean records, for a central mechanism")
    source.add_argument("--private", type=Path, help="reports, for a local mechanism")
    parser.add_argument("--output", required=True, type=Path, help="model file to write (JSON)")
    jobs.add_strict(parser)
    job, arguments = jobs.parse_job(parser)
    given = jobs.read_input(job, arguments.clean, arguments.private, arguments.dataset)
    domain, failure, models, verdict = given.domain, given.failure, list[FittedModel](), None
    runner.restrict_new_files([domain.visibility])
    recorders = [Recorder(job.randomness(domain, "fit", number)) for number, _ in enumerate(given.replicates)]
    claim, events = Claim(job.budget.epsilon, job.budget.delta), tuple[Event, ...]()
    try:
        models, releases = job.fit_replicates(domain, given.replicates, [it.randomness for it in recorders])
        verdict = audit_replicates(job, given, recorders, releases)
        if releases:
            claim, events = releases[-1].claim, tuple(releases[-1].events)
    except MechanismFailure as error:
        failure = str(error)
    if verdict is not None:
        replay.require_passed(verdict, job.description(domain), strict=arguments.strict)
    header = job.header(domain, claim, events, failed=failure is not None)
    write_json(arguments.output, ModelFile(**header, models=tuple(models), replay=verdict, failure=failure))


if __name__ == "__main__":
    runner.run_stage("fit", main)
