"""Noise-aware EM: the mixture of the records x behind noisy reports y = x + e.

This is extreme deconvolution (Bovy, Hogg & Roweis 2011, Annals of Applied Statistics 5). The noise is a finite scale
mixture of centred Gaussian distributions (`ScaleMixture`). y is then a mixture over pairs (k, j) with means μ_k and
covariances Σ_k + S_j. Given y and a pair, x is Gaussian with mean μ + A(y - μ) and covariance Σ - AΣ, where
A = Σ(Σ + S)⁻¹ (their eqs 14-17). So the moments of x are linear in the moments of y. The pass that computes them
(`noisy_passes`) and the ordinary estimate form a monotone EM.

Gaussian noise has one scale. Laplace noise of scale b on a coordinate is N(0, τ) with τ exponential of mean 2b²
(Andrews & Mallows 1974). Planar Laplace noise of scale b, with density ∝ exp(-‖e‖/b) in the plane, is N(0, τ I) where
τ has the gamma distribution of shape 3/2 and scale 2b². A few scales approximate both. This approximates the
likelihood that a fit maximises, not the noise itself: it affects utility, never privacy.

The search is the same as for a fit to records, several starts and then relocations, but every step takes the noise
into account. No start has components narrowed by the noise, because under noise a component that starts too narrow
hardly widens again.

Reports are already private, so computing anything from them costs no privacy.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mixture import em, search
from privmix.mixture.em import FitOptions, public_start
from privmix.mixture.kernel import em_passes, log_joint, numba_kernel
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import (
    Moments,
    Observations,
    Parameters,
    aggregate,
    compress,
    floor_covariances,
    systematic_sample,
)
from privmix.mixture.search import seeded_start

COARSE = 2  # nodes per coordinate in a search; with 4, a search would cost four times as much
MOST_SCALES = 32  # scales over all coordinates together; the cost of a pass is proportional to their number

# (weights, variances / 2b²) by number of nodes: the scale mixtures nearest to the Laplace density in
# Kullback-Leibler divergence. Such an optimum has the Laplace variance, because EM keeps second moments. For 1 to 5
# nodes the divergence is 7e-2, 6e-3, 9e-4, 2e-4, 4e-5 nats, and the largest error of the cdf is 6e-2, 1e-2, 3e-3, 9e-4,
# 3e-4. Gauss-Laguerre nodes in τ blunt the cusp: with 5 nodes they still have 4e-3 and 1e-2.
LAPLACE_NODES = {
    1: ((1.0,), (1.0,)),
    2: ((0.540423, 0.459577), (0.242975, 1.89019)),
    3: ((0.200779, 0.56745, 0.231771), (0.0722128, 0.642577, 2.67881)),
    4: ((0.0720159, 0.334975, 0.471665, 0.121344), (0.0239137, 0.237514, 1.07189, 3.40473)),
    5: (
        (0.0267891, 0.157142, 0.392266, 0.358291, 0.0655117),
        (0.00860353, 0.0919443, 0.452072, 1.50849, 4.0834),
    ),
}

# (weights, variances / 3b²) by number of nodes: the same for the planar Laplace density. For 1 to 5 nodes the
# divergence is 1e-1, 8e-3, 1e-3, 2e-4, 3e-5 nats, and the largest error of the cdf of the radius is 1e-1, 2e-2, 4e-3,
# 1e-3, 4e-4.
PLANAR_NODES = {
    1: ((1.0,), (1.0,)),
    2: ((0.52542, 0.47458), (0.335943, 1.7352)),
    3: ((0.185189, 0.583544, 0.231267), (0.133108, 0.729856, 2.37581)),
    4: ((0.0597387, 0.342756, 0.482681, 0.114824), (0.0567034, 0.334746, 1.12261, 2.96119)),
    5: (
        (0.0192511, 0.152963, 0.413016, 0.35646, 0.0583102),
        (0.0254245, 0.159484, 0.564321, 1.5082, 3.50587),
    ),
}


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """The noise distribution Σ_j ω_j N(0, S_j). Diagonal covariances may be passed as variances (J, d)."""

    weights: np.ndarray  # (J,) positive, sum 1
    covariances: np.ndarray  # (J, d, d) positive semidefinite
    coarse: "ScaleMixture | None" = None  # the same noise in fewer scales, accurate enough for a search

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        covariances = np.array(self.covariances, dtype=np.float64)
        if covariances.ndim == 2:
            covariances = covariances[:, :, None] * np.eye(covariances.shape[1])
        d = covariances.shape[-1]
        if weights.ndim != 1 or covariances.shape != (len(weights), d, d):
            raise UserError(
                "noise needs weights (J,) and covariances (J, d, d) or variances (J, d), but has shapes "
                f"{weights.shape} and {covariances.shape}."
            )
        if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-9:
            raise UserError(
                "the weights of the scales of the noise must be positive and sum to 1; normalise them."
            )
        if not np.isfinite(covariances).all() or (np.linalg.eigvalsh(covariances) < 0).any():
            raise UserError(
                "noise covariances must be finite and positive semidefinite; check the scale of the noise."
            )
        object.__setattr__(self, "weights", weights / weights.sum())
        object.__setattr__(self, "covariances", covariances)

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return self.covariances.shape[1]

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the noise, (d, d)."""
        return np.tensordot(self.weights, self.covariances, axes=1)


