"""What a reader gives: the rows it could read, and every row it could not, with reason and line."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.catalog.entry import Entry
from privmix.errors import UserError, nearest

WRONG_FIELD_COUNT = "wrong field count"
BROKEN_LINE = "broken quotes or line end"
MISSING_VALUE = "missing value"
NOT_A_NUMBER = "not a number"
UNKNOWN_CATEGORY = "unknown category"

_SHOWN = 100  # characters of a bad line that are worth showing


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read. `line` counts from 1 in the unpacked file."""

    line: int
    reason: str
    text: str
    column: str | None = None


@dataclass(frozen=True)
class RawBatch:
    """Rows as they stand in the file: text, or what a typed format stores."""

    columns: dict[str, pa.Array]
    lines: np.ndarray  # (n,) int64
    bad: list[BadRow]
    text: Callable[[int], str]  # index of a row in this batch -> the row as it stands in the file


@dataclass(frozen=True)
class Batch:
    """Rows whose declared columns all hold what the catalog entry declares."""

    numbers: dict[str, np.ndarray]  # (n,) float64, finite
    codes: dict[str, np.ndarray]  # (n,) int16, index in the column's public values
    identifiers: dict[str, pa.Array]  # (n,) text
    lines: np.ndarray  # (n,) int64, 1-based line of the unpacked file (row of a Parquet file)
    bad: list[BadRow]

    @property
    def read(self) -> int:
        """Rows of the file behind this batch, good and bad."""
        return len(self.lines) + len(self.bad)


def shortened(text: str) -> str:
    """The start of a line, for a message."""
    text = text.rstrip("\r\n")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def positions(entry: Entry, names: Iterable[str], path: Path) -> dict[str, int]:
    """Where each declared column stands among the `names` of the file."""
    names = list(names)
    for column in entry.columns:
        if column.name not in names:
            raise UserError(
                f"{path}: column {column.name!r} of the catalog entry {entry.name!r} is not in the file, "
                f"which has {', '.join(map(repr, names))}; {nearest(column.name, names)}"
            )
        if names.count(column.name) > 1:
            raise UserError(f"{path}: two columns are named {column.name!r}; rename one of them.")
    return {column.name: names.index(column.name) for column in entry.columns}
