"""Sufficient statistics of a mixture, and the parameters they determine.

`kernel.em_pass` turns data and parameters into `Moments`; `estimate` turns moments into parameters and sees no
data. A private mechanism adds its noise between the two, and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmix.errors import UserError, nearest
from privmix.mixture.model import Mixture

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
        raise UserError(f"covariance {covariance!r} is not known; {nearest(covariance, COVARIANCES)}")
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
    return Parameters(weights, means, floored(covariances, floor))


def floored(covariances: np.ndarray, floor: np.ndarray) -> np.ndarray:
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
