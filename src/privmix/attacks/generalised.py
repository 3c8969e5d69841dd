"""Generalised tables: rows with ranges of quasi-identifiers instead of values, and which of them fit a person.

A column `<name>` has exact values. Two columns `<name>_from` and `<name>_to` have the ends of a range, both included.
The order of the values of a `Categorical` is that of its categories.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

FROM, TO = "_from", "_to"  # as in `naive.k_anonymity`, which is a package beside this one


def range_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the quasi-identifiers of which a table has ranges."""
    ends = [name for name in map(str, table.columns) if name.endswith(FROM)]
    return [name.removesuffix(FROM) for name in ends if name.removesuffix(FROM) + TO in table]


@dataclass(frozen=True, eq=False)
class Classes:
    """The distinct ranges of a table."""

    names: tuple[str, ...]
    low: np.ndarray  # (classes, names)
    high: np.ndarray
    of_row: np.ndarray  # class of each row of the table
    sizes: np.ndarray

    def fit(self, known: np.ndarray, columns: Sequence[int]) -> np.ndarray:
        """Return whether each person, a row of positions, may be in each class by the given columns."""
        chosen = list(columns)
        fits = np.ones((len(known), len(self.sizes)), dtype=bool)
        for column in chosen:
            values = known[:, column, None]
            fits &= (self.low[:, column] <= values) & (values <= self.high[:, column])
        return fits


def find_classes(table: pd.DataFrame, known: pd.DataFrame, names: Sequence[str]) -> Classes:
    """Group the rows of a table by their ranges. `known` gives the order of the values of each column."""
    ends = [
        positions(table[name + end] if name + FROM in table else table[name], known[name])
        for end in (FROM, TO)
        for name in names
    ]
    distinct, of_row = np.unique(np.column_stack(ends), axis=0, return_inverse=True)
    of_row = of_row.ravel()
    low, high = distinct[:, : len(names)], distinct[:, len(names) :]
    return Classes(tuple(names), low, high, of_row, np.bincount(of_row))


def positions(values: pd.Series, order: pd.Series) -> np.ndarray:
    """Return the position of each value in the order of a column; numbers are their own position."""
    if isinstance(order.dtype, pd.CategoricalDtype):
        return order.cat.categories.get_indexer(pd.Index(values.astype(object))).astype(float)
    return values.to_numpy(dtype=float)
