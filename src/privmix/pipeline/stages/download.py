"""Download the source of a catalog entry, or make it, and check it."""

import argparse
from pathlib import Path

from privmix.catalog.entry import load_entry
from privmix.catalog.sources import acquire
from privmix.pipeline.runner import restrict_new_files, run_stage


def main() -> None:
    """Read the entry and write its raw file."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.download", description=__doc__)
    parser.add_argument("--entry", type=Path, required=True, help="catalog entry (YAML)")
    parser.add_argument("--output", type=Path, required=True, help="raw file to write")
    parser.add_argument(
        "--override", type=Path, help="local file to use instead of the source; its checksum is not checked"
    )
    arguments = parser.parse_args()
    entry = load_entry(arguments.entry)
    restrict_new_files([entry.visibility])
    acquire(entry, arguments.output, arguments.override)


if __name__ == "__main__":
    run_stage("download", main)
