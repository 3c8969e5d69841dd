"""Weighted records, their sufficient statistics, and the parameters that follow from these statistics.

`kernel.em_pass` turns `Observations` and parameters into `Moments`. `estimate` turns moments into parameters and
sees no data. A private mechanism adds its noise between the two, and nowhere else.

The place of a record may be known exactly, or only as a distribution over places: uniform in a box, or that of all
records in one cell. EM needs only the mean of φ(x) = [1, x, vech(xxᵀ)], that is, the mean place of the record and
the covariance about it. With this mean φ̄ instead of φ, the ordinary pass is exact, monotone EM for the objective
Σ w log Σ_k π_k exp(E[log N_k(x)]), where E is the mean over the places of the record. The reason: the objective is
log-sum-exp of functions linear in φ̄, and the M-step from Σ w γ φ̄ maximises its Jensen bound. The objective is at
most the mean log-density over the places. The two are equal in the limit of places that coincide.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import numpy as np

from privmix.errors import UserError, suggest
from privmix.mixture.model import Mixture, split_patterns

LARGEST = 1e150  # the square of a larger coordinate overflows


@dataclass(frozen=True, eq=False)
class Observations:
    """n weighted records in d dimensions. The constructor checks all values.

    d is 0 only for records that lack all coordinates (`IncompleteObservations`).
    """

    points: np.ndarray  # (n, d) places, or mean places
    weights: np.ndarray  # (n,) non-negative
    # (n, d(d+1)/2) covariance about the place, upper triangle; None if the place is known exactly
    spread: np.ndarray | None = None

    def __post_init__(self) -> None:
        # The arrays must be writable. Otherwise numba compiles its loops a second time for read-only arrays.
        points, weights = (np.require(part, np.float64, ["C", "W"]) for part in (self.points, self.weights))
        if points.ndim != 2 or not len(points):
            raise UserError(f"records must be an array (n, d) with n, d >= 1, but have shape {points.shape}.")
        if not (points.max(initial=0.0) < LARGEST and points.min(initial=0.0) > -LARGEST):
            raise UserError(
                "records must be finite numbers below 1e150; remove rows with NaN, infinity or larger numbers."
            )
        n, d = points.shape
        if weights.shape != (n,):
            raise UserError(f"{n} records need weights of shape ({n},), but they have shape {weights.shape}.")
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
                    f"the spread of {n} records in {d} dimensions must have {d * (d + 1) // 2} finite numbers "
                    "per record; check its shape and remove NaN and infinity."
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
        """Return the data in blocks that fit in memory. Here it is one block; a `stream.Stream` has many."""
        return [self]

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean (d,) and covariance (d, d) of all records."""
        shares = self.weights / self.total_weight
        centre = shares @ self.points
        away = self.points - centre
        covariance = (away * shares[:, None]).T @ away
        if self.spread is not None:
            covariance += symmetric_matrix(shares @ self.spread, self.dimensions)
        return centre, covariance

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Observations":
        """Convert records of v to records of x = (v - centre) * scale."""
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
        """Iterate over the records. Each call starts from the first block."""

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean (d,) and covariance (d, d) of all records."""

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "Data":
        """Convert records of v to records of x = (v - centre) * scale."""


def observe(points: np.ndarray | Data, weights: np.ndarray | None = None) -> Observations:
    """Make observations from points (n, d), by default with weight 1 each. Return observations unchanged."""
    if isinstance(points, Observations):
        if weights is not None:
            raise UserError("these records already have weights; pass weights only together with an array.")
        return points
    points = _as_numbers(points)
    if points.ndim == 2 and not points.shape[1]:
        raise UserError(f"records must be an array (n, d) with n, d >= 1, but have shape {points.shape}.")
    return Observations(points, np.ones(points.shape[:1]) if weights is None else weights)


def _as_numbers(points: object) -> np.ndarray:
    try:
        array = np.asarray(points)
        if np.issubdtype(array.dtype, np.complexfloating):
            raise TypeError
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise UserError("records must be an array (n, d) of real numbers.") from None


@dataclass(frozen=True, eq=False)
class IncompleteObservations:
    """Records some of which lack coordinates: a part for each pattern, with the coordinates that its records have."""

    parts: tuple[
        tuple[np.ndarray, Observations], ...
    ]  # which coordinates the records have, (d,), and the records

    def __len__(self) -> int:
        return sum(len(part) for _, part in self.parts)

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return len(self.parts[0][0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return sum(part.total_weight for _, part in self.parts)

    def covariance(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean (d,) and the diagonal matrix of variances (d, d), of the records with each coordinate."""
        sums = np.zeros((3, self.dimensions))
        for present, part in self.parts:
            sums[:, present] += [
                np.full(part.dimensions, part.total_weight),
                part.weights @ part.points,
                part.weights @ np.square(part.points),
            ]
        counts = np.maximum(sums[0], 1.0)
        centre = sums[1] / counts
        return centre, np.diag(np.maximum(sums[2] / counts - centre**2, 0.0))

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> "IncompleteObservations":
        """Convert records of v to records of x = (v - centre) * scale."""
        return IncompleteObservations(
            tuple((present, part.normalise(centre[present], scale[present])) for present, part in self.parts)
        )


