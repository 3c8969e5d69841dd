"""Fit: the mixture of each replicate, from the records (central) or from their reports (local)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privmix import stages
from privmix.artefacts.clean import read_clean
from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted import Fitted
from privmix.artefacts.model import ModelFile
from privmix.artefacts.part import dumps, write_json
from privmix.artefacts.private import read_private
from privmix.artefacts.statement import BENCHMARK_NOTICE
from privmix.artefacts.verdict import Verdict
from privmix.errors import MechanismFailure, UserError
from privmix.evaluate.audit import gate
from privmix.evaluate.audit.watched import Recorder, Run
from privmix.mechanisms import running
from privmix.mechanisms.base import Records, Release, Reports, reports_of, training_records
from privmix.privacy.accounting import Budget, Claim
from privmix.stages import job as jobs


@dataclass(frozen=True)
class View:
    """What a fit is given: the public domain, what each replicate sees, and what privatise said of it."""

    domain: Domain
    replicates: Sequence[Records | Reports]
    verdict: Verdict | None = None
    failure: str | None = None


def viewed(job: jobs.Job, clean: Path | None, private: Path | None) -> View:
    """The clean records, the same for all replicates, or the reports of each."""
    if clean is not None:
        data = read_clean(clean)
        return View(data.info.domain, [training_records(data)] * job.replicates)
    info, reports = read_private(private)
    made = Budget(info.privacy.budget_epsilon, info.privacy.budget_delta)
    if (info.method, info.parameters, made) != (job.method, job.parameters, job.budget):
        raise UserError(
            f"{private} holds the reports of {info.method} {dumps(info.parameters)} at ε = {made.epsilon:g}, "
            f"δ = {made.delta:g}, not those of {job.method} {dumps(job.parameters)} at ε = {job.budget.epsilon:g}, "
            f"δ = {job.budget.delta:g}; read them as they were made, or privatise anew."
        )
    seen = [reports_of(info, number, columns) for number, columns in enumerate(reports)]
    return View(info.domain, seen, info.replay, info.failure)


def fitted(job: jobs.Job, view: View) -> tuple[list[Fitted], Release | None, Sequence[Run]]:
    """The model of each replicate, what the last one released, and the recorded runs of a central mechanism."""
    models: list[Fitted] = []
    runs: list[Run] = []
    release, domain, spec = None, view.domain, job.spec(view.domain)
    for replicate, seen in enumerate(view.replicates):
        began = time.perf_counter()
        recorder = Recorder(job.randomness(domain, "fit", replicate))
        release = running.fit(job.mechanism, seen, spec, job.budget, recorder.randomness)
        models.append(release.stored(replicate, time.perf_counter() - began))
        if job.mechanism.private and isinstance(seen, Records):
            runs.append(recorder.recorded(seen, release))
    return models, release, runs


def audited(job: jobs.Job, view: View, runs: Sequence[Run]) -> Verdict | None:
    """What a replay of the runs shows; of reports, what privatise found."""
    if not runs:
        return view.verdict
    domain = view.domain
    search = job.randomness(domain, "replay").search
    return gate.of_fits(job.mechanism, runs, job.spec(domain), job.budget, search)


def main() -> None:
    """Fit every replicate; a mechanism that cannot work on this data is recorded as such."""
    parser = jobs.parser("fit", __doc__)
    view = parser.add_mutually_exclusive_group(required=True)
    view.add_argument("--clean", type=Path, help="the clean records, for a central mechanism")
    view.add_argument("--private", type=Path, help="the reports, for a local mechanism")
    parser.add_argument("--output", required=True, type=Path)
    jobs.add_strict(parser)
    job, given = jobs.parse(parser)
    view = viewed(job, given.clean, given.private)
    domain, failure = view.domain, view.failure
    models, release, verdict = [], None, None
    try:
        models, release, runs = fitted(job, view)
        verdict = audited(job, view, runs)
    except MechanismFailure as error:
        failure = str(error)
    if verdict is not None:
        gate.let_through(verdict, job.described(domain), strict=given.strict)
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
    stages.run("fit", main)
