"""Moments of records that each component standardises by its own parameters and clips to a ball.

For component k, a record is z_k = L_k⁻¹(x - μ_k), where Σ_k = L_k L_kᵀ, clipped along its own direction to ‖z_k‖ ≤ c.
Responsibilities are those of the record itself: clipping does not affect them.

`standardised_pass` computes the sums fast. `standardise_records`, `clip_places` and `record_moments` compute the
contribution of each record so that it depends on this record alone, to the last bit. In a matrix product, a fused loop
or a vectorised exponential, the last bits of a result depend on the position of the record among the others: which
lane, which block, which remainder. If one record is replaced, all records after it may shift, and all of their
contributions change a little. No sensitivity covers that. In these functions every step is +, -, ×, ÷, √, a comparison
or a rounding to whole numbers, element by element. IEEE 754 fixes the result of each step, numpy does not fuse two
steps into one, and sums over components and axes run in order. So equal records have equal results, at any position
and for any number of records.

Records that lack coordinates. A record with the coordinates O has the density of x_O. Let L_O be the rows O of L = L_k,
so Σ_OO = L_O L_Oᵀ, and L_Oᵀ = Q Rᵀ the decomposition into orthonormal columns Q and the lower triangle R, so Σ_OO =
R Rᵀ. Write x = μ + L w with w ~ N(0, I). Knowing x_O is knowing L_O w = R Qᵀw, that is, u = Qᵀw = R⁻¹(x_O - μ_O): the
ordinary standardised place in the marginal mixture. Given u, the rest of w is orthogonal to Q and still standard
normal. So the completed place is E[w | x_O] = Q u, the completed second moment is E[wwᵀ | x_O] = Q u uᵀ Qᵀ + P with
P = I - QQᵀ, a projection onto as many dimensions as the record lacks coordinates, and P Q = 0. Also ‖Q u‖ = ‖u‖: to
clip u is to clip Q u, which stays orthogonal to P. So one pass over the marginal mixture gives all sums, which are then
turned by Q. No placeholder is read.

Clipping makes the second moment of a Gaussian place smaller by a known factor v (`clipped_variance`), which is divided
out later. P is not clipped, so it is multiplied by v first. Without that, a component most of whose records lack a
coordinate would widen along it at every iteration.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from privmix.errors import UserError
from privmix.mixture import kernel
from privmix.mixture.coded import CodedObservations
from privmix.mixture.model import Mixture
from privmix.mixture.moments import IncompleteObservations, Observations, symmetric_matrix

LOWEST = (
    -700.0
)  # lower values count as this; their exp may not be a normal number, and is negligible as a share
LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # has few digits, so that whole multiples of it are exact
LN2_LOW = (
    math.log(2) - LN2_HIGH + 2.3190468138462996e-17
)  # the last term is the rounding error of math.log(2)
# 1/13! to 1/0!; the rest of the series is below 1e-17 for |r| <= ln(2)/2
TERMS = (1 / np.cumprod(np.maximum(np.arange(14.0), 1.0)))[::-1].tolist()
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52


def rowwise_exponential(values: np.ndarray) -> np.ndarray:
    """Compute exp(x) for x <= 0 to a few units in the last place: 2^n times the Taylor series in r, x = n ln 2 + r."""
    values = np.maximum(values, LOWEST)
    whole = np.rint(values / math.log(2))
    rest = (values - whole * LN2_HIGH) - whole * LN2_LOW
    series = np.full_like(rest, TERMS[0])
    for term in TERMS[1:]:
        series *= rest
        series += term
    power = (whole.astype(np.int64) + EXPONENT_BIAS) << MANTISSA_BITS
    return series * power.view(np.float64)


def standardise_records(
    points: np.ndarray, mixture: Mixture, log_shares: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute responsibilities (K, n) and standardised places z_k = L_k⁻¹(x - μ_k), (K, d, n), of points (n, d).

    `log_shares` (K, n) is added to the log density of each record: the log shares of its attributes.
    """
    k, d = mixture.means.shape
    inverse = np.linalg.inv(mixture.cholesky)
    with np.errstate(divide="ignore"):
        log_scale = np.log(mixture.weights) + np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
    away = points.T[None] - mixture.means[:, :, None]
    places = np.empty((k, d, len(points)))
    for row in range(d):
        np.multiply(inverse[:, row, 0, None], away[:, 0], out=places[:, row])
        for column in range(1, row + 1):
            places[:, row] += inverse[:, row, column, None] * away[:, column]
    joint = log_scale[:, None] - 0.5 * sum_of_squares(places.transpose(1, 0, 2))
    if log_shares is not None:
        joint = joint + log_shares
    shares = rowwise_exponential(joint - joint.max(axis=0))
    shares[np.isneginf(log_scale)] = 0.0
    whole = np.zeros(len(points))
    for share in shares:
        whole += share
    shares /= whole
    return shares, places


def sum_of_squares(rows: np.ndarray) -> np.ndarray:
    """Sum the squares over the first axis, one after another."""
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total += row * row
    return total


