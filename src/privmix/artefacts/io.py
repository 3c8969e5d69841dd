"""File input and output: atomic writes, seals, JSON, and Parquet with metadata.

A file is written completely or not at all. Each file between stages carries a seal: a hash of its bytes, computed with
zeros in place of the 64 digits of the seal itself. JSON has it as the last field, Parquet in the footer. Every reader
checks it. The size and SHA-256 of the unpacked content identify a raw file.

The seal finds damage, not forgery: it has no key. So it is the SHA-256 of weighted sums of the bytes, which takes a
sixth of the time of a SHA-256 of all bytes. A block of 1 MiB is a matrix of 256 x 512 words of 64 bits. Its sums are
sum_i w_i x_ij modulo 2^64, one for each column j. The weights w_i are odd, so w_i d = 0 only if d = 0: a change of at
most one word of a column changes its sum. So every flipped bit is found, and every change within 4,000 bytes. Other
damage passes only if it keeps all 512 sums of each block.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

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


CHUNK_BYTES = 1 << 20
WORD = np.dtype("<u8")
ROWS = 256  # of the matrix of a block
WEIGHTS = np.arange(1, 2 * ROWS, 2, dtype=WORD) * np.uint64(0x9E3779B97F4A7C15)  # all odd
NO_DIGITS = b"0" * 64
SEAL_FIELD = b'"content_seal": "'
PARQUET_MAGIC = b"PAR1"
PARQUET_SEAL = {b"seal": SEAL_FIELD + NO_DIGITS + b'"'}  # metadata of a Parquet file, for `seal` to complete
JSON_END = b"\n}"
JSON_SEAL = b",\n " + SEAL_FIELD + NO_DIGITS + b'"' + JSON_END  # replaces `JSON_END`, for `seal` to complete
REMEDY = "delete it and run the pipeline again"
ByteStream = io.RawIOBase | io.BufferedIOBase


@contextlib.contextmanager
def sealed_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path as `atomic_write` does, and complete the seal of the file before the rename."""
    with atomic_write(path) as temporary:
        yield temporary
        seal(temporary)


def seal(path: Path) -> None:
    """Write the hash of a file into its seal."""
    with path.open("rb+") as stream:
        place = _find_seal(stream)
        if place is None:
            raise ValueError(
                f"{path} has no place for a seal; add `JSON_SEAL` or `PARQUET_SEAL` to its content"
            )
        digits = _sealed_hash(stream, place)
        stream.seek(place)
        stream.write(digits)


def describe_damage(stream: ByteStream) -> str | None:
    """Describe what is wrong with the seal of a file; None if the content is unchanged."""
    place = _find_seal(stream)
    if place is None:
        return "has no seal: an older version of Privmix wrote it, or it is damaged"
    stream.seek(place)
    if stream.read(len(NO_DIGITS)) != _sealed_hash(stream, place):
        return "is damaged or was changed: its content does not match its seal"
    return None


