"""What a run has made so far: the outcome of each job, what may be shown of each dataset, and what stages used."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.clean import read_clean
from privmix.artefacts.io import parse_metadata, read_json, read_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.scores import ScoresInfo
from privmix.pipeline import plan
from privmix.pipeline.code_version import audit_code_version
from privmix.privacy.noise import stream
from privmix.report import defects, provenance
from privmix.report.audit_findings import mark_shared_noise
from privmix.report.run import (
    LeftOut,
    Material,
    Outcome,
    RunResults,
    StageUsage,
    parse_benchmark,
    sample_material,
    sort_outcomes,
    summarize_stage,
)


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


def list_left_out(planned: plan.RunPlan) -> tuple[LeftOut, ...]:
    """The mechanisms that the plan does not run on a dataset, and the limit of each."""
    return tuple(
        LeftOut(dataset, mechanism, method.trust, method.max_coordinates)
        for dataset in planned.settings.datasets
        for mechanism in planned.left_out(dataset)
        if (method := planned.mechanisms[mechanism]).max_coordinates is not None
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


def read_run(configuration: Mapping[str, Any]) -> RunResults:
    """Everything that a report tells of a run, from whatever files there are."""
    planned = plan.make_plan(dict(configuration))
    return RunResults(
        settings=planned.settings,
        configuration=configuration,
        entries=planned.entries,
        outcomes=sort_outcomes(mark_shared_noise(read_outcome(job, planned) for job in planned.jobs())),
        materials=read_materials(planned.settings),
        provenance=provenance.collect_provenance(),
        audit_code=audit_code_version(defects.load_matrix().method),
        usage=read_usage(planned),
        left_out=list_left_out(planned),
    )
