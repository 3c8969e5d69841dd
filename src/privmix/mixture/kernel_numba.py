"""The inner loops of `kernel`, compiled by numba: log densities linear in φ(x), their softmax, and the sums of γφ.

All loops run over blocks of `BLOCK` records that stay in the cache. Features are rows, so that each loop reads
consecutive numbers and becomes vector instructions. `exp` and `log` are polynomials, because a library function is
called for one number at a time. Only jobs that fit a mixture import this module (`kernel.numba_kernel`). numba compiles
it once and caches the machine code on disk.

The fastmath flags of each function matter. `reassoc` lets a sum run in several lanes. But it would also simplify
(t + c) - c, which rounds to an integer in `exponential`, so functions with such steps do not use it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from privmix.mixture.kernel import GROUP

Vector = np.ndarray  # (n,)
Matrix = np.ndarray  # (rows, columns)
Tensor = np.ndarray  # (blocks, rows, columns)

# With the error model of Python, every lane would test for a division by zero and raise an exception.
vectorised = partial(njit, error_model="numpy")

BLOCK = 256
LANES = 4  # numbers in a vector of 256 bits
EXACT = {"contract", "nsz"}
SUMMING = EXACT | {"reassoc"}

LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has few digits
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
ROUNDER = 1.5 * 2.0**52  # x + ROUNDER - ROUNDER is x rounded; the low bits of x + ROUNDER are that integer
TWO_52 = 2.0**52
NEGLIGIBLE = 2.0**-60  # a responsibility up to this is taken as 0, because it does not change any sum
LEAST = -708.0  # exp of less is taken as 0, because it is not a normal number
HALF_ROOT = np.float64(np.sqrt(0.5)).view(np.int64)

# Interpolation of exp at the Chebyshev nodes of [-ln 2/2, ln 2/2], degree 11: relative error 2e-17, before rounding.
(E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11) = (
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
)
# log((1 + s)/(1 - s)) = 2s + s R(s²) with the coefficients of Sun's fdlibm (e_log.c): error below 2^-58.
(R1, R2, R3, R4, R5, R6, R7) = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)


def _inlined(define: Callable[..., Any]) -> Callable[..., Any]:
    """Make an intrinsic. Compiled code calls it without the context, which the types of numba cannot express."""
    return intrinsic(define)


@_inlined
def _bits(context: Any, number: Any) -> Any:
    """Return the bits of a double as an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_inlined
def _double(context: Any, integer: Any) -> Any:
    """Return the double with the bits of an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@_inlined
def _larger(context: Any, one: Any, other: Any) -> Any:
    """Return the larger of two numbers by a selection without a branch."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return types.float64(types.float64, types.float64), generate


@vectorised(fastmath={"contract"})
def exponential(x: float) -> float:
    """Compute e^x for x <= 0 as 2^n e^r with |r| <= ln 2/2. Adding n to the bits of the exponent multiplies by 2^n."""
    t = x * LOG2_E + ROUNDER
    n = t - ROUNDER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (E3 * r + E2) * r2 + (E1 * r + E0)
    middle = (E7 * r + E6) * r2 + (E5 * r + E4)
    high = (E11 * r + E10) * r2 + (E9 * r + E8)
    power = _double(_bits((high * r4 + middle) * r4 + low) + (_bits(t) << 52))
    return power if x > LEAST else 0.0


@vectorised(fastmath={"contract"})
def logarithm(x: float) -> float:
    """Compute ln x for normal x >= √½ (so that the exponent is not negative)."""
    e = np.int64(np.uint64(_bits(x) - HALF_ROOT) >> np.uint64(52))
    f = _double(_bits(x) - (e << 52)) - 1.0
    k = _double(e + _bits(TWO_52)) - TWO_52
    s = f / (2.0 + f)
    z = s * s
    series = z * (R1 + z * (R2 + z * (R3 + z * (R4 + z * (R5 + z * (R6 + z * R7))))))
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + series) + k * LN2_LOW)) - f)


@vectorised(fastmath=EXACT)
def _combine(c: Vector, e: Vector, f0: Vector, f1: Vector, f2: Vector, one: Vector, other: Vector) -> None:
    """Multiply three features by three coefficients for two components. Each feature is loaded once for both."""
    c0, c1, c2, e0, e1, e2 = c[0], c[1], c[2], e[0], e[1], e[2]
    for i in range(len(one)):
        one[i] = c0 * f0[i] + c1 * f1[i] + c2 * f2[i]
        other[i] = e0 * f0[i] + e1 * f1[i] + e2 * f2[i]


