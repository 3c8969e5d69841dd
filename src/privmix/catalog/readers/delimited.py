"""Delimited text with a header row (CSV): UTF-8 with or without a byte-order mark, quoted fields, any line end."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from privmix.catalog.entry import Entry
from privmix.catalog.readers.batch import RawBatch, positions
from privmix.catalog.readers.records import Layout, raw_batches
from privmix.catalog.readers.stream import BYTE_ORDER_MARK, check_utf8, opened
from privmix.errors import UserError

_LONGEST_HEADER = 1 << 17


def batches(path: Path, entry: Entry) -> Iterator[RawBatch]:
    """The declared columns as text."""
    delimiter = entry.reader.delimiter
    if not delimiter.isascii() or delimiter in '"\r\n':
        raise UserError(
            f"{entry.name}: reader.delimiter {delimiter!r} cannot part fields; use ',', ';' or a tab."
        )
    with opened(path) as stream:
        header = _header(stream, path)
        check_utf8(header, path, 0, 1)
        text = header.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
        record = next((fields for fields in csv.reader(io.StringIO(text), delimiter=delimiter) if fields), [])
        names = [name.strip() for name in record]
        layout = Layout(len(names), positions(entry, names, path), delimiter, quoted=True)
        yield from raw_batches(stream, path, layout, first_line=1 + header.count(b"\n"), offset=len(header))


def _header(stream: BinaryIO, path: Path) -> bytes:
    """The bytes up to the end of the first record that is not blank."""
    header = b""
    while not header.removeprefix(BYTE_ORDER_MARK).strip() or header.count(b'"') % 2:
        line = stream.readline(_LONGEST_HEADER)
        header += line
        if not line or len(header) >= _LONGEST_HEADER:
            break
    if not header.removeprefix(BYTE_ORDER_MARK).strip():
        raise UserError(f"{path} holds no header row; the column names were expected in its first line.")
    if len(header) >= _LONGEST_HEADER or b"\r" in header.replace(b"\r\n", b""):
        raise UserError(
            f"{path}: no line end (LF or CR LF) was found behind the header row; "
            "save the file as CSV text with one row a line."
        )
    return header