def gaussian_scales(sigma: float, dimensions: int) -> ScaleMixture:
    """Represent Gaussian noise of standard deviation `sigma` on each coordinate exactly, as one scale."""
    return ScaleMixture(np.ones(1), np.full((1, dimensions), float(sigma) ** 2))


def laplace_scales(scale: float, dimensions: int, nodes: int | None = None) -> ScaleMixture:
    """Approximate independent Laplace noise of scale b on each coordinate by nodes^d scales, with its variance 2b².

    By default, the number of nodes is the largest up to 4 that keeps nodes^d within 32: 4 in one and two dimensions, 3
    in three, 2 in four and five. With more dimensions it is 1, which is Gaussian noise of the same variance.
    """
    if nodes is None:
        nodes = max(count for count in (1, 2, 3, 4) if count == 1 or count**dimensions <= MOST_SCALES)
    if nodes not in LAPLACE_NODES or dimensions < 1:
        raise UserError(
            f"laplace_scales needs 1 to {max(LAPLACE_NODES)} nodes and at least one dimension, "
            f"not {nodes} and {dimensions}."
        )
    weights, variances = (np.array(part) for part in LAPLACE_NODES[nodes])
    weights /= weights.sum()
    variances *= 2 * float(scale) ** 2 / (weights @ variances)
    grid = np.array(list(itertools.product(range(nodes), repeat=dimensions)))
    coarse = laplace_scales(scale, dimensions, COARSE) if nodes > COARSE else None
    return ScaleMixture(weights[grid].prod(axis=1), variances[grid], coarse)


def planar_laplace_scales(scale: float, nodes: int = 4) -> ScaleMixture:
    """Approximate planar Laplace noise of scale b, isotropic in two dimensions, with its variance 3b² on each axis."""
    if nodes not in PLANAR_NODES:
        raise UserError(f"planar_laplace_scales needs 1 to {max(PLANAR_NODES)} nodes, not {nodes}.")
    weights, variances = (np.array(part) for part in PLANAR_NODES[nodes])
    weights /= weights.sum()
    variances *= 3 * float(scale) ** 2 / (weights @ variances)
    coarse = planar_laplace_scales(scale, COARSE) if nodes > COARSE else None
    return ScaleMixture(weights, np.repeat(variances[:, None], 2, axis=1), coarse)


def report_mixtures(mixtures: Parameters, noise: ScaleMixture) -> Parameters:
    """Return the mixtures of the reports. Component k under noise scale j has number k J + j."""
    m, _, d = mixtures.means.shape
    weights = mixtures.weights[:, :, None] * noise.weights
    covariances = mixtures.covariances[:, :, None] + noise.covariances
    means = np.repeat(mixtures.means, len(noise.weights), axis=1)
    return Parameters(weights.reshape(m, -1), means, covariances.reshape(m, -1, d, d))


def noisy_passes(
    data: Sequence[Observations], mixtures: Parameters, noise: ScaleMixture, *, threads: int | None = None
) -> Moments:
    """Compute, for each mixture, the expected moments of the records and the log-likelihood of the reports."""
    m, k, d = mixtures.means.shape
    reports = em_passes(data, report_mixtures(mixtures, noise), threads=threads)
    counts = reports.counts.reshape(m, k, -1, 1)
    sums = reports.sums.reshape(m, k, -1, d)
    squares = reports.squares.reshape(m, k, -1, d, d)
    means, prior_covariance = mixtures.means[:, :, None], mixtures.covariances[:, :, None]
    # Both factors are symmetric, so Σ(Σ + S)⁻¹ is the transpose of the result of solve.
    gain = np.swapaxes(np.linalg.solve(prior_covariance + noise.covariances, prior_covariance), -1, -2)
    gain_transposed = np.swapaxes(gain, -1, -2)
    offset = means - (gain @ means[..., None])[..., 0]
    moved = (gain @ sums[..., None])[..., 0]
    cross = moved[..., :, None] * offset[..., None, :]
    spread = prior_covariance - gain @ prior_covariance + offset[..., :, None] * offset[..., None, :]
    squares = (
        gain @ squares @ gain_transposed + cross + np.swapaxes(cross, -1, -2) + counts[..., None] * spread
    )
    return Moments(
        counts=counts.sum(axis=(2, 3)),
        sums=(moved + counts * offset).sum(axis=2),
        squares=squares.sum(axis=2),
        log_likelihood=reports.log_likelihood,
        total_weight=reports.total_weight,
    )


