"""A mixture with fewer components: the closest pair is merged, mean and covariance kept, until enough are left.

Runnalls 2007, "Kullback-Leibler approach to Gaussian mixture reduction" (IEEE Transactions on Aerospace and Electronic
Systems 43(3)).
"""

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture


def reduced(mixture: Mixture, n_components: int) -> Mixture:
    """The mixture merged down to at most `n_components`. Its overall mean and covariance stay the same."""
    if n_components < 1:
        raise UserError(f"a mixture is reduced to at least 1 component, not {n_components}.")
    while mixture.n_components > n_components:
        costs = merging_costs(mixture)
        mixture = merged(mixture, *np.unravel_index(np.argmin(costs), costs.shape))
    return mixture


def merging_costs(mixture: Mixture) -> np.ndarray:
    """Bound on the KL divergence that merging a pair costs, (K, K), infinite on and below the diagonal (eq. 21).

    ½[(w_i + w_j) log|Σ_ij| - w_i log|Σ_i| - w_j log|Σ_j|], Σ_ij the covariance of both together.
    """
    k = mixture.n_components
    log_volume = 2 * np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum(axis=1)
    costs = np.full((k, k), np.inf)
    for first in range(k - 1):
        others = np.arange(first + 1, k)
        weights, _, covariances = _together(mixture, first, others)
        joint = np.linalg.slogdet(covariances)[1]
        own = mixture.weights[first] * log_volume[first] + mixture.weights[others] * log_volume[others]
        costs[first, others] = 0.5 * (weights * joint - own)
    return costs


def merged(mixture: Mixture, first: int, second: int) -> Mixture:
    """The mixture with two components replaced by one of their weight, mean and covariance, put last."""
    weight, mean, covariance = _together(mixture, first, np.array([second]))
    kept = np.setdiff1d(np.arange(mixture.n_components), [first, second])
    return Mixture(
        np.append(mixture.weights[kept], weight),
        np.concatenate([mixture.means[kept], mean]),
        np.concatenate([mixture.covariances[kept], covariance]),
    )


def _together(mixture: Mixture, one: int, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (n,), means (n, d) and covariances (n, d, d) of component `one` with each of the others."""
    weights = mixture.weights[one] + mixture.weights[others]
    # Two components without weight are merged half and half.
    share = np.divide(mixture.weights[others], weights, where=weights > 0, out=np.full(len(others), 0.5))
    apart = mixture.means[others] - mixture.means[one]
    means = mixture.means[one] + share[:, None] * apart
    within = (1 - share)[:, None, None] * mixture.covariances[one] + share[
        :, None, None
    ] * mixture.covariances[others]
    between = (share * (1 - share))[:, None, None] * apart[:, :, None] * apart[:, None, :]
    return weights, means, within + between
