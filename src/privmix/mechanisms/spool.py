"""Rows that wait: in memory as long as they are few, else in files without a name.

What waits may be people's own, so the files are never anybody else's to open: they have no name in the folder, and the
system takes them away when the process ends, however it ends.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

FEW = 1 << 18  # bytes of a spool that stay in memory
PART = 1 << 17  # rows that are worked on at a time


@contextmanager
def spools(number: int, folder: Path | None) -> Iterator[list["Spool"]]:
    """So many, gone when the block ends; without a folder for their files all rows stay in memory."""
    with ExitStack() as files:
        most = 0 if folder is None else FEW  # 0 is no limit
        yield [
            Spool(files.enter_context(tempfile.SpooledTemporaryFile(max_size=most, dir=folder)))
            for _ in range(number)
        ]


class Spool:
    """Rows of one kind go in, all of them, and come out in the same order as often as they are wanted."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._row: np.dtype | None = None

    def add(self, rows: np.ndarray) -> None:
        """Put rows at the end."""
        self._row = rows.dtype
        self._file.write(rows.tobytes())

    def parts(self, most: int) -> Iterator[np.ndarray]:
        """All rows, at most so many at a time; one empty part where there are none of a known kind."""
        if self._row is None:
            return
        self._file.seek(0)
        yield np.frombuffer(self._file.read(most * self._row.itemsize), dtype=self._row)
        while content := self._file.read(most * self._row.itemsize):
            yield np.frombuffer(content, dtype=self._row)


def deal(rows: np.ndarray, places: np.ndarray, among: Sequence[Spool]) -> None:
    """Put each row into the spool of its number."""
    for number, spool in enumerate(among):
        spool.add(rows[places == number])


def as_rows(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Columns of one length as an array of rows with named fields."""
    row = np.dtype([(name, values.dtype, values.shape[1:]) for name, values in columns.items()])
    rows = np.empty(len(next(iter(columns.values()))), dtype=row)
    for name, values in columns.items():
        rows[name] = values
    return rows


def as_columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    """The fields of rows."""
    return {name: rows[name] for name in rows.dtype.names}
