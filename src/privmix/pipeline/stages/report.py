"""The page and the tidy results of a run, from whatever the run has made."""

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.clean import read_clean
from privmix.artefacts.io import atomic_write, parse_metadata, read_json, read_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.scores import ScoresInfo
from privmix.pipeline import plan
from privmix.pipeline.code_version import audit_code_version
from privmix.pipeline.runner import run_stage
from privmix.privacy.noise import stream
from privmix.report import defects, figures, page, provenance
from privmix.report.audit_findings import bound_rows, mark_shared_noise
from privmix.report.results import Results, collect, to_table
from privmix.report.run import (
    Material,
    Outcome,
    RunResults,
    StageUsage,
    parse_benchmark,
    sample_material,
    sort_outcomes,
    summarize_stage,
)
from privmix.report.sections.answer import answers
from privmix.report.sections.results import attach

PAPER = ("frontier-", "roc-", "proven")  # how the names of the charts begin that papers show
CATALOG = "catalog.html"


def relative_address(path: Path, page: Path) -> str:
    """The address of a file as a link on the page has it."""
    return os.path.relpath(path, page.parent)


def read_outcome(job: plan.Job, planned: plan.RunPlan) -> Outcome:
    """What the run has made of one job."""
    model, scores, audit = (Path(job.path(kind)) for kind in (plan.MODEL, plan.SCORES, plan.AUDIT))
    table = read_table(scores) if scores.exists() else None
    return Outcome(
        dataset=job.dataset,
        mechanism=job.mechanism,
        method=planned.settings.mechanisms[job.mechanism].method,
        trust=planned.mechanisms[job.mechanism].trust,
        epsilon=job.epsilon,
        model=read_json(model, ModelFile) if model.exists() else None,
        scores=table,
        scores_info=None if table is None else parse_metadata(table, ScoresInfo),
        audit=read_json(audit, AuditFile) if audit.exists() else None,
    )


def read_materials(settings: plan.Settings) -> dict[str, Material]:
    """What may be shown of every dataset that was cleaned."""
    paths = {name: Path(plan.CLEAN.format(dataset=name)) for name in settings.datasets}
    return {
        name: sample_material(read_clean(path), stream(settings.master_seed, name, "points shown"))
        for name, path in paths.items()
        if path.exists()
    }


def read_usage(planned: plan.RunPlan) -> tuple[StageUsage, ...]:
    """What the jobs of the run have used, where Snakemake has measured it."""
    stages = []
    for stage in plan.BENCHMARKS:
        paths = [Path(path) for path in planned.benchmark_paths(stage)]
        found = [parse_benchmark(path.read_text()) for path in paths if path.exists()]
        stages.append(summarize_stage(stage, len(paths), [job for job in found if job]))
    return tuple(stage for stage in stages if stage.planned)


def write_figures(folder: Path, charts: Mapping[str, Figure]) -> None:
    """The charts for wide screens as files; the others show the same, narrower."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in charts.items():
        if name.endswith("-narrow"):
            continue
        for kind in ("svg", "png"):
            with atomic_write(folder / f"{name.removesuffix('-wide')}.{kind}") as temporary:
                temporary.write_bytes(figures.file_bytes(figure, name, kind))


def main() -> None:
    """Read what exists, write page and results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configuration", required=True, help="the configuration as JSON")
    parser.add_argument("--html", type=Path, required=True, help="the page")
    parser.add_argument("--csv", type=Path, required=True, help="tidy results")
    parser.add_argument("--parquet", type=Path, required=True, help="the same as Parquet")
    parser.add_argument("--figures", type=Path, help="a folder for the page's charts, as SVG and PNG")
    arguments = parser.parse_args()

    configuration = json.loads(arguments.configuration)
    planned = plan.make_plan(configuration)
    run = RunResults(
        settings=planned.settings,
        configuration=configuration,
        entries=planned.entries,
        outcomes=sort_outcomes(mark_shared_noise(read_outcome(job, planned) for job in planned.jobs())),
        materials=read_materials(planned.settings),
        provenance=provenance.collect_provenance(),
        audit_code=audit_code_version(defects.load_matrix().method),
        usage=read_usage(planned),
    )
    tables = [outcome.scores for outcome in run.outcomes if outcome.scores is not None]
    results = Results(collect([*tables, bound_rows(run.outcomes)]))
    csv = results.frame.to_csv(index=False, lineterminator="\n").encode()
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(results.frame), sink, compression="zstd")
    parquet = sink.getvalue().to_pybytes()
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
        write_figures(arguments.figures, charts)
    for answer in answers(run, results):
        print(f"{answer.dataset}, {answer.trust}: {answer.headline}")
    print(f"The report is {arguments.html}")


if __name__ == "__main__":
    run_stage("report", main)
