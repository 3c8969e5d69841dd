# What rules ask about the run; no rule stands here.
import shlex
import sys
from pathlib import Path

from privmix import sweep
from privmix.artefacts import dumps
from privmix.errors import UserError
from privmix.mechanisms.registry import module_of
from privmix.provenance import code_version

try:
    SWEEP = sweep.plan(config)
except UserError as error:
    sys.exit(f"privmix: {error}")

# Jobs run the Python that runs Snakemake, also when its environment is not activated. A prefix of one's own
# replaces Snakemake's, so that strictness must be said again: without it a failure before `| tee` is a success.
BIN = shlex.quote(str(Path(sys.executable).parent))
shell.prefix(f"set -euo pipefail; export PATH={BIN}:$PATH; ")


wildcard_constraints:
    dataset="|".join(SWEEP.settings.datasets),
    mechanism="|".join(SWEEP.mechanisms),
    epsilon=r"[0-9.e+-]+|inf",


def entry(wildcards):
    """The catalog entry; ancient, because the digests of its sections say what changed."""
    return ancient(str(SWEEP.entry_paths[wildcards.dataset]))


def entry_digest(*sections):
    """The sections of the catalog entry that a rule depends on."""
    return lambda wildcards: SWEEP.entries[wildcards.dataset].digest(*sections)


def download_code(wildcards):
    """The version of the code that makes a raw file; a download is what its checksum says, whatever fetched it."""
    if SWEEP.entries[wildcards.dataset].source.kind == "url":
        return "checksum"
    return code_version("privmix.stages.download")


def local_source(wildcards):
    """The file on this machine that is read instead of a download, if any."""
    path = SWEEP.local_source(wildcards.dataset)
    return [] if path is None else str(path)


def override(wildcards):
    """Where the configuration says to read the dataset from, if it does."""
    path = SWEEP.settings.sources.get(wildcards.dataset)
    return ["--override", path] if path else []


def is_local(wildcards):
    """Whether the mechanism randomises each record before anyone stores it."""
    return SWEEP.mechanisms[wildcards.mechanism].trust != "central"


def seen_by_fit(wildcards):
    """What a mechanism's fit may see: the records, or their reports alone."""
    return sweep.PRIVATE if is_local(wildcards) else sweep.CLEAN


def reports_of(wildcards):
    """The reports of a local mechanism; nothing for a central one."""
    return sweep.PRIVATE if is_local(wildcards) else []


def job_arguments(wildcards):
    """The arguments that privatise, fit and evaluate share."""
    settings = SWEEP.settings
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", SWEEP.parameters(wildcards.mechanism)),
        *("--epsilon", wildcards.epsilon),
        *("--delta", settings.delta),
        *("--components", *settings.components_for(wildcards.dataset)),
        *("--choice-share", settings.component_choice.budget_share),
        *("--replicates", settings.replicates),
        *("--seed", settings.master_seed),
    ]


def release_arguments(wildcards):
    """The arguments of a release: the mechanism's, and what all releases may cost; no seed, no replicates."""
    settings = SWEEP.settings
    return [
        *("--mechanism", wildcards.mechanism),
        *("--parameters", SWEEP.parameters(wildcards.mechanism)),
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
        f"privmix.stages.{stage}",
        module_of(SWEEP.settings.mechanisms[wildcards.mechanism].method),
    )


def all_scores():
    """The scores of every job of the sweep."""
    return [job.path(sweep.SCORES) for job in SWEEP.jobs()]


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
            "privmix.stages.report",
            "--configuration",
            dumps(config),
            *kinds,
        ]
    )
