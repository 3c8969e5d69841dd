"""Clean one dataset: read the raw file, check and normalise its rows, and split them into train and holdout."""

import argparse
from pathlib import Path

from privmix.artefacts.clean import RowCounts
from privmix.catalog.entry import load_entry
from privmix.clean.persons import load_or_create_key
from privmix.clean.pipeline import clean, format_counts
from privmix.pipeline import runner


def main() -> None:
    """Clean the dataset and print the row counts."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.clean", description=__doc__)
    parser.add_argument("--entry", type=Path, required=True, help="catalog entry (YAML)")
    parser.add_argument("--raw", type=Path, required=True, help="downloaded file")
    parser.add_argument("--output", type=Path, required=True, help="clean file to write (Parquet)")
    parser.add_argument("--master-seed", type=int, required=True, help="seed of the train/holdout split")
    parser.add_argument(
        "--key", type=Path, required=True, help="file with the secret key of the pseudonyms; made if missing"
    )
    parser.add_argument(
        "--overridden",
        action="store_true",
        help="the raw file replaces the source of the entry: skip the expected counts",
    )
    arguments = parser.parse_args()
    entry = load_entry(arguments.entry)
    runner.restrict_new_files([entry.visibility])
    info = clean(
        entry,
        arguments.raw,
        arguments.output,
        master_seed=arguments.master_seed,
        key=load_or_create_key(arguments.key),
        overridden=arguments.overridden,
    )
    print(f"{entry.name}: {_summary(info.counts)}")


def _summary(counts: RowCounts) -> str:
    dropped = sum(counts.dropped.values())
    clipped = sum(counts.clipped.values())
    return (
        f"read {counts.read:,} rows of {counts.persons:,} people, kept {counts.kept:,}, "
        f"dropped {dropped:,}{_reasons(counts.dropped)}, clipped {clipped:,} values{_reasons(counts.clipped)}; "
        f"train {counts.train:,}, holdout {counts.holdout:,}."
    )


def _reasons(counts: dict[str, int]) -> str:
    return f" ({format_counts(counts)})" if counts else ""


if __name__ == "__main__":
    runner.run_stage("clean", main)
