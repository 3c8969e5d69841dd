"""The clean Parquet: records in the unit ball, the pseudonym of each record's person, and the train/holdout split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.domain import Domain
from privmix.artefacts.io import REMEDY, Artefact, numpy_column, parse_metadata, read_schema, read_table
from privmix.errors import UserError


class RowCounts(Artefact):
    """Numbers of raw rows by outcome."""

    read: int
    kept: int
    dropped: dict[str, int]
    clipped: dict[str, int]
    persons: int
    train: int
    holdout: int


class CleanInfo(Artefact):
    """Schema metadata of the clean Parquet."""

    domain: Domain
    entry_digest: str
    raw_sha256: str
    counts: RowCounts
    isolated: tuple[int, ...]  # pseudonyms of the isolated persons, in the order of the catalog

    def check_dataset(self, dataset: str, path: Path) -> None:
        """Raise `UserError` if the records are those of another dataset."""
        if self.domain.dataset != dataset:
            raise UserError(
                f"{path} holds the records of {self.domain.dataset}, not those of {dataset}; {REMEDY}."
            )


@dataclass(frozen=True)
class CleanData:
    """The clean Parquet in memory."""

    info: CleanInfo
    points: np.ndarray  # (n, d) float64, inside the unit ball
    codes: dict[str, np.ndarray]  # attribute -> (n,) integer codes
    person: np.ndarray  # (n,) uint64
    train: np.ndarray  # (n,) bool

    @property
    def isolated_rows(self) -> np.ndarray:
        """Row numbers of the isolated persons, in the order of the catalog."""
        rows = [np.flatnonzero(self.person == np.uint64(person))[:1] for person in self.info.isolated]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)


def clean_schema(dimensions: int, attributes: tuple[str, ...]) -> pa.Schema:
    """Return the schema of the clean Parquet."""
    return pa.schema(
        [("person", pa.uint64())]
        + [(f"x{axis}", pa.float64()) for axis in range(dimensions)]
        + [(f"c_{name}", pa.int16()) for name in attributes]
        + [("split", pa.dictionary(pa.int8(), pa.string()))]
    )


def read_clean(path: Path) -> CleanData:
    """Read a clean Parquet into memory."""
    table = read_table(path)
    info = parse_metadata(table, CleanInfo, path)
    domain = info.domain
    splits = table["split"].combine_chunks().dictionary.to_pylist()
    return CleanData(
        info=info,
        points=stack_columns(
            [numpy_column(table, f"x{axis}") for axis in range(len(domain.axes))], len(table)
        ),
        codes={a.name: numpy_column(table, f"c_{a.name}") for a in domain.attributes},
        person=numpy_column(table, "person"),
        train=numpy_column(table, "split") == splits.index("train"),
    )


def stack_columns(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Return columns of coordinates as points, (rows, d). There may be no columns."""
    return np.column_stack([np.empty((rows, 0)), *columns])


def read_clean_info(path: Path) -> CleanInfo:
    """Read the metadata of a clean Parquet without its rows, and check the seal of the whole file."""
    return parse_metadata(read_schema(path), CleanInfo, path)


def iterate_train_points(path: Path, rows: int = 2**17) -> Iterator[np.ndarray]:
    """Yield the training points of a clean Parquet for `mixture.stream`: `rows` rows of the file at a time, (n, d)."""
    for points, _, _ in iterate_train_records(path, rows):
        yield points


def iterate_train_records(
    path: Path, rows: int = 2**17, *, with_persons: bool = False
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]]:
    """Yield training points, their attribute codes and, on request, persons: `rows` rows of the file at a time.

    Call `read_clean_info` first: it checks the seal, and this function does not.
    """
    # Without these two options, Arrow buffers whole columns or row groups while it reads.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        axes = [name for name in file.schema_arrow.names if name.startswith("x")]
        codes = [name for name in file.schema_arrow.names if name.startswith("c_")]
        wanted = [*axes, *codes, *(["person"] if with_persons else [])]
        for batch in file.iter_batches(rows, columns=[*wanted, "split"], use_threads=False):
            split = batch.column("split")
            train = np.from_dlpack(split.indices) == split.dictionary.to_pylist().index("train")
            read = {name: np.from_dlpack(batch.column(name))[train] for name in wanted}
            points = stack_columns([read[name] for name in axes], int(train.sum()))
            yield points, {name.removeprefix("c_"): read[name] for name in codes}, read.get("person")


def number_persons(person: np.ndarray) -> np.ndarray:
    """Number the persons from 0 in the order of their first records, and return the number of each record's person.

    Pseudonyms are hashes with a key of this machine. In the order of pseudonyms, sums over persons would differ between
    machines in the last digits.
    """
    _, first, owner = np.unique(person, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[owner]