def noisy_joint(reports: Observations, mixture: Mixture, noise: ScaleMixture) -> np.ndarray:
    """Compute log(weight × density) of the reports under each component, summed over the noise scales, (K, n)."""
    joint = log_joint(reports, report_mixtures(Parameters.of([mixture]), noise).mixture(0))
    together = np.empty((mixture.n_components, len(reports)))
    for number, scales in enumerate(joint.reshape(mixture.n_components, -1, len(reports))):
        numba_kernel().log_sums(scales, -1, together[number])
    return together


MAX_GROUPED_DIMENSIONS = 2  # with more dimensions, reports seldom share a cell and are not grouped
FINENESS = 1.5  # side of a cell in n^(-1/4) standard deviations of the noise
DEFAULTS = FitOptions(starts=4, tol=2e-6)
SAMPLE = 2**14  # reports, or cells of reports, on which the search runs
MOVES = 5  # relocations per component in each search


@dataclass(frozen=True, eq=False)
class _Problem:
    """Noisy reports and public information about them."""

    observations: Observations  # weights count reports
    noise: ScaleMixture
    lower: np.ndarray  # (d,) corners of the public box, which contains the records
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
) -> FitResult:
    """Fit a mixture of the records to their noisy reports (weights count reports), inside the box [lower, upper].

    Noise hides structure, and components that the reports cannot tell apart fit the noise. So the fit tries 1, about
    √K and K components, in this order, while Akaike's criterion (1974) improves. `n_components` is the largest number.
    The search continues from the best `searches` of the starts. `options` are the fields of `em.FitOptions`. A `start`
    replaces all other starts and sets the number of components.
    """
    if noise.dimensions != observations.dimensions:
        raise UserError(
            f"the noise has {noise.dimensions} dimensions, but the reports have {observations.dimensions}."
        )
    if not 1 <= n_components <= observations.total_weight:
        raise UserError(
            f"cannot fit {n_components} components to {observations.total_weight:g} reports; "
            "set the number of components between 1 and the number of reports."
        )
    chosen = replace(DEFAULTS, floor=floor, **options)
    floor, lower, upper = (np.asarray(part, dtype=np.float64) for part in (floor, lower, upper))
    problem = _Problem(group_reports(observations, noise, floor), noise, lower, upper, floor)
    reports, start = problem.observations, chosen.start
    sizes = sorted({1, round(n_components**0.5), n_components}) if start is None else [start.n_components]
    final = None
    for size in sizes:
        narrowest = resolvable_variance(reports.total_weight, size, noise, lower, upper, floor)
        if start is None:
            coarse = replace(problem, noise=noise.coarse or noise, floor=narrowest)
            begin = _search_starts(coarse, size, searches, chosen, rng)
        else:
            begin = [start]
        climbed = chosen.climb(narrowest)(
            [reports] * len(begin),
            Parameters.of(begin),
            tol=chosen.tol,
            max_iter=chosen.max_iter,
            accelerate=True,
            expectation=partial(noisy_passes, noise=noise, threads=chosen.threads),
        )
        tried = em.fit_result(climbed, int(np.argmax(climbed.objective)))
        if final is not None and _criterion(tried, reports, chosen) <= _criterion(final, reports, chosen):
            break
        final = tried
    assert final is not None  # there is at least one size
    return _clip_to_box(final, problem, n_components)


def resolvable_variance(
    reports: float,
    n_components: int,
    noise: ScaleMixture,
    lower: np.ndarray,
    upper: np.ndarray,
    floor: np.ndarray,
) -> np.ndarray:
    """Raise the floor to the smallest variance that this many reports can show through this noise.

    The variance of a component with n/K reports has a standard error of √(2K/n) times the variance of the noise.
    Below that, the likelihood is flat and its maximum is a spike: a narrower component fits the noise. The result
    never exceeds the variance of the uniform density on the public box.
    """
    error = np.sqrt(2 * n_components / reports) * np.diagonal(noise.covariance)
    return np.maximum(floor, np.minimum(error, (upper - lower) ** 2 / 12))


def group_reports(observations: Observations, noise: ScaleMixture, floor: np.ndarray) -> Observations:
    """Group reports into cells finer than the noise, if that at least halves the work. Moments stay exact.

    Cells of side h bias a covariance by about h²/12, so h/σ falls as n^(-1/4) to keep the bias below the standard
    error of the covariance.
    """
    observations = compress(observations)
    side = FINENESS * observations.total_weight**-0.25 * np.sqrt(np.diagonal(noise.covariance) + floor)
    places = observations.points - observations.points.min(axis=0)
    counts = np.floor(places.max(axis=0) / side) + 1
    if observations.dimensions > MAX_GROUPED_DIMENSIONS or counts.prod() > 2**62:
        return observations
    cells = np.ravel_multi_index(np.floor(places / side).astype(np.int64).T, counts.astype(np.int64))
    if len(np.unique(cells)) > len(observations) / 2:
        return observations
    return aggregate(observations, cells)


