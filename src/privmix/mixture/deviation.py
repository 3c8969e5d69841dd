"""The deviation of a mixture from a reference, as a vector whose squared length is about twice the divergence.

For a reference with weights π, means μ_k and covariances L_k L_kᵀ, another mixture with weights π', means μ' and
covariances Σ', component by component, has the coordinates

    (π'_k - π_k) / √π_k,     √π_k L_k⁻¹(μ'_k - μ_k),     √(π_k / 2) (L_k⁻¹ Σ'_k L_k⁻ᵀ - I),

with the matrix as its upper triangle, √2 off the diagonal. To second order the divergence between the two, with
labels, is half the squared length (Kullback-Leibler; the Fisher information of a Gaussian is 1 on the standardised
mean and ½ on the standardised covariance). Weights, means and covariances enter linearly: the mean of vectors is
the vector of the mean parameters.
"""

import numpy as np

from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters, upper_triangle

LEAST_WEIGHT = 1e-6  # of a component of the reference: a smaller one is measured as if it had this


def size(n_components: int, dimensions: int) -> int:
    """Number of coordinates."""
    return n_components * component_size(dimensions)


def component_size(dimensions: int) -> int:
    """Number of coordinates of one component."""
    return 1 + dimensions + dimensions * (dimensions + 1) // 2


def deviations(parameters: Parameters, reference: Mixture) -> np.ndarray:
    """The vectors of a stack of mixtures, (m, K, block): weight, mean and covariance of each component."""
    rows, columns, factor = upper_triangle(reference.dimensions)
    weights = np.maximum(reference.weights, LEAST_WEIGHT)
    inverse = np.linalg.inv(reference.cholesky)
    shifts = np.einsum("kij,mkj->mki", inverse, parameters.means - reference.means)
    shapes = inverse @ parameters.covariances @ inverse.transpose(0, 2, 1)
    shapes = (shapes - np.eye(reference.dimensions))[..., rows, columns] * factor
    return np.concatenate(
        [
            ((parameters.weights - reference.weights) / np.sqrt(weights))[..., None],
            np.sqrt(weights)[:, None] * shifts,
            np.sqrt(weights / 2)[:, None] * shapes,
        ],
        axis=-1,
    )


def apply_deviation(reference: Mixture, vector: np.ndarray, least: float) -> tuple[np.ndarray, ...]:
    """Weights, means and covariances at this vector, (K, block): the inverse, made feasible.

    Negative weights are zero; no standardised variance falls below `least`.
    """
    d = reference.dimensions
    rows, columns, factor = upper_triangle(d)
    known = np.maximum(reference.weights, LEAST_WEIGHT)
    weights = np.maximum(reference.weights + np.sqrt(known) * vector[:, 0], 0.0)
    weights = weights / weights.sum() if weights.any() else reference.weights
    shifts = vector[:, 1 : 1 + d] / np.sqrt(known)[:, None]
    means = reference.means + np.einsum("kij,kj->ki", reference.cholesky, shifts)
    shapes = np.tile(np.eye(d), (len(known), 1, 1))
    shapes[:, rows, columns] += vector[:, 1 + d :] / np.sqrt(known / 2)[:, None] / factor
    shapes[:, columns, rows] = shapes[:, rows, columns]
    values, vectors = np.linalg.eigh(shapes)
    factors = reference.cholesky @ (vectors * np.sqrt(np.maximum(values, least))[:, None, :])
    return weights, means, factors @ factors.transpose(0, 2, 1)
