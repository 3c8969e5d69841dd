"""Noisy EM: one joint measurement of all moments of a mixture per iteration, and the M-step from it.

Each record contributes s(x) = (a γ_k, b γ_k z_k, e γ_k z_k z_kᵀ)_k, where γ are its responsibilities and z_k its
position in the coordinates of component k (`mixture.standardised_moments`). Both come from parameters that are public
or already measured, and ‖z_k‖ ≤ c. Matrices count by their upper triangle with √2 off the diagonal, so the L2 norm of s
is that of `privacy.sensitivity.joint`. The sum over records is measured once, with Gaussian noise. The weights a, b, e
are divided out afterwards. So the noise follows the scale of each component, and no divisor contains an exact count.

With attributes, the mixture has shares of their values (`mixture.mixed`), responsibilities follow from coordinates and
attributes together, and a record also contributes f γ_k u_c: u_c has a 1 at the value of each of the A attributes. This
adds A f² to the square of the norm, which is given the share s of it by A f² = s/(1-s) (a² + b²c² + e²(c⁴ + q)).

A record may lack some of q public coordinates. Its z_k is then the expected place given the coordinates that it has,
and e γ_k (z_k z_kᵀ + v P_k) replaces e γ_k z_k z_kᵀ, where v P_k with v ≤ 1 is the expected second moment of the rest
(`mixture.standardised_moments`). P_k is a projection onto at most q dimensions with P_k z_k = 0.

Everything after `measure_moments` uses only measured and public values: it is post-processing. In the coordinates of a
component, the previous parameters are mean 0 and covariance I. There the measured moments give a shift δ and a second
moment S. The shift is shrunk towards 0 and S towards a multiple of I, that is, towards the previous shape. This is the
mode under a prior with that centre, and the strength of the prior is that of the noise. The shares of the values are
shrunk towards the previous shares in the same way. A component as wide as the public box that holds few records would
drift with its noise; `hold_in_box` keeps it where records can be.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from privmix.mechanisms.base import Spec, project_to_box
from privmix.mechanisms.shared.attribute_counts import project_rows
from privmix.mixture import standardised_moments
from privmix.mixture.coded import CodedObservations, log_shares, value_counts
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.moments import IncompleteObservations, Observations, symmetric_matrix, upper_triangle
from privmix.mixture.standardised_moments import (
    Completion,
    StandardisedMoments,
    clipped_variance,
    completed_pass,
)
from privmix.privacy import noise, sensitivity
from privmix.privacy.exact import dequantise, quantise
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours

NUMBERS = 2**18  # size of one array of contributions


@dataclass(frozen=True)
class MomentScheme:
    """The clipping radius and the weights of the blocks of a measurement. They depend on the dimensions only."""

    radius: float
    count: float
    total: float
    square: float
    attributes: int = 0
    value: float = 1.0  # unused without attributes
    absent: int = 0  # q, the number of coordinates that a record may lack

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Return the L2 sensitivity of the weighted vector."""
        return sensitivity.joint(
            neighbours,
            radius=self.radius,
            count=self.count,
            total=self.total,
            square=self.square,
            attributes=self.attributes,
            value=self.value,
            absent=self.absent,
        )

    def size(self, n_components: int, dimensions: int, values: int) -> int:
        """Return how many numbers of a measurement two records change at most: all moments, and A values each."""
        moments = 1 + dimensions + dimensions * (dimensions + 1) // 2
        return n_components * (moments + min(2 * self.attributes, values))


