"""`privmix catalog`: list, show and check the datasets of the catalog, and write its page."""

import argparse
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.text import Text

from privmix.catalog.entry import (
    Column,
    Entry,
    FileSource,
    PackageSource,
    UrlSource,
    describe_values,
    find_entries,
    find_entry,
    hide_password,
)
from privmix.catalog.sources import acquire
from privmix.cli import terminal
from privmix.cli.arguments import CATALOG, CONFIGURATION
from privmix.cli.terminal import Field
from privmix.errors import UserError

if TYPE_CHECKING:
    from privmix.artefacts.clean import RowCounts

HEADINGS = ("Name", "Rows", "Coordinates", "Unit", "Visibility", "Source")
FAR_OFF = 2  # a rough figure is far off if it differs from the true one by more than this factor
LONGEST_LISTING = 30  # letters of coordinate names; longer lists become a count


def list_datasets(arguments: argparse.Namespace) -> None:
    """Print one line per dataset, then report the entries that cannot be read."""
    folders = _folders(arguments)
    found, problems = find_entries(folders)
    if found:
        rows = [_cells(entry) for entry, _ in found]
        terminal.print_table(HEADINGS, rows, right=["Rows"], wrapped=["Coordinates"])
        if terminal.console().is_terminal:
            terminal.print_next("privmix catalog show NAME prints the whole entry of a dataset.")
    if problems:
        raise UserError("\n".join(problems))


def show_dataset(arguments: argparse.Namespace) -> None:
    """Print the whole entry of one dataset."""
    entry, path = find_entry(arguments.name, _folders(arguments))
    terminal.print_panel(entry.name, entry.title, entry.description)
    terminal.print_fields(field for field in _describe_entry(entry, path) if str(field[1]))
    coordinates = [entry.column(name) for name in entry.coordinates]
    others = [column for column in entry.columns if column.name not in entry.coordinates]
    for heading, columns in (("Coordinates", coordinates), ("Other columns", others)):
        if columns:
            terminal.print_heading(heading)
            terminal.print_fields((column.name, _describe_column(column)) for column in columns)
    if entry.caveats:
        terminal.print_heading("Caveats")
        terminal.print_fields(("-", caveat) for caveat in entry.caveats)


def check_dataset(arguments: argparse.Namespace) -> None:
    """Download and clean one dataset in a temporary folder, and print its counts."""
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
    terminal.print_success(f"{entry.name} can be used: {info.counts.kept:,} records.")
    terminal.print_fields(
        [*describe_counts(entry, info.counts), describe_expected(entry, info.counts, overridden)]
    )
    terminal.print_next(f"add {entry.name} to 'datasets' in {CONFIGURATION}.")


def write_page(arguments: argparse.Namespace) -> None:
    """Write the page and the Data Package of the catalog, then report the entries that cannot be read."""
    from privmix.cli.configuration import read_configuration
    from privmix.pipeline.catalog import write_catalog

    configuration = read_configuration(arguments.configfile)
    problems = write_catalog(configuration, arguments.catalog, arguments.html, arguments.package)
    terminal.print_success("The catalog is written.")
    terminal.print_fields([("Page", str(arguments.html)), ("Data Package", str(arguments.package))])
    if problems:
        raise UserError("\n".join(problems))


def describe_counts(entry: Entry, counts: "RowCounts") -> list[Field]:
    """Describe how many rows were read, dropped, clipped and kept."""
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in sorted(counts.dropped.items()))
    clipped = ", ".join(f"{number:,} in {column}" for column, number in sorted(counts.clipped.items()))
    persons = f"{counts.persons:,}"
    if entry.privacy.person_column is None:
        persons = "no person column; every row counts as one person"
    return [
        ("Rows", f"{counts.read:,} read, {counts.kept:,} kept"),
        ("Dropped", f"{sum(counts.dropped.values()):,}: {dropped}" if dropped else "none"),
        ("Clipped", f"{clipped} (values outside the public bounds)" if clipped else "none"),
        ("Persons", persons),
        ("Split", f"{counts.train:,} rows for training, {counts.holdout:,} held out"),
    ]


def describe_expected(entry: Entry, counts: "RowCounts", overridden: bool) -> Field:
    """Describe which counts of the entry were checked, and how far the file is from the others."""
    if overridden:
        return "Expected", "checksum and counts not checked, because a local file was given"
    expected, privacy = entry.expected, entry.privacy
    # `check_expected_counts` has compared the public figures. The others are rough.
    figures = (
        ("rows", expected.rows, counts.read, privacy.rows_are_public),
        ("persons", expected.persons, counts.persons, privacy.relation == "replace_one"),
    )
    checked = ", ".join(f"{stated:,} {what}" for what, stated, _, public in figures if stated and public)
    rough = [
        _compare_rough(what, stated, found)
        for what, stated, found, public in figures
        if stated and not public
    ]
    sentences = [*([f"{checked}, as found"] if checked else []), *rough]
    return "Expected", ". ".join(sentences) or "the entry states no counts"


