"""The conjugate posterior of a mixture with labelled records: Dirichlet and normal-inverse-Wishart.

Given counts N_k, sums s_k and second moments Q_k, the posteriors are independent (Murphy 2012, "Machine Learning",
§4.6.3; Gelman et al. 2013, "Bayesian Data Analysis", §3.6). With prior mean 0 they are

    π ~ Dirichlet(α + N),    Σ_k ~ IW(ν + N_k, S_k),    μ_k | Σ_k ~ N(s_k / κ_k, Σ_k / κ_k),
    κ_k = κ + N_k,    S_k = S + Q_k - s_k s_kᵀ / κ_k.

Statistics with noise need not belong to any data. Negative counts are taken as zero, and S_k is raised to S in the
directions in which it is smaller.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ConjugatePrior:
    """Dirichlet(alpha) on the weights; normal-inverse-Wishart(mean 0, kappa, freedom, scale · I) on each component."""

    alpha: float
    kappa: float
    freedom: float
    scale: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The parameters of the posterior. Leading axes hold several posteriors."""

    concentration: np.ndarray  # (..., K)
    means: np.ndarray  # (..., K, d)
    kappas: np.ndarray  # (..., K)
    freedoms: np.ndarray  # (..., K) more than d + 1
    scales: np.ndarray  # (..., K, d, d)

    @property
    def mean_weights(self) -> np.ndarray:
        """Posterior mean of the weights, E π."""
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    @property
    def mean_covariances(self) -> np.ndarray:
        """Posterior mean of the covariances, E Σ_k = S_k / (ν_k - d - 1)."""
        d = self.means.shape[-1]
        return self.scales / (self.freedoms - d - 1)[..., None, None]

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw weights, means and covariances once from each posterior."""
        weights = draw_distributions(self.concentration, rng)
        covariances = sample_inverse_wishart(self.freedoms, self.scales, rng)
        factors = np.linalg.cholesky(covariances)
        standard = rng.standard_normal(self.means.shape) / np.sqrt(self.kappas)[..., None]
        return weights, self.means + np.einsum("...ij,...j->...i", factors, standard), covariances


def posterior(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, prior: ConjugatePrior) -> Posterior:
    """Compute the posterior given statistics (..., K), (..., K, d), (..., K, d, d)."""
    counts = np.maximum(counts, 0.0)
    kappas = prior.kappa + counts
    means = sums / kappas[..., None]
    scatter = squares - sums[..., :, None] * means[..., None, :]
    values, vectors = np.linalg.eigh((scatter + np.swapaxes(scatter, -1, -2)) / 2)
    values = prior.scale + np.maximum(values, 0.0)
    scales = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return Posterior(prior.alpha + counts, means, kappas, prior.freedom + counts, scales)


def share_concentration(counts: np.ndarray, previous: np.ndarray, strength: float) -> np.ndarray:
    """Return the Dirichlet parameters of shares given counts of values (..., V), for a prior with mean `previous`.

    The prior is worth `strength` records. As for the weights, negative counts are taken as zero.
    """
    return np.asarray(np.maximum(counts, 0.0) + strength * previous)


def draw_distributions(concentrations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw once from each Dirichlet distribution, (..., V)."""
    parts = rng.standard_gamma(concentrations)
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))


def simulate_counts(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> np.ndarray:
    """Draw normal noise with this standard deviation for counts of this shape."""
    return rng.normal(0.0, deviation, shape)


def simulate_noise(
    count: int, components: int, d: int, deviations: tuple[float, float, float], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw normal noise with these standard deviations for `count` sets of counts, sums and symmetric squares.

    For a matrix H of independent entries, (H + Hᵀ)/2 has their variance on the diagonal and half of it off the
    diagonal.
    """
    for_counts, for_sums, for_squares = deviations
    full = rng.normal(0.0, for_squares, (count, components, d, d))
    return (
        rng.normal(0.0, for_counts, (count, components)),
        rng.normal(0.0, for_sums, (count, components, d)),
        (full + np.swapaxes(full, -1, -2)) / 2,
    )


def sample_inverse_wishart(freedoms: np.ndarray, scales: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw once from each IW(ν, S), (..., d, d), by Bartlett's decomposition.

    A Aᵀ ~ W(ν, I) for A lower triangular with independent χ(ν - j) on the diagonal (j = 0, 1, ...) and N(0, 1) below.
    If S = C Cᵀ, then C (A Aᵀ)⁻¹ Cᵀ ~ IW(ν, S) (Bartlett 1933; scipy.stats.invwishart takes one S at a time).
    """
    d = scales.shape[-1]
    rows, columns = np.tril_indices(d, -1)
    bartlett = np.zeros(scales.shape)
    bartlett[..., rows, columns] = rng.standard_normal((*scales.shape[:-2], len(rows)))
    axes = np.arange(d)
    bartlett[..., axes, axes] = np.sqrt(rng.chisquare(freedoms[..., None] - axes))
    root = np.linalg.cholesky(scales) @ np.swapaxes(np.linalg.inv(bartlett), -1, -2)
    return root @ np.swapaxes(root, -1, -2)