def _find_seal(stream: ByteStream) -> int | None:
    """Return the position of the digits: in the footer of a Parquet file, at the end of any other file."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    end, length = stream.read(), len(JSON_SEAL)
    if end.endswith(PARQUET_MAGIC):
        length = int.from_bytes(end[:4], "little") + len(end)
    start = max(0, size - length)
    stream.seek(start)
    found = stream.read().rfind(SEAL_FIELD)
    return None if found < 0 else start + found + len(SEAL_FIELD)


def _sealed_hash(stream: ByteStream, place: int) -> bytes:
    """Return the hash of a file with zeros in place of the digits of its seal, as hexadecimal digits."""
    block = bytearray(CHUNK_BYTES)
    matrix = np.frombuffer(block, WORD).reshape(ROWS, -1)
    digest, start = hashlib.sha256(), 0
    stream.seek(0)
    while count := _fill(stream, block):
        block[count:] = bytes(CHUNK_BYTES - count)
        first, last = (min(max(each - start, 0), CHUNK_BYTES) for each in (place, place + len(NO_DIGITS)))
        block[first:last] = bytes(last - first)
        digest.update(np.einsum("ij,i->j", matrix, WEIGHTS).astype(WORD))
        start += count
    digest.update(start.to_bytes(8, "little"))
    return digest.hexdigest().encode()


def _fill(stream: ByteStream, block: bytearray) -> int:
    """Read a block, which only the end of the file makes shorter. Return the number of its bytes."""
    view, filled = memoryview(block), 0
    while count := stream.readinto(view[filled:]):
        filled += count
    return filled


@contextlib.contextmanager
def check_seal(path: Path) -> Iterator[None]:
    """Check the seal of a file in another thread while the block reads the file.

    Damaged content can raise any error in the block. The damage is then the error that the user sees.
    """

    def damage() -> str | None:
        try:
            with Path(path).open("rb", buffering=0) as stream:
                return describe_damage(stream)
        except OSError as error:
            return f"cannot be read ({error.strerror})"

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(damage)
        try:
            yield
        except Exception as error:
            if isinstance(error, MemoryError) and not found.result():
                raise
            problem = found.result() or f"cannot be read ({error})"
            raise UserError(f"{path} {problem}; {REMEDY}.") from error
        if found.result():
            raise UserError(f"{path} {found.result()}; {REMEDY}.")


class Artefact(BaseModel):
    """Base of everything that is stored as JSON: frozen, unknown keys are errors, infinities are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
    sealed: ClassVar[bool] = True  # whether `write_json` adds a seal


ArtefactKind = TypeVar("ArtefactKind", bound=Artefact)


def write_json(path: Path, content: Artefact) -> None:
    """Write an artefact as JSON, with a seal if its class has one."""
    text = content.model_dump_json(indent=1).encode()
    with sealed_write(path) if content.sealed else atomic_write(path) as temporary:
        temporary.write_bytes(text.removesuffix(JSON_END) + JSON_SEAL if content.sealed else text)


def read_json(path: Path, kind: type[ArtefactKind]) -> ArtefactKind:
    """Read an artefact of class `kind` from a JSON file, and check its seal."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {REMEDY}.") from error
    damage = describe_damage(io.BytesIO(content))
    if damage:
        raise UserError(f"{path} {damage}; {REMEDY}.")
    return _parse(content[: -len(JSON_SEAL)] + JSON_END, kind, path)


def _parse(text: bytes, kind: type[ArtefactKind], path: Path | str) -> ArtefactKind:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UserError(
            f"{path} is not a file of the kind {kind.__name__} ({describe_problem(error)}); {REMEDY}."
        ) from error


def describe_problem(error: ValidationError) -> str:
    """Describe the first problem that pydantic found, without the value."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the file"
    return f"{where}: {problem['msg'].lower()}"


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
    with (
        sealed_write(path) as temporary,
        pq.ParquetWriter(temporary, table.schema, compression="zstd") as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata(PARQUET_SEAL)


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of this project. Raise `UserError` if it is damaged or from elsewhere."""
    with check_seal(path):
        table = pq.ParquetFile(path).read()
    _require_metadata(table.schema, path)
    return table


def read_schema(path: Path) -> pa.Schema:
    """Read the schema and metadata of a Parquet file of this project, without its rows. Check the seal of the file."""
    with check_seal(path), pq.ParquetFile(path) as file:
        schema = file.schema_arrow.with_metadata(file.metadata.metadata)
    _require_metadata(schema, path)
    return schema


def _require_metadata(schema: pa.Schema, path: Path) -> None:
    if METADATA_KEY not in (schema.metadata or {}):
        raise UserError(f"{path} was not written by privmix; {REMEDY}.")


def parse_metadata(
    table: pa.Table | pa.Schema, kind: type[ArtefactKind], path: Path | str = "the Parquet file"
) -> ArtefactKind:
    """Parse the metadata of a table or schema as an artefact of class `kind`; `path` is for the error message."""
    schema = table if isinstance(table, pa.Schema) else table.schema
    return _parse(schema.metadata[METADATA_KEY], kind, path)


GZIP_MAGIC = b"\x1f\x8b"


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