@cache
def scheme(dimensions: int, attributes: int = 0, share: float = 0.0, absent: int = 0) -> MomentScheme:
    """Return the weights a, b, e that minimise the predicted loss of one measurement, given the radius.

    A component of count n loses (half a KL divergence each) ½ var(n)/n² by its weight, ½ d var by its mean and ¼
    d(d+1)/2 var by its covariance. The variances are σ²/(a n)², σ²/(b n)², σ²/(e n)², and σ² is proportional to a² +
    b²c² + e²c⁴: Cauchy-Schwarz gives a⁴ : b⁴c² : e⁴c⁴ = ½ : d/2 : d(d+1)/8. They satisfy b² ≤ 2ae, so that replacing a
    record costs √2 and not 2. Attributes get the share s of the squared norm. `absent` coordinates do not change a, b
    and e: they add e²q to the squared norm, which is little beside e²c⁴.
    """
    d = dimensions
    radius = max(3.0, math.sqrt(d) + 1.5)
    alone = MomentScheme(
        radius=radius,
        count=0.5**0.25,
        total=(d / 2) ** 0.25 / math.sqrt(radius),
        square=(d * (d + 1) / 8) ** 0.25 / radius,
        absent=absent,
    )
    if not attributes:
        return alone
    norm = alone.count**2 + (alone.total * radius) ** 2 + alone.square**2 * (radius**4 + absent)
    return replace(alone, attributes=attributes, value=math.sqrt(share / (1 - share) * norm / attributes))


@dataclass(frozen=True, eq=False)
class MomentMeasurement:
    """Noisy moments, divided by their weights, and the standard deviation of the noise in each kind."""

    counts: np.ndarray  # (K,)
    sums: np.ndarray  # (K, d)
    squares: np.ndarray  # (K, d, d) symmetric; off the diagonal the deviation is smaller by √2
    count_deviation: float
    sum_deviation: float
    square_deviation: float
    values: np.ndarray | None = None  # (K, T) counts of the values of all attributes, side by side
    value_deviation: float = 0.0

    def entry(self) -> dict[str, Any]:
        """Return the measurement in the form of a transcript."""
        parts = {"counts": self.counts, "sums": self.sums, "squares": self.squares, "attributes": self.values}
        return {name: part.tolist() for name, part in parts.items() if part is not None}


Model = Mixture | MixedMixture  # without or with attributes
Records = Observations | IncompleteObservations


def measure_moments(
    observations: Records,
    mixture: Model,
    *,
    noise_multiplier: float,
    neighbours: Neighbours,
    source: noise.NoiseSource,
    ledger: Ledger,
    label: str,
    attribute_share: float = 0.0,
    absent: int = 0,
) -> MomentMeasurement:
    """Measure the moments of the records, as this mixture sees them, in one Gaussian measurement.

    `attribute_share`: the share of the squared norm for the attributes, if the mixture has attributes.
    `absent`: the public number of coordinates that a record may lack.
    """
    if isinstance(observations, IncompleteObservations):
        assert all((~present).sum() <= absent for present, _ in observations.parts), "more than public"
    if isinstance(mixture, MixedMixture):
        k, d = mixture.gaussians.means.shape
        shape = scheme(d, len(mixture.shares), attribute_share, absent)
        touched = shape.size(k, d, sum(table.shape[1] for table in mixture.shares.values()))
        values = mixed_vector(observations, mixture, shape, exact=noise.needs_exact_sums(source))
        plain = mixture.gaussians
    else:
        shape, plain = scheme(mixture.dimensions, absent=absent), mixture
        if noise.needs_exact_sums(source):
            values = exact_weighted_vector(observations, mixture, shape)
        else:
            values = weighted_vector(completed_pass(observations, mixture, shape.radius), shape)
        touched = len(values)
    reach = noise.with_rounding(
        shape.sensitivity(neighbours), touched, 2, neighbours=neighbours, source=source
    )
    noisy = noise.gaussian(
        values,
        sensitivity=reach,
        noise_multiplier=noise_multiplier,
        source=source,
        ledger=ledger,
        label=label,
        coordinates=touched,
    )
    return _unpack(noisy, plain, shape, noise_multiplier * reach)


def weighted_vector(moments: StandardisedMoments, shape: MomentScheme) -> np.ndarray:
    """Return the moments as one weighted vector: the statistic of the measurement."""
    rows, columns, factor = upper_triangle(moments.sums.shape[1])
    return np.concatenate(
        [
            shape.count * moments.counts,
            shape.total * moments.sums.ravel(),
            shape.square * (moments.squares[:, rows, columns] * factor).ravel(),
        ]
    )


