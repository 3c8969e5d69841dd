"""Fit: the mixture of each replicate, from the records (central) or from their reports (local)."""

import time
from pathlib import Path

from privmix import stages
from privmix.artefacts import (
    Domain,
    Fitted,
    ModelFile,
    dumps,
    read_clean,
    read_private,
    write_json,
)
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import running
from privmix.mechanisms.base import Records, Reports, reports_of, training_records
from privmix.privacy.accounting import Budget, Claim
from privmix.stages import job as jobs


def views(
    job: jobs.Job, clean: Path | None, private: Path | None
) -> tuple[Domain, list[Records | Reports], str | None]:
    """The public domain, what the mechanism sees in each replicate, and why privatise failed if it did."""
    if clean is not None:
        data = read_clean(clean)
        return data.info.domain, [training_records(data)] * job.replicates, None
    info, reports = read_private(private)
    made = Budget(info.privacy.budget_epsilon, info.privacy.budget_delta)
    if (info.method, info.parameters, made) != (job.method, job.parameters, job.budget):
        raise UserError(
            f"{private} holds the reports of {info.method} {dumps(info.parameters)} at ε = {made.epsilon:g}, "
            f"δ = {made.delta:g}, not those of {job.method} {dumps(job.parameters)} at ε = {job.budget.epsilon:g}, "
            f"δ = {job.budget.delta:g}; read them as they were made, or privatise anew."
        )
    return (
        info.domain,
        [reports_of(info, number, columns) for number, columns in enumerate(reports)],
        info.failure,
    )


def main() -> None:
    """Fit every replicate; a mechanism that cannot work on this data is recorded as such."""
    parser = jobs.parser("fit", __doc__)
    view = parser.add_mutually_exclusive_group(required=True)
    view.add_argument("--clean", type=Path, help="the clean records, for a central mechanism")
    view.add_argument("--private", type=Path, help="the reports, for a local mechanism")
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse(parser)
    domain, seen, failure = views(job, given.clean, given.private)
    models: list[Fitted] = []
    claim, events = Claim(job.budget.epsilon, job.budget.delta), ()
    try:
        for replicate, records in enumerate(seen):
            began = time.perf_counter()
            rng = job.randomness(domain, "fit", replicate)
            release = running.fit(job.mechanism, records, job.spec(domain), job.budget, rng)
            models.append(release.stored(replicate, time.perf_counter() - began))
            claim, events = release.claim, tuple(release.events)
    except MechanismFailure as error:
        failure, models = str(error), []
    model = ModelFile(
        notice=job.notice,
        domain=domain,
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        privacy=job.privacy(domain, claim, events, failure is not None),
        models=tuple(models),
        failure=failure,
    )
    write_json(given.output, model)


if __name__ == "__main__":
    stages.run("fit", main)
