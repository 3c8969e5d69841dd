"""Sufficient statistics of a mixture, and the parameters they determine.

`kernel.em_pass` turns data and parameters into `Moments`; `estimate` turns moments into parameters and sees no
data. A private mechanism adds its noise between the two, and nowhere else.
"""

from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture

NEGLIGIBLE = 1e-12  # share of the total weight below which a component's moments carry no information


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

    Noised moments need not belong to any data. Negative counts are taken as zero. Without a prior, a component
    with no count takes the mean and covariance of all components together and weight zero; if no component has a
    count the weights are equal. `floor` repairs what is not positive definite.
    """
    counts = np.maximum(np.asarray(moments.counts, dtype=np.float64), 0.0)
    k, d = moments.sums.shape
    total = counts.sum()
    squares = (moments.squares + np.swapaxes(moments.squares, 1, 2)) / 2
    if prior is not None:
        posterior_count = prior.kappa + counts
        weights = counts + prior.alpha - 1
        divisor = prior.freedom(d) + counts + d + 2
        sums, scatter = moments.sums, squares + prior.scale * np.eye(d)
    else:
        weights = counts
        informative = counts > NEGLIGIBLE * total
        posterior_count = np.where(informative, counts, total)
        divisor = posterior_count
        sums = np.where(informative[:, None], moments.sums, moments.sums.sum(axis=0))
        scatter = np.where(informative[:, None, None], squares, squares.sum(axis=0))
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(k, 1 / k)
    safe_count = np.where(posterior_count > 0, posterior_count, 1.0)[:, None]
    means = sums / safe_count
    # (κ + N)μμᵀ = sμᵀ, which keeps the digits that a product with a large count would lose.
    scatter = scatter - sums[:, :, None] * means[:, None, :]
    covariances = scatter / np.where(divisor > 0, divisor, 1.0)[:, None, None]
    return Mixture(weights, means, floored(covariances, floor))


def floored(covariances: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Covariances (K, d, d) with variance at least that of diag(floor) in every direction.

    In units where diag(floor) is the identity the eigenvalues are raised to 1. That is the constrained maximum
    of the Gaussian likelihood, -(log λ + s/λ) being largest over λ ≥ 1 at max(s, 1), so EM stays monotone.
    """
    root = np.sqrt(np.asarray(floor, dtype=np.float64))
    if root.shape != covariances.shape[1:2] or not (np.isfinite(root) & (root > 0)).all():
        raise UserError(
            f"the floor must be {covariances.shape[1]} positive variances, one a coordinate, but is {floor}."
        )
    unit = np.outer(root, root)
    mirrored = (covariances + np.swapaxes(covariances, 1, 2)) / 2
    values, vectors = np.linalg.eigh(mirrored / unit)
    if (values[:, 0] >= 1).all():
        return mirrored
    raised = (vectors * np.maximum(values, 1.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.where((values[:, 0] >= 1)[:, None, None], mirrored, raised * unit)
