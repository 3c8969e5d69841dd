# Helpers for the rules. This file contains no rules.
import shlex
import shutil
import sys
import textwrap
from pathlib import Path

from privmix.artefacts.io import compact_json
from privmix.catalog.entry import catalog_digest, entry_paths
from privmix.clean import ENTRY_SECTIONS
from privmix.errors import UserError
from privmix.mechanisms.registry import module_of
from privmix.pipeline import plan
from privmix.pipeline import resources as needs
from privmix.pipeline.code_version import code_version
from privmix.pipeline.permissions import restrict_run
from privmix.report.picture import find_browser

try:
    PLAN = plan.make_plan(config)
except UserError as error:
    sys.exit(f"privmix: {error}")
# Before Snakemake creates any folder or log. Jobs inherit the umask; cluster jobs read this file again.
restrict_run(PLAN.entries.values())

# Jobs run the Python that runs Snakemake, even if its environment is not active. This prefix replaces Snakemake's own,
# so it must set strict mode again: without it, a failure before `| tee` counts as success.
BIN = shlex.quote(str(Path(sys.executable).parent))
shell.prefix(f"set -euo pipefail; export PATH={BIN}:$PATH; ")


# The log with the answers of the report, and its time before this run.
SAID = Path("logs/report.log")
SAID_BEFORE = SAID.stat().st_mtime_ns if SAID.exists() else None


wildcard_constraints:
    dataset="|".join(PLAN.settings.datasets),
    mechanism="|".join(PLAN.mechanisms),
    epsilon=r"[0-9.e+-]+|inf",
    release="|".join(PLAN.settings.naive_releases) or "-",


def entry(wildcards):
    """Return the catalog entry. It is ancient, because the digests of its sections show what changed."""
    return ancient(str(PLAN.entry_paths[wildcards.dataset]))


def entry_digest(*sections):
    """Return the digest of the sections of the catalog entry that a rule depends on."""
    return lambda wildcards: PLAN.entries[wildcards.dataset].digest(*sections)


def entries_of(wildcards):
    """Return the catalog entries that a job reads: the entry of its dataset, none for an audit, or all."""
    if "dataset" in wildcards.keys():
        return [PLAN.entries[wildcards.dataset]]
    return [] if "mechanism" in wildcards.keys() else PLAN.entries.values()


def memory(wildcards, attempt):
    """Return the memory that a job requests. Later attempts (`retries` of a profile) request more."""
    return needs.memory_mb(entries_of(wildcards), attempt)


def minutes(fits=lambda wildcards: 0):
    """Return the time that a job requests, given its number of fits."""

    def runtime(wildcards, attempt):
        gaussians = 0
        if "dataset" in wildcards.keys():
            gaussians = max(PLAN.settings.components_for(wildcards.dataset))
        return needs.minutes(
            entries_of(wildcards), gaussians * fits(wildcards), attempt
        )

    return runtime


def attacks(wildcards):
    """Return the number of models that attacks fit: shadow models, and models with and without the isolated person."""
    isolated = PLAN.entries[wildcards.dataset].isolated
    games = 2 * PLAN.settings.evaluation.worst_record_runs if isolated else 0
    return games + PLAN.settings.shadows_for(
        wildcards.mechanism, float(wildcards.epsilon)
    )


def stage_code(stage):
    """Return the version of a stage's code. It is computed lazily, so a cluster job computes only its own."""
    return lambda wildcards: code_version(f"privmix.pipeline.stages.{stage}")


def download_code(wildcards):
    """Return the version of the code that makes a raw file. A download depends on its checksum only."""
    if PLAN.entries[wildcards.dataset].source.kind == "url":
        return "checksum"
    return code_version("privmix.pipeline.stages.download")


def local_source(wildcards):
    """Return the local file that replaces the download, if any."""
    path = PLAN.local_source(wildcards.dataset)
    return [] if path is None else str(path)


def override(wildcards):
    """Return the arguments for a source that the configuration overrides, if any."""
    path = PLAN.settings.sources.get(wildcards.dataset)
    return ["--override", path] if path else []


def is_local(wildcards):
    """Return whether the mechanism is local: it randomises each record before anyone stores it."""
    return PLAN.mechanisms[wildcards.mechanism].randomises_records


def seen_by_fit(wildcards):
    """Return the file that a mechanism's fit may read: the records, or only their reports."""
    return plan.PRIVATE if is_local(wildcards) else plan.CLEAN


def reports_of(wildcards):
    """Return the reports of a local mechanism, or nothing for a central one."""
    return plan.PRIVATE if is_local(wildcards) else []


def statistics_arguments(wildcards):
    """Return the statistics that the mechanism publishes of the dataset, or nothing."""
    asked = PLAN.statistics(wildcards.dataset)
    if not asked:
        return []
    listed = [request.model_dump(exclude_none=True) for request in asked]
    share = PLAN.settings.statistics_share
    return ["--statistics", compact_json(listed), "--statistics-share", share]


