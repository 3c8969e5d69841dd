"""The gradient of the log-density of a record, in coordinates relative to the mixture.

Let a mixture have weights π, means μ_k and covariances Σ_k = L_k L_kᵀ. A mixture near it has unconstrained coordinates
(a, m, A): its weights are softmax(ln π + a), its means μ_k + L_k m_k, and its factors L_k T(A_k), where T(A) is lower
triangular with exp(A_jj) on its diagonal and A below it (log-Cholesky). With responsibilities γ and
u_k = L_k⁻¹(x - μ_k), the gradient of ln p(x) at the origin is

    γ_k - π_k,     γ_k u_k,     γ_k (u_k u_kᵀ - I) on and below the diagonal.

Each coordinate is in the units of its component, so one bound on the norm fits all components. The Fisher information
of well separated components is π_k on the means and below the diagonal, and 2 π_k on the diagonal.
"""

import numpy as np

from privmix.mixture.model import Mixture
from privmix.mixture.standardised_moments import standardise_records, sum_of_squares

DIAGONAL_INFORMATION = 2.0  # Fisher information of the log scale of a Gaussian distribution
LEAST_WEIGHT = 1e-9
LONGEST = (
    1.0  # limit of one step: no component moves farther or changes its scale by a factor above exp of this
)


def size(n_components: int, dimensions: int) -> int:
    """Return the length of a gradient."""
    return n_components * (1 + dimensions + dimensions * (dimensions + 1) // 2)


def typical_norm(dimensions: int) -> float:
    """Compute the root mean square norm of the gradient of a record that one small component explains alone.

    The terms are 1 for the weights, E‖u‖² = d, E(u_j² - 1)² = 2 on the diagonal and E(u_i u_j)² = 1 below it.
    """
    d = dimensions
    return float(np.sqrt(1 + d + 2 * d + d * (d - 1) / 2))


def gradients(points: np.ndarray, mixture: Mixture, *, rowwise: bool = False) -> np.ndarray:
    """Compute the gradient of each point, as columns, (size, n).

    With `rowwise`, the gradient of a point depends on this point alone, to the last bit.
    """
    k, d = mixture.means.shape
    rows, columns = np.tril_indices(d)
    diagonal = rows == columns
    shares, own = standardise_records(points, mixture) if rowwise else _standardise(points, mixture)
    result = np.empty((size(k, d), len(points)))
    np.subtract(shares, mixture.weights[:, None], out=result[:k])
    weighted = result[k : k + k * d].reshape(k, d, -1)
    np.multiply(own, shares[:, None], out=weighted)
    products = result[k + k * d :].reshape(k, len(rows), -1)
    for entry, (row, column) in enumerate(zip(rows, columns, strict=True)):
        np.multiply(weighted[:, row], own[:, column], out=products[:, entry])
        if diagonal[entry]:
            products[:, entry] -= shares
    return result


def _standardise(points: np.ndarray, mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Compute responsibilities (K, n) and standardised places (K, d, n) by a matrix product."""
    k, d = mixture.means.shape
    inverse = np.linalg.inv(mixture.cholesky)
    affine = np.concatenate([inverse, -inverse @ mixture.means[..., None]], axis=-1).reshape(k * d, d + 1)
    own = (affine @ np.concatenate([points.T, np.ones((1, len(points)))])).reshape(k, d, -1)
    log_scale = np.log(np.maximum(mixture.weights, LEAST_WEIGHT))
    log_scale += np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
    shares = log_scale[:, None] - 0.5 * np.einsum("kdn,kdn->kn", own, own)
    shares = np.exp(shares - shares.max(axis=0))
    shares /= shares.sum(axis=0)
    return shares, own


def clip_gradients(vectors: np.ndarray, norm: float) -> np.ndarray:
    """Scale each column down to at most this L2 norm."""
    length = np.sqrt(sum_of_squares(vectors))
    return vectors * (norm / np.maximum(length, norm))


def take_step(
    mixture: Mixture, gradient: np.ndarray, *, rate: float, noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step uphill along the gradient divided by the Fisher information. Return the new parameters.

    The parameters are weights, means and covariances. `gradient` is a mean over records, with noise of standard
    deviation `noise`. The step adds `noise` to the information of each component, so that a component with less weight
    than the noise hardly moves.
    """
    k, d = mixture.means.shape
    rows, columns = np.tril_indices(d)
    diagonal = rows == columns
    scale = rate / (mixture.weights + noise)
    of_weights, of_means, of_factors = np.split(gradient, [k, k + k * d])
    shift = _shorten(scale[:, None] * of_means.reshape(k, d))
    change = scale[:, None] * of_factors.reshape(k, -1) / np.where(diagonal, DIAGONAL_INFORMATION, 1.0)
    change = _shorten(change)
    factors = np.zeros((k, d, d))
    factors[:, rows, columns] = np.where(diagonal, np.exp(change), change)
    factors = mixture.cholesky @ factors
    logits = np.log(np.maximum(mixture.weights, LEAST_WEIGHT)) + np.clip(
        scale * of_weights, -LONGEST, LONGEST
    )
    weights = np.exp(logits - logits.max())
    means = mixture.means + np.einsum("kij,kj->ki", mixture.cholesky, shift)
    return weights / weights.sum(), means, factors @ factors.transpose(0, 2, 1)


def _shorten(steps: np.ndarray) -> np.ndarray:
    return steps * (LONGEST / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), LONGEST))
