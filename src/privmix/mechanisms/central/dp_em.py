"""DP-EM: noise on the weights, means and second moments of every EM iteration (Park et al. 2017).

Privacy. Iteration t computes responsibilities γ from parameters that are already measured. So each statistic is a sum
over records of a bounded contribution, and its sensitivity is that of one record (‖x‖ ≤ 1, Σ_k γ_k = 1):

    weights         Σ_i γ_ik / N            L1 2/N, L2 √2/N     (γ, γ' ≥ 0 have a non-negative inner product)
    mean k          Σ_i γ_ik x_i / Ñ_k      L2 2/Ñ_k, L1 2√d/Ñ_k
    second moment k Σ_i γ_ik x_i x_iᵀ / Ñ_k  Frobenius √2/Ñ_k   (⟨xxᵀ, x'x'ᵀ⟩ = (x·x')² ≥ 0)

if one record is replaced and N is public. If N is private (a record added or removed, a person, or records that take
part only if they are complete), the counts Σ_i γ_ik are measured as sums. Every figure then has the factor of its
relation (`privacy.sensitivity`): 1, √d and 1 for a record added or removed, and m times that of a record for a person
with at most m records.

In a release the moments are exact sums of rounded contributions (`privacy.noise`). Ratios are clipped to ±FAR, which
moves none of them farther apart. So the rounding of a division, FAR 2^-53, is within the allowance of
`noise.with_rounding`.

`T` iterations are T(2K + 1) adaptive measurements, added up by the chosen composition. Everything else (priors, floor,
projection on the public box) is post-processing. The start is drawn from the public box.

Four corrections to the paper. First, Ñ_k = max(N π̃_k, 1) is the noisy count, in the divisor and in the noise scale:
the exact N_k would be an unprotected measurement and a local sensitivity. Second, the uncentred second moment is
measured, and μ̃μ̃ᵀ is subtracted afterwards: a scatter about the exact mean has no such bound. Third, the sensitivity
of the second moment is √2/Ñ_k, not 2/Ñ_k. Fourth, the eigenvalues of Σ̃_k are floored at the size of the noise in it,
which is public, instead of near zero: a variance below the noise is an accident, and such a narrow component at a place
that noise has chosen costs thousands of nats.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import CentralMechanism, Randomness, Records, Release, Spec, mechanism_dataclass
from privmix.mixture import em, kernel, standardised_moments
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Observations, Prior, estimate, symmetric_matrix
from privmix.privacy import noise, sensitivity
from privmix.privacy.accounting import Budget, Composition, Theorem, claim
from privmix.privacy.calibration import Share, equal_shares
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

FAR = 1024.0  # largest size of a noisy ratio; means of records lie in the unit ball
BLOCK = 2**12  # records whose contributions are computed together
LARGEST_VARIANCE = 1.0  # the unit ball allows no more in any direction
MOSTLY_NOISE = (
    "The noise in each component's count is larger than the average number of records per component: "
    "the mixture is mostly noise."
)


@mechanism_dataclass
class DpEm(CentralMechanism):
    """`noise`: llg (Laplace, Laplace, Gaussian) or ggg (all Gaussian) for weights, means and second moments."""

    noise: Literal["llg", "ggg"] = "ggg"
    composition: Composition = "exact"
    iterations: Annotated[int, Field(ge=1)] = 10

    def only_gaussian(self, spec: Spec) -> bool:
        """Whether all measurements are Gaussian and compose exactly."""
        return self.noise == "ggg" and self.composition == "exact"

    @property
    def accountant(self) -> Theorem:
        """The composition theorem."""
        return self.composition

    def share(self, n_components: int, budget: Budget) -> Share:
        """Return the share of the budget of each of the T(2K + 1) measurements."""
        releases = self.iterations * (2 * n_components + 1)
        laplaces = self.iterations * (n_components + 1) if self.noise == "llg" else 0
        return equal_shares(laplaces, releases - laplaces, budget, self.composition)

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Run T noisy iterations from a public start."""
        neighbours = self.relation(spec)
        ledger = Ledger()
        curator = _Curator(
            laplace=self.noise == "llg",
            share=self.share(spec.n_components, budget),
            neighbours=neighbours,
            rows=spec.domain.rows,
            source=rng.noise,
            ledger=ledger,
        )
        observations = spec.observations(view.points)
        mixture = em.public_start(spec.domain.lower, spec.domain.upper, spec.n_components, rng.search)
        moments = exact_moments if noise.needs_exact_sums(rng.noise) else kernel.em_pass
        transcript = []
        for iteration in range(self.iterations):
            released = curator.measure(moments(observations, mixture))
            mixture = _project_to_box(
                estimate(released, floor=spec.floor, prior=Prior()),
                spec,
                curator.noise_variance(released.counts),
            )
            transcript.append(
                {
                    "iteration": iteration,
                    "counts": released.counts.tolist(),
                    "sums": released.sums.tolist(),
                    "squares": released.squares.tolist(),
                }
            )
        notes = [MOSTLY_NOISE] if curator.count_noise() > spec.domain.rows / spec.n_components else []
        spent = claim(ledger.events, budget, self.composition)
        return Release(mixture, ledger.events, spent, transcript, notes=notes)


