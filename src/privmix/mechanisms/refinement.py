"""EM iterations that see the data through joint releases alone: the M-step from noised moments, and their averaging.

Everything here follows `joint_moments.release` and uses released and public values only: it is post-processing. In
the coordinates of a component, where the parameters before are mean 0 and covariance I, the released moments give a
shift δ and a second moment S. The shift is shrunk towards none, S towards a multiple of I, that is towards the shape
that was released before: the mode under a prior of that centre, whose strength is the noise's own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmix.mechanisms.base import Spec, feasible
from privmix.mechanisms.joint_moments import Released, release, scheme
from privmix.mixture.model import Mixture
from privmix.mixture.observations import Observations
from privmix.mixture.standardised import clipped_variance
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.relation import Neighbours

SMALLEST = 1e-300  # a divisor that is no zero


@dataclass(frozen=True, eq=False)
class Refined:
    """Where the iterations led: the average of the later half of the iterates, all of them, and what was released."""

    mixture: Mixture
    iterates: list[Mixture]
    transcript: list[dict[str, Any]]

    @property
    def last(self) -> Mixture:
        """The last iterate, or the start where there was none."""
        return self.iterates[-1] if self.iterates else self.mixture


def refine(
    observations: Observations,
    spec: Spec,
    start: Mixture,
    *,
    iterations: int,
    noise_multiplier: float,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
    label: str = "moments",
) -> Refined:
    """`iterations` joint measurements with Gaussian noise, from a start that is public or already measured."""
    mixture, iterates, transcript = start, [], []
    for _ in range(iterations):
        released = release(
            observations,
            mixture,
            noise_multiplier=noise_multiplier,
            neighbours=neighbours,
            source=source,
            ledger=ledger,
            label=label,
        )
        mixture = updated(mixture, released, spec, neighbours)
        iterates.append(mixture)
        transcript.append(
            {
                "stage": label,
                "counts": released.counts.tolist(),
                "sums": released.sums.tolist(),
                "squares": released.squares.tolist(),
            }
        )
    kept = iterates[iterations // 2 :] or [start]
    return Refined(averaged(kept, spec), iterates, transcript)


def averaged(mixtures: Sequence[Mixture], spec: Spec, shares: Sequence[float] | None = None) -> Mixture:
    """Iterates of one EM run, whose components keep their numbers, averaged parameter by parameter, by equal shares.

    Means differ between iterates by noise, so their spread is not added to the covariances.
    """
    return feasible(
        np.average([each.weights for each in mixtures], axis=0, weights=shares),
        np.average([each.means for each in mixtures], axis=0, weights=shares),
        np.average([each.covariances for each in mixtures], axis=0, weights=shares),
        spec,
    )


def updated(mixture: Mixture, released: Released, spec: Spec, neighbours: Neighbours) -> Mixture:
    """The M-step from released moments.

    S is taken apart into its level, the mean of its eigenvalues, which has the least noise, and the rest. The level is
    at least its own noise; of the rest as much is believed as `_believed` says; no eigenvalue is then below what noise
    alone would make of it, the edge √(2d) τ of the semicircle law for a symmetric matrix with deviation τ on the
    diagonal and τ/√2 off it, unless the level itself is. Clipping makes a Gaussian record's S smaller by a known
    factor, which is taken off.
    """
    d, radius = mixture.dimensions, scheme(mixture.dimensions).radius
    counts = _counts(released, spec, neighbours)
    shifts = released.sums / counts[:, None]
    shifts = shifts * _believed(shifts, released.sum_deviation / counts, d)[:, None]
    length = np.linalg.norm(shifts, axis=1, keepdims=True)
    shifts = shifts * np.minimum(1.0, radius / np.maximum(length, SMALLEST))
    seconds = released.squares / counts[:, None, None] / clipped_variance(d, radius)
    seconds = seconds - shifts[:, :, None] * shifts[:, None, :]
    deviation = released.square_deviation / counts
    level = np.trace(seconds, axis1=1, axis2=2) / d
    level = np.clip(level, np.minimum(deviation / math.sqrt(d), 1.0), radius**2 / d)
    rest = seconds - level[:, None, None] * np.eye(d)
    belief = _believed(rest, deviation, d * (d + 1) / 2)
    values, vectors = np.linalg.eigh(belief[:, None, None] * rest)
    edge = np.minimum(belief * deviation * math.sqrt(2 * d), level)
    values = np.clip(values + level[:, None], edge[:, None], radius**2)
    factors = mixture.cholesky @ (vectors * np.sqrt(values)[:, None, :])
    means = mixture.means + np.einsum("kij,kj->ki", mixture.cholesky, shifts)
    return feasible(counts / counts.sum(), means, factors @ factors.transpose(0, 2, 1), spec)


def _counts(released: Released, spec: Spec, neighbours: Neighbours) -> np.ndarray:
    """Counts of at least the size of their noise; where N is public, projected on what sums to it."""
    counts = released.counts
    if neighbours.size_is_public:
        counts = counts + (spec.domain.rows - counts.sum()) / len(counts)
    counts = np.maximum(counts, released.count_deviation)
    if neighbours.size_is_public:
        counts = counts * (spec.domain.rows / counts.sum())
    return counts


def _believed(values: np.ndarray, deviation: np.ndarray, freedom: float) -> np.ndarray:
    """The share of each component's values to keep, (K,), where the noise has size s = deviation · √freedom.

    The larger of two: 1 - s²/‖v‖², the positive part of James and Stein 1961, which follows a move that
    is far larger than the noise however large the noise is; and 1/(1 + s), the posterior mean under a prior worth
    as many records as the noise is, which keeps small moves too where the noise is small, for averaging.
    """
    size = deviation * math.sqrt(freedom)
    length = np.sqrt(np.square(values).reshape(len(values), -1).sum(axis=1))
    return np.maximum(1 - (size / np.maximum(length, size)) ** 2, 1 / (1 + size))
