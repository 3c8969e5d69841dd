"""Shared parts of all readers: open the raw file, yield batches of rows, check each value against the entry.

A reader yields the rows as they are in the file (`RawBatch`). `read_batches` converts them to finite numbers, category
codes and identifiers (`Batch`), and keeps the line, column and reason of every bad row, but not its content: messages
and logs must not show records. White space around a field is
ignored. A row is good if all its declared columns are good. Only an identifier that is not the person column may be
empty.
"""

import contextlib
import datetime
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmix.artefacts.io import GZIP_MAGIC
from privmix.catalog.entry import BOOLEAN, CATEGORICAL, Column, Entry, to_number
from privmix.errors import UserError, suggest

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def open_raw(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a stream over the unpacked content of `path`."""
    if not Path(path).is_file():
        raise UserError(f"{path} is not a file; download the dataset or correct the path.")
    with Path(path).open("rb") as stream:
        if stream.peek(1) == b"":
            raise UserError(f"{path} is empty; download it again.")
        if stream.peek(2)[:2] != GZIP_MAGIC:
            yield stream
            return
        try:
            with gzip.open(stream) as unpacked:
                yield unpacked
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"{path} is a broken gzip file ({error}); it is probably incomplete, so download it again."
            ) from error


def check_utf8(block: bytes, path: Path, offset: int, line: int) -> None:
    """Check that `block`, which starts at byte `offset` in `line`, is UTF-8. The error gives byte offset and line."""
    if block.isascii():
        return
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        raise UserError(
            f"{path} is not UTF-8 text: see the byte at offset {offset + error.start}, line {line}; "
            "save the file as UTF-8."
        ) from error


WRONG_FIELD_COUNT = "wrong field count"
BROKEN_LINE = "broken quotes or line end"
MISSING_VALUE = "missing value"
NOT_A_NUMBER = "not a number"
NOT_WHOLE = "not a whole number"
NOT_A_DATE = "not a date such as 2017-01-31"
UNKNOWN_CATEGORY = "unknown category"


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read. `line` is the line number in the unpacked file, from 1."""

    line: int
    reason: str
    column: str | None = None


@dataclass(frozen=True)
class RawBatch:
    """Rows as they are in the file: as text, or in the types of the format."""

    columns: dict[str, pa.Array]
    lines: np.ndarray  # (n,) int64
    bad: list[BadRow]


@dataclass(frozen=True)
class Batch:
    """Good rows, in the types that the catalog entry declares."""

    numbers: dict[str, np.ndarray]  # (n,) float64, finite; NaN is a blank of a column that models blanks
    codes: dict[str, np.ndarray]  # (n,) int16, index in the column's public values; the next one is a blank
    identifiers: dict[str, pa.Array]  # (n,) text
    lines: np.ndarray  # (n,) int64, line of the unpacked file (or row of a Parquet file), from 1
    bad: list[BadRow]

    @property
    def read(self) -> int:
        """Number of rows of the file in this batch, good and bad."""
        return len(self.lines) + len(self.bad)


def column_positions(entry: Entry, names: Iterable[str], path: Path) -> dict[str, int]:
    """Return the position of each declared column among the `names` of the file."""
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


BOOLEAN_SPELLINGS = (("false", "f", "no", "n", "0", "0.0"), ("true", "t", "yes", "y", "1", "1.0"))
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def convert_batch(raw: RawBatch, entry: Entry) -> Batch:
    """Convert the good rows of `raw` to values, and add the others to its bad rows in the order of lines."""
    faults = _Faults(len(raw.lines))
    values: dict[str, np.ndarray | pa.Array] = {}
    for column in entry.columns:
        field = raw.columns[column.name]
        if pa.types.is_string(field.type):
            field = pc.fill_null(pc.utf8_trim_whitespace(field), "")
        if column.type == "date":
            values[column.name] = _dates(column, field, faults)
        elif column.type in ("number", "integer"):
            values[column.name] = _numbers(column, field, faults)
        elif column.type in CATEGORICAL:
            values[column.name] = _codes(column, field, faults)
        else:
            if column.name == entry.privacy.person_column:
                faults.add(column, MISSING_VALUE, _is_empty(field))
            values[column.name] = field
    bad = [
        BadRow(int(raw.lines[row]), faults.reasons[code][1], faults.reasons[code][0])
        for row, code in faults.found()
    ]
    if bad:
        keep = faults.first < 0
        mask = pa.array(keep)
        values = {n: v.filter(mask) if isinstance(v, pa.Array) else v[keep] for n, v in values.items()}
        lines = raw.lines[keep]
    else:
        lines = raw.lines
    return Batch(
        numbers={c.name: values[c.name] for c in entry.columns if c.type in ("number", "integer", "date")}
        | {c.name: _positions(c, values[c.name]) for c in entry.columns if c.type == "ordinal"},
        codes={c.name: values[c.name] for c in entry.columns if c.type in CATEGORICAL},
        identifiers={c.name: values[c.name] for c in entry.columns if c.type == "identifier"},
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
    return _checked(column, numbers, empty, faults)


def _checked(column: Column, numbers: np.ndarray, empty: np.ndarray, faults: "_Faults") -> np.ndarray:
    """Add the faults of numbers, and return them with NaN for each blank that is modelled."""
    if not column.models_blanks:
        faults.add(column, MISSING_VALUE, empty)
    elif empty.any():
        numbers = np.where(empty, np.nan, numbers)
    finite = np.isfinite(numbers)
    faults.add(column, NOT_A_DATE if column.type == "date" else NOT_A_NUMBER, ~finite & ~empty)
    if column.type == "integer":
        faults.add(column, NOT_WHOLE, finite & (numbers % 1 != 0))
    return numbers


def _dates(column: Column, field: pa.Array, faults: "_Faults") -> np.ndarray:
    """Return days since 1970-01-01."""
    if pa.types.is_date32(field.type):
        empty = field.is_null().to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(field.cast(pa.int32()), 0).to_numpy().astype(np.float64)
        return _checked(column, numbers, empty, faults)
    empty = _is_empty(field)
    try:
        days = pc.if_else(pa.array(empty), pa.scalar(None, pa.string()), field).cast(pa.date32())
        numbers = pc.fill_null(days.cast(pa.int32()).cast(pa.float64()), np.nan).to_numpy()
    except pa.ArrowInvalid:
        numbers = np.array([_parse_date(text) for text in field.to_pylist()])
    return _checked(column, numbers, empty, faults)


def _parse_date(text: str) -> float:
    """Parse one date as Arrow's cast does, YYYY-MM-DD. Return NaN if it fails."""
    try:
        return to_number(datetime.datetime.strptime(text, "%Y-%m-%d").date()) if len(text) == 10 else np.nan
    except ValueError:
        return np.nan


def _positions(column: Column, codes: np.ndarray) -> np.ndarray:
    """Return the positions of an ordinal's values as numbers, NaN for a blank."""
    return np.where(codes == len(column.values), np.nan, codes.astype(np.float64))


def _parse_number(text: str) -> float:
    """Parse one number as Arrow's cast does: decimal notation, no underscores, no words. Return NaN if it fails."""
    return float(text) if DECIMAL.fullmatch(text) else np.nan


def _codes(column: Column, field: pa.Array, faults: _Faults) -> np.ndarray:
    empty = _is_empty(field)
    if column.type == "boolean":
        field = pc.utf8_lower(field)
        for listed, spellings in zip(BOOLEAN, BOOLEAN_SPELLINGS, strict=True):
            field = pc.if_else(pc.is_in(field, pa.array(spellings)), listed, field)
    codes = (
        pc.fill_null(pc.index_in(field, pa.array(column.listed, pa.string())), -1).to_numpy().astype(np.int16)
    )
    if column.models_blanks:
        codes[empty & (codes < 0)] = len(column.listed)
    elif column.blank_means is not None:
        codes[empty & (codes < 0)] = column.values.index(column.blank_means)
    faults.add(column, MISSING_VALUE, empty & (codes < 0))
    faults.add(column, UNKNOWN_CATEGORY, codes < 0)
    return codes


def read_batches(path: Path, entry: Entry) -> Iterator[Batch]:
    """Yield the declared columns of the raw file at `path`, good and bad rows. A file without rows is an error."""
    read = 0
    for raw in _format_reader(entry.reader.format)(path, entry):
        batch = convert_batch(raw, entry)
        read += batch.read
        yield batch
    if read == 0:
        raise UserError(f"{path} contains no rows; download it again or correct the file.")


def _format_reader(name: str) -> Callable[[Path, Entry], Iterator[RawBatch]]:
    if name == "csv":
        from privmix.catalog.readers.delimited import read_raw_batches as read
    elif name == "parquet":
        from privmix.catalog.readers.parquet import read_raw_batches as read
    else:
        from privmix.catalog.readers.snap_checkins import read_raw_batches as read
    return read
