"""File input and output: atomic writes, checksums, JSON, and Parquet with metadata.

A file is written completely or not at all. The size and SHA-256 of the unpacked content identify a raw file.
"""

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from privmix.errors import UserError


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` only if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as it is on disk."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Artefact(BaseModel):
    """Base of everything that is stored as JSON: frozen, unknown keys are errors, infinities are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


ArtefactKind = TypeVar("ArtefactKind", bound=Artefact)


def write_json(path: Path, content: Artefact) -> None:
    """Write an artefact as JSON."""
    with atomic_write(path) as temporary:
        temporary.write_text(content.model_dump_json(indent=1), encoding="utf-8")


def read_json(path: Path, kind: type[ArtefactKind]) -> ArtefactKind:
    """Read an artefact of class `kind` from a JSON file."""
    return kind.model_validate_json(Path(path).read_text(encoding="utf-8"))


def compact_json(value: Any) -> str:
    """Return compact JSON with sorted keys, for command lines and digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def to_arrow(values: np.ndarray | list[str]) -> pa.Array:
    """Convert numbers or texts to an Arrow array. Rows of several numbers become bytes of fixed length."""
    if isinstance(values, np.ndarray):
        numbers = np.ascontiguousarray(values)
        if numbers.ndim > 1 or numbers.dtype.names:
            width = numbers.nbytes // len(numbers) if len(numbers) else numbers[:0].dtype.itemsize
            return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(numbers)])
        return pa.Array.from_buffers(
            pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)]
        )
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *(len(text) for text in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def numpy_column(table: pa.Table, name: str) -> np.ndarray:
    """Return a column without missing values, read-only. Bytes of fixed length become rows of uint8."""
    values = table[name].combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.indices
    if isinstance(values, pa.FixedSizeBinaryArray):
        width = values.type.byte_width
        content = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        return content[values.offset * width :][: len(values) * width].reshape(len(values), width)
    return np.from_dlpack(values)


METADATA_KEY = b"privmix"


def add_metadata(schema: pa.Schema, info: Artefact) -> pa.Schema:
    """Return the schema with `info` in its metadata."""
    return schema.with_metadata({METADATA_KEY: info.model_dump_json().encode()})


def write_table(path: Path, table: pa.Table, info: Artefact) -> None:
    """Write a Parquet file with `info` in its metadata."""
    table = table.replace_schema_metadata(add_metadata(table.schema, info).metadata)
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of this project. Raise `UserError` if it is broken or from elsewhere."""
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); delete it and run again.") from error
    if METADATA_KEY not in (table.schema.metadata or {}):
        raise UserError(f"{path} was not written by privmix; delete it and run again.")
    return table


def read_schema(path: Path) -> pa.Schema:
    """Read the schema and metadata of a Parquet file of this project, without its rows."""
    with pq.ParquetFile(path) as file:
        return file.schema_arrow.with_metadata(file.metadata.metadata)


def parse_metadata(table: pa.Table | pa.Schema, kind: type[ArtefactKind]) -> ArtefactKind:
    """Parse the metadata of a table or schema as an artefact of class `kind`."""
    schema = table if isinstance(table, pa.Schema) else table.schema
    return kind.model_validate_json(schema.metadata[METADATA_KEY])


GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 1 << 20


class CorruptFileError(Exception):
    """A packed file that cannot be unpacked completely. The text says why."""


@dataclass(frozen=True)
class Content:
    """Size and SHA-256 of the unpacked content."""

    bytes: int
    sha256: str


def compute_content(path: Path) -> Content:
    """Compute size and SHA-256 in one pass. Gzip, recognised by its first two bytes, is unpacked."""
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        digest, size = hashlib.sha256(), 0
        try:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CorruptFileError(
                f"its gzip data is damaged or cut short after {size:,} bytes ({error})"
            ) from error
    return Content(size, digest.hexdigest())


def describe_mismatch(found: Content, size: int | None, sha256: str | None) -> str | None:
    """Describe how the content differs from the size and SHA-256 in the catalog; None if it does not."""
    differences = []
    if size is not None and found.bytes != size:
        differences.append(f"expected {size:,} bytes unpacked, got {found.bytes:,}")
    if sha256 is not None and found.sha256 != sha256:
        differences.append(f"expected sha256 {sha256}, got {found.sha256}")
    return "; ".join(differences) or None
