"""Moving a component: which one is missed least, and where it would help more.

Local optima of EM differ in how many components serve which part of the data, and EM itself never moves one
across a gap. Dropping the cheapest and replanting it elsewhere does (split-and-merge EM, Ueda et al. 2000; the
choice among many candidate places by their immediate gain is that of greedy EM, Verbeek, Vlassis & Kröse 2003).
"""

import numpy as np

from privmix.mixture.kernel import Observations, log_joint
from privmix.mixture.model import Mixture
from privmix.mixture.moments import floored
from privmix.mixture.starts import axis_spread, random_scale

CANDIDATES = 16  # places and scales compared for each move


def removal_costs(observations: Observations, mixture: Mixture) -> np.ndarray:
    """Log-likelihood lost by each component's removal, the others keeping their shape, (K,)."""
    joint = log_joint(observations, mixture)
    rest = np.stack([_log_sum(np.delete(joint, k, axis=0)) for k in range(len(joint))])
    with np.errstate(divide="ignore"):
        return (_log_sum(joint) - rest) @ observations.weights


def relocated(
    observations: Observations, mixture: Mixture, floor: np.ndarray, rng: np.random.Generator
) -> Mixture:
    """The mixture with one cheap component moved to a promising random place and scale. K ≥ 2.

    Which component goes is random, each next cheapest half as likely, so that a refused move is not repeated; the
    heaviest stays.
    """
    k = mixture.n_components
    order = np.argsort(removal_costs(observations, mixture))
    order = order[order != np.argmax(mixture.weights)]
    dropped = order[min(rng.geometric(0.5), k - 1) - 1]
    spread = axis_spread(observations, floor)
    rows = rng.choice(len(observations), CANDIDATES, p=observations.weights / observations.total_weight)
    scales = np.array([random_scale(spread, floor, rng) for _ in rows])
    planted = Mixture(
        np.full(CANDIDATES, 1 / CANDIDATES),
        observations.points[rows],
        floored(np.square(scales[:, None] * spread)[:, :, None] * np.eye(len(spread)), floor),
    )
    weights, means, covariances = (
        part.copy() for part in (mixture.weights, mixture.means, mixture.covariances)
    )
    share = max(weights[dropped], 0.5 / k)
    weights[dropped] = 0.0
    dilution = (1 - share) / weights.sum()
    rest = _log_sum(np.delete(log_joint(observations, mixture), dropped, axis=0)) + np.log(dilution)
    new = log_joint(observations, planted) + np.log(CANDIDATES * share)
    best = int(np.argmax(np.logaddexp(rest, new) @ observations.weights))
    weights *= dilution
    weights[dropped] = share
    means[dropped], covariances[dropped] = planted.means[best], planted.covariances[best]
    return Mixture(weights, means, covariances)


def planted_on_worst(observations: Observations, mixture: Mixture, floor: np.ndarray) -> Mixture:
    """The mixture with its cheapest component moved onto the record that it explains worst. K ≥ 2.

    A record alone in a far place is worth a component of its own to the likelihood, and no random place would
    find it.
    """
    joint = log_joint(observations, mixture)
    worst = int(np.argmin(_log_sum(joint)))
    dropped = int(np.argmin(removal_costs(observations, mixture)))
    weights, means, covariances = (
        part.copy() for part in (mixture.weights, mixture.means, mixture.covariances)
    )
    share = observations.weights[worst] / observations.total_weight
    weights[dropped] = 0.0
    weights *= (1 - share) / weights.sum()
    weights[dropped] = share
    means[dropped], covariances[dropped] = observations.points[worst], np.diag(floor)
    return Mixture(weights, means, covariances)


def _log_sum(joint: np.ndarray) -> np.ndarray:
    """Column-wise log Σ exp, -inf where every term is."""
    peak = joint.max(axis=0)
    peak[peak == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return peak + np.log(np.exp(joint - peak).sum(axis=0))
