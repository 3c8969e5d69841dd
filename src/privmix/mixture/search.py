"""The search for a good start: seeded starts, relocations, and splits and merges of components.

EM climbs to the nearest optimum, which on clustered data is far below the best. Local optima differ in the number of
components for each part of the data, and EM never moves a component across a gap. A relocation does: it drops the
cheapest component and plants it elsewhere (split-and-merge EM, Ueda et al. 2000). It chooses among many candidate
places by their immediate gain, as in greedy EM (Verbeek, Vlassis & Kröse 2003). Many searches run in lockstep, each
on its own sample with its own random numbers.

Merging follows Runnalls 2007, "Kullback-Leibler approach to Gaussian mixture reduction" (IEEE Transactions on
Aerospace and Electronic Systems 43(3)): merge the closest pair, keep mean and covariance, and repeat until the number
of components is small enough.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.mixture.kernel import PIECE, log_joint, numba_kernel
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Data, Observations, Parameters, floor_covariances

FINEST = 1e-4  # no start is narrower than this share of the spread of the data


def seeded_start(
    observations: Observations, n_components: int, floor: np.ndarray, rng: np.random.Generator
) -> Mixture:
    """Draw a start with means at records and one random scale for all components.

    As in k-means++ (Arthur & Vassilvitskii 2007), the probability of a place grows with its squared distance to the
    places drawn before. Here the distance saturates at the scale: a small scale follows the mass (cities), a large
    one the outline (continents).
    """
    spread = axis_spread(observations, floor)
    scale = random_scale(spread, floor, rng)
    places = observations.points / spread
    reach = np.full(len(places), scale**2)
    chosen = []
    for _ in range(n_components):
        mass = observations.weights * reach
        if not mass.any():  # there are fewer distinct places than components, so repeat one
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
    """Compute the standard deviation of the data on each axis, at least that of the floor."""
    variances = np.diagonal(observations.covariance()[1])
    return np.sqrt(np.maximum(variances, floor))


def random_scale(spread: np.ndarray, floor: np.ndarray, rng: np.random.Generator) -> float:
    """Draw a share of the spread, log-uniform between that of the floor and 1."""
    finest = max(float(np.sqrt(np.min(floor / spread**2))), FINEST)
    return float(finest ** rng.random())


Joint = Callable[[Observations, Mixture], np.ndarray]  # log(weight × density), (K, n)

CANDIDATES = 16  # candidates (place and scale) for each move


class Relocation:
    """Proposals that move one component of a mixture, K ≥ 2, based on a sample.

    `log_joint` is the function for exact records, or one that takes the noise of reports into account.
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
        """Return the mixture with one cheap component moved to a promising random place and scale.

        The component is random, so that a rejected move is not repeated: each component is half as likely as the next
        cheaper one. The component of largest weight never moves.
        """
        sample, k = self.sample, self.mixture.n_components
        dropped = self.order[min(rng.geometric(0.5), k - 1) - 1]
        # The same as rng.choice with probabilities, without its checks.
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
        """Compute the log-likelihood of the sample if a planted component of this share replaces the dropped one."""
        weights = self.mixture.weights
        rest, gains = np.empty(len(self.sample)), np.empty(planted.n_components)
        numba_kernel().log_sums(self.joint, dropped, rest)
        rest += np.log((1 - share) / (1 - weights[dropped]))
        new = self.log_joint(self.sample, planted) + np.log(planted.n_components * share)
        numba_kernel().gains(rest, new, self.sample.weights, gains)
        return gains


def removal_costs(data: Data, mixture: Mixture) -> np.ndarray:
    """Compute the log-likelihood lost if each component is removed and the others keep their shape, (K,)."""
    costs = (_removal_costs(log_joint(piece, mixture), piece.weights) for piece in _pieces(data))
    return sum(costs, start=np.zeros(mixture.n_components))


