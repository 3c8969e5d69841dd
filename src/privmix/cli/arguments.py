"""The arguments of `privmix`: commands, options, defaults and help texts.

The modules of the commands are imported only when a command runs, so `--help` answers at once.
"""

import argparse
import importlib
import importlib.metadata
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

Call = Callable[[argparse.Namespace], None]

CATALOG = "data/catalog"
CONFIGURATION = Path("config/config.yaml")
CATALOG_PAGE, DATA_PACKAGE = Path("reports/catalog.html"), Path("data/datapackage.json")

MAIN_EPILOG = """
    Run 'privmix COMMAND --help' for the options of a command.
    Snakemake runs the comparison of mechanisms and writes the report:
    'snakemake --cores all reports/summary.html'.

    examples:
      privmix catalog list
      privmix release mpls_stops --mechanism noisy_tree --epsilon 1
      privmix verify releases/mpls_stops/noisy_tree/eps-1
"""
RELEASE = """
    Fit one private model to a dataset and write a folder that you can publish.

    The folder holds the model, its model card, an HTML page, synthetic rows (CSV
    and Parquet), checksums and a signature. With a local mechanism, it also holds the
    randomised reports of the records. The noise comes from the operating system,
    so a release cannot be repeated. The command audits the run before it writes
    the folder.

    Each release spends privacy budget. The spending account of the project adds up
    all releases that share records or persons, and a release above the limit is
    refused. δ, the limit and the parameters of the mechanism come from the
    configuration.
"""
VERIFY = """
    Check that a folder is a complete release that agrees with itself.

    The command computes again what follows from other parts of the folder: the
    ledger from the public plan of the mechanism, (ε, δ) from the ledger with two
    accountants, the synthetic rows from the model and their seed, the model card
    and the page. It refuses everything that has another form than a release. It
    lists what was checked. It needs no records and changes nothing.

    With --signer it also proves that the holder of that key made the folder.
    Without it, someone may have invented a folder that agrees with itself. The
    exit status is 0 if every check passes, and 1 otherwise.
"""
EPSILON = """
    Find the smallest ε with which a published number is as accurate as you wish.

    The answer follows by formula from public values: bounds, the number of records
    and the privacy unit. The command reads no record, so it costs no ε, and it
    writes nothing. The distance is between the published number and the number of
    the records, not of the population that they come from.
"""
BROWSE = """
    List, show and check the datasets of the catalog, or write them as a page.

    Only 'page' leaves files behind; the other commands print to the terminal.
"""
LIST = """
    List the datasets of the catalog, one line per dataset.

    The command writes nothing and downloads nothing.
"""
SHOW = """
    Show the catalog entry of one dataset, with its source, columns and privacy unit.

    The command writes nothing and downloads nothing.
"""
CHECK = """
    Fetch one dataset, clean it, and print its counts.

    If the catalog entry states a checksum or counts, the command compares them. It
    works in a temporary folder and deletes it at the end.
"""
PAGE = """
    Write the catalog as an HTML page to browse and as a Data Package for programs.
"""
SCHEMA = """
    Print the JSON Schema of a configuration file or of a catalog entry.

    Editors use the schema for completion and validation. The command writes to
    stdout only.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `privmix`. The parsed `call` runs the command."""
    parser = argparse.ArgumentParser(
        prog="privmix",
        description="Fit and publish Gaussian mixtures with differential privacy.",
        epilog=textwrap.dedent(MAIN_EPILOG).strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"privmix {importlib.metadata.version('privmix')}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_catalog(commands)
    _add_release(commands)
    _add_verify(commands)
    _add_epsilon(commands)
    _add_schema(commands)
    return parser


def _add_catalog(commands: "SubParsers") -> None:
    summary = "list, show and check the datasets, or write them as a page"
    catalog = _add(commands, "catalog", summary, BROWSE, "privmix catalog list")
    verbs = catalog.add_subparsers(dest="verb", required=True, metavar="COMMAND", title="commands")
    listing = _add(verbs, "list", "list the datasets, one line each", LIST, "privmix catalog list")
    _add_folders(listing, CATALOG)
    listing.set_defaults(call=_lazy("catalog", "list_datasets"))

    show = _add(
        verbs, "show", "show the catalog entry of one dataset", SHOW, "privmix catalog show mpls_stops"
    )
    _add_dataset(show)
    _add_folders(show, CATALOG)
    show.set_defaults(call=_lazy("catalog", "show_dataset"))

    check = _add(
        verbs, "check", "fetch and clean a dataset, and compare its counts with its entry", CHECK,
        "privmix catalog check checkins\n  privmix catalog check gowalla --source checkins.txt",
    )  # fmt: skip
    _add_dataset(check)
    check.add_argument(
        "--source",
        type=Path,
        metavar="PATH",
        help="local file to read instead of the source of the entry; the command then only cleans it and prints its "
        "counts",
    )
    _add_folders(check, CATALOG)
    check.set_defaults(call=_lazy("catalog", "check_dataset"))

    page = _add(
        verbs, "page", "write the catalog as an HTML page and a Data Package", PAGE,
        "privmix catalog page --html catalog.html",
    )  # fmt: skip
    _add_configfile(page)
    page.add_argument(
        "--html", type=Path, default=CATALOG_PAGE, metavar="FILE",
        help="page to write (default: %(default)s)",
    )  # fmt: skip
    page.add_argument(
        "--package", type=Path, default=DATA_PACKAGE, metavar="FILE",
        help="Data Package descriptor to write (default: %(default)s)",
    )  # fmt: skip
    _add_folders(page, "catalog_dirs of the configuration")
    page.set_defaults(call=_lazy("catalog", "write_page"))


def _add_release(commands: "SubParsers") -> None:
    release = _add(
        commands, "release", "fit one private model and write a folder to publish", RELEASE,
        "privmix release mpls_stops --mechanism noisy_tree --epsilon 1 --synthetic 50000",
    )  # fmt: skip
    release.add_argument("dataset", metavar="DATASET", help="name of the dataset in the catalog")
    release.add_argument(
        "--mechanism", required=True, metavar="ID", help="id of the mechanism in the configuration"
    )
    release.add_argument(
        "--epsilon", required=True, type=float, metavar="E", help="ε that the release may spend"
    )
    release.add_argument(
        "--synthetic", type=int, metavar="N",
        help="number of synthetic rows (default: the number of records, as far as it is public)",
    )  # fmt: skip
    release.add_argument(
        "--out", type=Path, metavar="DIR",
        help="folder to write; it must be new or empty (default: releases/DATASET/ID/eps-E)",
    )  # fmt: skip
    _add_configfile(release)
    release.set_defaults(call=_lazy("release", "make"))


def _add_verify(commands: "SubParsers") -> None:
    verify = _add(
        commands, "verify", "check a release folder; no records are needed", VERIFY,
        "privmix verify releases/mpls_stops/noisy_tree/eps-1",
    )  # fmt: skip
    verify.add_argument("folder", type=Path, metavar="DIR", help="folder that 'privmix release' has written")
    verify.add_argument(
        "--signer", metavar="KEY",
        help="public key of the curator, as 64 hexadecimal digits or as a file that holds them (default: none; the "
        "origin is then not proven)",
    )  # fmt: skip
    verify.set_defaults(call=_lazy("release", "verify"))


def _add_epsilon(commands: "SubParsers") -> None:
    epsilon = _add(
        commands, "epsilon", "find the smallest ε for a wished accuracy; no records are needed", EPSILON,
        "privmix epsilon --mean --lower 0 --upper 120 --rows 20000 --within 0.5\n"
        "  privmix epsilon --largest-of 10000 --within 12.2 --relation add_remove\n"
        "  privmix epsilon --mean --dataset mpls_stops --column lat --within 0.001",
    )  # fmt: skip
    number = epsilon.add_mutually_exclusive_group(required=True)
    number.add_argument("--mean", action="store_true", help="the mean of a column with public bounds")
    number.add_argument("--count", action="store_true", help="the number of records with a property")
    number.add_argument(
        "--largest-of",
        type=int,
        metavar="K",
        help="all K counts of a table, in which a record is in one cell",
    )
    epsilon.add_argument(
        "--within", type=float, required=True, metavar="T", help="largest distance, in the unit of the number"
    )
    epsilon.add_argument(
        "--probability", type=float, default=0.95, metavar="P",
        help="probability that the distance holds (default: %(default)s)",
    )  # fmt: skip
    epsilon.add_argument("--lower", type=float, metavar="X", help="public lower bound of the column")
    epsilon.add_argument("--upper", type=float, metavar="X", help="public upper bound of the column")
    epsilon.add_argument("--rows", type=int, metavar="N", help="public number of records")
    epsilon.add_argument(
        "--unit", choices=["record", "person"], help="what ε protects (default: record, or the dataset's)"
    )
    epsilon.add_argument(
        "--max-records", type=int, metavar="M", help="most records of one person, with --unit person"
    )
    epsilon.add_argument(
        "--relation", choices=["replace_one", "add_remove"],
        help="how neighbouring datasets differ (default: replace_one, or the dataset's)",
    )  # fmt: skip
    epsilon.add_argument(
        "--share", type=float, default=1.0, metavar="S",
        help="share of ε that this number gets; the rest is for others (default: 1)",
    )  # fmt: skip
    epsilon.add_argument(
        "--dataset", metavar="NAME", help="dataset of the catalog; its entry gives what you do not state"
    )
    epsilon.add_argument("--column", metavar="NAME", help="column of the dataset, for --mean")
    _add_folders(epsilon, CATALOG)
    epsilon.set_defaults(call=_lazy("epsilon", "answer"))


def _add_schema(commands: "SubParsers") -> None:
    schema = _add(
        commands, "schema", "print the JSON Schema of a configuration or catalog entry", SCHEMA,
        "privmix schema configuration > config/schema.json",
    )  # fmt: skip
    schema.add_argument("file", choices=["configuration", "entry"], help="kind of file")
    schema.set_defaults(call=_lazy("schema", "print_schema"))


def _add(
    parsers: "SubParsers", name: str, summary: str, description: str, example: str
) -> argparse.ArgumentParser:
    """Add a sub-parser with a description and an example."""
    return parsers.add_parser(
        name,
        help=summary,
        description=textwrap.dedent(description).strip(),
        epilog=f"example{'s' if chr(10) in example else ''}:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the dataset in the catalog")


def _add_configfile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--configfile", type=Path, metavar="FILE",
        help=f"configuration that overrides {CONFIGURATION} key by key, as in Snakemake (default: none)",
    )  # fmt: skip


def _add_folders(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--catalog",
        action="append",
        metavar="DIR",
        help="folder of catalog entries; repeat the option for several folders. If two define the same dataset, the "
        f"last folder wins (default: {default})",
    )


def _lazy(module: str, function: str) -> Call:
    """Return a call of `privmix.cli.<module>.<function>` that imports the module first."""

    def call(arguments: argparse.Namespace) -> None:
        getattr(importlib.import_module(f"privmix.cli.{module}"), function)(arguments)

    return call
