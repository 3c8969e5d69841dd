"""Files with one allowed form: regular files of limited size, and Parquet without room for anything else.

A folder may come from an enemy. Nothing here follows a link, and nothing reads more than a stated number of bytes, or
takes JSON with more than a stated number of values.
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privmix.errors import UserError

ARROW_SCHEMA = b"ARROW:schema"
WRITER = "parquet-cpp-arrow version "
MOST_FOOTER = 1 << 23  # bytes of the footer of a Parquet file
PARQUET_END = 8  # bytes: the length of the footer and the end mark

# Limits of a JSON text. Each value that does not fit its type costs a kilobyte of messages.
MOST_NESTED, MOST_VALUES = 1_000_000, 5_000_000  # lists and objects, and values of any kind
MOST_KEYS = 10_000  # of one object
MOST_OBJECTS, MOST_OTHER = 20_000, 200_000  # objects, and values, outside the parts that hold many numbers


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


def check_json(content: bytes, where: str, free: Collection[str] = ()) -> None:
    """Refuse JSON with more values than a release has, before anything checks their types.

    `free`: keys of the parts that hold many numbers. Their types are checked up to the first error only.
    """
    nested, values = content.count(b"[") + content.count(b"{"), content.count(b",")
    if nested > MOST_NESTED or values > MOST_VALUES:
        raise UserError(
            f"{where} has {nested:,} lists and objects and {values:,} values; a release has at most {MOST_NESTED:,} "
            f"and {MOST_VALUES:,}."
        )
    try:
        plain = json.loads(content.decode("utf-8"), object_pairs_hook=lambda pairs: _object(pairs, where))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} cannot be read as JSON; get the release again.") from error
    if isinstance(plain, dict):
        plain = {name: value for name, value in plain.items() if name not in free}
    objects, others = _count_values(plain)
    if objects > MOST_OBJECTS or others > MOST_OTHER:
        raise UserError(
            f"{where} states {objects:,} objects and {others:,} values beside its measurements; a release has at most "
            f"{MOST_OBJECTS:,} and {MOST_OTHER:,}."
        )


def _object(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UserError(
            f"{where} is not written as Privmix writes it (a key occurs twice), which can hide data; do not publish it."
        )
    if len(made) > MOST_KEYS:
        raise UserError(f"{where} has an object of {len(made):,} keys; a release has at most {MOST_KEYS:,}.")
    return made


def _count_values(value: Any) -> tuple[int, int]:
    """Return the number of objects, and of values, at any depth."""
    objects = values = 0
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        each = waiting.pop()
        objects += isinstance(each, dict)
        inner = each.values() if isinstance(each, dict) else each
        values += len(inner)
        waiting += [one for one in inner if isinstance(one, dict | list)]
    return objects, values


def open_source(path: Path) -> pa.OSFile:
    """Open a file for pyarrow, which takes a name that is not UTF-8 only as bytes."""
    return pa.OSFile(os.fsencode(path))


def check_footer(path: Path) -> None:
    """Refuse a Parquet file with a footer that would take long to read."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.lstat().st_size - PARQUET_END))
        length = int.from_bytes(stream.read(4), "little")
    if length > MOST_FOOTER:
        raise UserError(f"{path} has a footer of {length:,} bytes; a release has at most {MOST_FOOTER:,}.")


def open_parquet(
    path: Path, most: int, columns: Sequence[str], rows: int, keys: set[bytes]
) -> pq.ParquetFile:
    """Open a Parquet file and refuse all but these columns, rows and metadata keys, uncompressed, without gaps."""
    size = check_regular(path, most)
    check_footer(path)
    try:
        file = pq.ParquetFile(
            open_source(path), thrift_string_size_limit=MOST_FOOTER, thrift_container_size_limit=MOST_FOOTER
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
    if footer.created_by != WRITER + pa.cpp_version:
        raise UserError(
            f"{path} was not written by pyarrow {pa.__version__}, so its bytes cannot be compared with those that "
            "Privmix writes; verify the release with the version of pyarrow that made it."
        )
    found = set(footer.metadata or {}) - {ARROW_SCHEMA}
    inside = {*(schema.metadata or {})} - {ARROW_SCHEMA}
    if found != keys or not inside <= keys or any(field.metadata for field in schema):
        raise UserError(f"{path} has metadata that a release must not have; do not publish it.")
    _check_chunks(path)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    if any(chunk.compression != "UNCOMPRESSED" for chunk in chunks):
        raise UserError(f"{path} is compressed; the Parquet files of a release are not.")
    used = sum(chunk.total_compressed_size for chunk in chunks)
    if used + footer.serialized_size + len(b"PAR1" * 2) + 4 != size:
        raise UserError(f"{path} has bytes that belong to no column; do not publish it.")
    return file


READ_CHUNKS = """
import os, resource, sys, pyarrow, pyarrow.parquet
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
footer = pyarrow.parquet.read_metadata(pyarrow.OSFile(os.fsencode(sys.argv[1])))
for group in map(footer.row_group, range(footer.num_row_groups)):
    for number in range(group.num_columns):
        chunk = group.column(number)
        chunk.compression, chunk.has_dictionary_page, chunk.num_values
        chunk.total_compressed_size, chunk.total_uncompressed_size
"""


def _check_chunks(path: Path) -> None:
    """Read the metadata of all columns in another process: pyarrow 26 ends the process if some of them are wrong."""
    done = subprocess.run([sys.executable, "-I", "-c", READ_CHUNKS, path], capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"{path} cannot be read as Parquet; get the release again.")


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two files have the same bytes, in blocks."""
    with path.open("rb") as first, other.open("rb") as second:
        while True:
            one, two = first.read(1 << 20), second.read(1 << 20)
            if one != two:
                return False
            if not one:
                return True
