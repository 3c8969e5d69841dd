"""The gradient of the log-density of a record, in coordinates relative to the mixture.

Let a mixture have weights π, means μ_k and covariances Σ_k = L_k L_kᵀ. A mixture near it has unconstrained coordinates
(a, m, A): its weights are softmax(ln π + a), its means μ_k + L_k m_k, and its factors L_k T(A_k), where T(A) is lower
triangular with exp(A_jj) on its diagonal and A below it (log-Cholesky). With responsibilities γ and
u_k = L_k⁻¹(x - μ_k), the gradient of ln p(x) at the origin is

    γ_k - π_k,     γ_k u_k,     γ_k (u_k u_kᵀ - I) on and below the diagonal.

With attributes, a mixture near it has the shares softmax(ln θ_ka + b_ka) of the values of attribute a. The
responsibilities are those of coordinates and attributes together, and the gradient of ln p(x, c) along b_kav is

    γ_k ([c_a = v] - θ_kav).

Each coordinate is in the units of its component, so one bound on the norm fits all components. The Fisher information
of well separated components is π_k on the means and below the diagonal, 2 π_k on the diagonal, and π_k θ_kav on b_kav,
apart from the direction in which all b_kav of an attribute grow together, which does not change the mixture.
"""

from collections.abc import Sequence

import numpy as np

from privmix.mixture.coded import side_by_side
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.standardised_moments import standardise_records, sum_of_squares

DIAGONAL_INFORMATION = 2.0  # Fisher information of the log scale of a Gaussian distribution
LEAST_WEIGHT = 1e-9
LONGEST = (
    1.0  # limit of one step: no component moves farther or changes its scale by a factor above exp of this
)


def size(n_components: int, dimensions: int, values: int = 0) -> int:
    """Return the length of a gradient; `values` counts the values of all attributes."""
    return n_components * (1 + dimensions + dimensions * (dimensions + 1) // 2 + values)


def typical_norm(dimensions: int, sizes: Sequence[int] = ()) -> float:
    """Compute the root mean square norm of the gradient of a record that one small component explains alone.

    The terms are 1 for the weights, E‖u‖² = d, E(u_j² - 1)² = 2 on the diagonal and E(u_i u_j)² = 1 below it, and
    1 - 1/V for each attribute of V equally frequent values.
    """
    d = dimensions
    return float(np.sqrt(1 + d + 2 * d + d * (d - 1) / 2 + sum(1 - 1 / values for values in sizes)))


def gradients(
    points: np.ndarray,
    model: Mixture | MixedMixture,
    *,
    values: np.ndarray | None = None,
    rowwise: bool = False,
) -> np.ndarray:
    """Compute the gradient of each record, as columns, (size, n).

    `values` (n, A): the column of each attribute's value in `coded.side_by_side`, if the mixture has attributes. With
    `rowwise`, the gradient of a record depends on this record alone, to the last bit.
    """
    mixture = model.gaussians if isinstance(model, MixedMixture) else model
    table = (
        side_by_side(model.shares) if isinstance(model, MixedMixture) else np.empty((len(mixture.weights), 0))
    )
    log_shares = None if values is None else _log_shares(table, values)
    k, d = mixture.means.shape
    rows, columns = np.tril_indices(d)
    diagonal = rows == columns
    standardise = standardise_records if rowwise else _standardise
    shares, own = standardise(points, mixture, log_shares)
    result = np.empty((size(k, d, table.shape[1]), len(points)))
    np.subtract(shares, mixture.weights[:, None], out=result[:k])
    weighted = result[k : k + k * d].reshape(k, d, -1)
    np.multiply(own, shares[:, None], out=weighted)
    of_values = result[size(k, d) :].reshape(k, table.shape[1], len(points))
    np.multiply(-table[:, :, None], shares[:, None], out=of_values)
    if values is not None:
        for column in values.T:
            of_values[:, column, np.arange(len(points))] += shares
    products = result[k + k * d : size(k, d)].reshape(k, len(rows), -1)
    for entry, (row, column) in enumerate(zip(rows, columns, strict=True)):
        np.multiply(weighted[:, row], own[:, column], out=products[:, entry])
        if diagonal[entry]:
            products[:, entry] -= shares
    return result


def _log_shares(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute Σ_a ln θ_ka(c_a) of each record, (K, n), in order."""
    logs = np.log(np.maximum(table, LEAST_WEIGHT))
    total = np.zeros((len(table), len(values)))
    for column in values.T:
        total += logs[:, column]
    return total


def _standardise(
    points: np.ndarray, mixture: Mixture, log_shares: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute responsibilities (K, n) and standardised places (K, d, n) by a matrix product."""
    k, d = mixture.means.shape
    inverse = np.linalg.inv(mixture.cholesky)
    affine = np.concatenate([inverse, -inverse @ mixture.means[..., None]], axis=-1).reshape(k * d, d + 1)
    own = (affine @ np.concatenate([points.T, np.ones((1, len(points)))])).reshape(k, d, -1)
    log_scale = np.log(np.maximum(mixture.weights, LEAST_WEIGHT))
    log_scale += np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
    shares = log_scale[:, None] - 0.5 * np.einsum("kdn,kdn->kn", own, own)
    if log_shares is not None:
        shares += log_shares
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


def step_shares(
    mixture: MixedMixture, gradient: np.ndarray, *, rate: float, noise: float
) -> dict[str, np.ndarray]:
    """Take one step uphill along the last part of the gradient, of the values. Return the new shares.

    As for the weights, a step divides by the Fisher information plus `noise`, and has a limit.
    """
    table = np.maximum(side_by_side(mixture.shares), LEAST_WEIGHT)
    steps = rate * gradient.reshape(table.shape) / (mixture.gaussians.weights[:, None] * table + noise)
    moved = np.log(table) + np.clip(steps, -LONGEST, LONGEST)
    shares, column = {}, 0
    for name, old in mixture.shares.items():
        logits = moved[:, column : column + old.shape[1]]
        new = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares[name] = new / new.sum(axis=1, keepdims=True)
        column += old.shape[1]
    return shares


def _shorten(steps: np.ndarray) -> np.ndarray:
    return steps * (LONGEST / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), LONGEST))