def plant_on_worst(data: Data, mixture: Mixture, floor: np.ndarray) -> Mixture:
    """Move the cheapest component of the mixture to the record of lowest density. K ≥ 2.

    An isolated, distant record may raise the likelihood if it gets its own component, and random places do not find
    it.
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
    """Replace component `dropped` by one of `planted` with weight `share`. The others divide the rest of the weight."""
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
    """Cut the data into pieces small enough for an array of records by components. Skip pieces of weight zero."""
    for block in data.blocks():
        for first in range(0, len(block), PIECE):
            rows = slice(first, first + PIECE)
            if block.weights[rows].any():
                spread = None if block.spread is None else block.spread[rows]
                yield Observations(block.points[rows], block.weights[rows], spread)


HALF_MEAN = math.sqrt(
    2 / math.pi
)  # mean of the upper half of a standard normal distribution, of variance 1 - 2/π


def split_components(mixture: Mixture, n_splits: int, floor: np.ndarray) -> Mixture:
    """Cut the `n_splits` components of most variance in two, or all components if there are no more.

    The order is by weight times largest eigenvalue, which is proportional to the variance within components that the
    cut removes. Each half gets half of the weight, and the mean and covariance of half a Gaussian distribution. So the
    overall mean and covariance stay the same, except for the floor.
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
    """Merge components until at most `n_components` are left. The overall mean and covariance stay the same."""
    if n_components < 1:
        raise UserError(f"a mixture must keep at least 1 component, but n_components is {n_components}.")
    while mixture.n_components > n_components:
        costs = merge_costs(mixture)
        first, second = divmod(int(np.argmin(costs)), len(costs))
        mixture = merge_components(mixture, first, second)
    return mixture


def merge_costs(mixture: Mixture) -> np.ndarray:
    """Bound the KL divergence that merging a pair costs, (K, K), infinite on and below the diagonal (eq. 21).

    The bound is ½[(w_i + w_j) log|Σ_ij| - w_i log|Σ_i| - w_j log|Σ_j|], where Σ_ij is the covariance of the merged
    pair.
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
    """Replace two components by one with their total weight, mean and covariance. It becomes the last component."""
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
    """Compute weights (n,), means (n, d) and covariances (n, d, d) of `one` merged with each of the others."""
    weights = mixture.weights[one] + mixture.weights[others]
    # Two components of weight zero count equally.
    share = np.divide(mixture.weights[others], weights, where=weights > 0, out=np.full(len(others), 0.5))
    apart = mixture.means[others] - mixture.means[one]
    means = mixture.means[one] + share[:, None] * apart
    within = (1 - share)[:, None, None] * mixture.covariances[one] + share[
        :, None, None
    ] * mixture.covariances[others]
    between = (share * (1 - share))[:, None, None] * apart[:, :, None] * apart[:, None, :]
    return weights, means, within + between


START_ITERATIONS = 30  # enough to rank starts
MOVES_AT_ONCE = 4  # relocations of one fit that run in lockstep
HOPEFUL_GAP = 0.05  # nats per record; a proposal that is further behind after 3 iterations does not catch up


@dataclass(frozen=True, eq=False)
class ClimbResult:
    """The results of m climbs."""

    parameters: Parameters
    log_likelihood: np.ndarray  # (m,) mean per unit of weight
    objective: np.ndarray  # (m,) the maximised value: log-likelihood plus log prior, per unit of weight
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
    """Return, for each sample, the best of several seeded starts after a short climb."""
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
    """Try to move one component `relocations` times, and return the best mixture for each sample. K ≥ 2."""
    climbed = climb(samples, Parameters.of(mixtures), tol=tol, max_iter=2 * START_ITERATIONS)
    best = [climbed.parameters.mixture(number) for number in range(len(samples))]
    reached = climbed.objective.copy()
    moves = [Relocation(sample, mixture, floor, joint) for sample, mixture in zip(samples, best, strict=True)]
    for first in range(0, relocations, MOVES_AT_ONCE):
        together = min(MOVES_AT_ONCE, relocations - first)
        owners = np.repeat(np.arange(len(samples)), together)
        proposals = [moves[owner].proposal(rngs[owner]) for owner in owners.tolist()]
        data = [samples[owner] for owner in owners.tolist()]
        tried = climb(data, Parameters.of(proposals), tol=tol, max_iter=3)
        hopeful = np.flatnonzero(tried.objective > reached[owners] - HOPEFUL_GAP)
        if not len(hopeful):
            continue
        owners = owners[hopeful]
        tried = climb(
            [samples[owner] for owner in owners.tolist()],
            tried.parameters[hopeful],
            tol=10 * tol,
            max_iter=START_ITERATIONS // 2,
        )
        better = {}  # owner: its best proposal, if that improves on its current mixture
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