def _compare_rough(what: str, stated: int, found: int) -> str:
    """Compare a rough public figure with the file. Only the curator sees the true number."""
    sentence = f"About {stated:,} {what}: a rough public figure that is not checked, because the true number is private"
    if max(stated, found) <= FAR_OFF * min(stated, found):
        return f"{sentence}. This file has {found:,}"
    return (
        f"{sentence}. It is far off: this file has {found:,}. Mechanisms use the rough figure, so correct "
        f"expected.{what}, but from public knowledge and not from this file"
    )


def _folders(arguments: argparse.Namespace) -> list[str]:
    return arguments.catalog or [CATALOG]


def _cells(entry: Entry) -> tuple[str, ...]:
    rows = "unknown" if entry.expected.rows is None else f"{entry.expected.rows:,}"
    coordinates = ", ".join(entry.coordinates)
    if len(coordinates) > LONGEST_LISTING:
        coordinates = f"{len(entry.coordinates)} columns"
    return (entry.name, rows, coordinates, entry.privacy.unit, entry.visibility, _origin(entry))


def _origin(entry: Entry) -> str:
    source = entry.source
    if isinstance(source, UrlSource):
        return urlsplit(source.url).netloc.rpartition("@")[2]
    if isinstance(source, FileSource):
        return f"file {source.path}"
    if isinstance(source, PackageSource):
        return f"package {source.package}"
    return f"generator {source.generator}"


def _describe_entry(entry: Entry, path: Path) -> Iterator[Field]:
    yield "Visibility", entry.visibility
    yield "Privacy", _privacy(entry)
    yield "", entry.privacy.note
    yield "Attributes", ", ".join(entry.attributes)
    if entry.roles is not None:
        yield "Attackers know", ", ".join(entry.roles.quasi_identifiers)
        yield "Sensitive", ", ".join(entry.roles.sensitive)
    yield "Expected", _expected(entry)
    yield "Isolated", ", ".join(entry.isolated)
    yield "Keywords", ", ".join(entry.keywords)
    yield (
        "Licence",
        Text(f"{entry.licence.spdx} ").append_text(terminal.link(hide_password(entry.licence.url))),
    )
    yield "Citation", entry.citation
    yield "Homepage", terminal.link(hide_password(entry.homepage))
    yield "Source", _source(entry)
    yield "Reader", _reader(entry)
    yield "Entry", str(path)


def _privacy(entry: Entry) -> str:
    from privmix.report.format import neighbours

    privacy = entry.privacy
    protects = neighbours(privacy.unit, privacy.relation)
    most = f", at most {privacy.max_records_per_person:,} records each" if privacy.unit == "person" else ""
    persons = f"persons in column {privacy.person_column}" if privacy.person_column else "no person column"
    return f"{privacy.unit} level: {protects} ({privacy.relation}); {persons}{most}"


def _expected(entry: Entry) -> str:
    figures = (("rows", entry.expected.rows), ("persons", entry.expected.persons))
    return ", ".join(f"{figure:,} {what}" for what, figure in figures if figure is not None)


def _source(entry: Entry) -> str:
    content = entry.source.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    lines = (
        f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in content.items()
    )
    return hide_password("\n".join(lines))


def _reader(entry: Entry) -> str:
    reader = entry.reader
    delimiter = f", delimiter {reader.delimiter!r}" if reader.format == "csv" else ""
    repeats = ", repeated rows dropped" if reader.drop_duplicates else ""
    return f"{reader.format}{delimiter}{repeats}; tolerates {100 * reader.tolerated_bad_share:.4g} % bad rows"


def _describe_column(column: Column) -> Text:
    facts: list[str] = [column.type]
    if column.lower is not None:
        facts.append(describe_values(column))
    if column.resolution is not None:
        facts.append(f"resolution {column.resolution:g}")
    if column.geographic:
        facts.append(f"geographic {column.geographic}")
    text = Text(", ".join(facts))
    text.append(f"\n{column.description}")
    if column.listed:
        text.append(f"\nValues: {describe_values(column)}")
    if column.bound_reason:
        text.append(f"\nBounds: {column.bound_reason}", style="dim")
    return text
