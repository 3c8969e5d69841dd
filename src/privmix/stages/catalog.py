"""The catalog for people and for programs: `reports/catalog.html` and `data/datapackage.json`."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privmix import sweep
from privmix.artefacts.writing import replacing
from privmix.catalog.export import package
from privmix.catalog.holding import read_all
from privmix.report.catalog_page import Files, RunPlan, render
from privmix.stages import run

FILES = Files(sweep.RAW, sweep.CLEAN, sweep.PRIVATE, sweep.MODEL, sweep.SCORES)


def run_plan(checked: sweep.Sweep) -> RunPlan:
    """What the run makes of each of its datasets."""
    jobs = [job for job in checked.jobs() if job.dataset == checked.settings.datasets[0]]
    local = {name: mechanism.randomises_records for name, mechanism in checked.mechanisms.items()}
    return RunPlan(
        datasets=checked.settings.datasets,
        replaced=tuple(checked.settings.sources),
        local=tuple(name for name in local if local[name]),
        central=tuple(name for name in local if not local[name]),
        reports=sum(local[job.mechanism] for job in jobs),
        jobs=len(jobs),
    )


def write(
    configuration: Mapping[str, Any], folders: Sequence[str] | None, html: Path, descriptor: Path
) -> tuple[str, ...]:
    """Write both files; what is wrong with entries that could not be read is on the page and comes back.

    Without `folders` the catalog is the configuration's.
    """
    checked = sweep.plan(dict(configuration))
    holdings, problems = read_all(folders or checked.settings.catalog_dirs, sweep.RAW, sweep.CLEAN)
    described = json.dumps(package(holdings, descriptor.parent), indent=2, ensure_ascii=False) + "\n"
    page = render(holdings, problems, run_plan(checked), FILES)
    for path, text in ((descriptor, described), (html, page)):
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return problems


def main() -> None:
    """Read the catalog and what there is of its datasets, write page and descriptor."""
    parser = argparse.ArgumentParser(prog="python -m privmix.stages.catalog", description=__doc__)
    parser.add_argument("--configuration", required=True, help="the configuration as JSON")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--package", type=Path, required=True, help="the Data Package descriptor")
    arguments = parser.parse_args()
    configuration = json.loads(arguments.configuration)
    for problem in write(configuration, None, arguments.html, arguments.package):
        print(f"left out: {problem}", file=sys.stderr)
    print(f"The catalog is {arguments.html}")


if __name__ == "__main__":
    run("catalog", main)
