"""The search for a good place to climb from: several starts on a sample, then relocations, all by likelihood.

EM climbs to the nearest optimum, and on clustered data the nearest is far below the best. Many searches run in
lockstep, each on its own sample with its own random numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.mixture.kernel import log_joint
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters
from privmix.mixture.observations import Observations
from privmix.mixture.relocation import Joint, Relocation
from privmix.mixture.starts import seeded_start

START_ITERATIONS = 30  # enough to rank starts
TOGETHER = 4  # relocations of one fit tried side by side
HOPEFUL = 0.05  # nats per record: a moved component that far behind after 3 iterations does not catch up


@dataclass(frozen=True, eq=False)
class Climbed:
    """m climbs: where each ended and how."""

    parameters: Parameters
    log_likelihood: np.ndarray  # (m,) mean per unit of weight
    objective: np.ndarray  # (m,) what was maximised: log-likelihood plus log prior, per unit of weight
    iterations: np.ndarray  # (m,)
    converged: np.ndarray  # (m,)


Climb = Callable[..., Climbed]


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


def relocated(
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
    for first in range(0, relocations, TOGETHER):
        together = min(TOGETHER, relocations - first)
        owners = np.repeat(np.arange(len(samples)), together)
        proposals = [moves[owner].proposal(rngs[owner]) for owner in owners]
        tried = climb([samples[owner] for owner in owners], Parameters.of(proposals), tol=tol, max_iter=3)
        hopeful = np.flatnonzero(tried.objective > reached[owners] - HOPEFUL)
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