@dataclass(frozen=True)
class _Curator:
    """Holds the statistics and measures them with noise."""

    laplace: bool
    share: Share
    neighbours: Neighbours
    rows: int
    source: noise.NoiseSource
    ledger: Ledger

    def measure(self, exact: Moments) -> Moments:
        """Return the moments that the noisy weights, means and second moments imply."""
        counts = self._counts(exact.counts)
        components = range(len(counts))
        sums = np.stack([self._mean(exact.sums[k] / counts[k], counts[k]) * counts[k] for k in components])
        squares = np.stack(
            [self._second_moment(exact.squares[k] / counts[k], counts[k]) * counts[k] for k in components]
        )
        return Moments(
            counts=counts, sums=sums, squares=squares, log_likelihood=math.nan, total_weight=counts.sum()
        )

    def count_noise(self) -> float:
        """Return the standard deviation of the noise in each count."""
        reach = sensitivity.counts(self.neighbours)
        if self.laplace:
            return math.sqrt(2) * reach.l1 / self.share.laplace_epsilon
        return reach.l2 * self.share.noise_multiplier

    def noise_variance(self, counts: np.ndarray) -> np.ndarray:
        """Return the size of the noise in each covariance: the second moment's deviation plus the mean's squared."""
        noise_multiplier = self.share.noise_multiplier
        per_mean = math.sqrt(2) / self.share.laplace_epsilon if self.laplace else noise_multiplier
        of_means = sensitivity.sums(self.neighbours, dimensions=1).l2 * per_mean / counts
        return sensitivity.second_moments(self.neighbours) * noise_multiplier / counts + of_means**2

    def _counts(self, counts: np.ndarray) -> np.ndarray:
        """Return Ñ_k. If N is public, the weights are measured and multiplied by N."""
        size = self.rows if self.neighbours.size_is_public else 1
        reach = sensitivity.counts(self.neighbours)
        released = self._vector(counts / size, l1=reach.l1 / size, l2=reach.l2 / size, label="weights")
        return np.maximum(released * size, 1.0)

    def _mean(self, mean: np.ndarray, count: float) -> np.ndarray:
        reach = sensitivity.sums(self.neighbours, dimensions=len(mean))
        return self._vector(self._near(mean), l1=reach.l1 / count, l2=reach.l2 / count, label="means")

    def _second_moment(self, matrix: np.ndarray, count: float) -> np.ndarray:
        reach = sensitivity.second_moments(self.neighbours) / count
        return noise.gaussian_symmetric(
            self._near(matrix),
            sensitivity=self._reach(reach, len(matrix) * (len(matrix) + 1) // 2, 2),
            noise_multiplier=self.share.noise_multiplier,
            source=self.source,
            ledger=self.ledger,
            label="second moments",
        )

    def _vector(self, values: np.ndarray, *, l1: float, l2: float, label: str) -> np.ndarray:
        if self.laplace:
            return noise.laplace(
                values,
                sensitivity=self._reach(l1, len(values), 1),
                epsilon=self.share.laplace_epsilon,
                source=self.source,
                ledger=self.ledger,
                label=label,
            )
        return noise.gaussian(
            values,
            sensitivity=self._reach(l2, len(values), 2),
            noise_multiplier=self.share.noise_multiplier,
            source=self.source,
            ledger=self.ledger,
            label=label,
        )

    def _reach(self, change: float, size: int, norm: Literal[1, 2]) -> float:
        return noise.with_rounding(change, size, norm, neighbours=self.neighbours, source=self.source)

    def _near(self, ratio: np.ndarray) -> np.ndarray:
        return np.clip(ratio, -FAR, FAR) if noise.needs_exact_sums(self.source) else ratio


def exact_moments(observations: Observations, mixture: Mixture) -> Moments:
    """Compute `kernel.em_pass` as a sum of contributions that are rounded to the lattice (`privacy.noise`)."""
    k, d = mixture.means.shape

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, len(observations), BLOCK):
            points = observations.points[first : first + BLOCK]
            shares, _ = standardised_moments.standardise_records(points, mixture)
            places = np.broadcast_to(points.T, (k, d, len(points)))
            yield (
                standardised_moments.record_moments(shares, places),
                observations.weights[first : first + BLOCK],
            )

    total = noise.exact_sum(parts(), k * (1 + d + d * (d + 1) // 2))
    counts, firsts, seconds = np.split(total, [k, k + k * d])
    return Moments(
        counts=counts,
        sums=firsts.reshape(k, d),
        squares=symmetric_matrix(seconds.reshape(k, -1), d),
        log_likelihood=math.nan,
        total_weight=float(counts.sum()),
    )


def _project_to_box(mixture: Mixture, spec: Spec, noise_variance: np.ndarray) -> Mixture:
    """Move means into the public box; limit variances to the range from the noise to what the unit ball allows."""
    values, vectors = np.linalg.eigh(mixture.covariances)
    ceiling = np.maximum(LARGEST_VARIANCE, spec.floor.max())
    values = np.clip(values, np.minimum(noise_variance, ceiling)[:, None], ceiling)
    covariances = np.einsum("kij,kj,klj->kil", vectors, values, vectors)
    means = np.clip(mixture.means, spec.domain.lower, spec.domain.upper)
    return Mixture(mixture.weights, means, covariances)
