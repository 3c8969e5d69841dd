"""Where EM begins: at places and scales drawn from the data."""

import numpy as np

from privmix.mixture.model import Mixture
from privmix.mixture.moments import floored
from privmix.mixture.observations import Observations

FINEST = 1e-4  # no start is narrower than this share of the data's spread


def seeded_start(
    observations: Observations, n_components: int, floor: np.ndarray, rng: np.random.Generator
) -> Mixture:
    """A start at places drawn from the data, at one random scale.

    As k-means++ (Arthur & Vassilvitskii 2007) a place is drawn with probability growing with its squared
    distance to those drawn before, but the distance saturates at the scale: a small scale follows the mass (cities),
    a large one the outline (continents).
    """
    spread = axis_spread(observations, floor)
    scale = random_scale(spread, floor, rng)
    places = observations.points / spread
    reach = np.full(len(places), scale**2)
    chosen = []
    for _ in range(n_components):
        mass = observations.weights * reach
        if not mass.any():  # fewer distinct places than components: repeat one
            mass = observations.weights
        chosen.append(rng.choice(len(places), p=mass / mass.sum()))
        reach = np.minimum(reach, np.square(places - places[chosen[-1]]).sum(axis=1))
    covariance = floored(np.diag((scale * spread) ** 2)[None], floor)
    return Mixture(
        np.full(n_components, 1 / n_components),
        observations.points[chosen],
        np.repeat(covariance, n_components, axis=0),
    )


def axis_spread(observations: Observations, floor: np.ndarray) -> np.ndarray:
    """Standard deviation of the data on each axis, at least that of the floor."""
    variances = np.diagonal(observations.covariance()[1])
    return np.sqrt(np.maximum(variances, floor))


def random_scale(spread: np.ndarray, floor: np.ndarray, rng: np.random.Generator) -> float:
    """A share of the spread, log-uniform from the floor's own to the whole."""
    finest = max(float(np.sqrt(np.min(floor / spread**2))), FINEST)
    return float(finest ** rng.random())
