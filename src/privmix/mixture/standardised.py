"""Moments of the records as each component sees them: standardised by its own parameters, and clipped to a ball.

Component k sees a record as z_k = L_k⁻¹(x - μ_k), Σ_k = L_k L_kᵀ, moved along its own direction to ‖z_k‖ ≤ c where it
lies farther out. Responsibilities are those of the record itself: no clipping enters them.
"""

from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture import kernel
from privmix.mixture.model import Mixture
from privmix.mixture.observations import Observations, symmetric

NUMBERS = 131072  # in the largest array of one step: it stays in the cache
LOG_ZERO = -1e300  # log of a weight of zero
WORTH_COMPILING = 200_000  # records times components, of one pass among dozens
QUADRATURE = 4000  # nodes of an integral over the radius


@dataclass(frozen=True, eq=False)
class StandardisedMoments:
    """Weighted sums over records with weight w, responsibilities γ and clipped standardised places z."""

    counts: np.ndarray  # (K,)       Σ w γ
    sums: np.ndarray  # (K, d)       Σ w γ z
    squares: np.ndarray  # (K, d, d) Σ w γ z zᵀ


def standardised_pass(
    observations: Observations, mixture: Mixture, radius: float, *, threads: int | None = None
) -> StandardisedMoments:
    """E-step, and the moments of clipped standardised records, in one pass; nothing of N by K is kept.

    Done by numpy where so few records would not repay the import of numba.
    """
    if observations.spread is not None:
        raise UserError("standardised moments need records at known places; these are spread over boxes.")
    inverse = np.linalg.inv(mixture.cholesky)
    affine = np.concatenate([-inverse @ mixture.means[..., None], inverse], axis=-1)
    with np.errstate(divide="ignore"):
        log_scale = np.maximum(np.log(mixture.weights), LOG_ZERO)
    log_scale = log_scale + np.log(np.diagonal(inverse, axis1=-2, axis2=-1)).sum(axis=-1)
    if len(observations) * mixture.n_components < WORTH_COMPILING:
        return plain_pass(observations, affine, log_scale, radius)
    return fused_pass(observations, affine, log_scale, radius, threads)


def plain_pass(
    observations: Observations, affine: np.ndarray, log_scale: np.ndarray, radius: float
) -> StandardisedMoments:
    """By numpy: z_k = affine_k (1, x), of log density log_scale_k - ½‖z_k‖² up to a constant."""
    k, d, _ = affine.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    width = min(max(NUMBERS // (k * d), 64), 4096)
    for first in range(0, len(observations), width):
        points = observations.points[first : first + width]
        homogeneous = np.concatenate([np.ones((1, len(points))), points.T])
        places = (affine.reshape(k * d, d + 1) @ homogeneous).reshape(k, d, -1)
        distances = np.einsum("kdn,kdn->kn", places, places)
        joint = log_scale[:, None] - 0.5 * distances
        joint -= joint.max(axis=0)
        shares = np.exp(joint, out=joint)
        shares *= observations.weights[first : first + width] / shares.sum(axis=0)
        places *= (radius / np.sqrt(np.maximum(distances, radius**2)))[:, None]
        shared = places * shares[:, None]
        counts += shares.sum(axis=1)
        sums += shared.sum(axis=2)
        squares += shared @ places.transpose(0, 2, 1)
    return StandardisedMoments(counts, sums, squares)


def fused_pass(
    observations: Observations,
    affine: np.ndarray,
    log_scale: np.ndarray,
    radius: float,
    threads: int | None,
) -> StandardisedMoments:
    """The same by the compiled loop, in pieces that threads may share."""
    k, d, _ = affine.shape
    run = kernel.compiled().standardised_pass
    table = np.zeros((k, d + d % 2, -(-(d + 1) // kernel.GROUP) * kernel.GROUP))
    table[:, :d, : d + 1] = affine

    def task(piece: tuple[int, Observations, int, int]) -> tuple[np.ndarray, np.ndarray]:
        _, block, first, last = piece
        own, products = np.zeros(k), np.zeros(table.shape)
        run(block.points, block.weights, table, log_scale, float(radius), first, last, own, products)
        return own, products

    counts, products = np.zeros(k), np.zeros(table.shape)
    for own, more in kernel.shared(task, kernel.pieces([observations]), threads):
        counts += own
        products += more
    rows, columns = np.triu_indices(d)
    squares = symmetric(products[:, rows, 1 + columns], d)
    return StandardisedMoments(counts, products[:, :d, 0], squares)


def clipped_variance(dimensions: int, radius: float) -> float:
    """Variance on each axis of a standard normal record clipped to the ball: E[min(r, c)²] / d, r² of law χ²_d.

    By the midpoint rule in r, whose density is r^(d-1) exp(-r²/2) up to a factor.
    """
    reach = np.sqrt(dimensions) + 12.0
    r = (np.arange(QUADRATURE) + 0.5) * (reach / QUADRATURE)
    log_density = (dimensions - 1) * np.log(r) - r**2 / 2
    density = np.exp(log_density - log_density.max())
    return float(density @ np.minimum(r, radius) ** 2 / density.sum() / dimensions)
