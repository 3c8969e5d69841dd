"""Fit: the mixture of each replicate, from the records (central) or from their reports (local)."""

import time
from collections.abc import Iterator
from pathlib import Path

from privmix import stages
from privmix.artefacts import (
    BENCHMARK_NOTICE,
    Domain,
    Fitted,
    ModelFile,
    PrivateInfo,
    column,
    info_of,
    read_clean,
    read_table,
    write_json,
)
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records, Release, Reports, training_records
from privmix.privacy.accounting import Claim
from privmix.privacy.ledger import from_rows
from privmix.stages import job as jobs


def views(
    clean: Path | None, private: Path | None, replicates: int
) -> tuple[Domain, Iterator[Records | Reports]]:
    """The public domain, and what the mechanism sees in each replicate."""
    if clean is not None:
        data = read_clean(clean)
        records = training_records(data)
        return data.info.domain, (records for _ in range(replicates))
    table = read_table(private)
    info = info_of(table, PrivateInfo)
    if info.failure:
        return info.domain, _failing(info.failure)
    claim = Claim(info.privacy.epsilon, info.privacy.delta)
    events = from_rows(info.privacy.ledger)

    columns = {name: column(table, name) for name in table.column_names}
    number = columns.pop("replicate")

    def reports(replicate: int) -> Reports:
        chosen = number == replicate
        return Reports({name: values[chosen] for name, values in columns.items()}, events, claim)

    return info.domain, (reports(replicate) for replicate in range(replicates))


def _failing(reason: str) -> Iterator[Reports]:
    raise MechanismFailure(reason)
    yield


def fitted(replicate: int, release: Release, seconds: float) -> Fitted:
    """A release as it is stored."""
    return Fitted(
        replicate=replicate,
        weights=release.mixture.weights.tolist(),
        means=release.mixture.means.tolist(),
        covariances=release.mixture.covariances.tolist(),
        seconds=seconds,
        transcript=release.transcript,
        proportions=release.proportions,
        notes=release.notes,
    )


def main() -> None:
    """Fit every replicate; a mechanism that cannot work on this data is recorded as such."""
    parser = jobs.parser("fit", __doc__)
    view = parser.add_mutually_exclusive_group(required=True)
    view.add_argument("--clean", type=Path, help="the clean records, for a central mechanism")
    view.add_argument("--private", type=Path, help="the reports, for a local mechanism")
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse(parser)
    domain, seen = views(given.clean, given.private, job.replicates)
    models, failure = [], None
    claim, events = Claim(job.budget.epsilon, job.budget.delta), ()
    try:
        for replicate, records in enumerate(seen):
            began = time.perf_counter()
            rng = job.randomness(domain, "fit", replicate)
            release = job.mechanism.fit(records, job.spec(domain), job.budget, rng)
            models.append(fitted(replicate, release, time.perf_counter() - began))
            claim, events = release.claim, tuple(release.events)
    except MechanismFailure as error:
        failure, models = str(error), []
    model = ModelFile(
        notice=BENCHMARK_NOTICE,
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
