"""Stage `download`: an entry's source to its raw file."""

import argparse
from pathlib import Path

from privmix.catalog.entry import load_entry
from privmix.catalog.sources import acquire
from privmix.pipeline.runner import run_stage


def main() -> None:
    """Read the entry, get its file."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.download", description=__doc__)
    parser.add_argument("--entry", type=Path, required=True, help="catalog entry (YAML)")
    parser.add_argument("--output", type=Path, required=True, help="raw file to write")
    parser.add_argument("--override", type=Path, help="local file to take instead of the source, unchecked")
    arguments = parser.parse_args()
    acquire(load_entry(arguments.entry), arguments.output, arguments.override)


if __name__ == "__main__":
    run_stage("download", main)
