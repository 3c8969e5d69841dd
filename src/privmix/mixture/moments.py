"""Weighted records, their sufficient statistics, and the parameters that these determine.

`kernel.em_pass` turns `Observations` and parameters into `Moments`. `estimate` turns moments into parameters and
sees no data. A private mechanism adds its noise between the two, and nowhere else.

A record may be known exactly, or only as a distribution over places: uniform in a box, or the records of one cell
taken together. EM needs only the mean of φ(x) = [1, x, vech(xxᵀ)], that is the record's mean place and its
covariance about that place. With that mean φ̄ for φ the ordinary pass is exact EM, monotone, for
Σ w log Σ_k π_k exp(E[log N_k(x)]), where E is the mean over the record's places: the objective is log-sum-exp of
functions linear in φ̄, and the M-step from Σ w γ φ̄ maximises its Jensen bound. The objective is at most the mean
log-density over the places, and equal to it in the limit of places that coincide.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import numpy as np

from privmix.errors import UserError, suggest
from privmix.mixture.model import Mixture

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
            covariance += symmetric_matrix(shares @ self.spread, self.dimensions)
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
    points = _as_numbers(points)
    return Observations(points, np.ones(points.shape[:1]) if weights is None else weights)


def _as_numbers(points: np.ndarray) -> np.ndarray:
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
    records, index = distinct_records(observations)
    weights = np.bincount(index, observations.weights, minlength=len(records))
    kept = weights > 0
    return _select_rows(records, kept, weights[kept])


def distinct_records(observations: Observations) -> tuple[Observations, np.ndarray]:
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
    return _select_rows(observations, first, np.ones(len(first))), index


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


def systematic_sample(data: Data, size: int, rng: np.random.Generator) -> Observations:
    """A systematic sample: `size` draws, each record as often as its weight earns, to within one. All when few."""
    if size >= len(data):
        return _concatenate(data.blocks())
    ticks = (np.arange(size) + rng.random()) * (data.total_weight / size)
    drawn, passed = [], 0.0
    for block in data.blocks():
        mass = passed + np.cumsum(block.weights)
        here = ticks[np.searchsorted(ticks, passed) : np.searchsorted(ticks, mass[-1])]
        passed = mass[-1]
        if len(here):
            rows, draws = np.unique(np.searchsorted(mass[:-1], here, side="right"), return_counts=True)
            drawn.append(_select_rows(block, rows, draws))
    return _concatenate(drawn)


@cache
def upper_triangle(
    d: int, diagonal: float = 1.0, off_diagonal: float = math.sqrt(2)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of the upper triangle of d by d matrices, and a factor for each entry.

    With the default factors the triangle of a symmetric matrix has the length of the whole matrix.
    """
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, diagonal, off_diagonal)


def symmetric_matrix(triangle: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrices (..., d, d) of upper triangles (..., d(d+1)/2)."""
    return triangle[..., _triangle_positions(d)]


@cache
def _triangle_positions(d: int) -> np.ndarray:
    rows, columns = np.triu_indices(d)
    place = np.empty((d, d), dtype=np.intp)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return place


def _concatenate(parts: Iterable[Observations]) -> Observations:
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    spread = None if parts[0].spread is None else np.concatenate([part.spread for part in parts])
    return Observations(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.weights for part in parts]),
        spread,
    )


def _select_rows(observations: Observations, rows: np.ndarray, weights: np.ndarray) -> Observations:
    spread = None if observations.spread is None else observations.spread[rows]
    return Observations(observations.points[rows], weights, spread)


Covariance = Literal["full", "diagonal", "tied"]
COVARIANCES = ("full", "diagonal", "tied")
NEGLIGIBLE = 1e-12  # share of the total weight below which a component's moments carry no information
FLATTEST = 1e-12  # smallest ratio of eigenvalues: below it a matrix is not reliably positive definite


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over records i with weight w and responsibilities γ. A stack of them has one more axis, first."""

    counts: np.ndarray  # (K,)       Σ w γ
    sums: np.ndarray  # (K, d)       Σ w γ x
    squares: np.ndarray  # (K, d, d) Σ w γ x xᵀ, not centred
    log_likelihood: float | np.ndarray  # Σ w log p(x) at the parameters that gave γ
    total_weight: float | np.ndarray  # Σ w

    def __getitem__(self, rows) -> "Moments":
        return Moments(
            self.counts[rows],
            self.sums[rows],
            self.squares[rows],
            self.log_likelihood[rows],
            self.total_weight[rows],
        )


@dataclass(frozen=True, eq=False)
class Parameters:
    """m mixtures of one shape side by side, unchecked: what EM holds between its steps."""

    weights: np.ndarray  # (m, K)
    means: np.ndarray  # (m, K, d)
    covariances: np.ndarray  # (m, K, d, d)

    @classmethod
    def of(cls, mixtures: Sequence[Mixture]) -> "Parameters":
        """The stack of these mixtures."""
        return cls(
            np.array([each.weights for each in mixtures]),
            np.array([each.means for each in mixtures]),
            np.array([each.covariances for each in mixtures]),
        )

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows) -> "Parameters":
        return Parameters(self.weights[rows], self.means[rows], self.covariances[rows])

    def mixture(self, number: int) -> Mixture:
        """One of them, checked."""
        return Mixture(self.weights[number], self.means[number], self.covariances[number])


