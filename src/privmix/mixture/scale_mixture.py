"""Noise as a finite scale mixture of centred Gaussians: the form in which EM can take it off again.

A Gaussian is one scale. A Laplace coordinate of scale b is N(0, τ) with τ exponential of mean 2b² (Andrews &
Mallows 1974); planar Laplace noise of scale b, of density ∝ exp(-‖e‖/b) in the plane, is N(0, τ I) with τ of
the gamma law of shape 3/2 and scale 2b². A few scales approximate both. The approximation is of the likelihood that
a fit maximises, not of the noise that was drawn: it touches utility, never privacy.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError

COARSE = 2  # nodes of a coordinate in a search, which would cost four times as much with 4
MOST_SCALES = 32  # over all coordinates together; each multiplies the cost of a pass

# (weights, variances / 2b²) by number of nodes: the scale mixtures nearest to the Laplace density in
# Kullback-Leibler divergence. Such an optimum has the Laplace variance, for EM keeps second moments. Divergence
# 7e-2, 6e-3, 9e-4, 2e-4, 4e-5 nats and largest error of the cdf 6e-2, 1e-2, 3e-3, 9e-4, 3e-4 for 1 to 5 nodes;
# Gauss-Laguerre nodes in τ blunt the cusp and still have 4e-3 and 1e-2 at 5.
LAPLACE_NODES = {
    1: ((1.0,), (1.0,)),
    2: ((0.540423, 0.459577), (0.242975, 1.89019)),
    3: ((0.200779, 0.56745, 0.231771), (0.0722128, 0.642577, 2.67881)),
    4: ((0.0720159, 0.334975, 0.471665, 0.121344), (0.0239137, 0.237514, 1.07189, 3.40473)),
    5: (
        (0.0267891, 0.157142, 0.392266, 0.358291, 0.0655117),
        (0.00860353, 0.0919443, 0.452072, 1.50849, 4.0834),
    ),
}

# (weights, variances / 3b²) by number of nodes: the same for the planar Laplace density. Divergence 1e-1, 8e-3, 1e-3,
# 2e-4, 3e-5 nats and largest error of the cdf of the radius 1e-1, 2e-2, 4e-3, 1e-3, 4e-4 for 1 to 5 nodes.
PLANAR_NODES = {
    1: ((1.0,), (1.0,)),
    2: ((0.52542, 0.47458), (0.335943, 1.7352)),
    3: ((0.185189, 0.583544, 0.231267), (0.133108, 0.729856, 2.37581)),
    4: ((0.0597387, 0.342756, 0.482681, 0.114824), (0.0567034, 0.334746, 1.12261, 2.96119)),
    5: (
        (0.0192511, 0.152963, 0.413016, 0.35646, 0.0583102),
        (0.0254245, 0.159484, 0.564321, 1.5082, 3.50587),
    ),
}


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """Σ_j ω_j N(0, S_j). Variances (J, d) stand for diagonal covariances and are stored as (J, d, d)."""

    weights: np.ndarray  # (J,) positive, sum 1
    covariances: np.ndarray  # (J, d, d) positive semidefinite
    coarse: "ScaleMixture | None" = None  # about the same noise in fewer scales: enough for a search

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        covariances = np.array(self.covariances, dtype=np.float64)
        if covariances.ndim == 2:
            covariances = covariances[:, :, None] * np.eye(covariances.shape[1])
        d = covariances.shape[-1]
        if weights.ndim != 1 or covariances.shape != (len(weights), d, d):
            raise UserError(
                "noise needs weights (J,) and covariances (J, d, d) or variances (J, d), but has "
                f"{weights.shape} and {covariances.shape}."
            )
        if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-9:
            raise UserError(
                "the weights of the noise's scales must be positive and sum to 1; normalise them."
            )
        if not np.isfinite(covariances).all() or (np.linalg.eigvalsh(covariances) < 0).any():
            raise UserError("noise covariances must be finite and positive semidefinite; check its scale.")
        object.__setattr__(self, "weights", weights / weights.sum())
        object.__setattr__(self, "covariances", covariances)

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return self.covariances.shape[1]

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the noise, (d, d)."""
        return np.tensordot(self.weights, self.covariances, axes=1)


def gaussian_scales(sigma: float, dimensions: int) -> ScaleMixture:
    """Gaussian noise of standard deviation `sigma` on each coordinate: exact, one scale."""
    return ScaleMixture(np.ones(1), np.full((1, dimensions), float(sigma) ** 2))


def laplace_scales(scale: float, dimensions: int, nodes: int | None = None) -> ScaleMixture:
    """Independent Laplace noise of scale b on each coordinate, as nodes^d scales with its exact variance 2b².

    Unless told, as many nodes as keep nodes^d within 32, but no more than 4: 4 to two dimensions, 3 in three, 2 to
    five, then 1, the Gaussian of the same variance.
    """
    if nodes is None:
        nodes = max(count for count in (1, 2, 3, 4) if count == 1 or count**dimensions <= MOST_SCALES)
    if nodes not in LAPLACE_NODES or dimensions < 1:
        raise UserError(
            f"laplace_scales needs 1 to {max(LAPLACE_NODES)} nodes and at least one dimension, "
            f"not {nodes} and {dimensions}."
        )
    weights, variances = (np.array(part) for part in LAPLACE_NODES[nodes])
    weights /= weights.sum()
    variances *= 2 * float(scale) ** 2 / (weights @ variances)
    grid = np.array(list(itertools.product(range(nodes), repeat=dimensions)))
    coarse = laplace_scales(scale, dimensions, COARSE) if nodes > COARSE else None
    return ScaleMixture(weights[grid].prod(axis=1), variances[grid], coarse)


def planar_laplace_scales(scale: float, nodes: int = 4) -> ScaleMixture:
    """Planar Laplace noise of scale b, isotropic in two dimensions, with its exact variance 3b² on each axis."""
    if nodes not in PLANAR_NODES:
        raise UserError(f"planar_laplace_scales needs 1 to {max(PLANAR_NODES)} nodes, not {nodes}.")
    weights, variances = (np.array(part) for part in PLANAR_NODES[nodes])
    weights /= weights.sum()
    variances *= 3 * float(scale) ** 2 / (weights @ variances)
    coarse = planar_laplace_scales(scale, COARSE) if nodes > COARSE else None
    return ScaleMixture(weights, np.repeat(variances[:, None], 2, axis=1), coarse)