def observe_incomplete(points: np.ndarray, absent: np.ndarray) -> IncompleteObservations:
    """Return records that lack the coordinates `absent`, (n, d), with equal records merged. n must be at least 1."""
    return IncompleteObservations(
        tuple(
            (present, compress(Observations(points[np.ix_(rows, present)], np.ones(len(rows)))))
            for present, rows in split_patterns(absent)
        )
    )


def observe_boxes(lower: np.ndarray, upper: np.ndarray, weights: np.ndarray | None = None) -> Observations:
    """Make observations that are uniform in boxes with corners (n, d): E[xxᵀ] = ccᵀ + diag(h²)/12.

    A fit to them describes the piecewise uniform density. Its variance exceeds that of the records by up to h²/6:
    grouping adds h²/12, and so does spreading. `boxes.fit` subtracts half of the excess.
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if lower.ndim != 2 or lower.shape != upper.shape or (lower > upper).any():
        raise UserError("boxes need corners lower <= upper of the same shape (n, d); swap the corners.")
    n, d = lower.shape
    rows, columns = np.triu_indices(d)
    spread = np.zeros((n, len(rows)))
    spread[:, rows == columns] = (upper - lower) ** 2 / 12
    return Observations((lower + upper) / 2, np.ones(n) if weights is None else weights, spread)


def compress(observations: Observations) -> Observations:
    """Merge equal records into one with the sum of their weights, and drop records of weight zero. This is exact."""
    records, index = distinct_records(observations)
    weights = np.bincount(index, observations.weights, minlength=len(records))
    kept = weights > 0
    return _select_rows(records, kept, weights[kept])


def distinct_records(observations: Observations) -> tuple[Observations, np.ndarray]:
    """Return the distinct records, sorted by coordinates, with weight 1 each; and the index of each record in them."""
    columns = [*observations.points.T, *(() if observations.spread is None else observations.spread.T)]
    order = np.lexsort(columns[::-1]) if columns else np.arange(len(observations))
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
    """Merge the records of each cell into one: their mean place, the spread about it, and the sum of weights.

    `cells` holds an integer cell id per record. Moments stay exact; the records of a cell share responsibilities.
    """
    cells = np.asarray(cells)
    if cells.shape != (len(observations),) or not np.issubdtype(cells.dtype, np.integer):
        raise UserError(f"aggregate needs one integer cell id for each of the {len(observations)} records.")
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
    """Draw a systematic sample of `size` records, or return all records if there are no more.

    The number of draws of each record differs by less than one from its share of the total weight times `size`.
    """
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
    """Return rows and columns of the upper triangle of d by d matrices, and a factor for each entry.

    With the default factors, the triangle of a symmetric matrix has the same norm as the whole matrix.
    """
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, diagonal, off_diagonal)


def symmetric_matrix(triangle: np.ndarray, d: int) -> np.ndarray:
    """Return the symmetric matrices (..., d, d) of upper triangles (..., d(d+1)/2)."""
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
NEGLIGIBLE = 1e-12  # share of the total weight below which the moments of a component carry no information
FLATTEST = 1e-12  # smallest ratio of eigenvalues; below it, a matrix is not reliably positive definite


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over records with weight w and responsibilities γ. A stack of moments has an extra first axis."""

    counts: np.ndarray  # (K,)       Σ w γ
    sums: np.ndarray  # (K, d)       Σ w γ x
    squares: np.ndarray  # (K, d, d) Σ w γ x xᵀ, not centred
    log_likelihood: float | np.ndarray  # Σ w log p(x) at the parameters that gave γ
    total_weight: float | np.ndarray  # Σ w

    def __getitem__(self, rows: int | Sequence[int] | np.ndarray) -> "Moments":
        return Moments(
            self.counts[rows],
            self.sums[rows],
            self.squares[rows],
            np.asarray(self.log_likelihood)[rows],
            np.asarray(self.total_weight)[rows],
        )


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of m mixtures of the same shape, not checked. EM keeps them between its steps."""

    weights: np.ndarray  # (m, K)
    means: np.ndarray  # (m, K, d)
    covariances: np.ndarray  # (m, K, d, d)

    @classmethod
    def of(cls, mixtures: Sequence[Mixture]) -> "Parameters":
        """Stack the parameters of these mixtures."""
        return cls(
            np.array([each.weights for each in mixtures]),
            np.array([each.means for each in mixtures]),
            np.array([each.covariances for each in mixtures]),
        )

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> "Parameters":
        return Parameters(self.weights[rows], self.means[rows], self.covariances[rows])

    def marginal(self, present: np.ndarray) -> "Parameters":
        """Return the parameters of some of the coordinates, given as a boolean mask (d,)."""
        return Parameters(
            self.weights, self.means[..., present], self.covariances[..., present, :][..., present]
        )

    def mixture(self, number: int) -> Mixture:
        """Return one of the mixtures, checked."""
        return Mixture(self.weights[number], self.means[number], self.covariances[number])


@dataclass(frozen=True)
class Prior:
    """Dirichlet(alpha) on the weights; normal-inverse-Wishart(mean 0, kappa, nu, scale·I) on each (μ, Σ).

    The defaults are from Park et al. 2017, "DP-EM" (arXiv 1605.06995), for records in the unit ball.
    """

    alpha: float = 2.0
    kappa: float = 1.0
    nu: float | None = None  # None: d + 2
    scale: float = 0.1

    def __post_init__(self) -> None:
        if self.alpha < 1 or self.kappa < 0 or self.scale < 0:
            raise UserError(
                f"a prior needs alpha >= 1, kappa >= 0 and scale >= 0, but has alpha = {self.alpha}, "
                f"kappa = {self.kappa}, scale = {self.scale}."
            )

    def freedom(self, dimensions: int) -> float:
        """Return the degrees of freedom ν of the inverse Wishart distribution."""
        return dimensions + 2.0 if self.nu is None else float(self.nu)

    def log_density(self, parameters: Parameters | Mixture) -> float | np.ndarray:
        """Compute the log prior density up to a constant, which MAP adds to the log-likelihood.

        A stack of parameters gives one value for each mixture.
        """
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


def complete_moments(seen: Moments, parameters: Parameters, present: np.ndarray) -> Moments:
    """Return the expected moments of all coordinates from those of the coordinates that records have, `present` (d,).

    Given x_O, a Gaussian x has the mean a + B x_O with B = Σ_:O Σ_OO⁻¹ and a = μ - B μ_O, and the covariance
    C = Σ - B Σ_O:, which does not depend on x_O. So the sums of E[x] and E[xxᵀ] follow from the sums of 1, x_O and
    x_O x_Oᵀ.
    """
    means, covariances = parameters.means, parameters.covariances
    inner = covariances[..., present, :][..., present]
    across = covariances[..., :, present]
    slopes = np.linalg.solve(inner, np.swapaxes(across, -1, -2)).swapaxes(-1, -2)
    slopes[..., present, :] = np.eye(int(present.sum()))
    begin = means - (slopes @ means[..., present, None])[..., 0]
    rest = covariances - slopes @ np.swapaxes(across, -1, -2)
    begin[..., present] = 0.0
    rest[..., present, :] = rest[..., :, present] = 0.0
    counts = seen.counts[..., None]
    moved = (slopes @ seen.sums[..., None])[..., 0]
    mixed = moved[..., :, None] * begin[..., None, :]
    squares = slopes @ seen.squares @ np.swapaxes(slopes, -1, -2) + mixed + np.swapaxes(mixed, -1, -2)
    squares += counts[..., None] * (rest + begin[..., :, None] * begin[..., None, :])
    return Moments(seen.counts, counts * begin + moved, squares, seen.log_likelihood, seen.total_weight)


def estimate(
    moments: Moments, *, floor: np.ndarray, prior: Prior | None = None, covariance: Covariance = "full"
) -> Mixture:
    """Return the mixture that maximises the likelihood (or posterior density) given moments, with Σ ⪰ diag(floor).

    Without a prior: π = N_k/N, μ = s_k/N_k, Σ = Q_k/N_k - μμᵀ. With a prior: the joint mode of the
    Dirichlet and normal-inverse-Wishart posteriors (Murphy 2012, "Machine Learning", §11.4.2.8, prior mean 0):
        π = (N_k + α - 1)/(N + K(α - 1)),  μ = s_k/(κ + N_k),
        Σ = (S0 + Q_k - (κ + N_k)μμᵀ)/(ν + N_k + d + 2).
    Three factors give the denominator of Σ: |Σ|^-(ν+d+1)/2 of the inverse Wishart, |Σ|^-1/2 of the normal, and
    |Σ|^-N_k/2 of the records.

    `diagonal` keeps only the variances; `tied` shares Σ_k N_k Σ_k / N among all components. Each is the maximum
    over its own family.

    Moments with noise need not belong to any data, so the function repairs them. It takes negative counts as zero. A
    component with no count (and kappa = 0) gets the mean and covariance of all components together, or mean zero if
    no component has a count. If no component has weight, the weights are equal. `floor` makes each covariance
    positive definite.
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
    """Apply `estimate` to a stack of moments."""
    if covariance not in COVARIANCES:
        raise UserError(f"covariance {covariance!r} is not known; {suggest(covariance, COVARIANCES)}")
    if prior is not None and covariance != "full":
        raise UserError(f"a prior needs full covariances, not {covariance!r}; remove one of the two options.")
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
    # (κ + N)μμᵀ = sμᵀ; the right side keeps digits that a product with a large count would lose.
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
    """Raise covariances (..., d, d) to at least the variance of diag(floor) in every direction.

    In units where diag(floor) is the identity, eigenvalues below 1 become 1. This is the constrained maximum of the
    Gaussian likelihood, because -(log λ + s/λ) is largest over λ ≥ 1 at max(s, 1), so EM stays monotone. An
    eigenvalue is also raised if floating point would lose it beside the largest one.
    """
    floor = np.asarray(floor, dtype=np.float64)
    d = covariances.shape[-1]
    if floor.shape != (d,) or not (np.isfinite(floor) & (floor > 0)).all():
        raise UserError(f"the floor must be {d} positive variances, one per coordinate, but is {floor}.")
    if d == 0:
        return covariances
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