@dataclass(frozen=True)
class Prior:
    """Dirichlet(alpha) on the weights; normal-inverse-Wishart(mean 0, kappa, nu, scale·I) on each (μ, Σ).

    The defaults are those of Park et al. 2017, "DP-EM" (arXiv 1605.06995), for records in the unit ball.
    """

    alpha: float = 2.0
    kappa: float = 1.0
    nu: float | None = None  # d + 2 when None
    scale: float = 0.1

    def __post_init__(self) -> None:
        if self.alpha < 1 or self.kappa < 0 or self.scale < 0:
            raise UserError(
                f"a prior needs alpha >= 1, kappa >= 0 and scale >= 0, but has alpha = {self.alpha}, "
                f"kappa = {self.kappa}, scale = {self.scale}."
            )

    def freedom(self, dimensions: int) -> float:
        """Degrees of freedom ν of the inverse Wishart."""
        return dimensions + 2.0 if self.nu is None else float(self.nu)

    def log_density(self, parameters: Parameters | Mixture) -> float | np.ndarray:
        """log prior density, up to a constant: what MAP adds to the log-likelihood. One for each of a stack."""
        d = parameters.means.shape[-1]
        cholesky = np.linalg.cholesky(parameters.covariances)
        inverse = np.linalg.inv(cholesky)
        log_determinant = 2 * np.log(np.diagonal(cholesky, axis1=-2, axis2=-1)).sum(axis=(-2, -1))
        trace = np.square(inverse).sum(axis=(-3, -2, -1))
        distance = np.square(inverse @ parameters.means[..., None]).sum(axis=(-3, -2, -1))
        with np.errstate(divide="ignore"):
            log_weights = np.log(parameters.weights).sum(axis=-1) if self.alpha > 1 else 0.0
        wishart = -0.5 * ((self.freedom(d) + d + 2) * log_determinant + self.scale * trace)
        return (self.alpha - 1) * log_weights + wishart - 0.5 * self.kappa * distance


def estimate(
    moments: Moments, *, floor: np.ndarray, prior: Prior | None = None, covariance: Covariance = "full"
) -> Mixture:
    """The mixture of largest likelihood (or of largest posterior density) given moments, with Σ ⪰ diag(floor).

    Without a prior π = N_k/N, μ = s_k/N_k, Σ = Q_k/N_k - μμᵀ. With one it is the joint mode of
    Dirichlet and normal-inverse-Wishart posteriors (Murphy 2012, "Machine Learning", §11.4.2.8, prior mean 0):
        π = (N_k + α - 1)/(N + K(α - 1)),  μ = s_k/(κ + N_k),
        Σ = (S0 + Q_k - (κ + N_k)μμᵀ)/(ν + N_k + d + 2).
    The inverse Wishart's |Σ|^-(ν+d+1)/2, the normal's |Σ|^-1/2 and the records' |Σ|^-N_k/2 make the exponent.

    `diagonal` keeps the variances alone; `tied` shares Σ_k N_k Σ_k / N among all components. Each is the maximum
    over its own family.

    Noised moments need not belong to any data. Negative counts are taken as zero. A component with no count (and
    kappa = 0) takes the mean and covariance of all components together; if those have no count either, mean zero.
    If no component has weight the weights are equal. `floor` repairs what is not positive definite.
    """
    stacked = Moments(
        moments.counts[None],
        moments.sums[None],
        moments.squares[None],
        np.array([moments.log_likelihood]),
        np.array([moments.total_weight]),
    )
    return estimates(stacked, floor=floor, prior=prior, covariance=covariance).mixture(0)


