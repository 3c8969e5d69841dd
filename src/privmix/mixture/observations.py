"""Weighted records as EM sees them: places, and how far each record is spread about its place.

A record may be known exactly, or only as a distribution over places: uniform in a box, or the records of one cell
taken together. EM needs no more of it than the mean of φ(x) = [1, x, vech(xxᵀ)], that is its mean place and its
covariance about that place. With that mean φ̄ for φ the ordinary pass is exact EM, monotone, for
Σ w log Σ_k π_k exp(E[log N_k(x)]), E being the mean over the record's places: the objective is log-sum-exp of
functions linear in φ̄, and the M-step from Σ w γ φ̄ maximises its Jensen bound. It is at most the mean log-density
over the places, with equality as they draw together.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from privmix.errors import UserError

LARGEST = 1e150  # a record beyond this has no square in floating point


@dataclass(frozen=True, eq=False)
class Observations:
    """n weighted records in d dimensions, checked at construction."""

    points: np.ndarray  # (n, d) place, or mean place
    weights: np.ndarray  # (n,) non-negative
    spread: np.ndarray | None = (
        None  # (n, d(d+1)/2) covariance about the place, upper triangle; None: no spread
    )

    def __post_init__(self) -> None:
        # Writable, or numba would compile its loops once more for arrays that are not.
        points, weights = (np.require(part, np.float64, ["C", "W"]) for part in (self.points, self.weights))
        if points.ndim != 2 or 0 in points.shape:
            raise UserError(f"records must be an array (n, d) with n, d >= 1, but have shape {points.shape}.")
        if not (points.max() < LARGEST and points.min() > -LARGEST):
            raise UserError("records must be finite numbers below 1e150; remove NaN, infinity and the like.")
        n, d = points.shape
        if weights.shape != (n,):
            raise UserError(f"{n} records need as many weights, not {weights.shape}.")
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not np.isfinite(total) or (weights < 0).any():
            raise UserError(
                "weights and their sum must be finite and non-negative; project noisy counts to >= 0 first."
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)
        if self.spread is not None:
            spread = np.require(self.spread, np.float64, ["C", "W"])
            if spread.shape != (n, d * (d + 1) // 2) or not np.isfinite(spread).all():
                raise UserError(
                    f"the spread of {n} records in {d} dimensions must be {d * (d + 1) // 2} finite numbers each."
                )
            object.__setattr__(self, "spread", spread)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return self.points.shape[1]

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def blocks(self) -> "list[Observations]":
        """The data in pieces that fit in memory: here all at once. `stream.Stream` has many."""
        return [self]

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (d,) and covariance (d, d) of all records together."""
        shares = self.weights / self.total_weight
        centre = shares @ self.points
        away = self.points - centre
        covariance = (away * shares[:, None]).T @ away
        if self.spread is not None:
            covariance += symmetric(shares @ self.spread, self.dimensions)
        return centre, covariance

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Observations":
        """The records of x = (v - centre) * scale where these are of v."""
        spread = self.spread
        if spread is not None:
            rows, columns = np.triu_indices(self.dimensions)
            spread = spread * (scale[rows] * scale[columns])
        return Observations((self.points - centre) * scale, self.weights, spread)


class Data(Protocol):
    """Weighted records in blocks that fit in memory: `Observations`, or a `stream.Stream`."""

    def __len__(self) -> int: ...

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""

    def blocks(self) -> Iterable[Observations]:
        """The records; each call begins anew."""

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (d,) and covariance (d, d) of all records together."""

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Data":
        """The records of x = (v - centre) * scale where these are of v."""


def observe(points: "np.ndarray | Observations", weights: np.ndarray | None = None) -> Observations:
    """Records at known places, (n, d); weight 1 each unless told. Observations stay as they are."""
    if isinstance(points, Observations):
        if weights is not None:
            raise UserError("these records have weights already; give weights with plain points only.")
        return points
    points = _numbers(points)
    return Observations(points, np.ones(points.shape[:1]) if weights is None else weights)


def _numbers(points: np.ndarray) -> np.ndarray:
    try:
        array = np.asarray(points)
        if np.issubdtype(array.dtype, np.complexfloating):
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise UserError("records must be an array (n, d) of real numbers.") from None


def observe_boxes(lower: np.ndarray, upper: np.ndarray, weights: np.ndarray | None = None) -> Observations:
    """Records known only to be uniform in boxes with corners (n, d): E[xxᵀ] = ccᵀ + diag(h²)/12.

    A fit to them is that of the piecewise uniform density, wider than the records by up to h²/6 (grouping and then
    spreading give h²/12 each): `boxes.fit` takes half of it off.
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if lower.ndim != 2 or lower.shape != upper.shape or (lower > upper).any():
        raise UserError("boxes need lower <= upper corners of one shape (n, d); swap or cut them.")
    n, d = lower.shape
    rows, columns = np.triu_indices(d)
    spread = np.zeros((n, len(rows)))
    spread[:, rows == columns] = (upper - lower) ** 2 / 12
    return Observations((lower + upper) / 2, np.ones(n) if weights is None else weights, spread)


