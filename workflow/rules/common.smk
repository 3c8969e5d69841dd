# What rules ask about the run; no rule stands here.
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
from privmix.report.picture import find_browser

try:
    PLAN = plan.make_plan(config)
except UserError as error:
    sys.exit(f"privmix: {error}")

# Jobs run the Python that runs Snakemake, also when its environment is not activated. A prefix of one's own
# replaces Snakemake's, so that strictness must be said again: without it a failure before `| tee` is a success.
BIN = shlex.quote(str(Path(sys.executable).parent))
shell.prefix(f"set -euo pipefail; export PATH={BIN}:$PATH; ")


# What the report says for the terminal, and when it said so before this run.
SAID = Path("logs/report.log")
SAID_BEFORE = SAID.stat().st_mtime_ns if SAID.exists() else None


wildcard_constraints:
    dataset="|".join(PLAN.settings.datasets),
    mechanism="|".join(PLAN.mechanisms),
    epsilon=r"[0-9.e+-]+|inf",


def entry(wildcards):
    """The catalog entry; ancient, because the digests of its sections say what changed."""
    return ancient(str(PLAN.entry_paths[wildcards.dataset]))


def entry_digest(*sections):
    """The sections of the catalog entry that a rule depends on."""
    return lambda wildcards: PLAN.entries[wildcards.dataset].digest(*sections)


def entries_of(wildcards):
    """The catalog entries that a job reads: of its dataset, of none for an audit, or of all."""
    if "dataset" in wildcards.keys():
        return [PLAN.entries[wildcards.dataset]]
    return [] if "mechanism" in wildcards.keys() else PLAN.entries.values()


def memory(wildcards, attempt):
    """The memory that a job asks for; `retries` of a profile ask for more."""
    return needs.memory_mb(entries_of(wildcards), attempt)


def minutes(fits=lambda wildcards: 0):
    """The time that a job of so many fits asks for."""

    def runtime(wildcards, attempt):
        gaussians = 0
        if "dataset" in wildcards.keys():
            gaussians = max(PLAN.settings.components_for(wildcards.dataset))
        return needs.minutes(
            entries_of(wildcards), gaussians * fits(wildcards), attempt
        )

    return runtime


def attacks(wildcards):
    """How many models attacks fit: shadows, and those with and without the isolated person."""
    isolated = PLAN.entries[wildcards.dataset].isolated
    games = 2 * PLAN.settings.evaluation.worst_record_runs if isolated else 0
    return games + PLAN.settings.shadows_for(
        wildcards.mechanism, float(wildcards.epsilon)
    )


def stage_code(stage):
    """The version of a stage's code, found when a job of it is planned: a cluster's jobs load only their own."""
    return lambda wildcards: code_version(f"privmix.pipeline.stages.{stage}")


def download_code(wildcards):
    """The version of the code that makes a raw file; a download is what its checksum says, whatever fetched it."""
    if PLAN.entries[wildcards.dataset].source.kind == "url":
        return "checksum"
    return code_version("privmix.pipeline.stages.download")


def local_source(wildcards):
    """The file on this machine that is read instead of a download, if any."""
    path = PLAN.local_source(wildcards.dataset)
    return [] if path is None else str(path)


def override(wildcards):
    """Where the configuration says to read the dataset from, if it does."""
    path = PLAN.settings.sources.get(wildcards.dataset)
    return ["--override", path] if path else []


def is_local(wildcards):
    """Whether the mechanism randomises each record before anyone stores it."""
    return PLAN.mechanisms[wildcards.mechanism].randomises_records


def seen_by_fit(wildcards):
    """What a mechanism's fit may see: the records, or their reports alone."""
    return plan.PRIVATE if is_local(wildcards) else plan.CLEAN


def reports_of(wildcards):
    """The reports of a local mechanism; nothing for a central one."""
    return plan.PRIVATE if is_local(wildcards) else []


def job_arguments(wildcards):
    """The arguments that privatise, fit and evaluate share."""
    settings = PLAN.settings
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", PLAN.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *("--components", *settings.components_for(wildcards.dataset)),
        *("--choice-share", settings.component_choice.budget_share),
        *("--replicates", settings.replicates),
        *("--seed", settings.master_seed),
    ]


def shadow_arguments(wildcards):
    """How many shadow models attack this job's mechanism, and on how many records; nothing where none does."""
    settings = PLAN.settings
    number = settings.shadows_for(wildcards.mechanism, float(wildcards.epsilon))
    if not number:
        return []
    most = settings.evaluation.shadow_records
    return ["--shadows", number, "--shadow-records", most]


def release_arguments(wildcards):
    """The arguments of a release: the mechanism's, and what all releases may cost; no seed, no replicates."""
    settings = PLAN.settings
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", PLAN.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *("--components", *settings.components_for(wildcards.dataset)),
        *("--choice-share", settings.component_choice.budget_share),
        *("--limit-epsilon", settings.release.limit_epsilon),
        *("--limit-delta", settings.release.limit_delta),
        *("--accounts", settings.release.accounts),
    ]


def method_code(stage):
    """The version of the code that a stage runs for the mechanism's method."""
    return lambda wildcards: code_version(
        f"privmix.pipeline.stages.{stage}",
        module_of(PLAN.settings.mechanisms[wildcards.mechanism].method),
    )


def all_scores():
    """The scores of every job of the run."""
    return [job.path(plan.SCORES) for job in PLAN.jobs()]


def audit_arguments(wildcards):
    """What an audit depends on: no dataset, but whom the datasets ask to be protected."""
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


def all_audits():
    """The audit of every private mechanism at every epsilon."""
    return sorted(
        {job.path(plan.AUDIT) for job in PLAN.jobs() if job.epsilon < float("inf")}
    )


def catalog_entries(wildcards):
    """Every entry of the catalog, in the run or not; ancient, because their digest says what changed."""
    return [ancient(str(path)) for path in entry_paths(PLAN.settings.catalog_dirs)]


def digest_of_catalog(wildcards):
    """What the catalog says; a broken entry that no run needs stops nothing but is on the page."""
    return catalog_digest(PLAN.settings.catalog_dirs)


def catalog_configuration(wildcards):
    """The keys that say which files a dataset goes through."""
    keys = ("catalog_dirs", "datasets", "sources", "mechanisms", "epsilons")
    return compact_json({key: config[key] for key in keys if key in config})


def incomplete_report():
    """The command that renders whatever there is, beside the report that only a whole run makes."""
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
            *kinds,
        ]
    )


def browser(wildcards):
    """The browser for the picture; asked for before anything runs."""
    try:
        return find_browser()
    except UserError as error:
        sys.exit(f"privmix: {error}")


def last_words():
    """What the report of this run says, in lines that fit the terminal; none where no report was made."""
    now = SAID.stat().st_mtime_ns if SAID.exists() else None
    if now == SAID_BEFORE:
        return []
    width = shutil.get_terminal_size().columns
    sentences = [
        line
        for line in SAID.read_text(encoding="utf-8").splitlines()
        if not line.startswith("privmix report:")  # what it has used on a cluster
    ]
    return [
        "",
        *(textwrap.fill(line, width, subsequent_indent="  ") for line in sentences),
        "",
    ]
