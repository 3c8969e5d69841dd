"""Accuracy: how far noise moves a number with a given probability, and the noise that a wished accuracy allows.

All functions are formulas of public values. No function reads a record or draws a number. `probability` is the chance
that the error is at most the returned distance, for instance 0.95. "Smallest" distances are exact for continuous
noise; for noise on a lattice they are whole steps.

The inverses round down by a few units of the last digit (`_BELOW`), so that a distance computed from their scale is
never above the wished one.
"""

import math
from statistics import NormalDist

from privmix.errors import UserError
from privmix.privacy.exact import STEP, laplace_steps
from privmix.privacy.ledger import check_positive

_BELOW = 1 - 2.0**-50
_STANDARD = NormalDist()


def check_chance(probability: float) -> float:
    """Check that a probability lies strictly between 0 and 1, and return it."""
    if not 0 < probability < 1:
        raise UserError(
            f"probability = {probability!r} must lie strictly between 0 and 1, for instance 0.95: "
            "noise without a bound stays within no distance with certainty."
        )
    return float(probability)


def laplace_within(scale: float, probability: float) -> float:
    """Return the smallest t with P(|Laplace(b)| ≤ t) ≥ p: t = -b ln(1 - p), because P(|Laplace(b)| > t) = exp(-t/b)."""
    return _laplace_within(check_positive(scale, "accuracy: scale"), 1 - check_chance(probability))


def laplace_scale_for(within: float, probability: float) -> float:
    """Return the largest Laplace scale whose noise is at most `within` with this probability: -t / ln(1 - p)."""
    failure = 1 - check_chance(probability)
    return check_positive(within, "accuracy: within") / -math.log(failure) * _BELOW


def gaussian_within(sigma: float, probability: float) -> float:
    """Return the smallest t with P(|N(0, σ²)| ≤ t) ≥ p: t = -σ Φ⁻¹((1 - p) / 2)."""
    failure = 1 - check_chance(probability)
    return -check_positive(sigma, "accuracy: sigma") * _STANDARD.inv_cdf(failure / 2)


def gaussian_sigma_for(within: float, probability: float) -> float:
    """Return the largest σ whose Gaussian noise is at most `within` with this probability: -t / Φ⁻¹((1 - p) / 2)."""
    failure = 1 - check_chance(probability)
    return check_positive(within, "accuracy: within") / -_STANDARD.inv_cdf(failure / 2) * _BELOW


def largest_laplace_within(scale: float, numbers: int, probability: float) -> float:
    """Return the smallest t with P(largest |noise| of k numbers ≤ t) ≥ p, for independent Laplace(b) noise on each.

    The probability is (1 - exp(-t/b))^k, so t = -b ln(1 - p^(1/k)).
    """
    return _laplace_within(check_positive(scale, "accuracy: scale"), _failure_of_each(numbers, probability))


def largest_laplace_bound(scale: float, numbers: int, probability: float) -> float:
    """Return b ln(k / (1 - p)), which k noisy numbers exceed with probability at most 1 - p (the union bound).

    Dwork and Roth 2014, Theorem 3.8. It is above `largest_laplace_within`, by b ln(-ln p / (1 - p)) in the limit of
    many numbers: 0.026 b for p = 0.95.
    """
    _failure_of_each(numbers, probability)
    return check_positive(scale, "accuracy: scale") * math.log(numbers / (1 - probability))


def largest_laplace_scale_for(within: float, numbers: int, probability: float) -> float:
    """Return the largest Laplace scale at which all k noisy numbers stay `within` together: -t / ln(1 - p^(1/k))."""
    failure = _failure_of_each(numbers, probability)
    return check_positive(within, "accuracy: within") / -math.log(failure) * _BELOW