@vectorised(fastmath=EXACT)
def _combine_more(
    c: Vector, e: Vector, f0: Vector, f1: Vector, f2: Vector, one: Vector, other: Vector
) -> None:
    c0, c1, c2, e0, e1, e2 = c[0], c[1], c[2], e[0], e[1], e[2]
    for i in range(len(one)):
        one[i] += c0 * f0[i] + c1 * f1[i] + c2 * f2[i]
        other[i] += e0 * f0[i] + e1 * f1[i] + e2 * f2[i]


@vectorised(fastmath=EXACT)
def _raise(values: Vector, old: Vector, new: Vector) -> None:
    # Input and output are two arrays, because a maximum written in place becomes a masked store, which is slow.
    for i in range(len(new)):
        new[i] = _larger(values[i], old[i])


@vectorised(fastmath=EXACT)
def _exponentiate(values: Vector, peak: Vector, total: Vector) -> None:
    for i in range(len(values)):
        power = exponential(values[i] - peak[i])
        values[i] = power
        total[i] += power


@vectorised(fastmath=EXACT)
def _multiply(values: Vector, factors: Vector) -> None:
    for i in range(len(values)):
        values[i] *= factors[i]


@vectorised(fastmath=SUMMING)
def _finish(total: Vector, peak: Vector, weights: Vector) -> float:
    """Return the log-likelihood of a block, and turn `total` into factors from powers to weighted responsibilities."""
    log_likelihood = 0.0
    for i in range(len(total)):
        log_likelihood += weights[i] * (peak[i] + logarithm(total[i]))
        total[i] = weights[i] / total[i]
    return log_likelihood


@vectorised(fastmath=SUMMING)
def _dot(
    one: Vector, other: Vector, f0: Vector, f1: Vector, f2: Vector, sums: Vector, other_sums: Vector
) -> None:
    """Add the products of three features and the responsibilities of two components."""
    s0, s1, s2, t0, t1, t2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(one)):
        s0 += one[i] * f0[i]
        s1 += one[i] * f1[i]
        s2 += one[i] * f2[i]
        t0 += other[i] * f0[i]
        t1 += other[i] * f1[i]
        t2 += other[i] * f2[i]
    sums[0] += s0
    sums[1] += s1
    sums[2] += s2
    other_sums[0] += t0
    other_sums[1] += t1
    other_sums[2] += t2


# In a slice [k, :n] of a whole array the numbers are contiguous. The compiler cannot know this of a slice [:, :n], and
# then uses no vector instructions. So the functions below take whole arrays, the first column and the column count.


@vectorised()
def _fill(points: Matrix, spread: Matrix, first: int, n: int, features: Matrix) -> None:
    """Write φ of n records from `first`, with one feature per row. The row of ones already exists."""
    d = points.shape[1]
    for a in range(d):
        row = features[1 + a]
        for i in range(n):
            row[i] = points[first + i, a]
    j = 1 + d
    for a in range(d):
        for b in range(a, d):
            row, one, other = features[j], features[1 + a], features[1 + b]
            for i in range(n):
                row[i] = one[i] * other[i]
            if len(spread) > 0:
                for i in range(n):
                    row[i] += spread[first + i, j - 1 - d]
            j += 1


@vectorised()
def _paired(coefficients: Matrix) -> Matrix:
    """Add a row of zeros if the number of components is odd, because the loops process components in pairs."""
    count, p = coefficients.shape
    table = np.zeros((count + count % 2, p))
    table[:count] = coefficients
    return table


@vectorised()
def _log_joint(table: Matrix, features: Matrix, n: int, joint: Matrix) -> None:
    """Compute log(π_k N_k) of n records, with one component per row."""
    for k in range(0, len(table), 2):
        c, e, one, other = table[k], table[k + 1], joint[k, :n], joint[k + 1, :n]
        _combine(c, e, features[0, :n], features[1, :n], features[2, :n], one, other)
        for j in range(GROUP, len(c), GROUP):
            f0, f1, f2 = features[j, :n], features[j + 1, :n], features[j + 2, :n]
            _combine_more(c[j:], e[j:], f0, f1, f2, one, other)


