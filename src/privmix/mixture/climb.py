"""EM from given starts to the optimum above them: many at once, in lockstep, so that small fits share their costs.

A stack of m climbs takes its E-steps one after the other and its M-steps together. What one climb does never depends
on the others.
"""

from collections.abc import Callable, Sequence

import numpy as np

from privmix.mixture.kernel import em_passes
from privmix.mixture.moments import Covariance, Moments, Parameters, Prior, estimates
from privmix.mixture.observations import Data
from privmix.mixture.search import Climbed

Expectation = Callable[[Sequence[Data], Parameters], Moments]

GROWTH = 4.0  # a step length that was good may be exceeded so many times, one that was not is cut so
LEAST_COUNT = 0.1  # an extrapolation may not shrink a component's count below this share


def climb(
    data: Sequence[Data],
    starts: Parameters,
    *,
    floor: np.ndarray,
    prior: Prior | None = None,
    covariance: Covariance = "full",
    tol: float,
    max_iter: int,
    accelerate: bool = False,
    expectation: Expectation = em_passes,
) -> Climbed:
    """Each climb goes on until the objective per unit of weight gains less than `tol` in an EM iteration.

    Never descends, except from a start below the floor, which may score higher than anything the floor allows.
    `accelerate` adds after every two iterations a step along their direction, kept only if it does not descend
    (SQUAREM, Varadhan & Roland 2008, step length S3, here on the moments, whose every value has parameters).
    """
    m = len(starts)
    parameters = Parameters(*(part.copy() for part in (starts.weights, starts.means, starts.covariances)))
    moments = expectation(data, starts)
    reached = _objective(moments, starts, prior)
    log_likelihood = moments.log_likelihood / moments.total_weight
    iterations, converged = np.zeros(m, dtype=int), np.zeros(m, dtype=bool)
    going, history, longest = np.arange(m), [moments], np.full(m, GROWTH)

    def step(target: Moments) -> tuple[Parameters, Moments, np.ndarray]:
        moved = estimates(target, floor=floor, prior=prior, covariance=covariance)
        seen = expectation([data[i] for i in going], moved)
        iterations[going] += 1
        return moved, seen, _objective(seen, moved, prior)

    def keep(rows: np.ndarray, moved: Parameters, seen: Moments, objective: np.ndarray) -> None:
        where = going[rows]
        parameters.weights[where] = moved.weights[rows]
        parameters.means[where] = moved.means[rows]
        parameters.covariances[where] = moved.covariances[rows]
        log_likelihood[where] = (seen.log_likelihood / seen.total_weight)[rows]
        reached[where] = objective[rows]

    while len(going) and iterations[going[0]] < max_iter:
        moved, seen, objective = step(history[-1])
        still = ~(np.abs(objective - reached[going]) < tol)
        keep(np.ones(len(going), dtype=bool), moved, seen, objective)
        converged[going[~still]] = True
        history = [each[still] for each in (*history, seen)]
        going = going[still]
        if accelerate and len(history) == 3 and len(going) and iterations[going[0]] < max_iter:
            far, length = _extrapolated(*history, most=longest[going])
            moved, seen, objective = step(far)
            better = objective >= reached[going]
            keep(better, moved, seen, objective)
            grown = np.where(length < longest[going], longest[going], GROWTH * longest[going])
            longest[going] = np.where(better, grown, np.maximum(length / GROWTH, 1.0))
            history = [_either(better, seen, history[-1])]
        elif not accelerate:
            history = history[-1:]
    return Climbed(parameters, log_likelihood, reached, iterations, converged)


def _extrapolated(
    first: Moments, second: Moments, third: Moments, most: np.ndarray
) -> tuple[Moments, np.ndarray]:
    """Beyond three successive moments, and the step length, which is 1 where it is no farther than the third.

    m + 2αr + α²v with r, v the first and second difference of the moments and α = |r|/|v|, but `most` at most.
    """
    m = len(first.counts)
    points = [
        np.concatenate([each.counts, each.sums.reshape(m, -1), each.squares.reshape(m, -1)], axis=1)
        for each in (first, second, third)
    ]
    change = points[1] - points[0]
    bend = points[2] - points[1] - change
    sizes = np.linalg.norm(change, axis=1), np.linalg.norm(bend, axis=1)
    length = np.clip(np.divide(*sizes, out=np.ones(m), where=sizes[1] > 0), 1.0, most)[:, None]
    k = first.counts.shape[1]
    far = points[0] + 2 * length * change + length**2 * bend
    sound = (far[:, :k] >= LEAST_COUNT * points[2][:, :k]).all(axis=1, keepdims=True)
    far, length = np.where(sound, far, points[2]), np.where(sound, length, 1.0)
    d = first.sums.shape[2]
    return Moments(
        far[:, :k],
        far[:, k : k + k * d].reshape(m, k, d),
        far[:, k + k * d :].reshape(m, k, d, d),
        third.log_likelihood,
        third.total_weight,
    ), length[:, 0]


def _either(rows: np.ndarray, one: Moments, other: Moments) -> Moments:
    """`one` in these rows, `other` elsewhere."""
    return Moments(
        np.where(rows[:, None], one.counts, other.counts),
        np.where(rows[:, None, None], one.sums, other.sums),
        np.where(rows[:, None, None, None], one.squares, other.squares),
        np.where(rows, one.log_likelihood, other.log_likelihood),
        np.where(rows, one.total_weight, other.total_weight),
    )


def _objective(moments: Moments, parameters: Parameters, prior: Prior | None) -> np.ndarray:
    addition = 0.0 if prior is None else prior.log_density(parameters)
    return (moments.log_likelihood + addition) / moments.total_weight
