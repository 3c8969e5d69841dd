"""The deviation of a mixture from a reference, as a vector whose squared length is about twice the divergence.

Let the reference have weights π, means μ_k and covariances L_k L_kᵀ. Another mixture has weights π', means μ' and
covariances Σ'. Its deviation has, for each component, the coordinates

    (π'_k - π_k) / √π_k,     √π_k L_k⁻¹(μ'_k - μ_k),     √(π_k / 2) (L_k⁻¹ Σ'_k L_k⁻ᵀ - I),

where the matrix is given by its upper triangle, times √2 off the diagonal. To second order, the Kullback-Leibler
divergence between the two labelled mixtures is half the squared length (the Fisher information of a Gaussian
distribution is 1 on the standardised mean and ½ on the standardised covariance). The vector is linear in weights,
means and covariances: the mean of vectors is the vector of the mean parameters.
"""

import numpy as np

from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters, upper_triangle

LEAST_WEIGHT = 1e-6  # least weight of a component of the reference; a smaller weight counts as this one


def size(n_components: int, dimensions: int) -> int:
    """Return the length of the vector."""
    return n_components * component_size(dimensions)


def component_size(dimensions: int) -> int:
    """Return the length of the part of one component."""
    return 1 + dimensions + dimensions * (dimensions + 1) // 2


def deviations(parameters: Parameters, reference: Mixture) -> np.ndarray:
    """Compute the vectors of a stack of mixtures, (m, K, block): weight, mean and covariance of each component."""
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
    """Return the weights, means and covariances at this vector, (K, block), and make them valid.

    Negative weights become zero, and standardised variances below `least` become `least`.
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
