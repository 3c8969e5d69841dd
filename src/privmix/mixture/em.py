"""Fitting a mixture by EM: the plain loop, and the search around it that finds a good optimum.

EM climbs to the nearest optimum, and on clustered data the nearest is far below the best. The search begins at
several scales on a sample, climbs, then relocates components one at a time; every choice it makes is by
likelihood. On a private synopsis all of it is free; on raw data none of it is private.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from privmix.errors import UserError
from privmix.mixture.kernel import Observations, compress, em_pass, sampled
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Prior, estimate
from privmix.mixture.relocation import planted_on_worst, relocated
from privmix.mixture.starts import public_start, seeded_start

__all__ = ["Fit", "fit", "loop", "public_start"]

SAMPLE_SHARE = 16  # the search runs on one record in this many,
SAMPLE_LEAST = 4096  # but on no fewer than this
START_ITERATIONS = 30  # enough to rank starts
HOPEFUL = (
    0.05  # nats per record: a moved component that is this far behind after 3 iterations does not catch up
)


@dataclass(frozen=True)
class Fit:
    """A fitted mixture and how it was reached."""

    mixture: Mixture
    log_likelihood: float  # mean per unit of weight
    objective: float  # what was maximised: the log-likelihood, plus the log prior per unit of weight
    iterations: int  # EM iterations over all the data
    converged: bool
    notes: tuple[str, ...] = ()


def loop(
    observations: Observations,
    mixture: Mixture,
    *,
    floor: np.ndarray,
    prior: Prior | None = None,
    tol: float = 1e-5,
    max_iter: int = 500,
    expectation: Callable[[Observations, Mixture], Moments] = em_pass,
) -> Fit:
    """EM from a start until the objective per unit of weight gains less than `tol` in an iteration.

    Never descends, except from a start below the floor, which may score higher than anything the floor allows.
    `expectation` is the pass over the data: `em_pass`, or one that sees through noise.
    """
    moments = expectation(observations, mixture)
    objective = _objective(moments, mixture, prior)
    converged, iteration = False, 0
    while not converged and iteration < max_iter:
        mixture = estimate(moments, floor=floor, prior=prior)
        moments = expectation(observations, mixture)
        before, objective = objective, _objective(moments, mixture, prior)
        converged, iteration = abs(objective - before) < tol, iteration + 1
    log_likelihood = moments.log_likelihood / moments.total_weight
    return Fit(mixture, log_likelihood, objective, iteration, converged)


def fit(
    observations: Observations,
    n_components: int,
    *,
    floor: np.ndarray,
    rng: np.random.Generator,
    starts: int = 8,
    relocations: int | None = None,
    tol: float = 1e-5,
    max_iter: int = 500,
    start: Mixture | None = None,
    prior: Prior | None = None,
) -> Fit:
    """The best mixture that the search finds: several starts and relocations on a sample, then EM on everything,
    and a last look at the record that is explained worst.

    `start` replaces the several starts; `relocations` is 8 a component unless told, and 0 turns the search off.
    Equal rows are merged first, which changes nothing but the time.
    """
    floor = np.asarray(floor, dtype=np.float64)
    if not 1 <= n_components <= max(len(observations), observations.total_weight):
        raise UserError(
            f"cannot fit {n_components} components to {len(observations)} records; "
            "set the number of components between 1 and the number of records."
        )
    if start is not None and start.n_components != n_components:
        raise UserError(
            f"the start has {start.n_components} components, but {n_components} are to be fitted."
        )
    observations = compress(observations)
    climb = partial(loop, floor=floor, prior=prior)
    sample = search_sample(observations, rng)
    if start is None:
        seeds = (seeded_start(sample, n_components, floor, rng) for _ in range(max(starts, 1)))
        climbed = [climb(sample, seed, tol=10 * tol, max_iter=START_ITERATIONS) for seed in seeds]
        start = max(climbed, key=lambda tried: tried.objective).mixture
    if relocations is None:
        relocations = 8 * n_components
    if n_components > 1 and relocations > 0:
        best = climb(sample, start, tol=tol, max_iter=2 * START_ITERATIONS)
        for _ in range(relocations):
            best = _moved(sample, best, climb, floor, tol, rng)
        start = best.mixture
    final = climb(observations, start, tol=tol, max_iter=max_iter)
    if n_components > 1 and relocations > 0:
        tried = climb(
            observations, planted_on_worst(observations, final.mixture, floor), tol=tol, max_iter=10
        )
        if tried.objective > final.objective:
            final = climb(observations, tried.mixture, tol=tol, max_iter=max_iter)
    return replace(final, notes=_notes(final, max_iter))


def search_sample(observations: Observations, rng: np.random.Generator) -> Observations:
    """The part of the data that starts are compared on."""
    return sampled(observations, max(SAMPLE_LEAST, len(observations) // SAMPLE_SHARE), rng)


def _moved(
    sample: Observations,
    best: Fit,
    climb: Callable[..., Fit],
    floor: np.ndarray,
    tol: float,
    rng: np.random.Generator,
) -> Fit:
    """`best`, or a fit with one component moved if that is better. Hopeless moves are left after a few steps."""
    tried = climb(sample, relocated(sample, best.mixture, floor, rng), tol=tol, max_iter=3)
    if tried.objective > best.objective - HOPEFUL:
        tried = climb(sample, tried.mixture, tol=10 * tol, max_iter=START_ITERATIONS // 2)
    if tried.objective <= best.objective:
        return best
    return climb(sample, tried.mixture, tol=tol, max_iter=START_ITERATIONS)


def _notes(final: Fit, max_iter: int) -> tuple[str, ...]:
    notes = []
    if not final.converged:
        notes.append(f"EM stopped at {max_iter} iterations before it converged.")
    empty = int((final.mixture.weights == 0).sum())
    if empty:
        notes.append(f"{empty} of {final.mixture.n_components} components are empty.")
    return tuple(notes)


def _objective(moments: Moments, mixture: Mixture, prior: Prior | None) -> float:
    addition = 0.0 if prior is None else prior.log_density(mixture)
    return (moments.log_likelihood + addition) / moments.total_weight
