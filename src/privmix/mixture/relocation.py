"""Moving a component: which one is missed least, and where it would help more.

Local optima of EM differ in how many components serve which part of the data, and EM itself never moves one
across a gap. Dropping the cheapest and replanting it elsewhere does (split-and-merge EM, Ueda et al. 2000; the
choice among many candidate places by their immediate gain is that of greedy EM, Verbeek, Vlassis & Kröse 2003).
"""

from collections.abc import Callable, Iterator

import numpy as np

from privmix.mixture.kernel import PIECE, compiled, log_joint
from privmix.mixture.model import Mixture
from privmix.mixture.moments import floored
from privmix.mixture.observations import Data, Observations
from privmix.mixture.starts import axis_spread, random_scale

Joint = Callable[[Observations, Mixture], np.ndarray]  # log of weight times density, (K, n)

CANDIDATES = 16  # places and scales compared for each move


class Relocation:
    """Moves of one component of a mixture, K ≥ 2, that a sample proposes.

    `log_joint` is that of records, or one that sees through the noise of reports.
    """

    def __init__(
        self, sample: Observations, mixture: Mixture, floor: np.ndarray, log_joint: Joint = log_joint
    ) -> None:
        self.sample, self.mixture, self.floor, self.log_joint = sample, mixture, floor, log_joint
        self.joint = log_joint(sample, mixture)
        self.spread = axis_spread(sample, floor)
        order = np.argsort(_removal_costs(self.joint, sample.weights))
        self.order = order[order != np.argmax(mixture.weights)]

    def proposal(self, rng: np.random.Generator) -> Mixture:
        """The mixture with one cheap component moved to a promising random place and scale.

        Which component goes is random, each next cheapest half as likely, so that a refused move is not repeated;
        the heaviest stays.
        """
        sample, k = self.sample, self.mixture.n_components
        dropped = self.order[min(rng.geometric(0.5), k - 1) - 1]
        # As rng.choice with probabilities, without its checks on every one of them.
        mass = np.cumsum(sample.weights)
        rows = np.searchsorted(mass, rng.random(CANDIDATES) * mass[-1], side="right")
        scales = np.array([random_scale(self.spread, self.floor, rng) for _ in rows])
        variances = np.square(scales[:, None] * self.spread)
        planted = Mixture(
            np.full(CANDIDATES, 1 / CANDIDATES),
            sample.points[rows],
            floored(variances[:, :, None] * np.eye(len(self.spread)), self.floor),
        )
        share = max(self.mixture.weights[dropped], 0.5 / k)
        gains = self._gains(dropped, planted, share)
        return _replanted(self.mixture, dropped, share, planted, int(np.argmax(gains)))

    def _gains(self, dropped: int, planted: Mixture, share: float) -> np.ndarray:
        """Log-likelihood of the sample with each planted component, of that share, in the dropped one's place."""
        weights = self.mixture.weights
        rest, gains = np.empty(len(self.sample)), np.empty(planted.n_components)
        compiled().log_sums(self.joint, dropped, rest)
        rest += np.log((1 - share) / (1 - weights[dropped]))
        new = self.log_joint(self.sample, planted) + np.log(planted.n_components * share)
        compiled().gains(rest, new, self.sample.weights, gains)
        return gains


def removal_costs(data: Data, mixture: Mixture) -> np.ndarray:
    """Log-likelihood lost by each component's removal, the others keeping their shape, (K,)."""
    return sum(_removal_costs(log_joint(piece, mixture), piece.weights) for piece in _pieces(data))


def planted_on_worst(data: Data, mixture: Mixture, floor: np.ndarray) -> Mixture:
    """The mixture with its cheapest component moved onto the record that it explains worst. K ≥ 2.

    A record alone in a far place is worth a component of its own to the likelihood, and no random place would
    find it.
    """
    costs, total, lowest = np.zeros(mixture.n_components), 0.0, np.inf
    for piece in _pieces(data):
        joint = log_joint(piece, mixture)
        costs += _removal_costs(joint, piece.weights)
        density = np.empty(len(piece))
        compiled().log_sums(joint, -1, density)
        total += piece.total_weight
        worst = int(np.argmin(density))
        if density[worst] < lowest:
            lowest, place, weight = density[worst], piece.points[worst], piece.weights[worst]
    planted = Mixture(np.ones(1), place[None], np.diag(floor)[None])
    return _replanted(mixture, int(np.argmin(costs)), weight / total, planted, 0)


def _replanted(mixture: Mixture, dropped: int, share: float, planted: Mixture, which: int) -> Mixture:
    """The mixture with component `dropped` replaced by one of `planted`, the others sharing what its share leaves."""
    weights, means, covariances = (
        part.copy() for part in (mixture.weights, mixture.means, mixture.covariances)
    )
    weights[dropped] = 0.0
    weights *= (1 - share) / weights.sum()
    weights[dropped] = share
    means[dropped], covariances[dropped] = planted.means[which], planted.covariances[which]
    return Mixture(weights, means, covariances)


def _removal_costs(joint: np.ndarray, weights: np.ndarray) -> np.ndarray:
    costs = np.zeros(len(joint))
    compiled().removal_costs(joint, weights, costs)
    return costs


def _pieces(data: Data) -> Iterator[Observations]:
    """The data in pieces small enough for an array of records by components. Pieces of no weight go."""
    for block in data.blocks():
        for first in range(0, len(block), PIECE):
            rows = slice(first, first + PIECE)
            if block.weights[rows].any():
                spread = None if block.spread is None else block.spread[rows]
                yield Observations(block.points[rows], block.weights[rows], spread)
