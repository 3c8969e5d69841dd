"""One joint release of all moments of a mixture.

Each record contributes s(x) = (a γ_k, b γ_k z_k, e γ_k z_k z_kᵀ)_k, where γ are its responsibilities and z_k its place
as component k sees it (`mixture.standardised`), both from parameters that are public or already released, and
‖z_k‖ ≤ c. Matrices count by their upper triangle with √2 off the diagonal, so the L2 norm of s is that of
`privacy.sensitivity.joint`. The sum over records is released once, with Gaussian noise; the weights a, b, e are taken
off afterwards. Noise thus follows each component's own scale, and no divisor holds an exact count.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from privmix.mixture import rowwise
from privmix.mixture.model import Mixture
from privmix.mixture.observations import Observations, symmetric, upper_triangle
from privmix.mixture.standardised import StandardisedMoments, standardised_pass
from privmix.privacy import noise, sensitivity, sums
from privmix.privacy.ledger import Ledger
from privmix.privacy.relation import Neighbours

NUMBERS = 2**18  # in one array of contributions


@dataclass(frozen=True)
class Scheme:
    """What shapes a release, from the number of dimensions alone: the clipping radius and the weights of the blocks."""

    radius: float
    count: float
    total: float
    square: float

    def sensitivity(self, neighbours: Neighbours) -> float:
        """L2 sensitivity of the weighted vector."""
        return sensitivity.joint(
            neighbours, radius=self.radius, count=self.count, total=self.total, square=self.square
        )


@cache
def scheme(dimensions: int) -> Scheme:
    """The weights a, b, e that minimise the predicted loss of one release, given the radius.

    A component of count n loses (half a KL divergence each) ½ var(n)/n² by its weight, ½ d var by its mean and
    ¼ d(d+1)/2 var by its covariance, the variances being σ²/(a n)², σ²/(b n)², σ²/(e n)² and
    σ² proportional to a² + b²c² + e²c⁴: Cauchy-Schwarz gives a⁴ : b⁴c² : e⁴c⁴ = ½ : d/2 : d(d+1)/8.
    They satisfy b² ≤ 2ae, so that replacing a record costs √2 and not 2.
    """
    d = dimensions
    radius = max(3.0, math.sqrt(d) + 1.5)
    return Scheme(
        radius=radius,
        count=0.5**0.25,
        total=(d / 2) ** 0.25 / math.sqrt(radius),
        square=(d * (d + 1) / 8) ** 0.25 / radius,
    )


@dataclass(frozen=True, eq=False)
class Released:
    """Moments with noise, the weights taken off, and the standard deviation of the noise in each kind."""

    counts: np.ndarray  # (K,)
    sums: np.ndarray  # (K, d)
    squares: np.ndarray  # (K, d, d) symmetric; off the diagonal the deviation is smaller by √2
    count_deviation: float
    sum_deviation: float
    square_deviation: float


def release(
    observations: Observations,
    mixture: Mixture,
    *,
    noise_multiplier: float,
    neighbours: Neighbours,
    source: noise.NoiseSource,
    ledger: Ledger,
    label: str,
) -> Released:
    """The moments of the records as this mixture sees them, as one Gaussian release."""
    shape = scheme(mixture.dimensions)
    if sums.must_be_exact(source):
        values = exact_vector(observations, mixture, shape)
    else:
        values = vector(standardised_pass(observations, mixture, shape.radius), shape)
    reach = sums.reach(shape.sensitivity(neighbours), len(values), 2, neighbours=neighbours, source=source)
    noisy = noise.gaussian(
        values,
        sensitivity=reach,
        multiplier=noise_multiplier,
        source=source,
        ledger=ledger,
        label=label,
    )
    return _taken_apart(noisy, mixture, shape, noise_multiplier * reach)


def vector(moments: StandardisedMoments, shape: Scheme) -> np.ndarray:
    """The moments as one weighted vector: what is released."""
    rows, columns, factor = upper_triangle(moments.sums.shape[1])
    return np.concatenate(
        [
            shape.count * moments.counts,
            shape.total * moments.sums.ravel(),
            shape.square * (moments.squares[:, rows, columns] * factor).ravel(),
        ]
    )


def exact_vector(observations: Observations, mixture: Mixture, shape: Scheme) -> np.ndarray:
    """The same vector as the sum of contributions that are rounded to the lattice (`privacy.sums`)."""
    k, d = mixture.means.shape
    factor = np.tile(upper_triangle(d)[2], k)
    weights = np.concatenate([np.full(k, shape.count), np.full(k * d, shape.total), shape.square * factor])

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        width = max(NUMBERS // len(weights), 1)
        for first in range(0, len(observations), width):
            shares, places = rowwise.seen(observations.points[first : first + width], mixture)
            own = rowwise.moments(shares, rowwise.clipped(places, shape.radius))
            yield own * weights, observations.weights[first : first + width]

    return sums.total(parts(), len(weights))


def _taken_apart(values: np.ndarray, mixture: Mixture, shape: Scheme, deviation: float) -> Released:
    k, d = mixture.means.shape
    counts, sums, triangles = np.split(values, [k, k + k * d])
    return Released(
        counts=counts / shape.count,
        sums=sums.reshape(k, d) / shape.total,
        squares=symmetric(triangles.reshape(k, -1) / upper_triangle(d)[2] / shape.square, d),
        count_deviation=deviation / shape.count,
        sum_deviation=deviation / shape.total,
        square_deviation=deviation / shape.square,
    )


def predicted_loss(rows: int, dimensions: int, n_components: int, mu: float, neighbours: Neighbours) -> float:
    """KL divergence, in nats per record, that the noise of one release costs when all of a budget of μ-GDP goes to it.

    (1/μ²N²)(√½ + c√(d/2) + c²√(d(d+1)/8))² Σ_k 1/π_k, times the square of what unit and relation add, for components of
    equal weight: Σ 1/π_k = K². It is second order in the noise, and no prediction once it is large. T releases that
    share the budget cost T times as much each. Public values alone enter.
    """
    d, shape = dimensions, scheme(dimensions)
    reach = neighbours.difference(1.0, opposed=False)
    blocks = math.sqrt(0.5) + shape.radius * math.sqrt(d / 2) + shape.radius**2 * math.sqrt(d * (d + 1) / 8)
    return (reach * n_components * blocks / (mu * rows)) ** 2
