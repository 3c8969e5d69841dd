"""Output noise: sample-and-aggregate of fitted parameters (Nissim, Raskhodnikova, Smith 2007; GUPT: Mohan et al. 2012).

Privacy. Part of the budget pays for a private reference mixture (`mechanisms.shared.reference`). Every unit (a record,
or a person with all their records) is then assigned to one of M blocks by a draw of its own (`noise.partition`), and M
is public. Each block is fitted by itself, from the reference, which is measured, and the records of the block, and
nothing else. The fit is a vector about the reference (`mixture.deviation`), clipped to L2 norm R. A block without
records has the vector 0. Given the draws, neighbouring datasets differ in one block, whether a unit was added, removed
or replaced by another in its place. The vector of that block moves within a ball of radius R, so the sum over blocks
moves by at most 2R. The sum is measured once, with Gaussian noise of that sensitivity, and divided by M. The
distribution of the draws does not depend on the data, so a bound that holds for all draws holds for the mixture over
them (joint convexity). The two measurements compose exactly (Dong, Roth, Su 2022, Corollary 2). The number of records
of the changed unit does not enter here: person level costs more in the reference only. Everything after the measurement
is post-processing: shrinkage towards the reference, which uses the noise scale, and projection on the public box.

Components keep their labels because the EM of each block starts from the reference. So the estimator of a block is
local: it finds the optimum next to the reference.

Approximations. An estimate from few records is biased, and averaging does not remove the bias. The size of a block
balances bias against noise, from public values.

When to use it: as the textbook form of output perturbation, or if only a black-box estimator is available. At small ε
the result is the reference.
"""

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import (
    CentralMechanism,
    Randomness,
    Records,
    Release,
    Spec,
    mechanism_dataclass,
    project_to_box,
)
from privmix.mechanisms.shared.reference import fit_reference, mixture_values
from privmix.mixture import deviation, kernel
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Observations, Parameters, estimates, observe
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, Theorem, claim
from privmix.privacy.calibration import noise_multipliers_by_share
from privmix.privacy.ledger import Ledger

ITERATIONS = 12  # of EM in a block; 30 give the same score
RECORDS_PER_COMPONENT = 10  # least average number in a block
BIAS = 3.0  # of an estimate from n records, in units of 1/n
LEAST_VARIANCE = 0.05  # of a noisy covariance, relative to the reference's


