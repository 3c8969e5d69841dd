"""Write the catalog as an HTML page and as a Data Package."""

import argparse
import json
import sys
from pathlib import Path

from privmix.pipeline.catalog import write_catalog
from privmix.pipeline.runner import run_stage


def main() -> None:
    """Read the catalog and the files of its datasets, and write the page and the descriptor."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.catalog", description=__doc__)
    parser.add_argument("--configuration", required=True, help="configuration, as JSON")
    parser.add_argument("--html", type=Path, required=True, help="page to write")
    parser.add_argument("--package", type=Path, required=True, help="Data Package descriptor to write")
    arguments = parser.parse_args()
    configuration = json.loads(arguments.configuration)
    for problem in write_catalog(configuration, None, arguments.html, arguments.package):
        print(f"Skipped: {problem}", file=sys.stderr)
    print(f"Wrote {arguments.html} and {arguments.package}")


if __name__ == "__main__":
    run_stage("catalog", main)
