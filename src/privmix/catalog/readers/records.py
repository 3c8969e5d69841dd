"""Delimited text to columns of text, block by block, with the line number of every row.

A block of whole lines goes to Arrow's parser when each of its lines is a record on its own. Where a quoted
field spans lines, or quotes are broken, Python's csv module reads that block record by record: slower, but it
knows where each record starts.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from privmix.catalog.readers.batch import BROKEN_LINE, WRONG_FIELD_COUNT, BadRow, RawBatch, shortened
from privmix.catalog.readers.stream import check_utf8
from privmix.errors import UserError

BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
_BEHIND = ""  # a line behind the last one, which the csv module reads only if a quote is still open


@dataclass(frozen=True)
class Layout:
    """How a line is cut into fields, and which field is which column."""

    width: int
    positions: dict[str, int]
    delimiter: str
    quoted: bool


@dataclass(frozen=True)
class _Block:
    """Whole lines of the file; `first` is the line number of the first."""

    content: bytes
    first: int
    starts: np.ndarray  # byte offset of each line
    ends: np.ndarray  # byte offset behind each line's end

    def line(self, index: int) -> str:
        return shortened(self.content[self.starts[index] : self.ends[index]].decode("utf-8"))


def raw_batches(
    stream: BinaryIO, path: Path, layout: Layout, *, first_line: int = 1, offset: int = 0
) -> Iterator[RawBatch]:
    """The rows from here to the end of `stream`, which stands at `offset` bytes, at the start of `first_line`."""
    rest = b""
    final = False
    while not final:
        read = stream.read(BLOCK_BYTES)
        final = not read
        content = rest + read
        whole = len(content) if final else content.rfind(b"\n") + 1
        if whole == 0 and len(content) > _LONGEST_LINE:
            raise UserError(
                f"{path}: line {first_line} is longer than {_LONGEST_LINE >> 20} MiB; is this a text file?"
            )
        block = _block(content[:whole], first_line)
        if len(block.starts) == 0:
            rest = content
            continue
        check_utf8(block.content, path, offset, first_line)
        if _each_line_is_a_record(block, layout) and (batch := _parsed(block, layout)) is not None:
            lines = len(block.starts)
        else:
            batch, lines = _parsed_one_by_one(block, layout, final)
        consumed = int(block.ends[lines - 1]) if lines else 0
        rest = content[consumed:]
        offset += consumed
        first_line += lines
        yield batch


def _block(content: bytes, first: int) -> _Block:
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n")) + 1
    if content and not content.endswith(b"\n"):
        ends = np.append(ends, len(content))
    return _Block(content, first, np.concatenate(([0], ends))[:-1], ends)


def _each_line_is_a_record(block: _Block, layout: Layout) -> bool:
    """No carriage return but before a line feed, an even number of quotes in every line, none open at the end."""
    if block.content.count(b"\r") != block.content.count(b"\r\n"):
        return False
    if not layout.quoted or b'"' not in block.content:
        return True
    quotes = np.flatnonzero(np.frombuffer(block.content, dtype=np.uint8) == ord('"'))
    if np.any(np.searchsorted(quotes, block.ends) % 2):
        return False
    last = _csv_reader([block.content[block.starts[-1] :].decode("utf-8"), _BEHIND], layout)
    next(last)
    return last.line_num == 1


def _parsed(block: _Block, layout: Layout) -> RawBatch | None:
    """The block by Arrow's parser; None when it does not find one record a line."""
    bad: list[BadRow] = []

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        bad.append(BadRow(block.first + row.number - 1, WRONG_FIELD_COUNT, shortened(row.text)))
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
            ignore_empty_lines=False,  # counted here and dropped below, so that line numbers hold
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
    blank = _blank(block)[index]
    if blank.any():
        index = index[~blank]
        table = table.filter(pa.array(~blank))
    columns = {column: _one_array(table[name]) for column, name in wanted.items()}
    return RawBatch(columns, index + block.first, bad, lambda row: block.line(index[row]))


def _blank(block: _Block) -> np.ndarray:
    """Which lines hold nothing but their end."""
    lengths = block.ends - block.starts
    first = np.frombuffer(block.content, dtype=np.uint8)[block.starts]
    return (first == ord("\n")) | ((first == ord("\r")) & (lengths <= 2))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], pa.string())])
    )


def _parsed_one_by_one(block: _Block, layout: Layout, final: bool) -> tuple[RawBatch, int]:
    """The block by the csv module, and how many of its lines are done with.

    A quoted field that is still open at the end waits for the next block. Broken quotes make the line where the
    record starts bad, and reading goes on with the line behind: a stray quote must not swallow good rows.
    """
    lines = [*io.StringIO(block.content.decode("utf-8"), newline="\n"), _BEHIND]
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
        if end > done + 1 and not _closes_where_it_should(lines[done:end], layout):
            fields = None
        if fields is None:
            bad.append(BadRow(block.first + done, BROKEN_LINE, block.line(done)))
            done = begun = done + 1
            reader = _csv_reader(map(lines.__getitem__, range(done, len(lines))), layout)
            continue
        if len(fields) == layout.width:
            records.append(fields)
            index.append(done)
        elif fields:
            bad.append(BadRow(block.first + done, WRONG_FIELD_COUNT, block.line(done)))
        done = end
    columns = {
        column: pa.array([fields[position] for fields in records], pa.string())
        for column, position in layout.positions.items()
    }
    rows = np.array(index, dtype=np.int64) + block.first
    return RawBatch(columns, rows, bad, lambda row: block.line(index[row])), done


def _closes_where_it_should(lines: list[str], layout: Layout) -> bool:
    """A field over several lines ends at a delimiter or a line end: else a stray quote met another one, or none."""
    return _next_record(_csv_reader(lines, layout, strict=True)) is not None


def _next_record(reader: "csv._reader") -> list[str] | None:
    try:
        return next(reader)
    except csv.Error:
        return None


def _csv_reader(lines: Iterable[str], layout: Layout, *, strict: bool = False) -> "csv._reader":
    csv.field_size_limit(2 * _LONGEST_LINE)  # the default of 128 KiB is less than what a line may hold
    quoting = csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE
    return csv.reader(lines, delimiter=layout.delimiter, quoting=quoting, strict=strict)
