"""From what a file holds to what the entry declares: finite numbers, category codes, identifiers.

White space around a field does not count. A row is good when each of its declared columns is; only an
identifier that names no person may be empty.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmix.catalog.entry import Column, Entry
from privmix.catalog.readers.batch import (
    MISSING_VALUE,
    NOT_A_NUMBER,
    UNKNOWN_CATEGORY,
    BadRow,
    Batch,
    RawBatch,
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def typed(raw: RawBatch, entry: Entry) -> Batch:
    """The good rows of `raw` as values; the others join its bad rows, in the order of lines."""
    faults = _Faults(len(raw.lines))
    values: dict[str, np.ndarray | pa.Array] = {}
    for column in entry.columns:
        field = raw.columns[column.name]
        if pa.types.is_string(field.type):
            field = pc.fill_null(pc.utf8_trim_whitespace(field), "")
        if column.type == "number":
            values[column.name] = _numbers(column, field, faults)
        elif column.type == "category":
            values[column.name] = _codes(column, field, faults)
        else:
            if column.name == entry.privacy.person_column:
                faults.add(column, MISSING_VALUE, _empty(field))
            values[column.name] = field
    bad = [
        BadRow(int(raw.lines[row]), faults.reasons[code][1], raw.text(row), faults.reasons[code][0])
        for row, code in faults.found()
    ]
    if bad:
        keep = faults.first < 0
        mask = pa.array(keep)
        values = {n: v.filter(mask) if isinstance(v, pa.Array) else v[keep] for n, v in values.items()}
        lines = raw.lines[keep]
    else:
        lines = raw.lines
    chosen = {
        kind: [c.name for c in entry.columns if c.type == kind]
        for kind in ("number", "category", "identifier")
    }
    return Batch(
        numbers={name: values[name] for name in chosen["number"]},
        codes={name: values[name] for name in chosen["category"]},
        identifiers={name: values[name] for name in chosen["identifier"]},
        lines=lines,
        bad=sorted(raw.bad + bad, key=lambda row: row.line) if bad else raw.bad,
    )


class _Faults:
    """The first fault of each row."""

    def __init__(self, rows: int) -> None:
        self.first = np.full(rows, -1, dtype=np.int16)
        self.reasons: list[tuple[str, str]] = []  # (column, reason)

    def add(self, column: Column, reason: str, where: np.ndarray) -> None:
        new = where & (self.first < 0)
        if new.any():
            self.first[new] = len(self.reasons)
            self.reasons.append((column.name, reason))

    def found(self) -> list[tuple[int, int]]:
        rows = np.flatnonzero(self.first >= 0) if self.reasons else np.empty(0, dtype=np.int64)
        return [(int(row), int(self.first[row])) for row in rows]


def _empty(text: pa.Array) -> np.ndarray:
    return pc.equal(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)


def _numbers(column: Column, field: pa.Array, faults: _Faults) -> np.ndarray:
    if pa.types.is_string(field.type):
        empty = _empty(field)
        try:
            numbers = field.cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            numbers = np.array([_number(text) for text in field.to_pylist()])
    else:
        empty = field.is_null().to_numpy(zero_copy_only=False)
        numbers = field.to_numpy(zero_copy_only=False)
    faults.add(column, MISSING_VALUE, empty)
    faults.add(column, NOT_A_NUMBER, ~np.isfinite(numbers))
    return numbers


def _number(text: str) -> float:
    """What Arrow's cast accepts, one by one: decimal notation, no underscores, no words."""
    return float(text) if _NUMBER.fullmatch(text) else np.nan


def _codes(column: Column, field: pa.Array, faults: _Faults) -> np.ndarray:
    empty = _empty(field)
    codes = (
        pc.fill_null(pc.index_in(field, pa.array(column.values, pa.string())), -1).to_numpy().astype(np.int16)
    )
    if column.missing is not None:
        codes[empty & (codes < 0)] = column.values.index(column.missing)
    faults.add(column, MISSING_VALUE, empty & (codes < 0))
    faults.add(column, UNKNOWN_CATEGORY, codes < 0)
    return codes
