"""The page and the tidy results of a run, from whatever the run has made."""

import argparse
import json
from pathlib import Path

from privmix.pipeline.outputs import write_together
from privmix.pipeline.results import read_run, relative_address
from privmix.pipeline.runner import restrict_new_files, run_stage
from privmix.report import figures, page
from privmix.report.audit_findings import bound_rows
from privmix.report.group_costs import add_group_gaps
from privmix.report.results import Results, collect, csv_bytes, parquet_bytes
from privmix.report.sections.answer import answers
from privmix.report.sections.results import attach

PAPER = ("frontier-", "roc-", "proven")  # how the names of the charts begin that papers show
CATALOG = "catalog.html"


def main() -> None:
    """Read what exists, then write page, results and charts, all together or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configuration", required=True, help="the configuration as JSON")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--csv", type=Path, required=True, help="tidy results")
    parser.add_argument("--parquet", type=Path, required=True, help="the same as Parquet")
    parser.add_argument("--figures", type=Path, help="a folder for the page's charts, as SVG and PNG")
    parser.add_argument("--incomplete", action="store_true", help="leave out damaged and outdated files")
    arguments = parser.parse_args()

    run = read_run(json.loads(arguments.configuration), incomplete=arguments.incomplete)
    restrict_new_files(run.entries[name].visibility for name in run.settings.datasets)
    tables = [outcome.scores for outcome in run.outcomes if outcome.scores is not None]
    results = add_group_gaps(run, Results(collect([*tables, bound_rows(run.outcomes)])))
    csv, parquet = csv_bytes(results.frame), parquet_bytes(results.frame)
    with figures.keep_figures(*PAPER) as charts:
        html = page.render(
            run,
            results,
            attach(relative_address(arguments.csv, arguments.html), csv, packed=True),
            attach(relative_address(arguments.parquet, arguments.html), parquet),
            catalog=CATALOG if (arguments.html.parent / CATALOG).exists() else None,
        )
    files = {arguments.csv: csv, arguments.parquet: parquet, arguments.html: html.encode("utf-8")}
    if arguments.figures:
        files |= {arguments.figures / name: content for name, content in figures.figure_files(charts).items()}
        arguments.figures.mkdir(parents=True, exist_ok=True)
    write_together(files)
    for answer in answers(run, results):
        print(f"{answer.dataset}, {answer.trust}: {answer.headline}")
    print(f"The report is {arguments.html}")


if __name__ == "__main__":
    run_stage("report", main)