@vectorised()
def _soften(count: int, joint: Matrix, n: int, weights: Vector, peaks: Matrix, total: Vector) -> float:
    """Return the log-likelihood of n records, and turn the first `count` rows of `joint` into responsibilities × w."""
    peaks[0, :] = -np.inf
    total[:] = 0.0
    for k in range(count):
        _raise(joint[k, :n], peaks[k % 2, :n], peaks[(k + 1) % 2, :n])
    peak = peaks[count % 2, :n]
    for k in range(count):
        _exponentiate(joint[k, :n], peak, total[:n])
    log_likelihood = _finish(total[:n], peak, weights)
    for k in range(count):
        _multiply(joint[k, :n], total[:n])
    return log_likelihood


@vectorised(nogil=True, cache=True)
def fused_pass(
    points: Matrix,
    spread: Matrix,
    weights: Vector,
    coefficients: Matrix,
    first: int,
    last: int,
    statistics: Matrix,
) -> float:
    """Add the statistics of records first..last to `statistics` (K, p), and return their log-likelihood.

    `coefficients` (K, p) has p padded with zeros to a multiple of GROUP. `spread` is empty for exact records.
    """
    count, p = coefficients.shape
    table = _paired(coefficients)
    sums = np.zeros(table.shape)
    features = np.zeros((p, BLOCK))
    features[0, :] = 1.0
    joint, peaks, total = np.empty((len(table), BLOCK)), np.empty((2, BLOCK)), np.empty(BLOCK)
    log_likelihood = 0.0
    for start in range(first, last, BLOCK):
        n = min(BLOCK, last - start)
        _fill(points, spread, start, n, features)
        _log_joint(table, features, n, joint)
        log_likelihood += _soften(count, joint, n, weights[start : start + n], peaks, total)
        for k in range(0, len(table), 2):
            for j in range(0, p, GROUP):
                f0, f1, f2 = features[j, :n], features[j + 1, :n], features[j + 2, :n]
                _dot(joint[k, :n], joint[k + 1, :n], f0, f1, f2, sums[k, j:], sums[k + 1, j:])
    statistics += sums[:count]
    return log_likelihood


@vectorised(nogil=True, cache=True)
def fused_passes(
    points: Matrix,
    spread: Matrix,
    weights: Vector,
    ends: Vector,
    coefficients: Tensor,
    statistics: Tensor,
    log_likelihood: Vector,
) -> None:
    """Add the statistics and log-likelihood of records ends[m]..ends[m + 1] at coefficients m, for each m."""
    for m in range(len(coefficients)):
        log_likelihood[m] += fused_pass(
            points, spread, weights, coefficients[m], ends[m], ends[m + 1], statistics[m]
        )


@vectorised(fastmath=EXACT)
def _add(values: Vector, sums: Vector) -> None:
    for i in range(len(sums)):
        sums[i] += values[i]


@vectorised(nogil=True, cache=True)
def mixed_pass(
    points: Matrix,
    codes: Matrix,
    weights: Vector,
    coefficients: Matrix,
    log_shares: Matrix,
    first: int,
    last: int,
    statistics: Matrix,
    counts: Matrix,
) -> float:
    """Do the same as `fused_pass` for records with attributes, and add the counts of their values to `counts` (K, T).

    `codes` (n, A) are columns of `log_shares` (K, T), which holds the values of all attributes side by side. Inside,
    the components of a record are next to each other, padded to whole vectors, so that a value costs one vector sum.
    """
    count, p = coefficients.shape
    table = _paired(coefficients)
    sums = np.zeros(table.shape)
    features = np.zeros((p, BLOCK))
    features[0, :] = 1.0
    joint, peaks, total = np.empty((len(table), BLOCK)), np.empty((2, BLOCK)), np.empty(BLOCK)
    width = (count + LANES - 1) // LANES * LANES
    by_value, found = np.zeros((log_shares.shape[1], width)), np.zeros((log_shares.shape[1], width))
    by_value[:, :count] = log_shares.T
    of_record, no_spread = np.zeros((BLOCK, width)), np.empty((0, 0))
    log_likelihood = 0.0
    for start in range(first, last, BLOCK):
        n = min(BLOCK, last - start)
        _fill(points, no_spread, start, n, features)
        _log_joint(table, features, n, joint)
        for i in range(n):
            of_record[i, :] = 0.0
            for a in range(codes.shape[1]):
                _add(by_value[codes[start + i, a]], of_record[i])
        for k in range(count):
            for i in range(n):
                joint[k, i] += of_record[i, k]
        log_likelihood += _soften(count, joint, n, weights[start : start + n], peaks, total)
        for k in range(0, len(table), 2):
            for j in range(0, p, GROUP):
                f0, f1, f2 = features[j, :n], features[j + 1, :n], features[j + 2, :n]
                _dot(joint[k, :n], joint[k + 1, :n], f0, f1, f2, sums[k, j:], sums[k + 1, j:])
        for k in range(count):
            for i in range(n):
                of_record[i, k] = joint[k, i]
        for i in range(n):
            for a in range(codes.shape[1]):
                _add(of_record[i], found[codes[start + i, a]])
    statistics += sums[:count]
    counts += found[:, :count].T
    return log_likelihood


