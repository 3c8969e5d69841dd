"""Posterior samples from noised statistics (Foulds, Geumlek, Welling, Chaudhuri 2016, "On the theory and practice of
privacy-preserving Bayesian data analysis", §4).

Privacy. A Gaussian mixture with labels is an exponential family, so all that a conjugate posterior needs of the records
are their counts, sums and second moments. Those are released with Gaussian noise, as one vector, T times: each
iteration computes responsibilities, the labels' expectation, from the mixture that the one before has released, and
the records as each component sees them, clipped to a ball (`joint_moments.release`, sensitivity by
`sensitivity.joint`). The first mixture is a private reference (`mechanisms.reference`), with its own part of the
budget. All releases are Gaussian and compose exactly to one of μ = √Σμ² (Dong, Roth, Su 2022, Corollary 2). The
posterior is computed from the last release, and draws and credible intervals from the posterior: post-processing, so
that any number of them costs nothing more.

A draw knows the noise: it first draws the exact statistics given the noisy ones (with a flat prior they are the noisy
ones plus as much noise again), then parameters from the posterior given those. Without that an interval would be too
short by the noise (Bernstein and Sheldon 2018). What the intervals do not know: responsibilities are taken as given,
so they speak of the means of the groups that the last iteration formed, not of labels that are themselves in doubt;
nor do they correct the clipping of records more than c standard deviations away. They are right for components well
apart, and too short where components overlap.

When to use it: where the question is about the parameters and their uncertainty. As a density the posterior mean is
close to what the same releases give without a prior.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.mechanisms import joint_moments
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Spec, parameters
from privmix.mechanisms.joint_moments import Released
from privmix.mechanisms.reference import described, reference
from privmix.mechanisms.refinement import feasible, updated
from privmix.mixture.model import Mixture
from privmix.mixture.posterior import Conjugate, Posterior, like_noise, posterior
from privmix.mixture.standardised import clipped_variance
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.calibration import divided_multipliers
from privmix.privacy.ledger import Ledger

INTERVAL_DRAWS = 2000
TAILS = (0.025, 0.975)
LARGEST_DEVIATION = 3.0  # of a mean from where the last iteration had it, in its own standard deviations


@parameters
class PosteriorSample(Mechanism):
    """`samples`: draws to give; `released`: what stands as the mixture, the posterior mean or one draw."""

    trust: ClassVar[Literal["central", "local"]] = "central"

    iterations: Annotated[int, Field(ge=1, le=1000)] = 5
    samples: Annotated[int, Field(ge=0, le=10_000)] = 20
    released: Literal["mean", "draw"] = "mean"
    reference_share: Annotated[float, Field(gt=0, lt=1)] = 0.5

    @property
    def accountant(self) -> str:
        """Gaussian releases compose exactly."""
        return "exact"

    def multipliers(self, budget: Budget) -> list[float]:
        """σ/Δ of the reference and of each iteration."""
        each = (1 - self.reference_share) / self.iterations
        return divided_multipliers([self.reference_share] + [each] * self.iterations, budget)

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """A private reference, T joint releases from it on, and the posterior given the last."""
        neighbours, ledger = self.relation(spec), Ledger()
        for_reference, *multipliers = self.multipliers(budget)
        points = spec.inside(view.points)
        mixture = reference(points, spec, neighbours, multiplier=for_reference, rng=rng, ledger=ledger)
        observations = spec.observed(points)
        transcript: list[dict[str, Any]] = [{"reference": described(mixture)}]
        for number, multiplier in enumerate(multipliers):
            about = mixture
            released = joint_moments.release(
                observations,
                about,
                multiplier=multiplier,
                neighbours=neighbours,
                source=rng.noise,
                ledger=ledger,
                label="joint moments",
            )
            mixture = updated(about, released, spec, neighbours)
            transcript.append(
                {
                    "iteration": number,
                    "counts": released.counts.tolist(),
                    "sums": released.sums.tolist(),
                    "squares": released.squares.tolist(),
                }
            )
        belief = Belief(about, released, spec)
        transcript.append({"intervals": belief.intervals(rng.search)})
        transcript += [{"draw": described(each)} for each in belief.draws(self.samples, rng.search)]
        chosen = belief.mean if self.released == "mean" else belief.draws(1, rng.search)[0]
        spent = claim(ledger.events, budget, "exact")
        return Release(chosen, ledger.events, spent, transcript, notes=belief.notes())


@dataclass(frozen=True, eq=False)
class Belief:
    """What released moments say of a mixture, in the coordinates of the components that they were taken about."""

    about: Mixture
    released: Released
    spec: Spec

    @property
    def prior(self) -> Conjugate:
        """Worth as many records of each component, as it was before, as the noise has in deviations; at least one."""
        d = self.about.dimensions
        strength = max(1.0, self.released.square_deviation)
        return Conjugate(alpha=1.0, kappa=strength, freedom=d + 1 + strength, scale=strength)

    def posterior(self, noises: tuple[np.ndarray, ...] | None = None) -> Posterior:
        """Given the released moments, or those with other noise added."""
        moments = (self.released.counts, self.released.sums, self.released.squares)
        if noises is not None:
            moments = tuple(part + noise for part, noise in zip(moments, noises, strict=True))
        counts, sums, squares = moments
        d = self.about.dimensions
        squares = squares / clipped_variance(d, joint_moments.scheme(d).radius)
        return posterior(counts, sums, squares, self.prior)

    @property
    def mean(self) -> Mixture:
        """The posterior mean of the parameters."""
        found = self.posterior()
        return self._mixture(found.mean_weights, found.means, found.mean_covariances)

    def draws(self, count: int, rng: np.random.Generator) -> list[Mixture]:
        """Mixtures from the posterior that knows the noise."""
        if not count:
            return []
        weights, means, covariances = self.posterior(self._as_uncertain(count, rng)).draw(rng)
        return [self._mixture(*each) for each in zip(weights, means, covariances, strict=True)]

    def intervals(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        """For each component the 95 % credible interval of its mean on each axis, in normalised coordinates."""
        _, shifts, _ = self.posterior(self._as_uncertain(INTERVAL_DRAWS, rng)).draw(rng)
        means = self.about.means + np.einsum("kij,mkj->mki", self.about.cholesky, shifts)
        means = self.spec.inside(means)
        lower, upper = np.quantile(means, TAILS, axis=0)
        return [
            {"component": k, "lower": lower[k].tolist(), "upper": upper[k].tolist()}
            for k in range(self.about.n_components)
        ]

    def notes(self) -> list[str]:
        """What a reader should know of the noise."""
        lost = int((self.released.counts < 3 * self.released.count_deviation).sum())
        if not lost:
            return []
        return [
            f"{lost} of {self.about.n_components} components hold fewer records than three deviations of the noise in "
            "their count: they are mostly the private reference."
        ]

    def _as_uncertain(
        self, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As many draws of noise of the law that the release had."""
        released = self.released
        deviations = (released.count_deviation, released.sum_deviation, released.square_deviation)
        return like_noise(count, *self.about.means.shape, deviations, rng)

    def _mixture(self, weights: np.ndarray, shifts: np.ndarray, shapes: np.ndarray) -> Mixture:
        """Standardised means and covariances in the coordinates of the records."""
        length = np.linalg.norm(shifts, axis=1, keepdims=True)
        shifts = shifts * np.minimum(1.0, LARGEST_DEVIATION / np.maximum(length, 1e-300))
        factor = self.about.cholesky
        means = self.about.means + np.einsum("kij,kj->ki", factor, shifts)
        return feasible(weights, means, factor @ shapes @ factor.transpose(0, 2, 1), self.spec)
