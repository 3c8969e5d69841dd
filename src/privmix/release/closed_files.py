"""Files with one allowed form: regular files of limited size, JSON and Parquet without room for anything else.

A folder may come from an enemy. Nothing here follows a link, and nothing reads more than a stated number of bytes.
"""

import json
import os
import re
import stat
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.io import METADATA_KEY
from privmix.errors import UserError

ARROW_SCHEMA = b"ARROW:schema"
WRITER = re.compile(r"parquet-cpp-arrow version \d{1,3}\.\d{1,3}\.\d{1,3}(-SNAPSHOT)?")
MOST_FOOTER = 1 << 24  # bytes of a text or items of a list in the footer of a Parquet file
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def check_regular(path: Path, most: int) -> int:
    """Refuse a path that is not a regular file of at most `most` bytes. Return its size."""
    try:
        found = path.lstat()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); give a complete folder that `privmix release` has written."
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise UserError(
            f"{path} is a link, a folder or a device; a release holds only regular files. Remove it."
        )
    if found.st_size > most:
        raise UserError(f"{path} has {found.st_size:,} bytes; a release has at most {most:,} there.")
    return found.st_size


def read_limited(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes."""
    size = check_regular(path, most)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); get the release again.") from error


def read_text(path: Path, most: int) -> str:
    """Return the text of a regular UTF-8 file of at most `most` bytes."""
    try:
        return read_limited(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text; get the release again.") from error


def check_json(text: str, where: str, *, indent: int | None) -> None:
    """Refuse JSON that has repeated keys, other spacing, other escapes or other digits than Privmix writes.

    Two texts of the same values would differ in places that no reader looks at, and these could hold records.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_shortest,
            parse_int=_plain_integer,
        )
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON as Privmix writes it ({error}); do not publish it.") from error
    separators = (",", ": ") if indent is not None else (",", ":")
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    if _with_plain_numbers(written) != _with_plain_numbers(text):
        raise UserError(
            f"{where} has other spacing or escapes than Privmix writes, which can hide data; do not publish it."
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _shortest(text: str) -> float:
    """Return the number. Refuse digits that its shortest form does not have."""
    value = float(text)
    if len(text) > 30 or Decimal(text).as_tuple() != Decimal(repr(value)).as_tuple():
        raise ValueError("a number has more digits than it needs")
    return value


def _plain_integer(text: str) -> int:
    if len(text) > 30 or str(int(text)) != text:
        raise ValueError("a whole number has more digits than it needs")
    return int(text)


def _with_plain_numbers(text: str) -> str:
    """Return the text with all numbers in the notation of Python: 1e-6 and 1e-06 are the same."""
    return NUMBER.sub(lambda found: _plain(found[0]), text)


def _plain(text: str) -> str:
    return repr(float(text)) if "." in text or "e" in text.lower() else text


def open_parquet(
    path: Path, most: int, columns: Sequence[str], rows: int, keys: set[bytes]
) -> pq.ParquetFile:
    """Open a Parquet file and refuse all but these columns, rows and metadata keys, uncompressed, without gaps."""
    size = check_regular(path, most)
    try:
        file = pq.ParquetFile(
            path, thrift_string_size_limit=MOST_FOOTER, thrift_container_size_limit=MOST_FOOTER
        )
        footer = file.metadata
        schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet; get the release again.") from error
    if tuple(schema.names) != tuple(columns):
        raise UserError(
            f"{path} has the columns {', '.join(schema.names)[:200]}, but the release demands {', '.join(columns)}."
        )
    if footer.num_rows != rows:
        raise UserError(f"{path} does not hold the {rows} rows that the release states.")
    if footer.created_by is None or not WRITER.fullmatch(footer.created_by):
        raise UserError(f"{path} was not written by Privmix: its writer is unknown; do not publish it.")
    found = set(footer.metadata or {}) - {ARROW_SCHEMA}
    inside = {*(schema.metadata or {})} - {ARROW_SCHEMA}
    if found != keys or not inside <= keys or any(field.metadata for field in schema):
        raise UserError(f"{path} has metadata that a release must not have; do not publish it.")
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    if any(chunk.compression != "UNCOMPRESSED" for chunk in chunks):
        raise UserError(f"{path} is compressed; the Parquet files of a release are not.")
    used = sum(chunk.total_compressed_size for chunk in chunks)
    if used + footer.serialized_size + len(b"PAR1" * 2) + 4 != size:
        raise UserError(f"{path} has bytes that belong to no column; do not publish it.")
    return file


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two files have the same bytes, in blocks."""
    with path.open("rb") as first, other.open("rb") as second:
        while True:
            one, two = first.read(1 << 20), second.read(1 << 20)
            if one != two:
                return False
            if not one:
                return True


def same_writer(file: pq.ParquetFile) -> bool:
    """Return whether the Parquet library of this environment has written the file."""
    return bool(file.metadata.created_by == f"parquet-cpp-arrow version {pa.cpp_version}")


PRIVMIX = METADATA_KEY
