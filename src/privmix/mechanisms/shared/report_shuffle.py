"""Shuffle rows that may not fit into memory: the reports of persons, and records that wait for their question.

Rows wait in spools: in memory while they are few, otherwise in files without a name. Waiting rows may be personal.
Other processes cannot open these files: they have no name in the folder, and the system deletes them when the process
ends, even if it is killed. To shuffle, rows go to random buckets, and each bucket is shuffled on its own when it is
read. The result is a uniform order of all rows (Rao 1961; Sandelius 1962), and memory does not grow with their number.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from privmix.privacy import noise, shuffle
from privmix.privacy.noise import NoiseSource

FEW = 1 << 18  # bytes of a spool that stay in memory
PART = 1 << 17  # rows that are processed at a time
BUCKET = 1 << 18  # rows in a bucket
MOST_BUCKETS = 256  # files that are open at a time


@contextmanager
def open_spools(number: int, folder: Path | None) -> Iterator[list["Spool"]]:
    """Open `number` spools until the block ends. Without a folder for their files, all rows stay in memory."""
    with ExitStack() as files:
        most = 0 if folder is None else FEW  # 0 means no limit
        place = None if folder is None else str(folder)
        yield [
            Spool(files.enter_context(tempfile.SpooledTemporaryFile(max_size=most, dir=place)))
            for _ in range(number)
        ]


class Spool:
    """A queue of rows of one type. Rows can be read any number of times, in the order in which they were added."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._row: np.dtype | None = None

    def add(self, rows: np.ndarray) -> None:
        """Append rows."""
        self._row = rows.dtype
        self._file.write(rows.tobytes())

    def parts(self, most: int) -> Iterator[np.ndarray]:
        """Yield all rows, at most `most` at a time; one empty part if only empty arrays were added."""
        if self._row is None:
            return
        self._file.seek(0)
        yield np.frombuffer(self._file.read(most * self._row.itemsize), dtype=self._row)
        while content := self._file.read(most * self._row.itemsize):
            yield np.frombuffer(content, dtype=self._row)


def distribute_rows(rows: np.ndarray, places: np.ndarray, among: Sequence[Spool]) -> None:
    """Put each row into the spool with its number."""
    for number, spool in enumerate(among):
        spool.add(rows[places == number])


def as_rows(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return columns of one length as an array of rows with named fields."""
    row = np.dtype([(name, values.dtype, values.shape[1:]) for name, values in columns.items()])
    rows = np.empty(len(next(iter(columns.values()))), dtype=row)
    for name, values in columns.items():
        rows[name] = values
    return rows


def as_columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields of rows as columns."""
    return {name: rows[name] for name in rows.dtype.names or ()}


class Shuffler:
    """Takes rows as they arrive and returns them in a uniform random order that the source draws."""

    def __init__(self, buckets: list[Spool], source: NoiseSource, folder: Path) -> None:
        self.rows = 0
        self.folder = folder
        self._buckets = buckets
        self._source = source

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Put rows into the buckets."""
        rows = as_rows(columns)
        self.rows += len(rows)
        distribute_rows(
            rows, noise.partition(len(rows), len(self._buckets), source=self._source), self._buckets
        )

    def parts(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the columns of all rows, bucket by bucket."""
        for bucket in self._buckets:
            [rows] = bucket.parts(max(self.rows, 1))
            rows = rows[shuffle.random_order(len(rows), source=self._source)]
            yield as_columns(rows)


@contextmanager
def open_shuffler(expected_rows: int, source: NoiseSource, folder: Path) -> Iterator[Shuffler]:
    """Open a shuffler for about `expected_rows` rows. Its nameless files disappear when the block ends."""
    number = min(max(1, math.ceil(expected_rows / BUCKET)), MOST_BUCKETS)
    with open_spools(number, folder) as buckets:
        yield Shuffler(buckets, source, folder)