def lattice_laplace_within(scale: float, probability: float, *, numbers: int = 1) -> float:
    """Return the smallest distance that the exact Laplace noise of a release keeps, for all of `numbers` at once.

    `scale` is the requested one, and `privmix.privacy.exact` draws at s = `laplace_steps(scale)` whole steps:
    P(k steps) = (1 - q) / (1 + q) q^|k| with q = exp(-1/s), so P(|K| > k) = 2 q^(k+1) / (1 + q) (Ghosh, Roughgarden,
    Sundararajan 2012). A number that is no whole number of steps is first rounded, which moves it by up to half a step
    more.
    """
    steps = laplace_steps(check_positive(scale, "accuracy: scale"))
    failure = _failure_of_each(numbers, probability)
    exceeding = steps * math.log(2 / (failure * (1 + math.exp(-1 / steps))))  # least k + 1 that is enough
    return max(0, math.ceil(exceeding / _BELOW) - 1) * STEP


def laplace_pair_beyond(first: float, second: float, distance: float) -> float:
    """Return P(|X + Y| > x) for independent X ~ Laplace(a) and Y ~ Laplace(b). A scale of 0 is no noise.

    By partial fractions of the characteristic function 1 / ((1 + a²s²)(1 + b²s²)), the probability is
    (a² e^(-x/a) - b² e^(-x/b)) / (a² - b²), and (1 + x/2a) e^(-x/a) for a = b. With a ≥ b, r = b/a, y = x/a and
    u = y (1 - r) / r it equals e^(-y) (1 + r y φ(u) / (1 + r)), φ(u) = (1 - e^(-u)) / u, which loses no digits near
    a = b.
    """
    wide, narrow = max(first, second), min(first, second)
    if distance <= 0:
        return 1.0
    if wide == 0:
        return 0.0
    y = distance / wide
    if narrow == 0:
        return math.exp(-y)
    r = narrow / wide
    u = y * (1 - r) / r
    phi = -math.expm1(-u) / u if u else 1.0
    return math.exp(-y) * (1 + r * y * phi / (1 + r))


def ratio_within(
    sum_scale: float, count_scale: float, *, ratio: float, records: float, probability: float
) -> float:
    """Return a distance t that (S + X) / (N + Y) keeps from S / N = `ratio`, with X, Y independent Laplace noise.

    Fieller 1954: with μ = S / N, the error is at most t where N + Y > 0 and |X - μY| ≤ t (N + Y), that is where
    X - (μ + t) Y ≤ tN and X - (μ - t) Y ≥ -tN. Each side is the tail of a sum of two Laplace numbers
    (`laplace_pair_beyond`). Where N + Y ≤ 0 one of the two sides fails, so the sum of both tails is at most the
    failure, however such a count is then handled. It is the failure itself except where both sides fail.

    The distance is infinite if the noise of the count is so large that no distance is enough.
    """
    failure = 1 - check_chance(probability)
    check_positive(records, "accuracy: records")
    check_positive(sum_scale + count_scale, "accuracy: sum of the scales")

    def fails(t: float) -> float:
        return 0.5 * (
            laplace_pair_beyond(sum_scale, abs(ratio + t) * count_scale, t * records)
            + laplace_pair_beyond(sum_scale, abs(ratio - t) * count_scale, t * records)
        )

    if count_scale and math.exp(-records / count_scale) >= failure:
        return math.inf
    high = (sum_scale + abs(ratio) * count_scale) / records
    while fails(high) > failure:
        high *= 2
    low = 0.0
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-12 * high:
        low, high = (low, middle) if fails(middle) <= failure else (middle, high)
    return high


def _laplace_within(scale: float, failure: float) -> float:
    return -scale * math.log(failure)


def _failure_of_each(numbers: int, probability: float) -> float:
    """Return 1 - p^(1/k): how often each of k independent numbers may fail if none fails with probability p."""
    if not numbers >= 1:
        raise UserError(f"accuracy: numbers = {numbers!r} must be at least 1.")
    return -math.expm1(math.log(check_chance(probability)) / numbers)
