"""`privmix catalog list | show NAME | check NAME | page`: the data catalog on the command line."""

import argparse
import secrets
import tempfile
from pathlib import Path
from typing import Any

from privmix.artefacts.clean import RowCounts
from privmix.catalog.entry import Entry, find_entries, find_entry, read_yaml
from privmix.catalog.sources import acquire
from privmix.cli.catalog_text import format_entry, format_table
from privmix.errors import UserError

DEFAULT_FOLDER = "data/catalog"
DEFAULT_CONFIGURATION = Path("config/config.yaml")


def add_parser(commands: Any) -> None:
    """Register the sub-command with argparse's sub-parsers."""
    catalog = commands.add_parser("catalog", help="list, show, check and browse the datasets")
    verbs = catalog.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_verb(verbs, "list", _list, "one line per dataset")
    _add_verb(verbs, "show", _show, "all that is known of one dataset").add_argument("name", metavar="NAME")
    check = _add_verb(verbs, "check", _check, "get a dataset, clean it, and count its rows")
    check.add_argument("name", metavar="NAME")
    check.add_argument(
        "--source", type=Path, metavar="PATH", help="local file to read instead; expected counts are skipped"
    )
    browsed = _add_verb(verbs, "page", _page, "write the catalog as a page and as a Data Package")
    browsed.add_argument(
        "--configuration", type=Path, default=DEFAULT_CONFIGURATION, metavar="FILE",
        help=f"run whose files the page shows (default: {DEFAULT_CONFIGURATION})",
    )  # fmt: skip
    browsed.add_argument("--html", type=Path, default=Path("reports/catalog.html"), metavar="FILE")
    browsed.add_argument("--package", type=Path, default=Path("data/datapackage.json"), metavar="FILE")


def _add_verb(verbs: Any, name: str, call: Any, summary: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=summary, description=summary)
    parser.add_argument(
        "--catalog",
        action="append",
        metavar="DIR",
        help=f"folder of catalog entries; may be given several times, later ones win (default: {DEFAULT_FOLDER})",
    )
    parser.set_defaults(call=call)
    return parser


def _folders(arguments: argparse.Namespace) -> list[str]:
    return arguments.catalog or [DEFAULT_FOLDER]


def _list(arguments: argparse.Namespace) -> None:
    found, problems = find_entries(_folders(arguments))
    if found:
        print(format_table([entry for entry, _ in found]), flush=True)
    if problems:
        raise UserError("\n".join(problems))


def _show(arguments: argparse.Namespace) -> None:
    entry, path = find_entry(arguments.name, _folders(arguments))
    print(format_entry(entry, path))


def _check(arguments: argparse.Namespace) -> None:
    from privmix.clean.pipeline import clean

    entry, _ = find_entry(arguments.name, _folders(arguments))
    overridden = arguments.source is not None
    with tempfile.TemporaryDirectory(prefix="privmix-check-") as folder:
        raw = Path(folder) / f"{entry.name}.raw"
        acquire(entry, raw, arguments.source)
        info = clean(
            entry,
            raw,
            Path(folder) / f"{entry.name}.parquet",
            master_seed=0,
            key=secrets.token_bytes(32),
            overridden=overridden,
        )
    print(describe_counts(entry, info.counts))
    print(_describe_expected(entry, overridden))


def _page(arguments: argparse.Namespace) -> None:
    from privmix.pipeline.catalog import write_catalog

    configuration = read_yaml(arguments.configuration, "configuration")
    if not isinstance(configuration, dict):
        raise UserError(
            f"{arguments.configuration}: a configuration is a mapping of keys to values, such as `datasets: [mine]`."
        )
    problems = write_catalog(configuration, arguments.catalog, arguments.html, arguments.package)
    print(f"The catalog is {arguments.html}, and for programs {arguments.package}", flush=True)
    if problems:
        raise UserError("\n".join(problems))


def describe_counts(entry: Entry, counts: RowCounts) -> str:
    """What became of the rows, in sentences."""
    lines = [f"{entry.name}: {counts.read:,} rows read, {counts.kept:,} kept."]
    if counts.dropped:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in sorted(counts.dropped.items()))
        lines.append(f"Dropped {sum(counts.dropped.values()):,}: {reasons}.")
    else:
        lines.append("No row was dropped.")
    if counts.clipped:
        columns = ", ".join(f"{number:,} in {column}" for column, number in sorted(counts.clipped.items()))
        lines.append(f"Clipped to the public bounds: {columns}.")
    else:
        lines.append("No value was out of its public bounds.")
    if entry.privacy.person_column is None:
        lines.append("There is no person column: every row counts as its own person.")
    else:
        lines.append(f"{counts.persons:,} people.")
    lines.append(f"{counts.train:,} rows for training, {counts.holdout:,} held out.")
    return "\n".join(lines)


def _describe_expected(entry: Entry, overridden: bool) -> str:
    known = [
        f"{figure:,} {what}"
        for what, figure in (("rows", entry.expected.rows), ("people", entry.expected.persons))
        if figure is not None
    ]
    if overridden:
        return "Checksum and expected counts were not checked, because a local file was given."
    if not known:
        return "The entry states no expected counts."
    return f"That is what the entry expects: {' and '.join(known)}."
