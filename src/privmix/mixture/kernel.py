"""The one pass over the data: records and parameters in, sufficient statistics out.

log N(x; μ, Σ) is linear in φ(x) = [1, x, vech(xxᵀ)], so the E-step of a block of records is one matrix product
and its statistics another. Rounding in the log-densities is about 1e-16 ‖x‖²/σ² for the smallest standard
deviation σ: records belong in the unit ball, and σ well above 1e-7 (a floored covariance is).

A record may also be known only as the mean of φ over a set of places: a uniform box, or the records of one cell.
With φ̄ for φ the same pass is exact EM, monotone, for Σ w log Σ_k π_k exp(E[log N_k(x)]), E being the mean over
the set: the objective is log-sum-exp of functions linear in φ̄, and the M-step from Σ w γ φ̄ maximises its
Jensen bound. It is at most the mean log-density over the set, with equality as the set shrinks.
"""

from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments

CELLS = 32768  # rows times components of a block: its responsibilities stay in the cache


@dataclass(frozen=True, eq=False)
class Observations:
    """Weighted records as their features φ = [1, x, upper triangle of xxᵀ by rows]."""

    features: np.ndarray  # (n, 1 + d + d(d+1)/2)
    weights: np.ndarray  # (n,) non-negative

    def __post_init__(self) -> None:
        if not np.isfinite(self.features).all():
            raise UserError("records must be finite numbers; remove the rows with NaN or infinity.")
        if self.weights.shape != (len(self.features),):
            raise UserError(f"{len(self.features)} records need as many weights, not {self.weights.shape}.")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise UserError("weights must be finite and non-negative; project noisy counts to >= 0 first.")
        if not self.weights.sum() > 0:
            raise UserError("there is nothing to fit: no record has a positive weight.")

    def __len__(self) -> int:
        return len(self.features)

    @property
    def dimensions(self) -> int:
        """Number of coordinates d, from p = (d + 1)(d + 2)/2."""
        return round((np.sqrt(8 * self.features.shape[1] + 1) - 3) / 2)

    @property
    def points(self) -> np.ndarray:
        """Place (or mean place) of each record, (n, d)."""
        return self.features[:, 1 : 1 + self.dimensions]

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (d,) and covariance (d, d) of all records together."""
        d = self.dimensions
        total = self.weights @ self.features / self.total_weight
        return total[1 : 1 + d], _square(total[1 + d :], d) - np.outer(total[1 : 1 + d], total[1 : 1 + d])


def observe(points: np.ndarray, weights: np.ndarray | None = None) -> Observations:
    """Records at known places, (n, d); weight 1 each unless told."""
    points = _places(points)
    rows, columns = np.triu_indices(points.shape[1])
    return _observations(points, points[:, rows] * points[:, columns], weights)


def observe_boxes(lower: np.ndarray, upper: np.ndarray, weights: np.ndarray | None = None) -> Observations:
    """Records known only to be uniform in boxes with corners (n, d): E[xxᵀ] = ccᵀ + diag(h²)/12.

    The fit is that of the piecewise uniform density. Cells of side h around data of variance σ² have variance
    σ² + h²/6 (grouping and then spreading give h²/12 each), so cells should be finer than the components.
    """
    lower, upper = _places(lower), _places(upper)
    if lower.shape != upper.shape or (lower > upper).any():
        raise UserError("boxes need lower <= upper corners of the same shape; swap or cut them.")
    centre, side = (lower + upper) / 2, upper - lower
    rows, columns = np.triu_indices(centre.shape[1])
    squares = centre[:, rows] * centre[:, columns]
    squares[:, rows == columns] += side**2 / 12
    return _observations(centre, squares, weights)


def compress(observations: Observations) -> Observations:
    """The same data with equal rows merged into one of their summed weight. Exact; rows of no weight go."""
    kept = observations.weights > 0
    features, weights = observations.features[kept], observations.weights[kept]
    order = np.lexsort(features.T)
    features, weights = features[order], weights[order]
    first = np.concatenate([[True], (features[1:] != features[:-1]).any(axis=1)])
    return Observations(features[first], np.add.reduceat(weights, np.flatnonzero(first)))


def aggregate(observations: Observations, cells: np.ndarray) -> Observations:
    """One row for each integer cell id: mean features, summed weight.

    Moments stay exact; the records of a cell share their responsibilities.
    """
    cells = np.asarray(cells)
    if cells.shape != (len(observations),) or not np.issubdtype(cells.dtype, np.integer):
        raise UserError(f"aggregate needs one integer cell id for each of {len(observations)} records.")
    _, inverse = np.unique(cells, return_inverse=True)
    weights = np.bincount(inverse, observations.weights)
    sums = [np.bincount(inverse, observations.weights * column) for column in observations.features.T]
    kept = weights > 0
    return Observations(np.column_stack(sums)[kept] / weights[kept, None], weights[kept])


def sampled(observations: Observations, size: int, rng: np.random.Generator) -> Observations:
    """A systematic sample: `size` draws, each row as often as its weight earns, to within one. All when few."""
    if size >= len(observations):
        return observations
    mass = np.cumsum(observations.weights)
    ticks = (np.arange(size) + rng.random()) * (mass[-1] / size)
    rows, draws = np.unique(np.searchsorted(mass[:-1], ticks, side="right"), return_counts=True)
    return Observations(observations.features[rows], draws.astype(np.float64))


def log_joint(observations: Observations, mixture: Mixture) -> np.ndarray:
    """log of weight times density, (K, n), all at once: for a sample, not for all the data."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(mixture.weights)
    return _coefficients(mixture) @ observations.features.T + log_weights[:, None]


