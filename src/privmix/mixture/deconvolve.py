"""Noise-aware EM: the mixture of the records x behind noisy reports y = x + e.

Extreme deconvolution (Bovy, Hogg & Roweis 2011), with noise that is a scale mixture of Gaussians: the pass that sees
through the noise (`noisy_pass`) and the ordinary estimate make a monotone EM. It climbs from the best of several starts
after the same search as a fit to records, several starts and then relocations, all through the noise. No start has
components narrowed by the noise: through noise a component that begins too narrow hardly widens again.

Reports are private already: whatever is computed from them is free.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mixture import em, search
from privmix.mixture.em import Fit, FitOptions, public_start
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters, floored
from privmix.mixture.noisy_pass import noisy_joint, noisy_passes
from privmix.mixture.observations import Observations, aggregate, compress, sampled
from privmix.mixture.scale_mixture import ScaleMixture
from privmix.mixture.starts import seeded_start

MOST_DIMENSIONS = 2  # reports are gathered up to this; with more they seldom share a cell
FINENESS = 1.5  # side of a cell in n^(-1/4) standard deviations of the noise
DEFAULTS = FitOptions(starts=4, tol=2e-6)
SAMPLE = 2**14  # reports, or cells of them, on which the search runs
MOVES = 5  # relocations a component in each of them


@dataclass(frozen=True, eq=False)
class _Problem:
    """Noisy reports, and what is public about them."""

    observations: Observations  # weights count reports
    noise: ScaleMixture
    lower: np.ndarray  # (d,) corners of the box that the records are in
    upper: np.ndarray
    floor: np.ndarray  # (d,) least variances


def fit(
    observations: Observations,
    n_components: int,
    noise: ScaleMixture,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    floor: np.ndarray,
    rng: np.random.Generator,
    searches: int = 3,
    **options: Any,
) -> Fit:
    """The mixture of the records behind noisy reports (weights count reports). It ends in the box [lower, upper].

    Noise hides structure, and components that the reports cannot tell apart fit the noise. So 1, about √K and K
    components are tried, upwards while Akaike's criterion (1974) improves; `n_components` is the most that is
    used. The best `searches` of the starts are searched on. `options` are the fields of `em.FitOptions`; with a
    `start` it is that start, and its number of components, alone.
    """
    if noise.dimensions != observations.dimensions:
        raise UserError(
            f"the noise has {noise.dimensions} dimensions, the reports {observations.dimensions}."
        )
    if not 1 <= n_components <= observations.total_weight:
        raise UserError(
            f"cannot fit {n_components} components to {observations.total_weight:g} reports; "
            "set the number of components between 1 and the number of reports."
        )
    chosen = replace(DEFAULTS, floor=floor, **options)
    floor, lower, upper = (np.asarray(part, dtype=np.float64) for part in (floor, lower, upper))
    problem = _Problem(gathered(observations, noise, floor), noise, lower, upper, floor)
    reports, start = problem.observations, chosen.start
    sizes = sorted({1, round(n_components**0.5), n_components}) if start is None else [start.n_components]
    final = None
    for size in sizes:
        narrowest = resolvable(reports.total_weight, size, noise, lower, upper, floor)
        begin = [start]
        if start is None:
            coarse = replace(problem, noise=noise.coarse or noise, floor=narrowest)
            begin = _searched(coarse, size, searches, chosen, rng)
        climbed = chosen.climb(narrowest)(
            [reports] * len(begin),
            Parameters.of(begin),
            tol=chosen.tol,
            max_iter=chosen.max_iter,
            accelerate=True,
            expectation=partial(noisy_passes, noise=noise, threads=chosen.threads),
        )
        tried = em.ended(climbed, int(np.argmax(climbed.objective)))
        if final is not None and _criterion(tried, reports, chosen) <= _criterion(final, reports, chosen):
            break
        final = tried
    return _inside(final, problem, n_components)


def resolvable(
    reports: float,
    n_components: int,
    noise: ScaleMixture,
    lower: np.ndarray,
    upper: np.ndarray,
    floor: np.ndarray,
) -> np.ndarray:
    """The floor raised to the smallest variance that this many reports can show through this noise.

    The variance of a component with n/K reports has standard error √(2K/n) times the noise's own. Below that the
    likelihood is flat and its maximum a spike: a component narrower than it was fitted to the noise. Never above
    the variance of the uniform density on the public box.
    """
    error = np.sqrt(2 * n_components / reports) * np.diagonal(noise.covariance)
    return np.maximum(floor, np.minimum(error, (upper - lower) ** 2 / 12))


def gathered(observations: Observations, noise: ScaleMixture, floor: np.ndarray) -> Observations:
    """Reports gathered into cells finer than the noise, where that halves the work; moments stay exact.

    Cells of side h bias a covariance by about h²/12, so h/σ falls as n^(-1/4) to stay below its standard error.
    """
    observations = compress(observations)
    side = FINENESS * observations.total_weight**-0.25 * np.sqrt(np.diagonal(noise.covariance) + floor)
    places = observations.points - observations.points.min(axis=0)
    counts = np.floor(places.max(axis=0) / side) + 1
    if observations.dimensions > MOST_DIMENSIONS or counts.prod() > 2**62:
        return observations
    cells = np.ravel_multi_index(np.floor(places / side).astype(np.int64).T, counts.astype(np.int64))
    if len(np.unique(cells)) > len(observations) / 2:
        return observations
    return aggregate(observations, cells)


def no_wider(covariances: np.ndarray, side: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """The covariances with no variance above that of half a side of the public box, in any direction.

    Nothing that lies in an interval has a larger one (Popoviciu 1935); noise less noise can have any. Directions are
    those of the box scaled to a cube.
    """
    half = np.outer(side / 2, side / 2)
    values, vectors = np.linalg.eigh(covariances / half)
    narrowed = (vectors * np.minimum(values, 1.0)[:, None, :]) @ np.swapaxes(vectors, -1, -2) * half
    return np.where((values > 1).any(axis=1)[:, None, None], floored(narrowed, floor), covariances)


def _searched(
    problem: _Problem, n_components: int, searches: int, options: FitOptions, rng: np.random.Generator
) -> list[Mixture]:
    """The best few of the starts after a short climb, their components relocated: all through the noise."""
    observations, floor, noise = problem.observations, problem.floor, problem.noise
    rise = partial(
        options.climb(floor), expectation=partial(noisy_passes, noise=noise, threads=options.threads)
    )
    sample = sampled(observations, SAMPLE, rng)
    sample = replace(sample, weights=sample.weights * (observations.total_weight / sample.total_weight))
    begin = _starts(problem, sample, n_components, options, rng)
    climbed = rise(
        [sample] * len(begin), Parameters.of(begin), tol=10 * options.tol, max_iter=search.START_ITERATIONS
    )
    best = [climbed.parameters.mixture(row) for row in np.argsort(-climbed.objective)[:searches]]
    moves = options.moves(n_components, MOVES)
    if n_components == 1 or moves == 0:
        return best
    joint = partial(noisy_joint, noise=noise)
    return search.relocated(
        [sample] * len(best), best, floor, rng.spawn(len(best)), rise, moves, options.tol, joint
    )


def _starts(
    problem: _Problem,
    sample: Observations,
    n_components: int,
    options: FitOptions,
    rng: np.random.Generator,
) -> list[Mixture]:
    """Starts from the overall moments less the noise, from the public box, at reports, and from a naive fit.

    What comes from the reports is drawn in about their centre until its variance on each axis is theirs less the
    noise: through much noise the likelihood is nearly flat, and a start that is as wide as the noise stays so.
    """
    observations, lower, upper, floor = problem.observations, problem.lower, problem.upper, problem.floor
    centre, covariance = observations.covariance()
    whole = Mixture(np.ones(1), centre[None], floored((covariance - problem.noise.covariance)[None], floor))
    if n_components == 1:
        return [whole]
    share = floored(whole.covariances / n_components ** (2 / whole.dimensions), floor)
    equal = np.full(n_components, 1 / n_components)
    naive = em.fit(
        observations,
        n_components,
        floor=floor,
        rng=rng,
        starts=4,
        relocations=2 * n_components,
        threads=options.threads,
    ).mixture
    left = np.diagonal(whole.covariances[0])
    factor = np.sqrt(left / np.maximum(left, np.diagonal(covariance)))
    seen = [naive, *(seeded_start(sample, n_components, floor, rng) for _ in range(options.starts))]
    found = [
        Mixture(equal, whole.sample(n_components, rng), np.repeat(share, n_components, axis=0)),
        public_start(lower, upper, n_components, rng),
        *(_drawn_in(each, centre, factor, floor) for each in seen),
    ]
    return [Mixture(each.weights, np.clip(each.means, lower, upper), each.covariances) for each in found]


def _drawn_in(mixture: Mixture, centre: np.ndarray, factor: np.ndarray, floor: np.ndarray) -> Mixture:
    """The mixture shrunk by a factor on each axis about a centre."""
    means = centre + factor * (mixture.means - centre)
    return Mixture(mixture.weights, means, floored(mixture.covariances * np.outer(factor, factor), floor))


def _criterion(tried: Fit, observations: Observations, options: FitOptions) -> float:
    """Log-likelihood of the reports less one for each free parameter: half of Akaike's, larger is better."""
    return tried.log_likelihood * observations.total_weight - tried.mixture.n_parameters(options.covariance)


