"""Make one release without a guarantee of one dataset, and attack it. Neither file may be published."""

import argparse
import json
import time
from pathlib import Path

import pyarrow as pa

from privmix.artefacts.io import write_json, write_table
from privmix.artefacts.naive import NaiveFile
from privmix.catalog.entry import load_entry
from privmix.catalog.readers.base import read_batches
from privmix.errors import UserError
from privmix.naive import registry
from privmix.naive.base import NOTICE
from privmix.naive.records import read_records
from privmix.pipeline import naive, runner
from privmix.privacy.noise import stream


def main() -> None:
    """Write the table that would be published, and what attacks find in it."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.naive", description=__doc__)
    parser.add_argument("--entry", type=Path, required=True, help="catalog entry (YAML)")
    parser.add_argument("--raw", type=Path, required=True, help="downloaded file")
    parser.add_argument("--release", required=True, help="id of the release in the configuration")
    parser.add_argument(
        "--parameters", required=True, type=json.loads, help="method and its parameters, as JSON"
    )
    parser.add_argument("--seed", type=int, required=True, help="master seed of the benchmark")
    parser.add_argument("--table", type=Path, required=True, help="table to write (Parquet)")
    parser.add_argument("--attacks", type=Path, required=True, help="attacks to write (JSON)")
    given = parser.parse_args()
    began, entry, parameters = time.perf_counter(), load_entry(given.entry), dict(given.parameters)
    runner.restrict_new_files([entry.visibility])
    method = parameters.pop("method")
    release = registry.build(method, parameters, where=f"configuration: naive_releases.{given.release}")
    records = read_records(read_batches(given.raw, entry), entry)
    rng = stream(given.seed, entry.name, given.release, "naive")
    file = header = NaiveFile(
        notice=NOTICE, dataset=entry.name, release=given.release, method=method, parameters=parameters,
        description=release.description, rows=len(records), people=int(records.persons.max(initial=-1)) + 1,
        quasi_identifiers=records.roles.quasi_identifiers, sensitive=records.roles.sensitive,
    )  # fmt: skip
    try:
        table = release.make_table(records, rng)
    except UserError as problem:
        table, file = records.frame.iloc[:0], file.model_copy(update={"failure": str(problem)})
    else:
        found = {
            "anonymity": naive.measure_anonymity(table, release, records),
            "attacks": naive.attack_release(release, table, records, rng),
            "averaging": naive.average_answers(release, records, rng),
            "seconds": time.perf_counter() - began,
        }
        file = file.model_copy(update=found)
    write_table(given.table, pa.Table.from_pandas(table, preserve_index=False), header)
    write_json(given.attacks, file)


if __name__ == "__main__":
    runner.run_stage("naive", main)
