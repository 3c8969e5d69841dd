"""The search for a good start: seeded starts, relocations, and splits and merges of components.

EM climbs to the nearest optimum, and on clustered data the nearest is far below the best. Local optima differ in
how many components serve which part of the data, and EM itself never moves a component across a gap. Dropping the
cheapest component and planting it elsewhere does (split-and-merge EM, Ueda et al. 2000; the choice among many
candidate places by their immediate gain is that of greedy EM, Verbeek, Vlassis & Kröse 2003). Many searches run in
lockstep, each on its own sample with its own random numbers.

Merging follows Runnalls 2007, "Kullback-Leibler approach to Gaussian mixture reduction" (IEEE Transactions on
Aerospace and Electronic Systems 43(3)): the closest pair is merged, mean and covariance kept, until few enough are
left.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.kernel import PIECE, log_joint, numba_kernel
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Data, Observations, Parameters, floor_covariances

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
    covariance = floor_covariances(np.diag((scale * spread) ** 2)[None], floor)
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
            floor_covariances(variances[:, :, None] * np.eye(len(self.spread)), self.floor),
        )
        share = max(self.mixture.weights[dropped], 0.5 / k)
        gains = self._gains(dropped, planted, share)
        return _replant(self.mixture, dropped, share, planted, int(np.argmax(gains)))

    def _gains(self, dropped: int, planted: Mixture, share: float) -> np.ndarray:
        """Log-likelihood of the sample with each planted component, of that share, in the dropped one's place."""
        weights = self.mixture.weights
        rest, gains = np.empty(len(self.sample)), np.empty(planted.n_components)
        numba_kernel().log_sums(self.joint, dropped, rest)
        rest += np.log((1 - share) / (1 - weights[dropped]))
        new = self.log_joint(self.sample, planted) + np.log(planted.n_components * share)
        numba_kernel().gains(rest, new, self.sample.weights, gains)
        return gains


def removal_costs(data: Data, mixture: Mixture) -> np.ndarray:
    """Log-likelihood lost by each component's removal, the others keeping their shape, (K,)."""
    return sum(_removal_costs(log_joint(piece, mixture), piece.weights) for piece in _pieces(data))


def plant_on_worst(data: Data, mixture: Mixture, floor: np.ndarray) -> Mixture:
    """The mixture with its cheapest component moved onto the record that it explains worst. K ≥ 2.

    A record alone in a far place is worth a component of its own to the likelihood, and no random place would
    find it.
    """
    costs, total, lowest = np.zeros(mixture.n_components), 0.0, np.inf
    for piece in _pieces(data):
        joint = log_joint(piece, mixture)
        costs += _removal_costs(joint, piece.weights)
        density = np.empty(len(piece))
        numba_kernel().log_sums(joint, -1, density)
        total += piece.total_weight
        worst = int(np.argmin(density))
        if density[worst] < lowest:
            lowest, place, weight = density[worst], piece.points[worst], piece.weights[worst]
    planted = Mixture(np.ones(1), place[None], np.diag(floor)[None])
    return _replant(mixture, int(np.argmin(costs)), weight / total, planted, 0)


def _replant(mixture: Mixture, dropped: int, share: float, planted: Mixture, which: int) -> Mixture:
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
    numba_kernel().removal_costs(joint, weights, costs)
    return costs


def _pieces(data: Data) -> Iterator[Observations]:
    """The data in pieces small enough for an array of records by components. Pieces of no weight go."""
    for block in data.blocks():
        for first in range(0, len(block), PIECE):
            rows = slice(first, first + PIECE)
            if block.weights[rows].any():
                spread = None if block.spread is None else block.spread[rows]
                yield Observations(block.points[rows], block.weights[rows], spread)


HALF_MEAN = math.sqrt(2 / math.pi)  # mean of the upper half of a standard normal law; its variance is 1 - 2/π


def split_components(mixture: Mixture, n_splits: int, floor: np.ndarray) -> Mixture:
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
    means, covariances = mixture.means[chosen], floor_covariances(halves, floor)
    return Mixture(
        np.concatenate([mixture.weights[kept], weights, weights]),
        np.concatenate([mixture.means[kept], means - steps, means + steps]),
        np.concatenate([mixture.covariances[kept], covariances, covariances]),
    )


def reduce_components(mixture: Mixture, n_components: int) -> Mixture:
    """The mixture merged down to at most `n_components`. Its overall mean and covariance stay the same."""
    if n_components < 1:
        raise UserError(f"a mixture is reduced to at least 1 component, not {n_components}.")
    while mixture.n_components > n_components:
        costs = merge_costs(mixture)
        mixture = merge_components(mixture, *np.unravel_index(np.argmin(costs), costs.shape))
    return mixture


