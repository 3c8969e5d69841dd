"""Catalog entries as text for a terminal: one line each, or everything about one."""

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from privmix.catalog.entry import Column, Entry, FileSource, PackageSource, UrlSource

HEADINGS = ("NAME", "ROWS", "COORDINATES", "UNIT", "VISIBILITY", "SOURCE")
WIDEST = 100
MARGIN = 15


def format_table(entries: Sequence[Entry]) -> str:
    """An aligned table, one line per entry."""
    rows = [HEADINGS, *(_cells(entry) for entry in entries)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    return "\n".join("  ".join(_align(row, widths)).rstrip() for row in rows)


def format_entry(entry: Entry, path: Path) -> str:
    """Everything that the entry says."""
    coordinates, rest = _split_columns(entry)
    sections = [
        ("Name", [entry.name]),
        ("Title", [entry.title]),
        ("Description", [entry.description]),
        ("Keywords", [", ".join(entry.keywords)]),
        ("Licence", [f"{entry.licence.spdx} {entry.licence.url}".strip()]),
        ("Citation", [entry.citation]),
        ("Homepage", [entry.homepage]),
        ("Source", _source_lines(entry)),
        ("Reader", [_reader(entry)]),
        ("Coordinates", [_column(column) for column in coordinates]),
        ("Other columns", [_column(column) for column in rest]),
        ("Attributes", [", ".join(entry.attributes)]),
        ("Privacy", _privacy_lines(entry)),
        ("Expected", [_expected(entry)]),
        ("Visibility", [entry.visibility]),
        ("Isolated", [", ".join(entry.isolated)]),
        ("Caveats", [f"- {caveat}" for caveat in entry.caveats]),
        ("Entry", [str(path)]),
    ]
    return "\n".join(
        _section(title, [line for line in lines if line]) for title, lines in sections if any(lines)
    )


def _cells(entry: Entry) -> tuple[str, ...]:
    rows = "?" if entry.expected.rows is None else f"{entry.expected.rows:,}"
    shown = ", ".join(entry.coordinates)
    if len(shown) > 30:
        shown = f"{len(entry.coordinates)} columns"
    return (entry.name, rows, shown, entry.privacy.unit, entry.visibility, _origin(entry))


def _origin(entry: Entry) -> str:
    source = entry.source
    if isinstance(source, UrlSource):
        return urlsplit(source.url).netloc
    if isinstance(source, FileSource):
        return f"file {source.path}"
    if isinstance(source, PackageSource):
        return f"package {source.package}"
    return f"generator, seed {source.seed}"


def _align(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if heading == "ROWS" else cell.ljust(width)
        for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
    ]


def _split_columns(entry: Entry) -> tuple[list[Column], list[Column]]:
    coordinates = [entry.column(name) for name in entry.coordinates]
    return coordinates, [column for column in entry.columns if column.name not in entry.coordinates]


def _column(column: Column) -> str:
    text = f"{column.name} ({column.type}): {column.description}"
    if column.geographic:
        text += f" Geographic {column.geographic}."
    if column.lower is not None and column.upper is not None:
        unit = f" {column.unit}" if column.unit else ""
        text += f" From {column.lower:g} to {column.upper:g}{unit}."
        text += f" Why: {column.bound_reason}" if column.bound_reason else ""
    if column.resolution is not None:
        text += f" Resolution {column.resolution:g}."
    if column.values:
        text += f" Values: {', '.join(column.values)}."
    if column.missing is not None:
        text += f" Missing counts as {column.missing}."
    return text


def _source_lines(entry: Entry) -> list[str]:
    content = entry.source.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return [
        f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in content.items()
    ]


def _reader(entry: Entry) -> str:
    reader = entry.reader
    delimiter = f", delimiter {reader.delimiter!r}" if reader.format == "csv" else ""
    repeats = ", repeated rows dropped" if reader.drop_duplicates else ""
    return f"{reader.format}{delimiter}{repeats}; at most {reader.tolerated_bad_share:.4g} of the rows unreadable"


def _privacy_lines(entry: Entry) -> list[str]:
    privacy = entry.privacy
    person = f", people by column {privacy.person_column}" if privacy.person_column else ", no person column"
    most = f", at most {privacy.max_records_per_person:,} records each" if privacy.unit == "person" else ""
    return [f"unit {privacy.unit}, relation {privacy.relation}{person}{most}", privacy.note]


def _expected(entry: Entry) -> str:
    figures = (("rows", entry.expected.rows), ("people", entry.expected.persons))
    return ", ".join(f"{figure:,} {what}" for what, figure in figures if figure is not None)


def _section(title: str, lines: list[str]) -> str:
    wrapper = textwrap.TextWrapper(
        width=min(shutil.get_terminal_size().columns, WIDEST),
        initial_indent=" " * MARGIN,
        subsequent_indent=" " * (MARGIN + 2),
        break_on_hyphens=False,
        break_long_words=False,  # a URL must stay whole to be copied
    )
    text = "\n".join(map(wrapper.fill, lines))
    return f"{title:<{MARGIN}}{text[MARGIN:]}"