def mixed_vector(
    observations: Records, mixture: MixedMixture, shape: MomentScheme, *, exact: bool
) -> np.ndarray:
    """Return the weighted vector of records with attributes: the moments, then the counts of the values."""
    coded = _coded(_parts(observations)[0][1])
    combinations, offsets = coded.combinations, log_shares(mixture, coded.combinations, coded.deciding)
    width = sum(table.shape[1] for table in mixture.shares.values())
    if exact:
        moments, by_kind = _exact_parts(observations, mixture.gaussians, shape, offsets)
    else:
        seen = completed_pass(observations, mixture.gaussians, shape.radius, offsets)
        assert seen.by_kind is not None
        moments, by_kind = weighted_vector(seen, shape), shape.value * seen.by_kind
    return np.concatenate([moments, value_counts(by_kind, combinations, width).ravel()])


def _parts(observations: Records) -> tuple[tuple[np.ndarray | None, Observations], ...]:
    """Return the records by the coordinates that they have; None for all coordinates."""
    if isinstance(observations, Observations):
        return ((None, observations),)
    return tuple((None if present.all() else present, part) for present, part in observations.parts)


def _coded(part: Observations) -> CodedObservations:
    assert isinstance(part, CodedObservations)
    return part


def exact_weighted_vector(observations: Records, mixture: Mixture, shape: MomentScheme) -> np.ndarray:
    """Return the same vector as the sum of contributions that are rounded to the lattice (`privacy.noise`)."""
    return _exact_parts(observations, mixture, shape, None)[0]


