"""The private Parquet: the reports of a local mechanism, one replicate after another, and nothing else."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from privmix.artefacts.io import (
    METADATA_KEY,
    PARQUET_SEAL,
    numpy_column,
    parse_metadata,
    read_table,
    sealed_write,
    to_arrow,
)
from privmix.artefacts.privacy_statement import MechanismFile, ReplayVerdict


class PrivateInfo(MechanismFile):
    """Schema metadata of a private Parquet."""

    reports: list[int]  # number of rows of each replicate, in the order of the file
    asked: list[dict[str, Any]]  # questions of each replicate, if they depend on earlier answers
    seconds: list[float]  # per replicate; not in a release
    notes: list[str] = Field(default_factory=list)  # remarks for readers
    replay: ReplayVerdict | None = None
    failure: str | None = None


@contextlib.contextmanager
def private_writer(path: Path, compression: str = "zstd") -> Iterator["PrivateWriter"]:
    """Open a private Parquet for writing in parts. The file appears only if the block succeeds."""
    with sealed_write(path) as temporary:
        writer = PrivateWriter(temporary, compression)
        yield writer
        writer.close()


class PrivateWriter:
    """Writes rows of reports, and the metadata of the file at the end."""

    def __init__(self, path: Path, compression: str = "zstd") -> None:
        self._path = path
        self._compression = compression
        self.folder = path.parent
        self._writer: pq.ParquetWriter | None = None
        self.info: PrivateInfo | None = None  # must be set before `close`

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add rows."""
        table = pa.table({name: to_arrow(values) for name, values in columns.items()})
        if self._writer is None:
            # Single bytes as dictionary indices, larger numbers split by byte, rows of several numbers unchanged.
            numbers = {n: v.itemsize for n, v in columns.items() if v.ndim == 1 and v.dtype.names is None}
            split = {name: "BYTE_STREAM_SPLIT" for name, size in numbers.items() if size > 1}
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression=self._compression,
                use_dictionary=[name for name, size in numbers.items() if size == 1] or False,
                column_encoding=split or None,
            )
        self._writer.write_table(table)

    def close(self) -> None:
        """Write the metadata and close the file."""
        if self.info is None:
            raise ValueError("the private file has no metadata; set `info` before `close`")
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, pa.schema([]))
        self._writer.add_key_value_metadata(
            {METADATA_KEY: self.info.model_dump_json().encode(), **PARQUET_SEAL}
        )
        self._writer.close()


def read_private(path: Path) -> tuple[PrivateInfo, list[dict[str, np.ndarray]]]:
    """Read the metadata of a private Parquet and the columns of each replicate's reports."""
    table = read_table(path)
    info = parse_metadata(table, PrivateInfo, path)
    columns = {name: numpy_column(table, name) for name in table.column_names}
    ends = np.cumsum([0, *info.reports])
    return info, [
        {name: values[start:end] for name, values in columns.items()}
        for start, end in itertools.pairwise(ends)
    ]
