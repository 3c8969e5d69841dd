"""`privmix release` and `privmix verify`: make a release with the settings of the configuration, and check one."""

import argparse
import math
from pathlib import Path

from privmix.artefacts.clean import read_clean_info
from privmix.artefacts.io import file_sha256
from privmix.catalog.entry import find_entry
from privmix.catalog.sources import acquire
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.persons import load_or_create_key
from privmix.clean.pipeline import clean
from privmix.cli import terminal
from privmix.cli.configuration import read_configuration
from privmix.errors import UserError, printable, suggest
from privmix.mechanisms.run import MechanismJob
from privmix.pipeline import plan
from privmix.pipeline.release import ReleasePaths, release_dataset
from privmix.pipeline.runner import restrict_new_files
from privmix.privacy.accounting import Budget
from privmix.release import signing, summary
from privmix.release import verify as verification
from privmix.release.charges import SpendingLimit
from privmix.release.folder import CARD

KEY = Path("data/.pseudonym.key")
ORIGIN = "Anyone can sign a folder: get the public key of the curator from a source that you trust, and use --signer."


def verify(arguments: argparse.Namespace) -> None:
    """Verify a release folder and print its claim and the checks that passed."""
    verdict = verification.inspect(arguments.folder, arguments.signer)
    terminal.print_success(f"{printable(str(arguments.folder))}: {verdict.summary}.")
    origin = f"signed by {verdict.signed_by}" if verdict.origin_proven else f"not proven. {ORIGIN}"
    terminal.print_fields([*summary.describe_release(verdict.model, arguments.folder), ("Origin", origin)])
    terminal.print_heading("Checks")
    terminal.print_fields(
        ("–" if check.startswith("Not checked") else "✓", check) for check in verdict.checks
    )


def make(arguments: argparse.Namespace) -> None:
    """Make a release of one dataset and print what was made and what it cost."""
    configuration = read_configuration(arguments.configfile)
    sources = configuration.get("sources") or {}
    configuration["datasets"] = [arguments.dataset]
    configuration["sources"] = {name: sources[name] for name in sources if name == arguments.dataset}
    asked = configuration.get("statistics")
    if isinstance(asked, dict):
        configuration["statistics"] = {name: asked[name] for name in asked if name == arguments.dataset}
    find_entry(
        arguments.dataset, configuration.get("catalog_dirs") or ["data/catalog"]
    )  # the clearest message first
    planned = plan.make_plan(configuration)
    restrict_new_files([planned.entries[arguments.dataset].visibility])
    settings = planned.settings
    if arguments.mechanism in settings.naive_releases:
        raise UserError(
            f"{arguments.mechanism} has no privacy guarantee; it is made only to be attacked. Release a private "
            f"mechanism, such as {next(name for name, each in planned.mechanisms.items() if each.private)}."
        )
    if arguments.mechanism not in planned.mechanisms:
        raise UserError(
            f"the configuration has no mechanism {arguments.mechanism!r}; "
            f"{suggest(arguments.mechanism, planned.mechanisms)}"
        )
    if not 0 < arguments.epsilon < math.inf:
        raise UserError(f"--epsilon {arguments.epsilon:g} must be greater than 0 and finite.")
    if float(format(arguments.epsilon, "g")) != arguments.epsilon:
        raise UserError(f"--epsilon {arguments.epsilon!r} has more than six digits; round it.")
    chosen = settings.mechanisms[arguments.mechanism]
    job = MechanismJob(
        name=arguments.mechanism,
        method=chosen.method,
        parameters=chosen.parameters,
        mechanism=planned.mechanisms[arguments.mechanism],
        budget=Budget(arguments.epsilon, settings.delta),
        components=settings.components_for(arguments.dataset),
        choice_share=settings.component_choice.budget_share,
        replicates=1,
        seed=None,
        censored=planned.censored_labels(arguments.dataset),
        statistics=planned.statistics(arguments.dataset),
        statistics_share=settings.statistics_share,
    )
    where = plan.Job(arguments.dataset, arguments.mechanism, arguments.epsilon)
    try:
        wanted = ReleasePaths(
            entry=planned.entry_paths[arguments.dataset],
            raw=Path(where.path(plan.RAW)),
            clean=ensure_clean(planned, arguments.dataset),
            output=arguments.out or Path(where.path(plan.RELEASE)),
            synthetic=arguments.synthetic,
            limit=SpendingLimit(settings.release.limit_epsilon, settings.release.limit_delta),
        )
        facts = release_dataset(job, wanted)
    except OSError as error:  # before the release; `make_release` reports its own
        file = f" ({error.filename})" if error.filename else ""
        raise UserError(
            f"{error.strerror or error}{file}; nothing was released, and nothing was spent. Free space or fix the "
            "permissions, then run again."
        ) from error
    terminal.print_success(f"Released {arguments.dataset}; the release passed all checks of privmix verify.")
    terminal.print_fields(facts)
    signer = signing.check_signature(wanted.output)
    terminal.print_next(
        f"read {wanted.output / CARD}, then publish the folder. Anyone can check it: privmix verify {wanted.output} "
        f"--signer {signer}"
    )


def ensure_clean(planned: plan.RunPlan, dataset: str) -> Path:
    """Return the path of the clean file of the dataset. Make it if it or its raw file is missing or out of date.

    A local source and its raw copy are compared by their content: an older file may replace a newer one.
    """
    entry, settings = planned.entries[dataset], planned.settings
    raw, path = (Path(pattern.format(dataset=dataset)) for pattern in (plan.RAW, plan.CLEAN))
    local, override = planned.local_source(dataset), settings.sources.get(dataset)
    if not raw.exists() or (local is not None and file_sha256(local) != file_sha256(raw)):
        acquire(entry, raw, Path(override) if override else None)
    if path.exists():
        info = read_clean_info(path)
        if info.entry_digest == entry.digest(*ENTRY_SECTIONS) and info.raw_sha256 == file_sha256(raw):
            return path
    clean(
        entry,
        raw,
        path,
        master_seed=settings.master_seed,
        key=load_or_create_key(KEY),
        overridden=override is not None,
    )
    return path
