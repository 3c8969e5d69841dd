"""Parquet files. The row number replaces the line number, and a null is a missing value."""

import contextlib
import gzip
import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.catalog.entry import Column, Entry
from privmix.catalog.readers.base import RawBatch, column_positions, open_raw
from privmix.errors import UserError

_BATCH_ROWS = 1 << 16


def read_raw_batches(path: Path, entry: Entry) -> Iterator[RawBatch]:
    """Yield the declared columns: numbers as stored, everything else as text."""
    with open_raw(path) as stream, _seekable_file(stream) as content:
        try:
            file = pq.ParquetFile(content)
        except pa.ArrowInvalid as error:
            raise UserError(
                f"{path} is not a Parquet file ({error}); correct reader.format in the catalog entry, or the file."
            ) from error
        schema = file.schema_arrow
        column_positions(entry, schema.names, path)
        types = {
            column.name: _storage_type(column, schema.field(column.name).type, path)
            for column in entry.columns
        }
        first = 1
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(types)):
                columns = {name: batch[name].cast(kind, safe=False) for name, kind in types.items()}
                lines = np.arange(first, first + len(batch), dtype=np.int64)
                yield RawBatch(columns, lines, [])
                first += len(batch)
        except (pa.ArrowInvalid, OSError) as error:
            # Without the text of the error: it may quote a value.
            raise UserError(f"{path} is a broken Parquet file; download or write it again.") from error


@contextlib.contextmanager
def _seekable_file(stream: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """Unpack a gzip stream into a temporary file, because a Parquet file is read from its end."""
    if not isinstance(stream, gzip.GzipFile):
        yield stream
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(stream, unpacked)
        yield unpacked


def _storage_type(column: Column, kind: pa.DataType, path: Path) -> pa.DataType:
    """Return the type in which to read a column that is stored as `kind`."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if text:
        return pa.string()
    if column.type in ("number", "integer") and number:
        return pa.float64()
    if column.type == "date" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return pa.date32()
    if column.type not in ("number", "integer", "date") and (
        number or pa.types.is_boolean(kind) or _is_temporal(kind)
    ):
        return pa.string()
    raise UserError(
        f"{path}: column {column.name!r} is stored as {kind}, which cannot be read as type {column.type}; "
        "convert it, or correct its type in the catalog entry."
    )


def _is_temporal(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
