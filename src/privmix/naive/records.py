"""Records with roles: the declared columns of a raw file, and the same values in public bins.

A frame has one row per record. A number or a date (in days since 1970) is a float, a blank is NaN. A category is a
`Categorical` with the public values, ordered for an ordinal. An identifier is text. Binned columns are `Categorical`
too: the bins of a number are equal parts of its public bounds, and values outside the bounds belong to the first or
the last bin.
"""

import datetime
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privmix.catalog.entry import BINNED, EPOCH, Column, Entry, Roles
from privmix.catalog.readers.base import Batch
from privmix.errors import UserError

BLANK = "blank"


@dataclass(frozen=True, eq=False)
class Records:
    """Raw declared columns, and what an attacker may know and wants to know of them."""

    frame: pd.DataFrame  # every declared column
    binned: pd.DataFrame  # the columns with a role, in public bins
    roles: Roles
    person: str | None  # the identifier of persons, if there is one
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def persons(self) -> np.ndarray:
        """Number of each record's person, from 0. Without an identifier, each record is a person."""
        if self.person is None:
            return np.arange(len(self.frame))
        return pd.factorize(self.frame[self.person])[0]

    def select(self, rows: np.ndarray) -> "Records":
        """Return some records, by row."""
        frame, binned = (each.iloc[rows].reset_index(drop=True) for each in (self.frame, self.binned))
        return Records(frame, binned, self.roles, self.person, self.columns)

    def bin(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the columns with a role of a frame of raw values, in public bins."""
        return pd.DataFrame(
            {
                name: bin_column(frame[name], self.columns[name], self.roles.bins.get(name))
                for name in self.roles.columns
                if name in frame
            }
        )


def read_records(batches: Iterable[Batch], entry: Entry) -> Records:
    """Collect the batches of a raw file. An entry without roles is an error."""
    if entry.roles is None:
        raise UserError(
            f"catalog entry {entry.name}: attacks on other kinds of releases need roles; add "
            "`roles: {quasi_identifiers: [...], sensitive: [...]}`, or leave the dataset out."
        )
    parts = [_frame(batch, entry) for batch in batches]
    frame = pd.concat(parts, ignore_index=True)
    columns = {column.name: column for column in entry.columns}
    bare = Records(frame, pd.DataFrame(), entry.roles, entry.privacy.person_column, columns)
    return Records(frame, bare.bin(frame), bare.roles, bare.person, columns)


def _frame(batch: Batch, entry: Entry) -> pd.DataFrame:
    found: dict[str, object] = {}
    for column in entry.columns:
        if column.type in BINNED:
            found[column.name] = batch.numbers[column.name]
        elif column.type == "identifier":
            found[column.name] = batch.identifiers[column.name].to_pandas()
        else:
            found[column.name] = pd.Categorical.from_codes(
                batch.codes[column.name], pd.Index(_values(column)), ordered=column.type == "ordinal"
            )
    return pd.DataFrame(found)


def _values(column: Column) -> tuple[str, ...]:
    return (*column.listed, BLANK) if column.models_blanks else column.listed


def bin_column(values: pd.Series, column: Column, bins: int | None) -> pd.Series:
    """Return the public bin of each value. A category is its own bin."""
    if bins is None:
        return values
    edges = bin_edges(column, bins)
    numbers = values.to_numpy(dtype=float)
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, bins - 1)
    labels = _labels(column, edges)
    if column.models_blanks:
        codes = np.where(np.isnan(numbers), bins, codes)
        labels.append(BLANK)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(labels), ordered=True), index=values.index)


def bin_edges(column: Column, bins: int) -> np.ndarray:
    """Return the edges of equal bins: from bound to bound, for whole numbers and dates half a step beyond."""
    lower, upper = column.bounds
    if column.type != "number":
        lower, upper = lower - 0.5, upper + 0.5
    return np.linspace(lower, upper, bins + 1)


def _labels(column: Column, edges: np.ndarray) -> list[str]:
    if column.type == "number":
        return [f"{low:.10g} to {high:.10g}" for low, high in itertools.pairwise(edges)]
    first, last = np.ceil(edges[:-1]), np.ceil(edges[1:]) - 1

    def show(number: float) -> str:
        if column.type == "date":
            return str(EPOCH + datetime.timedelta(days=int(number)))
        return str(int(number))

    pairs = zip(first, last, strict=True)
    return [show(low) if low == high else f"{show(low)} to {show(high)}" for low, high in pairs]
