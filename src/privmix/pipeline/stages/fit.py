"""Fit: the mixture of each replicate, from the records (central) or from their reports (local)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.io import compact_json, write_json
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, ReplayVerdict
from privmix.artefacts.private import read_private
from privmix.audit import replay
from privmix.audit.recording import RecordedRun, Recorder
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import run
from privmix.mechanisms.base import Records, Release, Reports, replicate_reports, training_records
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.privacy.accounting import Budget, Claim


@dataclass(frozen=True)
class FitInput:
    """What a fit is given: the public domain, what each replicate sees, and what privatise said of it."""

    domain: Domain
    replicates: Sequence[Records | Reports]
    verdict: ReplayVerdict | None = None
    failure: str | None = None


def read_input(job: run.MechanismJob, clean: Path | None, private: Path | None) -> FitInput:
    """The clean records, the same for all replicates, or the reports of each."""
    if clean is not None:
        data = read_clean(clean)
        return FitInput(data.info.domain, [training_records(data)] * job.replicates)
    info, reports = read_private(private)
    made = Budget(info.privacy.budget_epsilon, info.privacy.budget_delta)
    if (info.method, info.parameters, made) != (job.method, job.parameters, job.budget):
        raise UserError(
            f"{private} holds the reports of {info.method} {compact_json(info.parameters)} at ε = {made.epsilon:g}, "
            f"δ = {made.delta:g}, not those of {job.method} {compact_json(job.parameters)} at "
            f"ε = {job.budget.epsilon:g}, δ = {job.budget.delta:g}; read them as they were made, or privatise anew."
        )
    seen = [replicate_reports(info, number, columns) for number, columns in enumerate(reports)]
    return FitInput(info.domain, seen, info.replay, info.failure)


def fit_replicates(
    job: run.MechanismJob, view: FitInput
) -> tuple[list[FittedModel], Release | None, Sequence[RecordedRun]]:
    """The model of each replicate, what the last one released, and the recorded runs of a central mechanism."""
    models: list[FittedModel] = []
    runs: list[RecordedRun] = []
    release, domain, spec = None, view.domain, job.spec(view.domain)
    for replicate, seen in enumerate(view.replicates):
        began = time.perf_counter()
        recorder = Recorder(job.randomness(domain, "fit", replicate))
        release = run.fit(job.mechanism, seen, spec, job.budget, recorder.randomness)
        models.append(release.to_artefact(replicate, time.perf_counter() - began))
        if job.mechanism.private and isinstance(seen, Records):
            runs.append(recorder.finish(seen, release))
    return models, release, runs


def audit_replicates(
    job: run.MechanismJob, view: FitInput, runs: Sequence[RecordedRun]
) -> ReplayVerdict | None:
    """What a replay of the runs shows; of reports, what privatise found."""
    if not runs:
        return view.verdict
    domain = view.domain
    search = job.randomness(domain, "replay").search
    return replay.audit_fits(job.mechanism, runs, job.spec(domain), job.budget, search)


def main() -> None:
    """Fit every replicate; a mechanism that cannot work on this data is recorded as such."""
    parser = jobs.job_parser("fit", __doc__)
    view = parser.add_mutually_exclusive_group(required=True)
    view.add_argument("--clean", type=Path, help="the clean records, for a central mechanism")
    view.add_argument("--private", type=Path, help="the reports, for a local mechanism")
    parser.add_argument("--output", required=True, type=Path)
    jobs.add_strict(parser)
    job, given = jobs.parse_job(parser)
    view = read_input(job, given.clean, given.private)
    domain, failure = view.domain, view.failure
    models, release, verdict = [], None, None
    try:
        models, release, runs = fit_replicates(job, view)
        verdict = audit_replicates(job, view, runs)
    except MechanismFailure as error:
        failure = str(error)
    if verdict is not None:
        replay.require_passed(verdict, job.described(domain), strict=given.strict)
    claim = release.claim if release else Claim(job.budget.epsilon, job.budget.delta)
    events = tuple(release.events) if release else ()
    model = ModelFile(
        notice=BENCHMARK_NOTICE,
        domain=domain,
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        privacy=job.privacy(domain, claim, events, failure is not None),
        models=tuple(models),
        replay=verdict,
        failure=failure,
    )
    write_json(given.output, model)


if __name__ == "__main__":
    runner.run_stage("fit", main)
