"""The catalog for people and for programs: `reports/catalog.html` and `data/datapackage.json`."""

import argparse
import json
import sys
from pathlib import Path

from privmix.pipeline.catalog import write_catalog
from privmix.pipeline.runner import run_stage


def main() -> None:
    """Read the catalog and what there is of its datasets, write page and descriptor."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.catalog", description=__doc__)
    parser.add_argument("--configuration", required=True, help="the configuration as JSON")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--package", type=Path, required=True, help="the Data Package descriptor")
    arguments = parser.parse_args()
    configuration = json.loads(arguments.configuration)
    for problem in write_catalog(configuration, None, arguments.html, arguments.package):
        print(f"left out: {problem}", file=sys.stderr)
    print(f"The catalog is {arguments.html}")


if __name__ == "__main__":
    run_stage("catalog", main)
