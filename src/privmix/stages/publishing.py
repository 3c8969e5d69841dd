"""`privmix release` and `privmix verify`: from the configuration of a run to a release, and its check by anybody."""

import argparse
from pathlib import Path
from typing import Any

import yaml
from snakemake.utils import update_config

from privmix import sweep
from privmix.artefacts.clean import clean_info
from privmix.catalog.acquire import acquire
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.pipeline import clean
from privmix.clean.pseudonyms import secret_key
from privmix.errors import UserError, nearest
from privmix.privacy.accounting import Budget
from privmix.publish import checks
from privmix.publish.spending import Limit
from privmix.stages.job import Job
from privmix.stages.release import Wanted, carry_out

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
    release.add_argument("--out", type=Path, metavar="DIR", help=f"default: {sweep.RELEASE}")
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
    print(checks.summary(checks.verify(arguments.folder), arguments.folder))


def _release(arguments: argparse.Namespace) -> None:
    planned = sweep.plan(laid_over(CONFIGURATION, arguments.configfile, arguments.dataset))
    settings = planned.settings
    if arguments.mechanism not in planned.mechanisms:
        raise UserError(
            f"the configuration has no mechanism {arguments.mechanism!r}; "
            f"{nearest(arguments.mechanism, planned.mechanisms)}"
        )
    if float(format(arguments.epsilon, "g")) != arguments.epsilon:
        raise UserError(f"--epsilon {arguments.epsilon!r} has more than the six digits that file names keep.")
    chosen = settings.mechanisms[arguments.mechanism]
    job = Job(
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
    where = sweep.Job(arguments.dataset, arguments.mechanism, arguments.epsilon)
    wanted = Wanted(
        entry=planned.entry_paths[arguments.dataset],
        clean=cleaned(planned, arguments.dataset),
        output=arguments.out or Path(where.path(sweep.RELEASE)),
        synthetic=arguments.synthetic,
        limit=Limit(settings.release.limit_epsilon, settings.release.limit_delta),
        accounts=Path(settings.release.accounts),
    )
    carry_out(job, wanted)


def laid_over(first: Path, second: Path | None, dataset: str) -> dict[str, Any]:
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


def cleaned(planned: sweep.Sweep, dataset: str) -> Path:
    """The clean file of the dataset, as the pipeline makes it; made here where it is missing or old."""
    entry, settings = planned.entries[dataset], planned.settings
    raw, path = (Path(pattern.format(dataset=dataset)) for pattern in (sweep.RAW, sweep.CLEAN))
    local, override = planned.local_source(dataset), settings.sources.get(dataset)
    newer = local is not None and path.exists() and local.stat().st_mtime > path.stat().st_mtime
    if path.exists() and not newer and clean_info(path).entry_digest == entry.digest(*ENTRY_SECTIONS):
        return path
    if newer or not raw.exists():
        acquire(entry, raw, Path(override) if override else None)
    clean(
        entry,
        raw,
        path,
        master_seed=settings.master_seed,
        key=secret_key(KEY),
        overridden=override is not None,
    )
    return path
