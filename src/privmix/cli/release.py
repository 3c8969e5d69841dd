"""`privmix release` and `privmix verify`: make a release from the configuration of a run, and check one."""

import argparse
from pathlib import Path
from typing import Any

import yaml
from snakemake.utils import update_config

from privmix.artefacts.clean import read_clean_info
from privmix.catalog.sources import acquire
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.persons import load_or_create_key
from privmix.clean.pipeline import clean
from privmix.errors import UserError, suggest
from privmix.mechanisms.run import MechanismJob
from privmix.pipeline import plan
from privmix.pipeline.release import ReleasePaths, release_dataset
from privmix.privacy.accounting import Budget
from privmix.release import verify as verification
from privmix.release.account import SpendingLimit

CONFIGURATION = Path("config/config.yaml")
KEY = Path("data/.pseudonym.key")


def add_parsers(commands: Any) -> None:
    """Register both sub-commands with argparse's sub-parsers."""
    release = commands.add_parser("release", help="make one model of a dataset that may be published")
    release.add_argument("dataset", metavar="DATASET")
    release.add_argument("--mechanism", required=True, metavar="ID", help="its id in the configuration")
    release.add_argument("--epsilon", required=True, type=float, metavar="E")
    release.add_argument(
        "--synthetic", type=int, metavar="N", help="rows of synthetic data; as many as records unless told"
    )
    release.add_argument("--out", type=Path, metavar="DIR", help=f"default: {plan.RELEASE}")
    release.add_argument(
        "--configfile",
        type=Path,
        metavar="FILE",
        help=f"configuration laid over {CONFIGURATION}, as for Snakemake",
    )
    release.set_defaults(call=_release)
    verify = commands.add_parser(
        "verify", help="check a release: files, claim, and that nothing else is in it"
    )
    verify.add_argument("folder", type=Path, metavar="DIR")
    verify.set_defaults(call=_verify)


def _verify(arguments: argparse.Namespace) -> None:
    print(verification.summary(verification.verify(arguments.folder), arguments.folder))


def _release(arguments: argparse.Namespace) -> None:
    planned = plan.make_plan(read_configuration(CONFIGURATION, arguments.configfile, arguments.dataset))
    settings = planned.settings
    if arguments.mechanism not in planned.mechanisms:
        raise UserError(
            f"the configuration has no mechanism {arguments.mechanism!r}; "
            f"{suggest(arguments.mechanism, planned.mechanisms)}"
        )
    if float(format(arguments.epsilon, "g")) != arguments.epsilon:
        raise UserError(f"--epsilon {arguments.epsilon!r} has more than the six digits that file names keep.")
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
    )
    where = plan.Job(arguments.dataset, arguments.mechanism, arguments.epsilon)
    wanted = ReleasePaths(
        entry=planned.entry_paths[arguments.dataset],
        clean=ensure_clean(planned, arguments.dataset),
        output=arguments.out or Path(where.path(plan.RELEASE)),
        synthetic=arguments.synthetic,
        limit=SpendingLimit(settings.release.limit_epsilon, settings.release.limit_delta),
        accounts=Path(settings.release.accounts),
    )
    release_dataset(job, wanted)


def read_configuration(first: Path, second: Path | None, dataset: str) -> dict[str, Any]:
    """The configuration of one dataset: the default file, overlaid with another one by Snakemake's own function."""
    configuration: dict[str, Any] = {}
    for path in filter(None, (first, second)):
        try:
            update_config(configuration, yaml.safe_load(path.read_text(encoding="utf-8")) or {})
        except OSError as error:
            raise UserError(
                f"the configuration {path} cannot be read ({error.strerror}); run this where the project is, "
                "or name it with --configfile."
            ) from error
        except yaml.YAMLError as error:
            raise UserError(f"the configuration {path} is no YAML ({error}); mend it.") from error
    sources = configuration.get("sources") or {}
    configuration["datasets"] = [dataset]
    configuration["sources"] = {dataset: sources[dataset]} if dataset in sources else {}
    return configuration


def ensure_clean(planned: plan.RunPlan, dataset: str) -> Path:
    """The clean file of the dataset, as the pipeline makes it; made here where it is missing or old."""
    entry, settings = planned.entries[dataset], planned.settings
    raw, path = (Path(pattern.format(dataset=dataset)) for pattern in (plan.RAW, plan.CLEAN))
    local, override = planned.local_source(dataset), settings.sources.get(dataset)
    newer = local is not None and path.exists() and local.stat().st_mtime > path.stat().st_mtime
    if path.exists() and not newer and read_clean_info(path).entry_digest == entry.digest(*ENTRY_SECTIONS):
        return path
    if newer or not raw.exists():
        acquire(entry, raw, Path(override) if override else None)
    clean(
        entry,
        raw,
        path,
        master_seed=settings.master_seed,
        key=load_or_create_key(KEY),
        overridden=override is not None,
    )
    return path
