"""The page and the tidy results of a run, from whatever the run has made."""

import argparse
import json
from pathlib import Path

from privmix.artefacts.io import atomic_write
from privmix.pipeline.results import read_run, relative_address
from privmix.pipeline.runner import run_stage
from privmix.report import figures, page
from privmix.report.audit_findings import bound_rows
from privmix.report.results import Results, collect, csv_bytes, parquet_bytes
from privmix.report.sections.answer import answers
from privmix.report.sections.results import attach

PAPER = ("frontier-", "roc-", "proven")  # how the names of the charts begin that papers show
CATALOG = "catalog.html"


def main() -> None:
    """Read what exists, write page and results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configuration", required=True, help="the configuration as JSON")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--csv", type=Path, required=True, help="tidy results")
    parser.add_argument("--parquet", type=Path, required=True, help="the same as Parquet")
    parser.add_argument("--figures", type=Path, help="a folder for the page's charts, as SVG and PNG")
    parser.add_argument("--incomplete", action="store_true", help="leave out damaged and outdated files")
    arguments = parser.parse_args()

    run = read_run(json.loads(arguments.configuration), incomplete=arguments.incomplete)
    tables = [outcome.scores for outcome in run.outcomes if outcome.scores is not None]
    results = Results(collect([*tables, bound_rows(run.outcomes)]))
    csv, parquet = csv_bytes(results.frame), parquet_bytes(results.frame)
    for path, content in ((arguments.csv, csv), (arguments.parquet, parquet)):
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
    with figures.keep_figures(*PAPER) as charts:
        html = page.render(
            run,
            results,
            attach(relative_address(arguments.csv, arguments.html), csv, packed=True),
            attach(relative_address(arguments.parquet, arguments.html), parquet),
            catalog=CATALOG if (arguments.html.parent / CATALOG).exists() else None,
        )
    with atomic_write(arguments.html) as temporary:
        temporary.write_text(html, encoding="utf-8")
    if arguments.figures:
        figures.write_figures(arguments.figures, charts)
    for answer in answers(run, results):
        print(f"{answer.dataset}, {answer.trust}: {answer.headline}")
    print(f"The report is {arguments.html}")


if __name__ == "__main__":
    run_stage("report", main)
