"""Tables of numbers and categories, and what a comparison needs of one: bins, moments, associations, projections.

Bins are public. A number has equal bins between its public bounds, at most `MOST_BINS`; if its resolution divides the
bounds into fewer steps, the bins are centred on these steps. A category with more values has `MOST_BINS` groups of
consecutive values. So nothing about a bin depends on a record.

A number may be missing in a row (NaN). Statistics of a column or pair use the rows that have it. Where a number is
missing is a column of its own, the state of the number (`artefacts.domain`).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmix.artefacts.usefulness import QUANTILES, NumberSummary

MOST_BINS = 16
DIRECTIONS = 32
Measure = Literal["Pearson", "Cramér's V", "correlation ratio"]


@dataclass(frozen=True)
class NumberColumn:
    """A number with public bounds, in its unit; `scale` turns a difference into normalised coordinates."""

    name: str
    lower: float
    upper: float
    resolution: float
    scale: float

    @property
    def steps(self) -> float:
        """Steps of the resolution between the bounds."""
        return (self.upper - self.lower) / self.resolution

    @property
    def lattice(self) -> bool:
        """Whether the bins are centred on the steps of the resolution."""
        return self.steps < MOST_BINS - 0.5 and abs(self.steps - round(self.steps)) < 1e-9

    @property
    def bins(self) -> int:
        """Number of bins."""
        return round(self.steps) + 1 if self.lattice else MOST_BINS

    @property
    def edges(self) -> np.ndarray:
        """Edges of the bins."""
        if self.lattice:
            return self.lower + self.resolution * (np.arange(self.bins + 1) - 0.5)
        return np.linspace(self.lower, self.upper, self.bins + 1)

    def bin_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value. Values outside the bounds belong to the first or the last bin."""
        edges = self.edges
        found = np.floor((values - edges[0]) * (self.bins / (edges[-1] - edges[0])))
        return np.clip(found, 0, self.bins - 1).astype(np.int64)


