"""What all readers share: open the raw file, yield batches of rows, check each value against the entry.

A reader yields the rows as they stand in the file (`RawBatch`); `read_batches` converts them to finite numbers,
category codes and identifiers (`Batch`). Every unreadable row is kept with its reason and line. White space around a
field is ignored. A row is good if each of its declared columns is; only an identifier that is not the person column
may be empty.
"""

import contextlib
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmix.artefacts.io import GZIP_MAGIC
from privmix.catalog.entry import Column, Entry
from privmix.errors import UserError, suggest

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def open_raw(path: Path) -> Iterator[BinaryIO]:
    """A stream over the unpacked content of `path`."""
    if not Path(path).is_file():
        raise UserError(f"{path} is not a file; download the dataset, or mend the path.")
    with Path(path).open("rb") as stream:
        if stream.peek(1) == b"":
            raise UserError(f"{path} is empty; a header or rows were expected, download it again.")
        if stream.peek(2)[:2] != GZIP_MAGIC:
            yield stream
            return
        try:
            with gzip.open(stream) as unpacked:
                yield unpacked
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"{path} is a broken gzip file ({error}); it is likely cut short, download it again."
            ) from error


def check_utf8(block: bytes, path: Path, offset: int, line: int) -> None:
    """Raise with byte offset and line unless `block`, which starts at `offset` in `line`, is UTF-8."""
    if block.isascii():
        return
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        raise UserError(
            f"{path} is not UTF-8 text: byte 0x{block[error.start]:02x} at offset {offset + error.start}, "
            f"line {line}; save the file as UTF-8."
        ) from error


WRONG_FIELD_COUNT = "wrong field count"
BROKEN_LINE = "broken quotes or line end"
MISSING_VALUE = "missing value"
NOT_A_NUMBER = "not a number"
UNKNOWN_CATEGORY = "unknown category"