def em_pass(observations: Observations, mixture: Mixture) -> Moments:
    """E-step and statistics in one pass over blocks of records; no array of records by components is kept."""
    k, d = mixture.means.shape
    features, weights = observations.features, observations.weights
    # A component of weight zero stays out: the infinite log of its weight would spoil the matrix product.
    alive = np.flatnonzero(mixture.weights > 0)
    coefficients = _coefficients(mixture)[alive]
    coefficients[:, 0] += np.log(mixture.weights[alive])
    statistics = np.zeros((len(alive), features.shape[1]))
    log_likelihood = 0.0
    rows = max(64, CELLS // len(alive))
    for first in range(0, len(features), rows):
        block, weight = features[first : first + rows], weights[first : first + rows]
        joint = coefficients @ block.T
        peak = joint.max(axis=0)
        joint -= peak
        np.exp(joint, out=joint)
        density = joint.sum(axis=0)
        log_likelihood += float(weight @ (peak + np.log(density)))
        joint *= weight / density
        statistics += joint @ block
    every = np.zeros((k, features.shape[1]))
    every[alive] = statistics
    return Moments(
        counts=every[:, 0],
        sums=every[:, 1 : 1 + d],
        squares=_square(every[:, 1 + d :], d),
        log_likelihood=log_likelihood,
        total_weight=observations.total_weight,
    )


def _coefficients(mixture: Mixture) -> np.ndarray:
    """W with log N_k(x) = W_k · φ(x), (K, p): the exponential-family form of the Gaussian."""
    d = mixture.dimensions
    inverse = np.linalg.inv(mixture.cholesky)
    precision = np.swapaxes(inverse, 1, 2) @ inverse
    linear = np.einsum("kij,kj->ki", precision, mixture.means)
    log_determinant = 2 * np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum(axis=1)
    distance = np.einsum("ki,ki->k", linear, mixture.means)
    rows, columns = np.triu_indices(d)
    quadratic = precision[:, rows, columns] * np.where(rows == columns, -0.5, -1.0)
    constant = -0.5 * (d * np.log(2 * np.pi) + log_determinant + distance)
    return np.column_stack([constant, linear, quadratic])


def _places(points: np.ndarray) -> np.ndarray:
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or 0 in points.shape:
        raise UserError(f"records must be an array (n, d) with n, d >= 1, but have shape {points.shape}.")
    return points


def _observations(points: np.ndarray, squares: np.ndarray, weights: np.ndarray | None) -> Observations:
    n = len(points)
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    return Observations(np.column_stack([np.ones(n), points, squares]), weights)


def _square(triangle: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrices (..., d, d) of upper triangles (..., d(d+1)/2)."""
    rows, columns = np.triu_indices(d)
    square = np.empty((*triangle.shape[:-1], d, d))
    square[..., rows, columns] = square[..., columns, rows] = triangle
    return square