@vectorised()
def _standardise(table: Matrix, features: Matrix, n: int, axes: int, places: Matrix) -> None:
    """Compute standardised places of n records: rows of lower triangles times features, two rows at a time.

    Each component has `axes` rows.
    """
    for row in range(0, len(table), 2):
        c, e, one, other = table[row], table[row + 1], places[row, :n], places[row + 1, :n]
        _combine(c, e, features[0, :n], features[1, :n], features[2, :n], one, other)
        for j in range(GROUP, min(len(c), row % axes + 3), GROUP):
            f0, f1, f2 = features[j, :n], features[j + 1, :n], features[j + 2, :n]
            _combine_more(c[j:], e[j:], f0, f1, f2, one, other)


@vectorised(fastmath=EXACT)
def _add_square(place: Vector, distances: Vector) -> None:
    for i in range(len(place)):
        distances[i] += place[i] * place[i]


@vectorised(fastmath=EXACT)
def _log_density(log_scale: float, distances: Vector, joint: Vector) -> None:
    for i in range(len(joint)):
        joint[i] = log_scale - 0.5 * distances[i]


@vectorised()
def _find(shares: Vector, weights: Vector, chosen: Vector) -> int:
    """Write the indices of responsibilities that are not negligible to `chosen`, and return their number."""
    found = 0
    for i in range(len(shares)):
        chosen[found] = i
        found += shares[i] > NEGLIGIBLE * weights[i]
    return found


@vectorised(fastmath=EXACT)
def _shorten(factors: Vector, radius: float) -> None:
    """Turn squared lengths into factors that limit these lengths to the radius."""
    square = radius * radius
    for i in range(len(factors)):
        factors[i] = radius / np.sqrt(_larger(factors[i], square))


@vectorised(fastmath=SUMMING)
def _sum(values: Vector) -> float:
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@vectorised()
def _take(values: Vector, chosen: Vector, taken: Vector) -> None:
    for i in range(len(taken)):
        taken[i] = values[chosen[i]]


@vectorised(nogil=True, cache=True)
def standardised_pass(
    points: Matrix,
    weights: Vector,
    affine: Tensor,
    log_scale: Vector,
    radius: float,
    first: int,
    last: int,
    counts: Vector,
    products: Tensor,
    kinds: Vector,
    log_shares: Matrix,
    by_kind: Matrix,
) -> None:
    """Add counts (K,) and products (K, axes, p) of the clipped standardised places of records first..last.

    With attributes, `kinds` (n,) are columns of `log_shares` (K, M), which is added to the log responsibilities, and
    of `by_kind` (K, M), which counts them. Without, `kinds` is empty.

    `affine` (K, axes, p) holds [-L⁻¹μ, L⁻¹], padded with zeros: axes to an even number, p to a multiple of GROUP.
    `products` are Σ w γ z (1, z) for each coordinate of z, on and above the diagonal. Some below it are missing.
    """
    count, axes, p = affine.shape
    d = points.shape[1]
    table = affine.copy().reshape(count * axes, p)
    features, clipped = np.zeros((p, BLOCK)), np.zeros((p, BLOCK))
    features[0, :] = 1.0
    clipped[0, :] = 1.0
    places, shared = np.empty((len(table), BLOCK)), np.zeros((axes, BLOCK))
    joint, distances = np.empty((count, BLOCK)), np.empty((count, BLOCK))
    peaks, total, chosen = np.empty((2, BLOCK)), np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
    factors, shares = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(first, last, BLOCK):
        n = min(BLOCK, last - start)
        for a in range(d):
            for i in range(n):
                features[1 + a, i] = points[start + i, a]
        _standardise(table, features, n, axes, places)
        distances[:] = 0.0
        for k in range(count):
            for a in range(d):
                _add_square(places[k * axes + a, :n], distances[k, :n])
            _log_density(log_scale[k], distances[k, :n], joint[k, :n])
        if len(kinds):
            for k in range(count):
                for i in range(n):
                    joint[k, i] += log_shares[k, kinds[start + i]]
        _soften(count, joint, n, weights[start : start + n], peaks, total)
        if len(kinds):
            for k in range(count):
                for i in range(n):
                    by_kind[k, kinds[start + i]] += joint[k, i]
        for k in range(count):
            found = _find(joint[k, :n], weights[start : start + n], chosen)
            if found == 0:
                continue
            _take(joint[k], chosen, shares[:found])
            _take(distances[k], chosen, factors[:found])
            _shorten(factors[:found], radius)
            counts[k] += _sum(shares[:found])
            for a in range(d):
                _take(places[k * axes + a], chosen, clipped[1 + a, :found])
                _multiply(clipped[1 + a, :found], factors[:found])
                shared[a, :found] = clipped[1 + a, :found]
                _multiply(shared[a, :found], shares[:found])
            for a in range(0, axes, 2):
                one, other, sums, other_sums = (
                    shared[a, :found],
                    shared[a + 1, :found],
                    products[k, a],
                    products[k, a + 1],
                )
                for j in range(0, p, GROUP):
                    if j == 0 or j + GROUP > a + 1:
                        f0, f1, f2 = clipped[j, :found], clipped[j + 1, :found], clipped[j + 2, :found]
                        _dot(one, other, f0, f1, f2, sums[j:], other_sums[j:])


