"""Delimited text (CSV): UTF-8 with or without a byte-order mark, quoted fields, any line end, a header row.

The file is read in blocks of whole lines, with the line number of every row. Arrow parses a block if each of its lines
is one record. If a quoted field spans lines, or quotes are broken, Python's csv module reads the block record by
record. This is slower, but gives the start of each record.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from privmix.catalog.entry import Entry
from privmix.catalog.readers.base import (
    BROKEN_LINE,
    BYTE_ORDER_MARK,
    WRONG_FIELD_COUNT,
    BadRow,
    RawBatch,
    check_utf8,
    column_positions,
    open_raw,
)
from privmix.errors import UserError

if TYPE_CHECKING:
    from _csv import Reader

_LONGEST_HEADER = 1 << 17


def read_raw_batches(path: Path, entry: Entry) -> Iterator[RawBatch]:
    """Yield the declared columns as text."""
    delimiter = entry.reader.delimiter
    if not delimiter.isascii() or delimiter in '"\r\n':
        raise UserError(
            f"{entry.name}: reader.delimiter {delimiter!r} cannot separate fields; use ',', ';' or a tab."
        )
    with open_raw(path) as stream:
        header = _read_header(stream, path)
        check_utf8(header, path, 0, 1)
        text = header.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
        record = next((fields for fields in csv.reader(io.StringIO(text), delimiter=delimiter) if fields), [])
        names = [name.strip() for name in record]
        _check_header(names, entry, path)
        layout = Layout(len(names), column_positions(entry, names, path), delimiter, quoted=True)
        yield from parse_records(stream, path, layout, first_line=1 + header.count(b"\n"), offset=len(header))


def _read_header(stream: io.BufferedIOBase, path: Path) -> bytes:
    """Read the bytes up to the end of the first record that is not blank."""
    header = b""
    while not header.removeprefix(BYTE_ORDER_MARK).strip() or header.count(b'"') % 2:
        line = stream.readline(_LONGEST_HEADER)
        header += line
        if not line or len(header) >= _LONGEST_HEADER:
            break
    if not header.removeprefix(BYTE_ORDER_MARK).strip():
        raise UserError(f"{path} has no header row; put the column names into the first line.")
    if len(header) >= _LONGEST_HEADER or b"\r" in header.replace(b"\r\n", b""):
        raise UserError(
            f"{path}: there is no line end (LF or CR LF) after the header row; "
            "save the file as CSV text with one row per line."
        )
    return header


def _check_header(names: list[str], entry: Entry, path: Path) -> None:
    """Refuse a first line without column names. It may be a record, so the message does not show it."""
    known = sum(column.name in names for column in entry.columns)
    if 2 * known < len(entry.columns):
        raise UserError(
            f"{path}: the first line has {len(names)} field(s) and names {known} of the {len(entry.columns)} columns "
            f"of the catalog entry {entry.name!r}; put the column names into the first line, or correct the names or "
            "reader.delimiter in the entry."
        )


BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
_SENTINEL_LINE = ""  # added after the last line; the csv module reads it only if a quote is still open


@dataclass(frozen=True)
class Layout:
    """How to split a line into fields, and the position of each column."""

    width: int
    positions: dict[str, int]
    delimiter: str
    quoted: bool


@dataclass(frozen=True)
class _Block:
    """Whole lines of the file. `first` is the number of the first line."""

    content: bytes
    first: int
    starts: np.ndarray  # byte offset of each line
    ends: np.ndarray  # byte offset after each line's end


def parse_records(
    stream: io.BufferedIOBase, path: Path, layout: Layout, *, first_line: int = 1, offset: int = 0
) -> Iterator[RawBatch]:
    """Yield the rows up to the end of `stream`, which is at byte `offset`, the start of line `first_line`."""
    rest = b""
    final = False
    while not final:
        read = stream.read(BLOCK_BYTES)
        final = not read
        content = rest + read
        whole = len(content) if final else content.rfind(b"\n") + 1
        if whole == 0 and len(content) > _LONGEST_LINE:
            raise UserError(
                f"{path}: line {first_line} is longer than {_LONGEST_LINE >> 20} MiB; "
                "check that this is a text file with one row per line."
            )
        block = _make_block(content[:whole], first_line)
        if len(block.starts) == 0:
            rest = content
            continue
        check_utf8(block.content, path, offset, first_line)
        if _each_line_is_a_record(block, layout) and (batch := _parse_with_arrow(block, layout)) is not None:
            lines = len(block.starts)
        else:
            batch, lines = _parse_with_csv(block, layout, final)
        consumed = int(block.ends[lines - 1]) if lines else 0
        rest = content[consumed:]
        offset += consumed
        first_line += lines
        yield batch


def _make_block(content: bytes, first: int) -> _Block:
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n")) + 1
    if content and not content.endswith(b"\n"):
        ends = np.append(ends, len(content))
    return _Block(content, first, np.concatenate(([0], ends))[:-1], ends)


def _each_line_is_a_record(block: _Block, layout: Layout) -> bool:
    """Return whether each line is one record: no lone carriage return, and no quote open at the end of a line."""
    if block.content.count(b"\r") != block.content.count(b"\r\n"):
        return False
    if not layout.quoted or b'"' not in block.content:
        return True
    quotes = np.flatnonzero(np.frombuffer(block.content, dtype=np.uint8) == ord('"'))
    if np.any(np.searchsorted(quotes, block.ends) % 2):
        return False
    last = _csv_reader([block.content[block.starts[-1] :].decode("utf-8"), _SENTINEL_LINE], layout)
    next(last)
    return last.line_num == 1


def _parse_with_arrow(block: _Block, layout: Layout) -> RawBatch | None:
    """Parse the block with Arrow. Return None if Arrow does not find one record per line."""
    bad: list[BadRow] = []

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        bad.append(BadRow(block.first + row.number - 1, WRONG_FIELD_COUNT))
        return "skip"

    names = [str(position) for position in range(layout.width)]
    wanted = {column: str(position) for column, position in layout.positions.items()}
    table = pyarrow.csv.read_csv(
        pa.BufferReader(block.content),
        read_options=pyarrow.csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(block.content) + 1
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if layout.quoted else False,
            ignore_empty_lines=False,  # kept here and dropped below, so that line numbers stay correct
            invalid_row_handler=skip,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=list(wanted.values()),
            column_types=dict.fromkeys(wanted.values(), pa.string()),
            check_utf8=False,
        ),
    )
    if table.num_rows + len(bad) != len(block.starts):
        return None
    index = np.arange(len(block.starts))
    if bad:
        index = np.delete(index, [row.line - block.first for row in bad])
    blank = _is_blank(block)[index]
    if blank.any():
        index = index[~blank]
        table = table.filter(pa.array(~blank))
    columns = {column: _combine_chunks(table[name]) for column, name in wanted.items()}
    return RawBatch(columns, index + block.first, bad)


def _is_blank(block: _Block) -> np.ndarray:
    """Return which lines are empty except for their line end."""
    lengths = block.ends - block.starts
    first = np.frombuffer(block.content, dtype=np.uint8)[block.starts]
    return (first == ord("\n")) | ((first == ord("\r")) & (lengths <= 2))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], pa.string())])
    )


def _parse_with_csv(block: _Block, layout: Layout, final: bool) -> tuple[RawBatch, int]:
    """Parse the block with the csv module, and return the number of lines consumed.

    A quoted field that is still open at the end waits for the next block. With broken quotes, only the first line of
    the record is bad and reading continues with the next line, so that a stray quote cannot swallow good rows.
    """
    lines = [*io.StringIO(block.content.decode("utf-8"), newline="\n"), _SENTINEL_LINE]
    records: list[list[str]] = []
    index: list[int] = []
    bad: list[BadRow] = []
    done = begun = 0
    reader = _csv_reader(lines, layout)
    while done < len(lines) - 1:
        fields = _next_record(reader)
        end = begun + reader.line_num
        if end == len(lines) and not final:
            break
        if end > done + 1 and not _quotes_are_closed(lines[done:end], layout):
            fields = None
        if fields is None:
            bad.append(BadRow(block.first + done, BROKEN_LINE))
            done = begun = done + 1
            reader = _csv_reader(map(lines.__getitem__, range(done, len(lines))), layout)
            continue
        if len(fields) == layout.width:
            records.append(fields)
            index.append(done)
        elif fields:
            bad.append(BadRow(block.first + done, WRONG_FIELD_COUNT))
        done = end
    columns = {
        column: pa.array([fields[position] for fields in records], pa.string())
        for column, position in layout.positions.items()
    }
    rows = np.array(index, dtype=np.int64) + block.first
    return RawBatch(columns, rows, bad), done


def _quotes_are_closed(lines: list[str], layout: Layout) -> bool:
    """Return whether a field over several lines ends at a delimiter or line end, and not at a stray quote."""
    return _next_record(_csv_reader(lines, layout, strict=True)) is not None


def _next_record(reader: "Reader") -> list[str] | None:
    try:
        return next(reader)
    except csv.Error:
        return None


def _csv_reader(lines: Iterable[str], layout: Layout, *, strict: bool = False) -> "Reader":
    csv.field_size_limit(2 * _LONGEST_LINE)  # the default of 128 KiB is less than the longest line
    return csv.reader(
        lines,
        delimiter=layout.delimiter,
        quoting=csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE,
        strict=strict,
    )
