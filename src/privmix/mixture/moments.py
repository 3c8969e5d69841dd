"""Sufficient statistics of a mixture, and the parameters they determine.

`kernel.em_pass` turns data and parameters into `Moments`; `estimate` turns moments into parameters and sees no
data. A private mechanism adds its noise between the two, and nowhere else.
"""

from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture

NEGLIGIBLE = 1e-12  # share of the total weight below which a component's moments carry no information
FLATTEST = 1e-12  # smallest ratio of eigenvalues: below it a matrix is not reliably positive definite


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums over records i with weight w and responsibilities γ."""

    counts: np.ndarray  # (K,)       Σ w γ
    sums: np.ndarray  # (K, d)       Σ w γ x
    squares: np.ndarray  # (K, d, d) Σ w γ x xᵀ, not centred
    log_likelihood: float  # Σ w log p(x) at the parameters that gave γ
    total_weight: float  # Σ w


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

    def log_density(self, mixture: Mixture) -> float:
        """log prior density at `mixture`, up to a constant: what MAP adds to the log-likelihood."""
        d = mixture.dimensions
        inverse = np.linalg.inv(mixture.cholesky)
        log_determinant = 2 * np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum()
        trace = np.square(inverse).sum()
        distance = np.square(np.einsum("kij,kj->ki", inverse, mixture.means)).sum()
        dirichlet = (self.alpha - 1) * np.log(mixture.weights).sum() if self.alpha > 1 else 0.0
        wishart = -0.5 * ((self.freedom(d) + d + 2) * log_determinant + self.scale * trace)
        return float(dirichlet + wishart - 0.5 * self.kappa * distance)


def estimate(moments: Moments, *, floor: np.ndarray, prior: Prior | None = None) -> Mixture:
    """The mixture of largest likelihood (or of largest posterior density) given moments, with Σ ⪰ diag(floor).

    Without a prior π = N_k/N, μ = s_k/N_k, Σ = Q_k/N_k - μμᵀ. With one it is the joint mode of
    Dirichlet and normal-inverse-Wishart posteriors (Murphy 2012, "Machine Learning", §11.4.2.8, prior mean 0):
        π = (N_k + α - 1)/(N + K(α - 1)),  μ = s_k/(κ + N_k),
        Σ = (S0 + Q_k - (κ + N_k)μμᵀ)/(ν + N_k + d + 2).
    The inverse Wishart's |Σ|^-(ν+d+1)/2, the normal's |Σ|^-1/2 and the records' |Σ|^-N_k/2 make the exponent.

    Noised moments need not belong to any data. Negative counts are taken as zero. A component with no count (and
    kappa = 0) takes the mean and covariance of all components together; if those have no count either, mean zero.
    If no component has weight the weights are equal. `floor` repairs what is not positive definite.
    """
    k, d = moments.sums.shape
    alpha, kappa, scale = (1.0, 0.0, 0.0) if prior is None else (prior.alpha, prior.kappa, prior.scale)
    freedom = 0.0 if prior is None else prior.freedom(d) + d + 2
    counts = np.maximum(np.asarray(moments.counts, dtype=np.float64), 0.0)
    weights = counts + alpha - 1
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(k, 1 / k)
    total = counts.sum()
    least = NEGLIGIBLE * max(total, moments.total_weight)
    empty = kappa + counts <= least
    sums = np.where(empty[:, None], moments.sums.sum(axis=0), moments.sums)
    squares = np.where(empty[:, None, None], moments.squares.sum(axis=0), moments.squares)
    counts = np.where(empty, total, counts)
    if kappa + total <= least:
        counts, sums, squares = np.ones(k), np.zeros((k, d)), np.zeros((k, d, d))
    means = sums / (kappa + counts)[:, None]
    # (κ + N)μμᵀ = sμᵀ, which keeps the digits that a product with a large count would lose.
    scatter = squares + scale * np.eye(d) - sums[:, :, None] * means[:, None, :]
    return Mixture(weights, means, floored(scatter / (freedom + counts)[:, None, None], floor))


def floored(covariances: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Covariances (K, d, d) with variance at least that of diag(floor) in every direction.

    In units where diag(floor) is the identity the eigenvalues are raised to 1. That is the constrained maximum
    of the Gaussian likelihood, -(log λ + s/λ) being largest over λ ≥ 1 at max(s, 1), so EM stays monotone. An
    eigenvalue that would vanish beside the largest in floating point is raised too.
    """
    floor = np.asarray(floor, dtype=np.float64)
    if floor.shape != covariances.shape[1:2] or not (np.isfinite(floor) & (floor > 0)).all():
        raise UserError(
            f"the floor must be {covariances.shape[1]} positive variances, one a coordinate, but is {floor}."
        )
    root = np.sqrt(floor)
    unit = np.outer(root, root)
    mirrored = (covariances + np.swapaxes(covariances, 1, 2)) / 2
    values, vectors = np.linalg.eigh(mirrored / unit)
    least = np.maximum(1.0, FLATTEST * values[:, -1:])
    enough = (values >= least).all(axis=1)
    if enough.all():
        return mirrored
    raised = (vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.where(enough[:, None, None], mirrored, raised * unit)