def _inside(final: Fit, problem: _Problem, n_components: int) -> Fit:
    """The fit drawn into the public box, with notes of what a reader should know."""
    observations, lower, upper = problem.observations, problem.lower, problem.upper
    used = final.mixture.n_components
    notes = []
    if not final.converged:
        notes.append(f"EM stopped at {final.iterations} iterations before it converged.")
    if used < n_components:
        notes.append(f"the reports support {used} of {n_components} components through this noise.")
    means = np.clip(final.mixture.means, lower, upper)
    covariances = no_wider(final.mixture.covariances, upper - lower, problem.floor)
    outside = int((means != final.mixture.means).any(axis=1).sum())
    if outside:
        notes.append(f"{outside} of {used} means were moved into the public box.")
    wide = int((covariances != final.mixture.covariances).any(axis=(1, 2)).sum())
    if wide:
        notes.append(f"{wide} of {used} components were narrowed to what fits the public box: mostly noise.")
    if not outside and not wide:
        return replace(final, notes=tuple(notes))
    mixture = Mixture(final.mixture.weights, means, covariances)
    seen = noisy_passes([observations], Parameters.of([mixture]), problem.noise)
    reached = float(seen.log_likelihood[0]) / observations.total_weight
    return replace(
        final,
        mixture=mixture,
        log_likelihood=reached,
        objective=final.objective + reached - final.log_likelihood,
        notes=tuple(notes),
    )