def compress(observations: Observations) -> Observations:
    """The same data with equal records merged into one of their summed weight. Exact; those of no weight go."""
    records, index = distinct(observations)
    weights = np.bincount(index, observations.weights, minlength=len(records))
    kept = weights > 0
    return _taken(records, kept, weights[kept])


def distinct(observations: Observations) -> tuple[Observations, np.ndarray]:
    """The distinct records, each of weight 1 and in order of their coordinates, and which of them each record is."""
    columns = [*observations.points.T, *(() if observations.spread is None else observations.spread.T)]
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[0] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    index = np.empty(len(order), dtype=np.int64)
    index[order] = np.cumsum(new) - 1
    first = order[new]
    return _taken(observations, first, np.ones(len(first))), index


def aggregate(observations: Observations, cells: np.ndarray) -> Observations:
    """One record for each integer cell id: mean place, the spread about it, summed weight.

    Moments stay exact; the records of a cell share their responsibilities.
    """
    cells = np.asarray(cells)
    if cells.shape != (len(observations),) or not np.issubdtype(cells.dtype, np.integer):
        raise UserError(f"aggregate needs one integer cell id for each of {len(observations)} records.")
    _, index = np.unique(cells, return_inverse=True)
    total = np.bincount(index, observations.weights)
    shares = np.divide(observations.weights, total[index], where=total[index] > 0, out=np.zeros(len(index)))
    means = np.column_stack([np.bincount(index, shares * column) for column in observations.points.T])
    away = observations.points - means[index]
    rows, columns = np.triu_indices(observations.dimensions)
    products = away[:, rows] * away[:, columns]
    if observations.spread is not None:
        products += observations.spread
    spread = np.column_stack([np.bincount(index, shares * column) for column in products.T])
    kept = total > 0
    return Observations(means[kept], total[kept], spread[kept])


def sampled(data: Data, size: int, rng: np.random.Generator) -> Observations:
    """A systematic sample: `size` draws, each record as often as its weight earns, to within one. All when few."""
    if size >= len(data):
        return _joined(data.blocks())
    ticks = (np.arange(size) + rng.random()) * (data.total_weight / size)
    drawn, passed = [], 0.0
    for block in data.blocks():
        mass = passed + np.cumsum(block.weights)
        here = ticks[np.searchsorted(ticks, passed) : np.searchsorted(ticks, mass[-1])]
        passed = mass[-1]
        if len(here):
            rows, draws = np.unique(np.searchsorted(mass[:-1], here, side="right"), return_counts=True)
            drawn.append(_taken(block, rows, draws))
    return _joined(drawn)


@cache
def upper_triangle(
    d: int, diagonal: float = 1.0, off_diagonal: float = math.sqrt(2)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of the upper triangle of d by d matrices, and a factor for each entry.

    With the default factors the triangle of a symmetric matrix has the length of the whole matrix.
    """
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, diagonal, off_diagonal)


def symmetric(triangle: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrices (..., d, d) of upper triangles (..., d(d+1)/2)."""
    return triangle[..., _place_in_triangle(d)]


@cache
def _place_in_triangle(d: int) -> np.ndarray:
    rows, columns = np.triu_indices(d)
    place = np.empty((d, d), dtype=np.intp)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return place


def _joined(parts: Iterable[Observations]) -> Observations:
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    spread = None if parts[0].spread is None else np.concatenate([part.spread for part in parts])
    return Observations(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.weights for part in parts]),
        spread,
    )


def _taken(observations: Observations, rows: np.ndarray, weights: np.ndarray) -> Observations:
    spread = None if observations.spread is None else observations.spread[rows]
    return Observations(observations.points[rows], weights, spread)