_SHOWN_CHARACTERS = 100  # characters of a bad line that are worth showing


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read. `line` counts from 1 in the unpacked file."""

    line: int
    reason: str
    text: str
    column: str | None = None


@dataclass(frozen=True)
class RawBatch:
    """Rows as they stand in the file: text, or what a typed format stores."""

    columns: dict[str, pa.Array]
    lines: np.ndarray  # (n,) int64
    bad: list[BadRow]
    text: Callable[[int], str]  # index of a row in this batch -> the row as it stands in the file


@dataclass(frozen=True)
class Batch:
    """Rows whose declared columns all hold what the catalog entry declares."""

    numbers: dict[str, np.ndarray]  # (n,) float64, finite
    codes: dict[str, np.ndarray]  # (n,) int16, index in the column's public values
    identifiers: dict[str, pa.Array]  # (n,) text
    lines: np.ndarray  # (n,) int64, 1-based line of the unpacked file (row of a Parquet file)
    bad: list[BadRow]

    @property
    def read(self) -> int:
        """Rows of the file behind this batch, good and bad."""
        return len(self.lines) + len(self.bad)


def shorten(text: str) -> str:
    """The start of a line, for a message."""
    text = text.rstrip("\r\n")
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def column_positions(entry: Entry, names: Iterable[str], path: Path) -> dict[str, int]:
    """Where each declared column stands among the `names` of the file."""
    names = list(names)
    for column in entry.columns:
        if column.name not in names:
            raise UserError(
                f"{path}: column {column.name!r} of the catalog entry {entry.name!r} is not in the file, "
                f"which has {', '.join(map(repr, names))}; {suggest(column.name, names)}"
            )
        if names.count(column.name) > 1:
            raise UserError(f"{path}: two columns are named {column.name!r}; rename one of them.")
    return {column.name: names.index(column.name) for column in entry.columns}


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def convert_batch(raw: RawBatch, entry: Entry) -> Batch:
    """The good rows of `raw` as values; the others join its bad rows, in the order of lines."""
    faults = _Faults(len(raw.lines))
    values: dict[str, np.ndarray | pa.Array] = {}
    for column in entry.columns:
        field = raw.columns[column.name]
        if pa.types.is_string(field.type):
            field = pc.fill_null(pc.utf8_trim_whitespace(field), "")
        if column.type == "number":
            values[column.name] = _numbers(column, field, faults)
        elif column.type == "category":
            values[column.name] = _codes(column, field, faults)
        else:
            if column.name == entry.privacy.person_column:
                faults.add(column, MISSING_VALUE, _is_empty(field))
            values[column.name] = field
    bad = [
        BadRow(int(raw.lines[row]), faults.reasons[code][1], raw.text(row), faults.reasons[code][0])
        for row, code in faults.found()
    ]
    if bad:
        keep = faults.first < 0
        mask = pa.array(keep)
        values = {n: v.filter(mask) if isinstance(v, pa.Array) else v[keep] for n, v in values.items()}
        lines = raw.lines[keep]
    else:
        lines = raw.lines
    chosen = {
        kind: [c.name for c in entry.columns if c.type == kind]
        for kind in ("number", "category", "identifier")
    }
    return Batch(
        numbers={name: values[name] for name in chosen["number"]},
        codes={name: values[name] for name in chosen["category"]},
        identifiers={name: values[name] for name in chosen["identifier"]},
        lines=lines,
        bad=sorted(raw.bad + bad, key=lambda row: row.line) if bad else raw.bad,
    )


class _Faults:
    """The first fault of each row."""

    def __init__(self, rows: int) -> None:
        self.first = np.full(rows, -1, dtype=np.int16)
        self.reasons: list[tuple[str, str]] = []  # (column, reason)

    def add(self, column: Column, reason: str, where: np.ndarray) -> None:
        new = where & (self.first < 0)
        if new.any():
            self.first[new] = len(self.reasons)
            self.reasons.append((column.name, reason))

    def found(self) -> list[tuple[int, int]]:
        rows = np.flatnonzero(self.first >= 0) if self.reasons else np.empty(0, dtype=np.int64)
        return [(int(row), int(self.first[row])) for row in rows]


def _is_empty(text: pa.Array) -> np.ndarray:
    return pc.equal(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)


def _numbers(column: Column, field: pa.Array, faults: _Faults) -> np.ndarray:
    if pa.types.is_string(field.type):
        empty = _is_empty(field)
        try:
            numbers = field.cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            numbers = np.array([_parse_number(text) for text in field.to_pylist()])
    else:
        empty = field.is_null().to_numpy(zero_copy_only=False)
        numbers = field.to_numpy(zero_copy_only=False)
    faults.add(column, MISSING_VALUE, empty)
    faults.add(column, NOT_A_NUMBER, ~np.isfinite(numbers))
    return numbers


def _parse_number(text: str) -> float:
    """What Arrow's cast accepts, one by one: decimal notation, no underscores, no words."""
    return float(text) if _NUMBER.fullmatch(text) else np.nan


def _codes(column: Column, field: pa.Array, faults: _Faults) -> np.ndarray:
    empty = _is_empty(field)
    codes = (
        pc.fill_null(pc.index_in(field, pa.array(column.values, pa.string())), -1).to_numpy().astype(np.int16)
    )
    if column.missing is not None:
        codes[empty & (codes < 0)] = column.values.index(column.missing)
    faults.add(column, MISSING_VALUE, empty & (codes < 0))
    faults.add(column, UNKNOWN_CATEGORY, codes < 0)
    return codes


def read_batches(path: Path, entry: Entry) -> Iterator[Batch]:
    """Stream the declared columns of the raw file at `path`, good rows and bad; no rows at all is an error."""
    read = 0
    for raw in _format_reader(entry.reader.format)(path, entry):
        batch = convert_batch(raw, entry)
        read += batch.read
        yield batch
    if read == 0:
        raise UserError(f"{path} holds no rows; records of at least two people were expected.")


def _format_reader(name: str) -> Callable[[Path, Entry], Iterator[RawBatch]]:
    if name == "csv":
        from privmix.catalog.readers.delimited import read_raw_batches as read
    elif name == "parquet":
        from privmix.catalog.readers.parquet import read_raw_batches as read
    else:
        from privmix.catalog.readers.snap_checkins import read_raw_batches as read
    return read
