"""Parquet files that say of themselves what they hold."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.part import Kind, Part
from privmix.artefacts.writing import replacing
from privmix.errors import UserError

METADATA_KEY = b"privmix"


def with_info(schema: pa.Schema, info: Part) -> pa.Schema:
    """The schema carrying `info` in its metadata."""
    return schema.with_metadata({METADATA_KEY: info.model_dump_json().encode()})


def write_table(path: Path, table: pa.Table, info: Part) -> None:
    """Write a Parquet file that carries `info` in its metadata."""
    table = table.replace_schema_metadata(with_info(table.schema, info).metadata)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of this project, or say what is wrong with it."""
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); delete it and run again.") from error
    if METADATA_KEY not in (table.schema.metadata or {}):
        raise UserError(f"{path} was not written by privmix; delete it and run again.")
    return table


def read_schema(path: Path) -> pa.Schema:
    """The schema of a Parquet file of this project, with what it says of itself, without its rows."""
    with pq.ParquetFile(path) as file:
        return file.schema_arrow.with_metadata(file.metadata.metadata)


def info_of(table: pa.Table | pa.Schema, kind: type[Kind]) -> Kind:
    """The `kind` stored in a table's metadata."""
    schema = table if isinstance(table, pa.Schema) else table.schema
    return kind.model_validate_json(schema.metadata[METADATA_KEY])