def clip_places(places: np.ndarray, radius: float) -> np.ndarray:
    """Shorten places (K, d, n) to at most this length, each along its own direction."""
    length = np.sqrt(sum_of_squares(places.transpose(1, 0, 2)))
    return places * (radius / np.maximum(length, radius))[:, None]


def record_moments(shares: np.ndarray, places: np.ndarray, unknown: np.ndarray | None = None) -> np.ndarray:
    """Compute γ_k, γ_k z_k and the upper triangle of γ_k z_k z_kᵀ of each record, (n, K + K d + K d(d+1)/2).

    `unknown` (K, d, d) is added to z_k z_kᵀ: the second moment of what these records lack.
    """
    rows, columns = np.triu_indices(places.shape[1])
    shared = shares[:, None] * places
    products = shared[:, rows] * places[:, columns]
    if unknown is not None:
        products += shares[:, None] * unknown[:, rows, columns, None]
    n = shares.shape[1]
    return np.concatenate([shares, shared.reshape(-1, n), products.reshape(-1, n)]).T


@dataclass(frozen=True, eq=False)
class Completion:
    """From places in the marginal mixture of the coordinates that some records have, to places with all coordinates."""

    marginal: Mixture
    turn: np.ndarray  # (K, d, |O|) Q, with orthonormal columns
    unknown: np.ndarray  # (K, d, d) v P, the second moment of what the records lack

    @classmethod
    def of(cls, mixture: Mixture, present: np.ndarray, radius: float) -> "Completion":
        """Return the completion for records that have the coordinates `present`, (d,)."""
        d = mixture.dimensions
        left = clipped_variance(d, radius) if np.isfinite(radius) else 1.0
        turn, triangle = np.linalg.qr(mixture.cholesky[:, present].transpose(0, 2, 1))
        # The factor of the marginal mixture has a positive diagonal.
        turn = turn * np.where(np.diagonal(triangle, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None]
        return cls(mixture.marginal(present), turn, left * (np.eye(d) - turn @ turn.transpose(0, 2, 1)))

    def complete(self, places: np.ndarray) -> np.ndarray:
        """Return Q u for each place u, (K, |O|, n): sums in order, so that each depends on its own record alone."""
        completed = np.zeros((len(places), self.turn.shape[1], places.shape[2]))
        for axis, place in enumerate(places.transpose(1, 0, 2)):
            completed += self.turn[:, :, axis, None] * place[:, None]
        return completed

    def complete_moments(self, seen: "StandardisedMoments") -> "StandardisedMoments":
        """Return the moments of the completed places from those in the marginal mixture."""
        squares = self.turn @ seen.squares @ self.turn.transpose(0, 2, 1)
        return StandardisedMoments(
            seen.counts,
            np.einsum("kij,kj->ki", self.turn, seen.sums),
            squares + seen.counts[:, None, None] * self.unknown,
            seen.by_kind,
        )


NUMBERS = 131072  # numbers in the largest array of one step, so that it stays in the cache
LOG_ZERO = -1e300  # log of a weight of zero
WORTH_COMPILING = 200_000  # records times components of one pass; a fit makes dozens of passes
QUADRATURE = 4000  # nodes of the integral over the radius
NO_KINDS = np.empty(0, dtype=np.int64)

Attributes = tuple[
    np.ndarray, np.ndarray
]  # combination of values of each record, (n,), and log shares (K, M)


@dataclass(frozen=True, eq=False)
class StandardisedMoments:
    """Weighted sums over records with weight w, responsibilities γ and clipped standardised places z."""

    counts: np.ndarray  # (K,)       Σ w γ
    sums: np.ndarray  # (K, d)       Σ w γ z
    squares: np.ndarray  # (K, d, d) Σ w γ z zᵀ
    by_kind: np.ndarray | None = None  # (K, M) Σ w γ over the records of each combination of values

    def __add__(self, other: "StandardisedMoments") -> "StandardisedMoments":
        by_kind = None
        if self.by_kind is not None and other.by_kind is not None:
            by_kind = self.by_kind + other.by_kind
        return StandardisedMoments(
            self.counts + other.counts, self.sums + other.sums, self.squares + other.squares, by_kind
        )


def completed_pass(
    observations: Observations | IncompleteObservations,
    mixture: Mixture,
    radius: float,
    log_shares: np.ndarray | None = None,
) -> StandardisedMoments:
    """Compute the pass over records some of which may lack coordinates.

    `log_shares` (K, M): those of each combination of values, if the records have attributes (`mixture.coded`).
    """
    if isinstance(observations, Observations):
        return standardised_pass(
            observations, mixture, radius, attributes=_attributes(observations, log_shares)
        )
    total = None
    for present, part in observations.parts:
        attributes = _attributes(part, log_shares)
        if present.all():
            seen = standardised_pass(part, mixture, radius, attributes=attributes)
        else:
            own = Completion.of(mixture, present, radius)
            seen = own.complete_moments(standardised_pass(part, own.marginal, radius, attributes=attributes))
        total = seen if total is None else total + seen
    assert total is not None  # there is at least one part
    return total


def _attributes(part: Observations, log_shares: np.ndarray | None) -> Attributes | None:
    if log_shares is None:
        return None
    assert isinstance(part, CodedObservations)
    return part.kinds, log_shares


def standardised_pass(
    observations: Observations,
    mixture: Mixture,
    radius: float,
    *,
    attributes: Attributes | None = None,
    threads: int | None = None,
) -> StandardisedMoments:
    """Compute the E-step and the moments of clipped standardised records in one pass, without an N by K array.

    `attributes`: the combination of values of each record, (n,), and the log shares of each combination, (K, M).
    Use numpy if there are too few records to be worth the import of numba.
    """
    if observations.spread is not None:
        raise UserError("standardised moments need records at known places; these are spread over boxes.")
    inverse = np.linalg.inv(mixture.cholesky)
    affine = np.concatenate([-inverse @ mixture.means[..., None], inverse], axis=-1)
    with np.errstate(divide="ignore"):
        log_scale = np.maximum(np.log(mixture.weights), LOG_ZERO)
    log_scale = log_scale + np.log(np.diagonal(inverse, axis1=-2, axis2=-1)).sum(axis=-1)
    if len(observations) * mixture.n_components < WORTH_COMPILING or not mixture.dimensions:
        return plain_pass(observations, affine, log_scale, radius, attributes)
    return fused_pass(observations, affine, log_scale, radius, threads, attributes)


def plain_pass(
    observations: Observations,
    affine: np.ndarray,
    log_scale: np.ndarray,
    radius: float,
    attributes: Attributes | None = None,
) -> StandardisedMoments:
    """Compute the pass by numpy: z_k = affine_k (1, x) has log density log_scale_k - ½‖z_k‖² up to a constant."""
    k, d, _ = affine.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    by_kind = None if attributes is None else np.zeros(attributes[1].shape)
    width = min(max(NUMBERS // (k * max(d, 1)), 64), 4096)
    for first in range(0, len(observations), width):
        points = observations.points[first : first + width]
        homogeneous = np.concatenate([np.ones((1, len(points))), points.T])
        places = (affine.reshape(k * d, d + 1) @ homogeneous).reshape(k, d, len(points))
        distances = np.einsum("kdn,kdn->kn", places, places)
        joint = log_scale[:, None] - 0.5 * distances
        if attributes is not None:
            kinds = attributes[0][first : first + width]
            joint += attributes[1][:, kinds]
        joint -= joint.max(axis=0)
        shares = np.exp(joint, out=joint)
        shares *= observations.weights[first : first + width] / shares.sum(axis=0)
        places *= (radius / np.sqrt(np.maximum(distances, radius**2)))[:, None]
        shared = places * shares[:, None]
        counts += shares.sum(axis=1)
        sums += shared.sum(axis=2)
        squares += shared @ places.transpose(0, 2, 1)
        if by_kind is not None:
            for own, share in zip(by_kind, shares, strict=True):
                own += np.bincount(kinds, share, len(own))
    return StandardisedMoments(counts, sums, squares, by_kind)


def fused_pass(
    observations: Observations,
    affine: np.ndarray,
    log_scale: np.ndarray,
    radius: float,
    threads: int | None,
    attributes: Attributes | None = None,
) -> StandardisedMoments:
    """Compute the pass by the compiled loop, in pieces that threads can share."""
    k, d, _ = affine.shape
    run = kernel.numba_kernel().standardised_pass
    table = np.zeros((k, d + d % 2, -(-(d + 1) // kernel.GROUP) * kernel.GROUP))
    table[:, :d, : d + 1] = affine

    kinds, log_shares = (NO_KINDS, np.empty((0, 0))) if attributes is None else attributes

    def task(piece: tuple[int, Observations, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, block, first, last = piece
        own, products, found = np.zeros(k), np.zeros(table.shape), np.zeros(log_shares.shape)
        places = (block.points, block.weights, table, log_scale, float(radius), first, last, own, products)
        run(*places, kinds, log_shares, found)
        return own, products, found

    counts, products, by_kind = np.zeros(k), np.zeros(table.shape), np.zeros(log_shares.shape)
    for own, more, found in kernel.run_tasks(task, kernel.pieces([observations]), threads):
        counts += own
        products += more
        by_kind += found
    rows, columns = np.triu_indices(d)
    squares = symmetric_matrix(products[:, rows, 1 + columns], d)
    return StandardisedMoments(counts, products[:, :d, 0], squares, None if attributes is None else by_kind)


@cache
def clipped_variance(dimensions: int, radius: float) -> float:
    """Compute the variance on each axis of a standard normal record clipped to the ball: E[min(r, c)²] / d, r² ~ χ²_d.

    The integral uses the midpoint rule in r, whose density is r^(d-1) exp(-r²/2) up to a factor.
    """
    reach = np.sqrt(dimensions) + 12.0
    r = (np.arange(QUADRATURE) + 0.5) * (reach / QUADRATURE)
    log_density = (dimensions - 1) * np.log(r) - r**2 / 2
    density = np.exp(log_density - log_density.max())
    return float(density @ np.minimum(r, radius) ** 2 / density.sum() / dimensions)
