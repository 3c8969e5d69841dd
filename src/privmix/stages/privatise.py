"""Privatise: the records randomise themselves, and only their reports are written."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix import stages
from privmix.artefacts import BENCHMARK_NOTICE, PrivateInfo, arrow, read_clean, write_table
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import training_records
from privmix.privacy.accounting import Claim
from privmix.stages import job as jobs


def main() -> None:
    """Read the clean records, write one report per record and replicate."""
    parser = jobs.parser("privatise", __doc__)
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse(parser)
    clean = read_clean(given.clean)
    domain = clean.info.domain
    records = training_records(clean)
    tables, seconds, failure = [], [], None
    claim, events = Claim(job.budget.epsilon, job.budget.delta), ()
    try:
        for replicate in range(job.replicates):
            began = time.perf_counter()
            rng = job.randomness(domain, "privatise", replicate)
            reports = job.mechanism.privatise(records, job.spec(domain), job.budget, rng)
            seconds.append(time.perf_counter() - began)
            claim, events = reports.claim, tuple(reports.events)
            number = np.full(len(records), replicate, dtype=np.uint16)
            columns = {"replicate": number, **reports.columns}
            tables.append(pa.table({name: arrow(values) for name, values in columns.items()}))
    except MechanismFailure as error:
        failure = str(error)
    info = PrivateInfo(
        notice=BENCHMARK_NOTICE,
        domain=domain,
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        privacy=job.privacy(domain, claim, events, failure is not None),
        seconds=seconds,
        failure=failure,
    )
    table = (
        pa.table({"replicate": arrow(np.empty(0, dtype=np.uint16))}) if failure else pa.concat_tables(tables)
    )
    write_table(given.output, table, info)


if __name__ == "__main__":
    stages.run("privatise", main)