def estimates(
    moments: Moments, *, floor: np.ndarray, prior: Prior | None = None, covariance: Covariance = "full"
) -> Parameters:
    """`estimate` for a stack of moments."""
    if covariance not in COVARIANCES:
        raise UserError(f"covariance {covariance!r} is not known; {suggest(covariance, COVARIANCES)}")
    if prior is not None and covariance != "full":
        raise UserError(
            f"a prior goes with full covariances, not with {covariance!r}; leave one of them out."
        )
    d = moments.sums.shape[-1]
    alpha, kappa, scale = (1.0, 0.0, 0.0) if prior is None else (prior.alpha, prior.kappa, prior.scale)
    freedom = 0.0 if prior is None else prior.freedom(d) + d + 2
    counts, sums, squares = np.maximum(moments.counts, 0.0), moments.sums, moments.squares
    weights = counts + (alpha - 1)
    mass = weights.sum(axis=1, keepdims=True)
    weights = np.where(mass > 0, weights, 1.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    total = counts.sum(axis=1, keepdims=True)
    least = NEGLIGIBLE * np.maximum(total, np.asarray(moments.total_weight)[:, None])
    empty = kappa + counts <= least
    if empty.any():
        hopeless = (kappa + total <= least)[..., None]
        whole = np.where(hopeless, 0.0, sums.sum(axis=1, keepdims=True))
        whole_squares = np.where(hopeless[..., None], 0.0, squares.sum(axis=1, keepdims=True))
        sums = np.where(empty[..., None], whole, sums)
        squares = np.where(empty[..., None, None], whole_squares, squares)
        counts = np.where(empty, np.where(hopeless[..., 0], 1.0, total), counts)
    means = sums / (kappa + counts)[..., None]
    # (κ + N)μμᵀ = sμᵀ, which keeps the digits that a product with a large count would lose.
    scatter = squares - sums[..., :, None] * means[..., None, :]
    if scale:
        scatter = scatter + scale * np.eye(d)
    covariances = scatter / (freedom + counts)[..., None, None]
    if covariance == "diagonal":
        covariances = covariances * np.eye(d)
    elif covariance == "tied":
        pooled = (weights[..., None, None] * covariances).sum(axis=1, keepdims=True)
        covariances = np.broadcast_to(pooled, covariances.shape)
    return Parameters(weights, means, floor_covariances(covariances, floor))


def floor_covariances(covariances: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Covariances (..., d, d) with variance at least that of diag(floor) in every direction.

    In units where diag(floor) is the identity the eigenvalues are raised to 1. That is the constrained maximum
    of the Gaussian likelihood, -(log λ + s/λ) being largest over λ ≥ 1 at max(s, 1), so EM stays monotone. An
    eigenvalue that would vanish beside the largest in floating point is raised too.
    """
    floor = np.asarray(floor, dtype=np.float64)
    d = covariances.shape[-1]
    if floor.shape != (d,) or not (np.isfinite(floor) & (floor > 0)).all():
        raise UserError(f"the floor must be {d} positive variances, one a coordinate, but is {floor}.")
    root = np.sqrt(floor)
    unit = root[:, None] * root
    mirrored = (covariances + np.swapaxes(covariances, -1, -2)) / 2
    values = np.linalg.eigvalsh(mirrored / unit)
    low = values[..., 0] < np.maximum(1.0, FLATTEST * values[..., -1])
    if not low.any():
        return mirrored
    values, vectors = np.linalg.eigh(mirrored[low] / unit)
    values = np.maximum(values, np.maximum(1.0, FLATTEST * values[..., -1:]))
    mirrored[low] = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2) * unit
    return mirrored