def job_arguments(wildcards):
    """Return the arguments that privatise, fit and evaluate share."""
    settings = PLAN.settings
    return [
        *("--dataset", wildcards.dataset),
        *("--mechanism", wildcards.mechanism),
        *("--parameters", PLAN.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *("--components", *settings.components_for(wildcards.dataset)),
        *("--choice-share", settings.component_choice.budget_share),
        *statistics_arguments(wildcards),
        *("--replicates", settings.replicates),
        *("--seed", settings.master_seed),
        *censored_arguments(wildcards),
    ]


def censored_arguments(wildcards):
    """Return the limits of censored labels of the dataset, or nothing."""
    limits = PLAN.censored_labels(wildcards.dataset)
    return ["--censored-labels", compact_json(limits)] if limits else []


def shadow_arguments(wildcards):
    """Return the number of shadow models for this job and the size of their pool, or nothing without shadow models."""
    settings = PLAN.settings
    number = settings.shadows_for(wildcards.mechanism, float(wildcards.epsilon))
    if not number:
        return []
    most = settings.evaluation.shadow_records
    return ["--shadows", number, "--shadow-records", most]


def outcome_arguments(wildcards):
    """Return the attribute that the entry declares as outcome, or nothing."""
    outcome = PLAN.entries[wildcards.dataset].outcome
    return [] if outcome is None else ["--outcome", outcome]


def group_arguments(wildcards):
    """Return the columns that the entry groups records by besides the attributes, or nothing."""
    groupings = PLAN.entries[wildcards.dataset].groupings
    return ["--groups", *groupings] if groupings else []


def release_arguments(wildcards):
    """Return the arguments of a release: mechanism and spending limits, but no seed and no replicates."""
    settings = PLAN.settings
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", PLAN.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *("--components", *settings.components_for(wildcards.dataset)),
        *("--choice-share", settings.component_choice.budget_share),
        *statistics_arguments(wildcards),
        *("--limit-epsilon", settings.release.limit_epsilon),
        *("--limit-delta", settings.release.limit_delta),
        *censored_arguments(wildcards),
    ]


def method_code(stage):
    """Return the version of the code that a stage runs for the mechanism's method."""
    return lambda wildcards: code_version(
        f"privmix.pipeline.stages.{stage}",
        module_of(PLAN.settings.mechanisms[wildcards.mechanism].method),
    )


def all_scores():
    """Return the scores files of all jobs of the run."""
    return [job.path(plan.SCORES) for job in PLAN.jobs()]


def audit_arguments(wildcards):
    """Return the arguments of an audit. It uses no dataset, only the units and relations that the datasets declare."""
    settings = PLAN.settings
    kinds = [word for kind in PLAN.kinds() for word in ("--kind", *kind)]
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", PLAN.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *kinds,
        *("--runs", settings.audit.runs),
        *("--seed", settings.master_seed),
    ]


def naive_arguments(wildcards):
    """Return the arguments of a release without a guarantee."""
    asked = PLAN.settings.naive_releases[wildcards.release]
    return [
        *("--release", wildcards.release),
        *("--parameters", compact_json(asked.model_dump())),
        *("--seed", PLAN.settings.master_seed),
    ]


def all_naive():
    """Return the attacks on all releases without a guarantee."""
    return [
        plan.NAIVE.format(dataset=dataset, release=release)
        for dataset, release in PLAN.naive_pairs()
    ]


def all_audits():
    """Return the audit files of all private mechanisms at every epsilon."""
    return sorted(
        {job.path(plan.AUDIT) for job in PLAN.jobs() if job.epsilon < float("inf")}
    )


def catalog_entries(wildcards):
    """Return all entries of the catalog, in the run or not. They are ancient, because their digest shows what changed."""
    return [ancient(str(path)) for path in entry_paths(PLAN.settings.catalog_dirs)]


def digest_of_catalog(wildcards):
    """Return the digest of the catalog. A broken entry that the run does not need stops nothing; the page lists it."""
    return catalog_digest(PLAN.settings.catalog_dirs)


def catalog_configuration(wildcards):
    """Return the configuration keys that determine the files of each dataset."""
    keys = ("catalog_dirs", "datasets", "sources", "mechanisms", "epsilons")
    return compact_json({key: config[key] for key in keys if key in config})


def incomplete_report():
    """Return the command that renders the results so far. Only a complete run makes the report itself."""
    kinds = [
        word
        for kind in ("html", "csv", "parquet")
        for word in (f"--{kind}", f"reports/incomplete.{kind}")
    ]
    return shlex.join(
        [
            "python",
            "-m",
            "privmix.pipeline.stages.report",
            "--configuration",
            compact_json(config),
            "--incomplete",
            *kinds,
        ]
    )


def browser(wildcards):
    """Return the browser for the picture, or stop before any job runs."""
    try:
        return find_browser()
    except UserError as error:
        sys.exit(f"privmix: {error}")


def last_words():
    """Return the answers of this run's report, wrapped for the terminal; nothing if the run made no report."""
    now = SAID.stat().st_mtime_ns if SAID.exists() else None
    if now == SAID_BEFORE:
        return []
    width = shutil.get_terminal_size().columns
    sentences = [
        line
        for line in SAID.read_text(encoding="utf-8").splitlines()
        if not line.startswith("privmix report:")  # time and memory used, on a cluster
    ]
    return [
        "",
        *(textwrap.fill(line, width, subsequent_indent="  ") for line in sentences),
        "",
    ]
