"""What a mixture sees in a record, computed so that it depends on the record alone, to the last bit.

A matrix product, a fused loop or a vectorised exponential gives a record numbers whose last bits depend on where it
stands among the others: which lane, which block, which remainder. One record replaced moves all that follow it, so all
of their contributions would change a little, and no sensitivity covers that. Here every step is +, -, ×, ÷, √, a
comparison or a rounding to whole numbers, taken element by element. IEEE 754 fixes the result of each of them, numpy
joins no two of them into one, and sums over components and axes go in their order. So equal records have equal
numbers, wherever they stand and however many there are.
"""

import math

import numpy as np

from privmix.mixture.model import Mixture

LOWEST = -700.0  # exp of less would not be a normal number; a share that small is one of nothing
LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # few enough digits that whole multiples of it are exact
LN2_LOW = math.log(2) - LN2_HIGH + 2.3190468138462996e-17  # what math.log(2) has lost
TERMS = [1 / math.factorial(power) for power in range(13, -1, -1)]  # |r| <= ln(2)/2: the rest is below 1e-17
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52


def exponential(values: np.ndarray) -> np.ndarray:
    """exp of numbers <= 0, to a few units in the last place: 2^n times the Taylor series of r, x = n ln 2 + r."""
    values = np.maximum(values, LOWEST)
    whole = np.rint(values / math.log(2))
    rest = (values - whole * LN2_HIGH) - whole * LN2_LOW
    series = np.full_like(rest, TERMS[0])
    for term in TERMS[1:]:
        series *= rest
        series += term
    power = (whole.astype(np.int64) + EXPONENT_BIAS) << MANTISSA_BITS
    return series * power.view(np.float64)


def seen(points: np.ndarray, mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Responsibilities (K, n) and standardised places z_k = L_k⁻¹(x - μ_k), (K, d, n), of points (n, d)."""
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
    joint = log_scale[:, None] - 0.5 * squares(places.transpose(1, 0, 2))
    shares = exponential(joint - joint.max(axis=0))
    shares[np.isneginf(log_scale)] = 0.0
    whole = np.zeros(len(points))
    for share in shares:
        whole += share
    shares /= whole
    return shares, places


def squares(rows: np.ndarray) -> np.ndarray:
    """The sum over the first axis of the squares, one after another."""
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total += row * row
    return total


def clipped(places: np.ndarray, radius: float) -> np.ndarray:
    """Places (K, d, n), each moved along its own direction to this length where it is longer."""
    length = np.sqrt(squares(places.transpose(1, 0, 2)))
    return places * (radius / np.maximum(length, radius))[:, None]


def moments(shares: np.ndarray, places: np.ndarray) -> np.ndarray:
    """γ_k, γ_k z_k and the upper triangle of γ_k z_k z_kᵀ of each record: (n, K + K d + K d(d+1)/2), in this order."""
    rows, columns = np.triu_indices(places.shape[1])
    shared = shares[:, None] * places
    products = shared[:, rows] * places[:, columns]
    n = shares.shape[1]
    return np.concatenate([shares, shared.reshape(-1, n), products.reshape(-1, n)]).T