def merge_costs(mixture: Mixture) -> np.ndarray:
    """Bound on the KL divergence that merging a pair costs, (K, K), infinite on and below the diagonal (eq. 21).

    ½[(w_i + w_j) log|Σ_ij| - w_i log|Σ_i| - w_j log|Σ_j|], Σ_ij the covariance of both together.
    """
    k = mixture.n_components
    log_volume = 2 * np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum(axis=1)
    costs = np.full((k, k), np.inf)
    for first in range(k - 1):
        others = np.arange(first + 1, k)
        weights, _, covariances = _merged_parameters(mixture, first, others)
        joint = np.linalg.slogdet(covariances)[1]
        own = mixture.weights[first] * log_volume[first] + mixture.weights[others] * log_volume[others]
        costs[first, others] = 0.5 * (weights * joint - own)
    return costs


def merge_components(mixture: Mixture, first: int, second: int) -> Mixture:
    """The mixture with two components replaced by one of their weight, mean and covariance, put last."""
    weight, mean, covariance = _merged_parameters(mixture, first, np.array([second]))
    kept = np.setdiff1d(np.arange(mixture.n_components), [first, second])
    return Mixture(
        np.append(mixture.weights[kept], weight),
        np.concatenate([mixture.means[kept], mean]),
        np.concatenate([mixture.covariances[kept], covariance]),
    )


def _merged_parameters(
    mixture: Mixture, one: int, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


START_ITERATIONS = 30  # enough to rank starts
MOVES_AT_ONCE = 4  # relocations of one fit tried side by side
HOPEFUL_GAP = 0.05  # nats per record: a moved component that far behind after 3 iterations does not catch up


@dataclass(frozen=True, eq=False)
class ClimbResult:
    """m climbs: where each ended and how."""

    parameters: Parameters
    log_likelihood: np.ndarray  # (m,) mean per unit of weight
    objective: np.ndarray  # (m,) what was maximised: log-likelihood plus log prior, per unit of weight
    iterations: np.ndarray  # (m,)
    converged: np.ndarray  # (m,)


Climb = Callable[..., ClimbResult]


def best_starts(
    samples: Sequence[Observations],
    n_components: int,
    floor: np.ndarray,
    rngs: Sequence[np.random.Generator],
    climb: Climb,
    starts: int,
    tol: float,
) -> list[Mixture]:
    """For each sample the best of several seeded starts after a short climb."""
    seeds = [
        seeded_start(sample, n_components, floor, rng)
        for sample, rng in zip(samples, rngs, strict=True)
        for _ in range(starts)
    ]
    data = [sample for sample in samples for _ in range(starts)]
    climbed = climb(data, Parameters.of(seeds), tol=10 * tol, max_iter=START_ITERATIONS)
    best = climbed.objective.reshape(-1, starts).argmax(axis=1)
    return [climbed.parameters.mixture(number * starts + each) for number, each in enumerate(best)]


def relocate(
    samples: Sequence[Observations],
    mixtures: Sequence[Mixture],
    floor: np.ndarray,
    rngs: Sequence[np.random.Generator],
    climb: Climb,
    relocations: int,
    tol: float,
    joint: Joint = log_joint,
) -> list[Mixture]:
    """For each sample the best mixture that this many attempts to move one component reach. K ≥ 2."""
    climbed = climb(samples, Parameters.of(mixtures), tol=tol, max_iter=2 * START_ITERATIONS)
    best = [climbed.parameters.mixture(number) for number in range(len(samples))]
    reached = climbed.objective.copy()
    moves = [Relocation(sample, mixture, floor, joint) for sample, mixture in zip(samples, best, strict=True)]
    for first in range(0, relocations, MOVES_AT_ONCE):
        together = min(MOVES_AT_ONCE, relocations - first)
        owners = np.repeat(np.arange(len(samples)), together)
        proposals = [moves[owner].proposal(rngs[owner]) for owner in owners]
        tried = climb([samples[owner] for owner in owners], Parameters.of(proposals), tol=tol, max_iter=3)
        hopeful = np.flatnonzero(tried.objective > reached[owners] - HOPEFUL_GAP)
        if not len(hopeful):
            continue
        owners = owners[hopeful]
        tried = climb(
            [samples[owner] for owner in owners],
            tried.parameters[hopeful],
            tol=10 * tol,
            max_iter=START_ITERATIONS // 2,
        )
        better = {}  # owner: its best proposal, if that is better than what it has
        for number in np.argsort(tried.objective):
            if tried.objective[number] > reached[owners[number]]:
                better[int(owners[number])] = int(number)
        if not better:
            continue
        polished = climb(
            [samples[owner] for owner in better],
            tried.parameters[list(better.values())],
            tol=tol,
            max_iter=START_ITERATIONS,
        )
        for number, owner in enumerate(better):
            best[owner] = polished.parameters.mixture(number)
            reached[owner] = polished.objective[number]
            moves[owner] = Relocation(samples[owner], best[owner], floor, joint)
    return best