def cap_covariances(covariances: np.ndarray, side: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Limit the standard deviation in every direction to half a side of the public box.

    No distribution on an interval has a larger one (Popoviciu 1935), but an estimate from noisy reports can have any.
    Directions are those of the box scaled to a cube.
    """
    half = np.outer(side / 2, side / 2)
    values, vectors = np.linalg.eigh(covariances / half)
    narrowed = (vectors * np.minimum(values, 1.0)[:, None, :]) @ np.swapaxes(vectors, -1, -2) * half
    too_wide = values[:, -1, None, None] > 1  # eigenvalues ascend
    return np.where(too_wide, floor_covariances(narrowed, floor), covariances)


def _search_starts(
    problem: _Problem, n_components: int, searches: int, options: FitOptions, rng: np.random.Generator
) -> list[Mixture]:
    """Return the best few starts after a short climb and relocations, all of which take the noise into account."""
    observations, floor, noise = problem.observations, problem.floor, problem.noise
    rise = partial(
        options.climb(floor), expectation=partial(noisy_passes, noise=noise, threads=options.threads)
    )
    sample = systematic_sample(observations, SAMPLE, rng)
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
    return search.relocate(
        [sample] * len(best), best, floor, rng.spawn(len(best)), rise, moves, options.tol, joint
    )


def _starts(
    problem: _Problem,
    sample: Observations,
    n_components: int,
    options: FitOptions,
    rng: np.random.Generator,
) -> list[Mixture]:
    """Make starts from the overall moments minus the noise, the public box, single reports, and a naive fit.

    Starts from reports shrink towards their centre, until the variance on each axis is that of the reports minus that
    of the noise. Under strong noise the likelihood is nearly flat, so a start as wide as the noise would stay wide.
    """
    observations, lower, upper, floor = problem.observations, problem.lower, problem.upper, problem.floor
    centre, covariance = observations.covariance()
    whole = Mixture(
        np.ones(1), centre[None], floor_covariances((covariance - problem.noise.covariance)[None], floor)
    )
    if n_components == 1:
        return [whole]
    share = floor_covariances(whole.covariances / n_components ** (2 / whole.dimensions), floor)
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
        *(_shrink(each, centre, factor, floor) for each in seen),
    ]
    return [Mixture(each.weights, np.clip(each.means, lower, upper), each.covariances) for each in found]


def _shrink(mixture: Mixture, centre: np.ndarray, factor: np.ndarray, floor: np.ndarray) -> Mixture:
    """Shrink the mixture about a centre by a factor on each axis."""
    means = centre + factor * (mixture.means - centre)
    return Mixture(
        mixture.weights, means, floor_covariances(mixture.covariances * np.outer(factor, factor), floor)
    )


def _criterion(tried: FitResult, observations: Observations, options: FitOptions) -> float:
    """Compute the log-likelihood of the reports minus the number of free parameters: -½ AIC, so larger is better."""
    return tried.log_likelihood * observations.total_weight - tried.mixture.n_parameters(options.covariance)


def _clip_to_box(final: FitResult, problem: _Problem, n_components: int) -> FitResult:
    """Move the fit into the public box, and add notes for the reader."""
    observations, lower, upper = problem.observations, problem.lower, problem.upper
    used = final.mixture.n_components
    notes = []
    if not final.converged:
        notes.append(f"EM stopped after {final.iterations} iterations before it converged.")
    if used < n_components:
        notes.append(f"the reports support {used} of {n_components} components through this noise.")
    means = np.clip(final.mixture.means, lower, upper)
    covariances = cap_covariances(final.mixture.covariances, upper - lower, problem.floor)
    outside = int((means != final.mixture.means).any(axis=1).sum())
    if outside:
        notes.append(f"{outside} of {used} means were moved into the public box.")
    wide = int((covariances != final.mixture.covariances).any(axis=(1, 2)).sum())
    if wide:
        notes.append(
            f"{wide} of {used} components were wider than the public box allows and were narrowed; "
            "they mostly describe noise."
        )
    if not outside and not wide:
        return replace(final, notes=tuple(notes))
    mixture = Mixture(final.mixture.weights, means, covariances)
    seen = noisy_passes([observations], Parameters.of([mixture]), problem.noise)
    reached = float(np.asarray(seen.log_likelihood)[0]) / observations.total_weight
    return replace(
        final,
        mixture=mixture,
        log_likelihood=reached,
        objective=final.objective + reached - final.log_likelihood,
        notes=tuple(notes),
    )
