"""Noise-aware EM: the mixture of the records x behind noisy reports y = x + e.

Extreme deconvolution (Bovy, Hogg & Roweis 2011, Annals of Applied Statistics 5, eqs 14-17), with noise that is a
scale mixture of Gaussians: y is then a mixture over pairs (k, j) with means μ_k and covariances Σ_k + S_j. Given y
and a pair, x is Gaussian with mean μ + A(y - μ) and covariance Σ - AΣ, A = Σ(Σ + S)⁻¹. The moments of x are so
linear in the moments of y, and the ordinary pass and the ordinary estimate make a monotone EM.

Reports are private already: whatever is computed from them is free.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from privmix.errors import UserError
from privmix.mixture import em
from privmix.mixture.climb import climb
from privmix.mixture.em import Fit
from privmix.mixture.kernel import em_passes
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Parameters, Prior, floored
from privmix.mixture.observations import Observations, aggregate, compress
from privmix.mixture.scale_mixture import ScaleMixture, gaussian_scales, laplace_scales
from privmix.mixture.starts import public_start

__all__ = ["ScaleMixture", "fit", "gaussian_scales", "laplace_scales", "noisy_passes", "observed"]

MOST_DIMENSIONS = 2  # reports are gathered up to this; with more they seldom share a cell
FINENESS = 1.5  # side of a cell in n^(-1/4) standard deviations of the noise
START_ITERATIONS = 8  # enough to rank starts


def observed(mixtures: Parameters, noise: ScaleMixture) -> Parameters:
    """The mixtures of reports: component k under noise scale j is number k J + j."""
    m, _, d = mixtures.means.shape
    weights = mixtures.weights[:, :, None] * noise.weights
    covariances = mixtures.covariances[:, :, None] + noise.covariances
    means = np.repeat(mixtures.means, len(noise.weights), axis=1)
    return Parameters(weights.reshape(m, -1), means, covariances.reshape(m, -1, d, d))


def noisy_passes(data: Sequence[Observations], mixtures: Parameters, noise: ScaleMixture) -> Moments:
    """Expected moments of the records behind the reports, and the log-likelihood of the reports, for each mixture."""
    m, k, d = mixtures.means.shape
    reports = em_passes(data, observed(mixtures, noise))
    counts = reports.counts.reshape(m, k, -1, 1)
    sums = reports.sums.reshape(m, k, -1, d)
    squares = reports.squares.reshape(m, k, -1, d, d)
    means, prior_covariance = mixtures.means[:, :, None], mixtures.covariances[:, :, None]
    # Both factors are symmetric, so Σ(Σ + S)⁻¹ is the transpose of what solve gives.
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


def fit(
    observations: Observations,
    n_components: int,
    noise: ScaleMixture,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    floor: np.ndarray,
    rng: np.random.Generator,
    starts: int = 2,
    tol: float = 2e-5,
    max_iter: int = 200,
    start: Mixture | None = None,
    prior: Prior | None = None,
) -> Fit:
    """The mixture of the records behind noisy reports (weights count reports). Means end in [lower, upper].

    Noise hides structure, and components that the reports cannot tell apart fit the noise. So 1, about √K and K
    components are tried, upwards while Akaike's criterion (1974) improves; `n_components` is the most that is
    used. With a `start` it is that start, and its number of components, alone.
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
    floor, lower, upper = (np.asarray(part, dtype=np.float64) for part in (floor, lower, upper))
    observations = gathered(observations, noise, floor)
    sizes = sorted({1, round(n_components**0.5), n_components}) if start is None else [start.n_components]
    final = None
    for size in sizes:
        narrowest = resolvable(observations.total_weight, size, noise, lower, upper, floor)
        rise = partial(climb, floor=narrowest, prior=prior, expectation=partial(noisy_passes, noise=noise))
        if start is None:
            candidates = _starts(observations, size, noise, lower, upper, narrowest, starts, rng)
            data = [observations] * len(candidates)
            ranked = rise(data, Parameters.of(candidates), tol=tol, max_iter=START_ITERATIONS)
            begin = ranked.parameters[[int(np.argmax(ranked.objective))]]
        else:
            begin = Parameters.of([start])
        tried = em.ended(rise([observations], begin, tol=tol, max_iter=max_iter, accelerate=True), 0)
        if final is not None and _criterion(tried, observations) <= _criterion(final, observations):
            break
        final = tried
    return _inside(final, observations, noise, lower, upper, n_components)


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


def _starts(
    observations: Observations,
    n_components: int,
    noise: ScaleMixture,
    lower: np.ndarray,
    upper: np.ndarray,
    floor: np.ndarray,
    number: int,
    rng: np.random.Generator,
) -> list[Mixture]:
    """Starts from the public box, from the overall moments less the noise, and from a naive fit less the noise."""
    centre, covariance = observations.covariance()
    whole = Mixture(np.ones(1), centre[None], floored((covariance - noise.covariance)[None], floor))
    share = floored(whole.covariances / n_components ** (2 / whole.dimensions), floor)
    equal = np.full(n_components, 1 / n_components)
    found = []
    for _ in range(number):
        found.append(public_start(lower, upper, n_components, rng))
        means = np.clip(whole.sample(n_components, rng), lower, upper)
        found.append(Mixture(equal, means, np.repeat(share, n_components, axis=0)))
    naive = em.fit(
        observations, n_components, floor=floor, rng=rng, starts=4, relocations=2 * n_components
    ).mixture
    narrowed = floored(naive.covariances - noise.covariance, floor)
    return [*found, Mixture(naive.weights, naive.means, narrowed)]


def _criterion(tried: Fit, observations: Observations) -> float:
    """Log-likelihood of the reports less one for each free parameter: half of Akaike's, larger is better."""
    return tried.log_likelihood * observations.total_weight - tried.mixture.n_parameters()


def _inside(
    final: Fit,
    observations: Observations,
    noise: ScaleMixture,
    lower: np.ndarray,
    upper: np.ndarray,
    n_components: int,
) -> Fit:
    """The fit with its means projected into the public box, and notes of what a reader should know."""
    used = final.mixture.n_components
    notes = []
    if not final.converged:
        notes.append(f"EM stopped at {final.iterations} iterations before it converged.")
    if used < n_components:
        notes.append(f"the reports support {used} of {n_components} components through this noise.")
    means = np.clip(final.mixture.means, lower, upper)
    outside = int((means != final.mixture.means).any(axis=1).sum())
    if outside == 0:
        return replace(final, notes=tuple(notes))
    notes.append(f"{outside} of {used} means were moved into the public box.")
    mixture = Mixture(final.mixture.weights, means, final.mixture.covariances)
    seen = noisy_passes([observations], Parameters.of([mixture]), noise)
    reached = float(seen.log_likelihood[0]) / observations.total_weight
    return replace(
        final,
        mixture=mixture,
        log_likelihood=reached,
        objective=final.objective + reached - final.log_likelihood,
        notes=tuple(notes),
    )