@dataclass(frozen=True)
class CategoryColumn:
    """A category with a public number of values; a table holds the code of each value."""

    name: str
    values: int
    state_of: tuple[str, ...] = ()  # the numbers whose states this is

    @property
    def bins(self) -> int:
        """Number of bins."""
        return min(self.values, MOST_BINS)

    def bin_numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return the bin of each code."""
        return codes.astype(np.int64) * self.bins // self.values


Column = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class Table:
    """Rows of some columns: numbers in their units, NaN if missing, and codes of categories, (n,) each."""

    columns: tuple[Column, ...]
    values: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values[self.columns[0].name])

    @property
    def numbers(self) -> tuple[NumberColumn, ...]:
        """The number columns."""
        return tuple(column for column in self.columns if isinstance(column, NumberColumn))

    @property
    def coordinates(self) -> np.ndarray:
        """The numbers in normalised coordinates up to a public shift, (n, d); in the middle if missing."""
        found = []
        for column in self.numbers:
            values = self.values[column.name]
            given = np.where(np.isnan(values), (column.lower + column.upper) / 2, values)
            found.append((given - column.lower) * column.scale)
        return np.column_stack(found) if found else np.empty((self.rows, 0))

    @property
    def pairs(self) -> list[tuple[Column, Column]]:
        """All pairs of columns, except a number and its own state, which is constant where the number is given."""
        return [
            (first, second)
            for first, second in itertools.combinations(self.columns, 2)
            if not isinstance(second, CategoryColumn) or first.name not in second.state_of
        ]

    def given(self, *names: str) -> np.ndarray:
        """Return which rows have all of these columns, (n,)."""
        numbers = {column.name for column in self.numbers}
        found = np.ones(self.rows, dtype=bool)
        for name in numbers & {*names}:
            found &= ~np.isnan(self.values[name])
        return found


@dataclass(frozen=True)
class TableSummary:
    """The statistics of a table that comparisons use. A pair is keyed by its names, in the order of the columns."""

    table: Table
    ordered: Mapping[str, np.ndarray]  # number -> sorted values
    numbers: Mapping[str, NumberSummary]  # without columns that no row has
    shares: Mapping[str, np.ndarray]  # column -> (bins,)
    joint: Mapping[tuple[str, str], np.ndarray]  # pair -> (bins, bins)
    association: Mapping[tuple[str, str], tuple[Measure, float]]
    projections: np.ndarray  # (DIRECTIONS, n) sorted


def summarize(table: Table) -> TableSummary:
    """Compute the statistics of a table with at least one row."""
    given = {column.name: table.given(column.name) for column in table.columns}
    binned = {
        column.name: column.bin_numbers(np.nan_to_num(table.values[column.name])) for column in table.columns
    }
    joint = {}
    for first, second in table.pairs:
        both = given[first.name] & given[second.name]
        cell = (binned[first.name] * second.bins + binned[second.name])[both]
        counts = np.bincount(cell, minlength=first.bins * second.bins).reshape(first.bins, second.bins)
        joint[first.name, second.name] = counts / max(both.sum(), 1)
    shares = {
        name: np.bincount(binned[name][rows], minlength=column.bins) / max(rows.sum(), 1)
        for column, (name, rows) in zip(table.columns, given.items(), strict=True)
    }
    ordered = {
        column.name: np.sort(table.values[column.name][given[column.name]]) for column in table.numbers
    }
    coordinates = table.coordinates
    return TableSummary(
        table=table,
        ordered=ordered,
        numbers={name: _summarize_number(values) for name, values in ordered.items() if len(values)},
        shares=shares,
        joint=joint,
        association=_associations(table, binned, joint),
        projections=np.sort(directions(coordinates.shape[1]) @ coordinates.T, axis=1),
    )


def directions(dimensions: int) -> np.ndarray:
    """Return the public unit vectors of the sliced Wasserstein distance, (m, d): the same for every table."""
    if dimensions < 2:
        return np.ones((dimensions, dimensions))
    drawn = np.random.default_rng(0).normal(size=(DIRECTIONS, dimensions))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def cramers_v(joint: np.ndarray) -> float:
    """Compute Cramér's V of a two-way table of shares: √(φ² / (min(r, c) - 1)), φ² = Σ (p_ij - p_i p_j)² / (p_i p_j).

    Rows and columns without a record do not count. (Cramér 1946, p. 282.)
    """
    filled = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    smaller = min(filled.shape)
    if smaller < 2:
        return 0.0
    expected = np.outer(filled.sum(axis=1), filled.sum(axis=0))
    return float(np.sqrt(((filled - expected) ** 2 / expected).sum() / (smaller - 1)))


def correlation_ratio(numbers: np.ndarray, groups: np.ndarray, n_groups: int) -> float:
    """Compute the correlation ratio η = √(variance between the group means / total variance) (Fisher 1925)."""
    if not len(numbers):
        return 0.0
    counts = np.bincount(groups, minlength=n_groups)
    centred = numbers - numbers.mean()
    total = float(centred @ centred)
    if total <= 0:
        return 0.0
    sums = np.bincount(groups, centred, minlength=n_groups)
    between = float((sums**2 / np.maximum(counts, 1)).sum())
    return float(np.sqrt(min(between / total, 1.0)))


def _associations(
    table: Table, binned: Mapping[str, np.ndarray], joint: Mapping[tuple[str, str], np.ndarray]
) -> dict[tuple[str, str], tuple[Measure, float]]:
    """Compute Pearson's correlation of two numbers, Cramér's V of two categories, else the correlation ratio."""
    place = {column.name: number for number, column in enumerate(table.numbers)}
    coordinates = table.coordinates
    pearson = _pearson(coordinates)
    found: dict[tuple[str, str], tuple[Measure, float]] = {}
    for first, second in table.pairs:
        pair = (first.name, second.name)
        rows = table.given(*pair)
        if isinstance(first, NumberColumn) and isinstance(second, NumberColumn):
            places = [place[first.name], place[second.name]]
            known = pearson[np.ix_(places, places)] if rows.all() else _pearson(coordinates[rows][:, places])
            found[pair] = ("Pearson", float(known[0, 1]))
        elif isinstance(first, CategoryColumn) and isinstance(second, CategoryColumn):
            found[pair] = ("Cramér's V", cramers_v(joint[pair]))
        else:
            number, group = (first, second) if isinstance(first, NumberColumn) else (second, first)
            ratio = correlation_ratio(table.values[number.name][rows], binned[group.name][rows], group.bins)
            found[pair] = ("correlation ratio", ratio)
    return found


def _pearson(coordinates: np.ndarray) -> np.ndarray:
    """Compute Pearson's correlations, (d, d); 0 for a constant column, or without rows."""
    if not len(coordinates):
        return np.zeros((coordinates.shape[1],) * 2)
    centred = coordinates - coordinates.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    unit = centred / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.clip(unit.T @ unit, -1.0, 1.0))


def _summarize_number(ordered: np.ndarray) -> NumberSummary:
    quantiles = np.quantile(ordered, QUANTILES)
    return NumberSummary(
        mean=float(ordered.mean()),
        standard_deviation=float(ordered.std()),
        quantiles=tuple(float(value) for value in quantiles),
    )
