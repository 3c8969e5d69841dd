"""What a run has made so far: the outcome of each job, what may be shown of each dataset, and what stages used."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.clean import CleanData, read_clean
from privmix.artefacts.io import compact_json, parse_metadata, read_json, read_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.naive import NaiveFile
from privmix.artefacts.scores import ScoresInfo
from privmix.errors import UserError
from privmix.evaluate.groupings import GroupingSpec, HeldOutGroups, held_out_groups
from privmix.pipeline import plan
from privmix.pipeline.code_version import audit_code_version
from privmix.pipeline.job import Identity, file_identity
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

Content = TypeVar("Content")


def relative_address(path: Path, page: Path) -> str:
    """The address of a file as a link on the page has it."""
    return os.path.relpath(path, page.parent)


def read_if_made(read: Callable[[Path], Content], path: Path, *, incomplete: bool) -> Content | None:
    """Read a file of the run, or return None if it does not exist.

    A damaged file, or one of another configuration, is an error. For an incomplete report it counts as not made.
    """
    if not path.exists():
        return None
    try:
        return read(path)
    except UserError as error:
        if not incomplete:
            raise
        print(f"privmix report: {error}", file=sys.stderr)
        return None


def read_outcome(job: plan.Job, planned: plan.RunPlan, *, incomplete: bool = False) -> Outcome:
    """What the run has made of one job."""
    chosen = planned.settings.mechanisms[job.mechanism].model_dump()
    method = chosen.pop("method")
    # The name of a file, and the command that makes it, give ε with six digits.
    budget = (float(format(job.epsilon, "g")), planned.settings.delta)
    wanted = Identity(job.dataset, job.mechanism, method, compact_json(chosen), *budget)

    def read_model(path: Path) -> ModelFile:
        model = read_json(path, ModelFile)
        wanted.check(path, file_identity(model))
        return model

    def read_scores(path: Path) -> tuple[pa.Table, ScoresInfo]:
        table = read_table(path)
        info = parse_metadata(table, ScoresInfo, path)
        made = (info.dataset, info.mechanism, info.method, compact_json(info.parameters))
        wanted.check(path, Identity(*made, info.epsilon, info.delta))
        return table, info

    def read_audit(path: Path) -> AuditFile:
        audit = read_json(path, AuditFile)
        made = (None, audit.mechanism, audit.method, compact_json(audit.parameters))
        found = Identity(*made, audit.budget_epsilon, audit.budget_delta)
        replace(wanted, dataset=None).check(path, found)
        return audit

    table, info = read_if_made(read_scores, Path(job.path(plan.SCORES)), incomplete=incomplete) or (
        None,
        None,
    )
    return Outcome(
        dataset=job.dataset,
        mechanism=job.mechanism,
        method=method,
        trust=planned.mechanisms[job.mechanism].trust,
        epsilon=job.epsilon,
        model=read_if_made(read_model, Path(job.path(plan.MODEL)), incomplete=incomplete),
        scores=table,
        scores_info=info,
        audit=read_if_made(read_audit, Path(job.path(plan.AUDIT)), incomplete=incomplete),
    )


def list_left_out(planned: plan.RunPlan) -> tuple[LeftOut, ...]:
    """The mechanisms that the plan does not run on a dataset, and the limits of each."""
    return tuple(
        LeftOut(dataset, mechanism, method.trust, method.min_coordinates, method.max_coordinates)
        for dataset in planned.settings.datasets
        for mechanism in planned.left_out(dataset)
        for method in [planned.mechanisms[mechanism]]
    )


def read_datasets(
    planned: plan.RunPlan, *, incomplete: bool = False
) -> tuple[dict[str, Material], dict[str, HeldOutGroups]]:
    """What may be shown of every dataset that was cleaned, and the groups of its held-out records."""
    settings, materials, groups = planned.settings, {}, {}
    for name in settings.datasets:
        path = Path(plan.CLEAN.format(dataset=name))
        clean = read_if_made(partial(read_dataset, name), path, incomplete=incomplete)
        if clean is not None:
            points = stream(settings.master_seed, name, "points shown")
            materials[name] = sample_material(clean, points, planned.statistics(name))
            declared = [GroupingSpec.parse(text) for text in planned.entries[name].groupings]
            groups[name] = held_out_groups(clean, declared)
    return materials, groups


def read_dataset(name: str, path: Path) -> CleanData:
    """Read the clean file of this dataset."""
    clean = read_clean(path)
    clean.info.check_dataset(name, path)
    return clean


def read_usage(planned: plan.RunPlan) -> tuple[StageUsage, ...]:
    """What the jobs of the run have used, where Snakemake has measured it."""
    stages = []
    for stage in plan.BENCHMARKS:
        paths = [Path(path) for path in planned.benchmark_paths(stage)]
        found = [parse_benchmark(path.read_text()) for path in paths if path.exists()]
        stages.append(summarize_stage(stage, len(paths), [job for job in found if job]))
    return tuple(stage for stage in stages if stage.planned)


def read_naive(planned: plan.RunPlan, *, incomplete: bool = False) -> tuple[NaiveFile, ...]:
    """The attacked releases without a guarantee that were made."""
    found = []
    for dataset, release in planned.naive_pairs():
        asked = planned.settings.naive_releases[release]
        wanted = (dataset, release, asked.method, compact_json(asked.parameters))

        def read(path: Path, wanted: tuple[str, ...] = wanted) -> NaiveFile:
            file = read_json(path, NaiveFile)
            if (file.dataset, file.release, file.method, compact_json(file.parameters)) != wanted:
                raise UserError(
                    f"{path} is of another dataset, release or configuration; delete it and run again."
                )
            return file

        path = Path(plan.NAIVE.format(dataset=dataset, release=release))
        found.append(read_if_made(read, path, incomplete=incomplete))
    return tuple(file for file in found if file is not None)


def read_run(configuration: Mapping[str, Any], *, incomplete: bool = False) -> RunResults:
    """Everything that a report tells of a run, from whatever files there are."""
    planned = plan.make_plan(dict(configuration))
    outcomes = (read_outcome(job, planned, incomplete=incomplete) for job in planned.jobs())
    materials, groups = read_datasets(planned, incomplete=incomplete)
    return RunResults(
        settings=planned.settings,
        configuration=configuration,
        entries=planned.entries,
        outcomes=sort_outcomes(mark_shared_noise(outcomes)),
        materials=materials,
        held_out=groups,
        provenance=provenance.collect_provenance(),
        audit_code=audit_code_version(defects.load_matrix().method),
        usage=read_usage(planned),
        left_out=list_left_out(planned),
        naive=read_naive(planned, incomplete=incomplete),
    )
