"""Reports y = x + e of records x, seen through their noise: their mixture, and one E-step about the records.

With noise that is a scale mixture of Gaussians, y is a mixture over pairs (k, j) with means μ_k and covariances
Σ_k + S_j. Given y and a pair, x is Gaussian with mean μ + A(y - μ) and covariance Σ - AΣ, A = Σ(Σ + S)⁻¹ (Bovy, Hogg &
Roweis 2011, Annals of Applied Statistics 5, eqs 14-17). The moments of x are so linear in the moments of y.
"""

from collections.abc import Sequence

import numpy as np

from privmix.mixture.kernel import compiled, em_passes, log_joint
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Parameters
from privmix.mixture.observations import Observations
from privmix.mixture.scale_mixture import ScaleMixture


def observed(mixtures: Parameters, noise: ScaleMixture) -> Parameters:
    """The mixtures of reports: component k under noise scale j is number k J + j."""
    m, _, d = mixtures.means.shape
    weights = mixtures.weights[:, :, None] * noise.weights
    covariances = mixtures.covariances[:, :, None] + noise.covariances
    means = np.repeat(mixtures.means, len(noise.weights), axis=1)
    return Parameters(weights.reshape(m, -1), means, covariances.reshape(m, -1, d, d))


def noisy_passes(
    data: Sequence[Observations], mixtures: Parameters, noise: ScaleMixture, *, threads: int | None = None
) -> Moments:
    """Expected moments of the records behind the reports, and the log-likelihood of the reports, for each mixture."""
    m, k, d = mixtures.means.shape
    reports = em_passes(data, observed(mixtures, noise), threads=threads)
    counts = reports.counts.reshape(m, k, -1, 1)
    sums = reports.sums.reshape(m, k, -1, d)
    squares = reports.squares.reshape(m, k, -1, d, d)
    means, prior_covariance = mixtures.means[:, :, None], mixtures.covariances[:, :, None]
    # Both factors are symmetric, so Σ(Σ + S)⁻¹ is the transpose of what solve gives.
    gain = np.swapaxes(np.linalg.solve(prior_covariance + noise.covariances, prior_covariance), -1, -2)
    gain_transposed = np.swapaxes(gain, -1, -2)
    offset = means - (gain @ means[..., None])[..., 0]
    moved = (gain @ sums[..., None])[..., 0]
    cross = moved[..., :, None] * offset[..., None, :]
    spread = prior_covariance - gain @ prior_covariance + offset[..., :, None] * offset[..., None, :]
    squares = (
        gain @ squares @ gain_transposed + cross + np.swapaxes(cross, -1, -2) + counts[..., None] * spread
    )
    return Moments(
        counts=counts.sum(axis=(2, 3)),
        sums=(moved + counts * offset).sum(axis=2),
        squares=squares.sum(axis=2),
        log_likelihood=reports.log_likelihood,
        total_weight=reports.total_weight,
    )


def noisy_joint(reports: Observations, mixture: Mixture, noise: ScaleMixture) -> np.ndarray:
    """log of weight times density of the reports under each component, its scales of noise together, (K, n)."""
    joint = log_joint(reports, observed(Parameters.of([mixture]), noise).mixture(0))
    together = np.empty((mixture.n_components, len(reports)))
    for number, scales in enumerate(joint.reshape(mixture.n_components, -1, len(reports))):
        compiled().log_sums(scales, -1, together[number])
    return together