@mechanism_dataclass
class OutputNoise(CentralMechanism):
    """`blocks`: M, or from public values; `radius`: R; `reference_share`: the part of μ² for the reference."""

    blocks: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    radius: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    reference_share: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def only_gaussian(self, spec: Spec) -> bool:
        """All measurements are Gaussian."""
        return True

    @property
    def accountant(self) -> Theorem:
        """Gaussian measurements compose exactly."""
        return "exact"

    def number_of_blocks(self, spec: Spec, noise_multiplier: float) -> int:
        """Return M = rows / n, where n minimises the sum of squares of the bias, BIAS/n, and the noise, 2Rσn/rows.

        A block has at least RECORDS_PER_COMPONENT K records, and at person level at least the records of one person.
        """
        if self.blocks:
            return self.blocks
        rows = spec.domain.rows
        size = math.sqrt(BIAS * rows / (2 * self.radius * noise_multiplier))
        size = max(size, RECORDS_PER_COMPONENT * spec.n_components, self.relation(spec).records)
        return max(int(rows / size), 1)

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Move the reference by the noisy mean of the deviations of the blocks from it."""
        neighbours, ledger = self.relation(spec), Ledger()
        for_reference, for_sum = noise_multipliers_by_share(
            [self.reference_share, 1 - self.reference_share], budget
        )
        points = spec.inside(view.points)
        about = fit_reference(
            points, spec, neighbours, noise_multiplier=for_reference, rng=rng, ledger=ledger
        )
        blocks = self.number_of_blocks(spec, for_sum)
        units = view.units(neighbours.unit)
        assigned = noise.partition(int(units.max(initial=-1)) + 1, blocks, source=rng.noise)[units]
        exact = noise.needs_exact_sums(rng.noise)
        fitted = separate_vectors if exact else block_vectors
        vectors = fitted(points, assigned, blocks, about, spec.floor, self.radius)
        total = noise.exact_sum([(vectors.reshape(blocks, -1), None)], vectors[0].size).reshape(
            vectors[0].shape
        )
        released = noise.gaussian(
            total if exact else vectors.sum(axis=0),
            sensitivity=noise.with_rounding(
                2 * self.radius,
                vectors[0].size,
                2,
                neighbours=replace(neighbours, unit="record"),  # one block contributes one vector
                source=rng.noise,
            ),
            noise_multiplier=for_sum,
            source=rng.noise,
            ledger=ledger,
            label="sum over blocks",
        )
        shrunk, factors = shrink(released / blocks, for_sum * 2 * self.radius / blocks)
        weights, means, covariances = deviation.apply_deviation(about, shrunk, LEAST_VARIANCE)
        mixture = project_to_box(weights, means, covariances, spec)
        transcript = [
            {
                "reference": mixture_values(about),
                "blocks": blocks,
                "sum": released.tolist(),
            }
        ]
        return Release(
            mixture,
            ledger.events,
            claim(ledger.events, budget, "exact"),
            transcript,
            notes=_notes(factors, blocks),
        )


def block_vectors(
    points: np.ndarray, assigned: np.ndarray, blocks: int, about: Mixture, floor: np.ndarray, radius: float
) -> np.ndarray:
    """Return the clipped deviation of each block's fit from the reference, (M, K, p). Row b sees only block b."""
    order = np.argsort(assigned, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(assigned, minlength=blocks))])
    filled = np.flatnonzero(np.diff(ends))
    vectors = np.zeros((blocks, about.n_components, deviation.component_size(about.dimensions)))
    if len(filled):
        fits = _fit_blocks(observe(points[order]), ends[np.append(filled, blocks)], about, floor)
        vectors[filled] = deviation.deviations(fits, about)
    length = np.linalg.norm(vectors, axis=(1, 2), keepdims=True)
    return vectors * (radius / np.maximum(length, radius))


def separate_vectors(
    points: np.ndarray, assigned: np.ndarray, blocks: int, about: Mixture, floor: np.ndarray, radius: float
) -> np.ndarray:
    """Compute the same block by block, so that no arithmetic on one block depends on another, to the last bit."""
    order = np.argsort(assigned, kind="stable")
    parts = np.split(points[order], np.cumsum(np.bincount(assigned, minlength=blocks))[:-1])
    alone = [
        block_vectors(part, np.zeros(len(part), dtype=np.int64), 1, about, floor, radius)[0] for part in parts
    ]
    return np.stack(alone)


def _fit_blocks(records: Observations, ends: np.ndarray, about: Mixture, floor: np.ndarray) -> Parameters:
    """Run EM from the reference in every block, records ends[b] to ends[b + 1], for a fixed number of iterations.

    The mean and covariance of a component are estimated from its records and d more that follow the reference.
    """
    strength = about.dimensions
    outer = about.means[:, :, None] * about.means[:, None, :]
    parameters = Parameters.of([about] * (len(ends) - 1))
    for _ in range(ITERATIONS):
        seen = kernel.passes_over_parts(records, ends, parameters)
        weights = seen.counts / seen.counts.sum(axis=1, keepdims=True)
        steadied = Moments(
            seen.counts + strength,
            seen.sums + strength * about.means,
            seen.squares + strength * (about.covariances + outer),
            seen.log_likelihood,
            seen.total_weight,
        )
        moved = estimates(steadied, floor=floor)
        parameters = Parameters(weights, moved.means, moved.covariances)
    return parameters


def shrink(released: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Shrink each component's deviation towards zero (James and Stein 1961). Return it with the factors."""
    square = np.square(released).sum(axis=1)
    factors = np.maximum(0.0, 1 - released.shape[1] * sigma**2 / np.maximum(square, 1e-300))
    return released * factors[:, None], factors


def _notes(factors: np.ndarray, blocks: int) -> list[str]:
    lost = int((factors == 0).sum())
    if not lost:
        return []
    return [
        f"{lost} of {len(factors)} components come from the rough first fit (the private reference) alone: the "
        f"correction from {blocks} blocks of records is no larger than its noise."
    ]