def _exact_parts(
    observations: Records, mixture: Mixture, shape: MomentScheme, offsets: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounded sums of the moments, and those of f γ by combination of values, (K, M).

    `offsets` (K, M): the log shares of each combination. Counts by combination are sums of rounded numbers below 2^33,
    so all sums of them are exact.
    """
    k, d = mixture.means.shape
    factor = np.tile(upper_triangle(d)[2], k)
    weights = np.concatenate([np.full(k, shape.count), np.full(k * d, shape.total), shape.square * factor])

    by_kind = np.zeros((k, 0) if offsets is None else offsets.shape)

    def contributions(
        present: np.ndarray | None, part: Observations
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        completion = None if present is None else Completion.of(mixture, present, shape.radius)
        seen = mixture if completion is None else completion.marginal
        width = max(NUMBERS // len(weights), 1)
        for first in range(0, len(part), width):
            block, number = slice(first, first + width), part.weights[first : first + width]
            kinds = None if offsets is None else _coded(part).kinds[block]
            own_offsets = None if offsets is None else offsets[:, kinds]
            shares, places = standardised_moments.standardise_records(part.points[block], seen, own_offsets)
            if kinds is not None:
                rounded = dequantise(quantise(shape.value * shares)) * number
                for sums, one in zip(by_kind, rounded, strict=True):
                    sums += np.bincount(kinds, one, len(sums))
            places = standardised_moments.clip_places(places, shape.radius)
            if completion is None:
                own = standardised_moments.record_moments(shares, places)
            else:
                own = standardised_moments.record_moments(
                    shares, completion.complete(places), completion.unknown
                )
            yield own * weights, number

    rounded_sum = noise.exact_sum(
        (each for part in _parts(observations) for each in contributions(*part)), len(weights)
    )
    return rounded_sum, by_kind


def _unpack(values: np.ndarray, mixture: Mixture, shape: MomentScheme, deviation: float) -> MomentMeasurement:
    k, d = mixture.means.shape
    triangle = d * (d + 1) // 2
    counts, sums, triangles, table = np.split(values, [k, k + k * d, k + k * d + k * triangle])
    return MomentMeasurement(
        counts=counts / shape.count,
        sums=sums.reshape(k, d) / shape.total,
        squares=symmetric_matrix(triangles.reshape(k, -1) / upper_triangle(d)[2] / shape.square, d),
        count_deviation=deviation / shape.count,
        sum_deviation=deviation / shape.total,
        square_deviation=deviation / shape.square,
        values=table.reshape(k, -1) / shape.value if shape.attributes else None,
        value_deviation=deviation / shape.value if shape.attributes else 0.0,
    )


def predicted_loss(rows: int, dimensions: int, n_components: int, mu: float, neighbours: Neighbours) -> float:
    """Return the KL divergence (nats per record) that the noise of one measurement with a budget of μ-GDP costs.

    (1/μ²N²)(√½ + c√(d/2) + c²√(d(d+1)/8))² Σ_k 1/π_k, times the square of the factor of unit and relation, for
    components of equal weight: Σ 1/π_k = K². The formula is of second order in the noise and does not hold if the noise
    is large. If T measurements share the budget, each costs T times as much. Only public values enter.
    """
    d, shape = dimensions, scheme(dimensions)
    reach = neighbours.difference(1.0, opposed=False)
    blocks = math.sqrt(0.5) + shape.radius * math.sqrt(d / 2) + shape.radius**2 * math.sqrt(d * (d + 1) / 8)
    return (reach * n_components * blocks / (mu * rows)) ** 2


SMALLEST = 1e-300  # keeps divisors away from zero
# Part of a component's shares that is spread evenly: this times the deviation of a share, and at least
BLUR, LEAST_SHARE = 0.1, 1e-3
AnyModel = TypeVar("AnyModel", Mixture, MixedMixture)
EitherModel = TypeVar("EitherModel", Mixture, MixedMixture, Model)  # also if public values decide at run time


@dataclass(frozen=True, eq=False)
class Refinement(Generic[AnyModel]):
    """The result of the iterations: the average of the later half of the iterates, all iterates, the measurements."""

    mixture: AnyModel
    iterates: list[AnyModel]
    transcript: list[dict[str, Any]]

    @property
    def last(self) -> AnyModel:
        """The last iterate, or the start if there are no iterations."""
        return self.iterates[-1] if self.iterates else self.mixture


def refine(
    observations: Records,
    spec: Spec,
    start: AnyModel,
    *,
    iterations: int,
    noise_multiplier: float,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
    label: str = "moments",
    hold: bool = False,
    attribute_share: float = 0.0,
    absent: int = 0,
) -> Refinement[AnyModel]:
    """Run `iterations` joint measurements with Gaussian noise, from a start that is public or already measured."""
    mixture, transcript = start, []
    iterates: list[AnyModel] = []
    for _ in range(iterations):
        released = measure_moments(
            observations,
            mixture,
            noise_multiplier=noise_multiplier,
            neighbours=neighbours,
            source=source,
            ledger=ledger,
            label=label,
            attribute_share=attribute_share,
            absent=absent,
        )
        mixture = m_step(mixture, released, spec, neighbours, hold=hold)
        iterates.append(mixture)
        transcript.append({"stage": label, **released.entry()})
    kept = iterates[iterations // 2 :] or [start]
    return Refinement(average_mixtures(kept, spec), iterates, transcript)


def average_mixtures(
    mixtures: Sequence[AnyModel], spec: Spec, shares: Sequence[float] | None = None
) -> AnyModel:
    """Average the iterates of one EM run parameter by parameter, with equal shares by default.

    The components of the iterates keep their numbers. Means differ between iterates by noise, so their spread is not
    added to the covariances.
    """
    if isinstance(mixtures[0], MixedMixture):
        names = mixtures[0].shares
        return MixedMixture(
            average_mixtures([each.gaussians for each in mixtures], spec, shares),
            {
                name: np.average([each.shares[name] for each in mixtures], axis=0, weights=shares)
                for name in names
            },
        )
    return _average(mixtures, spec, shares)


def _average(mixtures: Sequence[Mixture], spec: Spec, shares: Sequence[float] | None) -> Mixture:
    return project_to_box(
        np.average([each.weights for each in mixtures], axis=0, weights=shares),
        np.average([each.means for each in mixtures], axis=0, weights=shares),
        np.average([each.covariances for each in mixtures], axis=0, weights=shares),
        spec,
    )


def m_step(
    mixture: EitherModel,
    released: MomentMeasurement,
    spec: Spec,
    neighbours: Neighbours,
    *,
    hold: bool = False,
) -> EitherModel:
    """Compute the M-step from measured moments, and from measured counts of values if the mixture has attributes."""
    if isinstance(mixture, MixedMixture):
        return MixedMixture(
            moment_step(mixture.gaussians, released, spec, neighbours, hold=hold),
            share_step(mixture.shares, released, component_counts(released, spec, neighbours)),
        )
    return moment_step(mixture, released, spec, neighbours, hold=hold)


def share_step(
    shares: Mapping[str, np.ndarray], released: MomentMeasurement, counts: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute the shares of the values from their measured counts and the counts of the components, (K,).

    A component's measured shares differ from the previous ones by a vector whose sum is 0, apart from noise. It is
    shrunk by `_shrinkage`, and the result is projected to a distribution. A small part of it is spread evenly over the
    values, so that a value that a component seems to lack does not exclude a record from it.
    """
    assert released.values is not None
    new, column, deviation = {}, 0, released.value_deviation / counts
    for name, old in shares.items():
        size = old.shape[1]
        apart = released.values[:, column : column + size] / counts[:, None] - old
        apart = apart - apart.mean(axis=1, keepdims=True)
        column += size
        moved = project_rows(old + _shrinkage(apart, deviation, max(size - 1, 1))[:, None] * apart)
        new[name] = _blur(moved, deviation)
    return new


def _blur(shares: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    least = np.clip(BLUR * deviation, LEAST_SHARE, 0.5)[:, None]
    return (1 - least) * shares + least / shares.shape[1]


def share_limits(
    sizes: Mapping[str, int], released: MomentMeasurement, counts: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return where `share_step` leads from any shares: for each attribute a place, (K, V), and a radius, (K,).

    `share_step` moves shares o towards the measured shares m by the factor s of `_shrinkage`. Noise of size t leaves
    the distance (1 - s)‖m - o‖ ≤ min(t²/‖m - o‖, t‖m - o‖/(1 + t)) ≤ t √(t/(1 + t)), which is reached where both are
    equal. Projecting and blurring bring no two vectors further apart.
    """
    assert released.values is not None
    found, column, deviation = {}, 0, released.value_deviation / counts
    for name, size in sizes.items():
        measured = released.values[:, column : column + size] / counts[:, None]
        measured = measured - measured.mean(axis=1, keepdims=True) + 1 / size
        column += size
        noise_size = deviation * math.sqrt(max(size - 1, 1))
        radius = noise_size * np.sqrt(noise_size / (1 + noise_size))
        found[name] = _blur(project_rows(measured), deviation), radius
    return found


def moment_step(
    mixture: Mixture, released: MomentMeasurement, spec: Spec, neighbours: Neighbours, *, hold: bool = False
) -> Mixture:
    """Compute the M-step of the coordinates.

    S is split into its level, which is the mean of its eigenvalues and has the least noise, and the rest. The level is
    at least its own noise. The rest is multiplied by `_shrinkage`. No eigenvalue is then below the value that noise
    alone produces, the edge √(2d) τ of the semicircle law for a symmetric matrix with deviation τ on the diagonal and
    τ/√2 off it, unless the level itself is lower. Clipping makes the S of a Gaussian record smaller by a known factor,
    which is divided out. With `hold`, `hold_in_box` moves the components whose noise is as wide as the public box.
    """
    d, radius = mixture.dimensions, scheme(mixture.dimensions).radius
    counts = component_counts(released, spec, neighbours)
    shifts = released.sums / counts[:, None]
    shifts = shifts * _shrinkage(shifts, released.sum_deviation / counts, d)[:, None]
    length = np.linalg.norm(shifts, axis=1, keepdims=True)
    shifts = shifts * np.minimum(1.0, radius / np.maximum(length, SMALLEST))
    seconds = released.squares / counts[:, None, None] / clipped_variance(d, radius)
    seconds = seconds - shifts[:, :, None] * shifts[:, None, :]
    deviation = released.square_deviation / counts
    level = np.trace(seconds, axis1=1, axis2=2) / d
    level = np.clip(level, np.minimum(deviation / math.sqrt(d), 1.0), radius**2 / d)
    rest = seconds - level[:, None, None] * np.eye(d)
    belief = _shrinkage(rest, deviation, d * (d + 1) / 2)
    values, vectors = np.linalg.eigh(belief[:, None, None] * rest)
    edge = np.minimum(belief * deviation * math.sqrt(2 * d), level)
    values = np.clip(values + level[:, None], edge[:, None], radius**2)
    factors = mixture.cholesky @ (vectors * np.sqrt(values)[:, None, :])
    means = mixture.means + np.einsum("kij,kj->ki", mixture.cholesky, shifts)
    covariances = factors @ factors.transpose(0, 2, 1)
    if hold:
        means, covariances = hold_in_box(means, covariances, released.sum_deviation / counts, deviation, spec)
    return project_to_box(counts / counts.sum(), means, covariances, spec)


def hold_in_box(
    means: np.ndarray, covariances: np.ndarray, mean_noise: np.ndarray, shape_noise: np.ndarray, spec: Spec
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and covariances, shrunk towards those of the uniform distribution on the public box, c and B.

    `mean_noise` and `shape_noise`, (K,), are deviations in the coordinates of a component. The prior is that records
    are uniform on the box. So, by the law of total variance, a component of covariance A has a mean from a distribution
    with covariance B - A. The noise in its mean has covariance τ²A. The posterior mean (of a normal prior) is
    c + (B - A)(B - A + τ²A)⁻¹(μ - c). A component of narrow or well measured records stays where it is. The mean of
    a background as wide as the box becomes its centre. The eigenvalues of A in units of B that exceed 1 are moved
    towards 1, by a factor of 1/(1 + τ²) for the excess (prior deviation 1). Without this, the noise of a background of
    few records makes it wider at every iteration, because a variance cannot fall below its noise but can rise above.
    Without noise nothing changes. All values are measured or public.
    """
    lower, upper = spec.domain.lower, spec.domain.upper
    centre, side = (lower + upper) / 2, np.sqrt(np.maximum((upper - lower) ** 2 / 12, spec.floor))
    values, vectors = np.linalg.eigh(covariances / side[:, None] / side)
    excess = np.maximum(values - 1, 0.0)
    limited = values - excess * (1 - 1 / (1 + np.square(shape_noise)))[:, None]
    between, noise_variance = np.maximum(1 - limited, 0.0), np.square(mean_noise)[:, None] * limited
    share = 1 - noise_variance / np.maximum(between + noise_variance, SMALLEST)
    along = share * np.einsum("kji,kj->ki", vectors, (means - centre) / side)
    within = (vectors * limited[:, None, :]) @ vectors.transpose(0, 2, 1)
    return centre + side * np.einsum("kij,kj->ki", vectors, along), within * side[:, None] * side


def component_counts(released: MomentMeasurement, spec: Spec, neighbours: Neighbours) -> np.ndarray:
    """Return counts that are at least as large as their noise; if N is public, projected so that they sum to it."""
    counts = released.counts
    if neighbours.size_is_public:
        counts = counts + (spec.domain.rows - counts.sum()) / len(counts)
    counts = np.maximum(counts, released.count_deviation)
    if neighbours.size_is_public:
        counts = counts * (spec.domain.rows / counts.sum())
    return counts


def _shrinkage(values: np.ndarray, deviation: np.ndarray, freedom: float) -> np.ndarray:
    """Return the share of each component's values to keep, (K,), where the noise has size s = deviation · √freedom.

    The result is the larger of two values. The first is 1 - s²/‖v‖², the positive part of James and Stein 1961. It
    follows a move that is far larger than the noise, however large the noise is. The second is 1/(1 + s), the posterior
    mean under a prior worth as many records as the noise. It also keeps small moves, for averaging, if the noise is
    small.
    """
    size = deviation * math.sqrt(freedom)
    length = np.sqrt(np.square(values).reshape(len(values), -1).sum(axis=1))
    return np.maximum(1 - (size / np.maximum(length, size)) ** 2, 1 / (1 + size))