@vectorised(nogil=True, cache=True)
def log_joints(points: Matrix, spread: Matrix, coefficients: Matrix, joint: Matrix) -> None:
    """Compute log(π_k N_k) of every record, (K, n)."""
    table = _paired(coefficients)
    features, block = np.zeros((coefficients.shape[1], BLOCK)), np.empty((len(table), BLOCK))
    features[0, :] = 1.0
    for start in range(0, len(points), BLOCK):
        n = min(BLOCK, len(points) - start)
        _fill(points, spread, start, n, features)
        _log_joint(table, features, n, block)
        joint[:, start : start + n] = block[: len(joint), :n]


@vectorised(nogil=True, cache=True)
def log_sums(joint: Matrix, without: int, out: Vector) -> None:
    """Compute log Σ_k exp(joint) of every record, (n,), without component `without` (-1: with all components)."""
    count, last = joint.shape
    peaks, total, powers = np.empty((2, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, last, BLOCK):
        n = min(BLOCK, last - start)
        peaks[0, :] = -np.inf
        total[:] = 0.0
        turn = 0
        for k in range(count):
            if k != without:
                _raise(joint[k, start : start + n], peaks[turn, :n], peaks[1 - turn, :n])
                turn = 1 - turn
        peak = peaks[turn, :n]
        for k in range(count):
            if k != without:
                powers[:n] = joint[k, start : start + n]
                _exponentiate(powers[:n], peak, total[:n])
        for i in range(n):
            out[start + i] = peak[i] + logarithm(total[i])


@vectorised(nogil=True, cache=True)
def removal_costs(joint: Matrix, weights: Vector, costs: Vector) -> None:
    """Add to `costs` (K,) the log-likelihood lost if each component is removed and the others keep their shape.

    If the removed component is not the most likely one of a record, at least half of the density is left, so the rest
    is a difference. For the most likely component, the rest is a new sum relative to the second.
    """
    count, n = joint.shape
    for i in range(n):
        first = 0
        for k in range(1, count):
            if joint[k, i] > joint[first, i]:
                first = k
        second = 1 if first == 0 else 0
        for k in range(count):
            if k != first and joint[k, i] > joint[second, i]:
                second = k
        peak, next_peak = joint[first, i], joint[second, i]
        rest = 0.0
        for k in range(count):
            if k != first and joint[k, i] - next_peak > -40.0:
                rest += exponential(joint[k, i] - next_peak)
        below = exponential(next_peak - peak) * rest
        whole = np.log1p(below)
        costs[first] += weights[i] * (peak + whole - next_peak - np.log(rest))
        for k in range(count):
            if k != first and joint[k, i] - peak > -40.0:
                costs[k] += weights[i] * (whole - np.log1p(below - exponential(joint[k, i] - peak)))


@vectorised(nogil=True, cache=True, fastmath=SUMMING)
def gains(rest: Vector, joint: Matrix, weights: Vector, out: Vector) -> None:
    """Compute Σ w log(exp(rest) + exp(joint_c)) for each candidate component c, (C,)."""
    for c in range(len(joint)):
        total = 0.0
        for i in range(len(rest)):
            high = _larger(rest[i], joint[c, i])
            low = rest[i] + joint[c, i] - high
            total += weights[i] * (high + logarithm(1.0 + exponential(low - high)))
        out[c] = total
