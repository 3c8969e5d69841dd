"""A mixture with more components: some are cut in two halves across their longest axis."""

import math

import numpy as np

from privmix.mixture.model import Mixture
from privmix.mixture.moments import floored

HALF_MEAN = math.sqrt(2 / math.pi)  # mean of the upper half of a standard normal law; its variance is 1 - 2/π


def split(mixture: Mixture, n_splits: int, floor: np.ndarray) -> Mixture:
    """The mixture with its `n_splits` components of most variance cut in two; all of them where it has no more.

    That is weight times largest eigenvalue, what the cut takes off the variance within components up to a factor. Each
    half has half the weight, and mean and covariance of half a Gaussian, so overall mean and covariance stay the same
    but for the floor.
    """
    values, vectors = np.linalg.eigh(mixture.covariances)
    order = np.argsort(-mixture.weights * values[:, -1], kind="stable")
    chosen, kept = order[:n_splits], np.sort(order[n_splits:])
    steps = HALF_MEAN * vectors[chosen, :, -1] * np.sqrt(values[chosen, -1:])
    halves = mixture.covariances[chosen] - steps[:, :, None] * steps[:, None, :]
    weights = mixture.weights[chosen] / 2
    means, covariances = mixture.means[chosen], floored(halves, floor)
    return Mixture(
        np.concatenate([mixture.weights[kept], weights, weights]),
        np.concatenate([mixture.means[kept], means - steps, means + steps]),
        np.concatenate([mixture.covariances[kept], covariances, covariances]),
    )
