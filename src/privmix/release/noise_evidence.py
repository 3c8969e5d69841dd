"""Evidence of noise: published numbers must not be smaller or more regular than the noise that they are said to have.

The public plan states the noise of every number. Statistics can hide noise only by adding to it: if
n has a symmetric density that falls along every ray from its centre (Gaussian, Laplace, planar Laplace), a symmetric
convex set has the largest probability if the statistic s in s + n is zero (Anderson 1955). So Σ|x|, Σx², the sums of
differences, and the share of numbers with |x| > c are at least as large as those of the noise alone, whatever the
records are. For later measurements this holds given the earlier ones, so it holds for numbers of several measurements
together. `check_noise` refuses numbers that are smaller than noise alone gives with probability RARE:

* Gaussian: Σx²/2σ² has the gamma law of shape L/2. Laplace: Σ|x|/b has the gamma law of shape L.
* Differences of pairs: Σd²/4σ² has shape L/2 for L pairs. |d|/b is gamma of shape 1 or 2, each with probability 1/2,
  so Σ|d|/b is at least gamma of shape L. Large equal numbers fail this test.
* The number of |x| above the point that noise exceeds with probability p is at least binomial (L, p).
* The position within a unit of at most 1/16 of the scale is nearly uniform: within a unit, the density of Laplace noise
  changes by at most e^(1/16), and that of Gaussian noise by less than 2 up to 10 σ. So no position has a probability
  above 2/unit, and each half of a unit one of 0.45 to 0.55. In general the halves of all cells of width w differ by at
  most w/2 times the total variation of the density, twice its peak: for w ≤ 1/16 of the scale, each half has a
  probability within w/4 scales of 1/2. So the tolerance of 0.05 halves with each further bit, down to the last one.
  Whole numbers fail this test, and so does text in the low bits.

* Counts of records are whole numbers, so a noisy count is as far from the nearest whole number as the noise is. For
  noise that is large beside 1, all distances up to 1/2 are nearly as likely. The number of counts within h of a whole
  number is binomial, with P(‖n‖ ≤ h) = 1 - sinh((1/2 - h)/b)/sinh(1/(2b)) for Laplace noise, and the sum of the
  probabilities of [k - h, k + h] over all whole k for Gaussian noise. Counts with hardly any noise fail this test.

* No number lies farther from the possible statistics than the noise of any of L numbers gets with probability RARE:
  b ln(L / RARE) for Laplace noise, σ √(2 ln(2L / RARE)) for Gaussian noise. Large numbers fail this test.
* Σ|x| ≤ Σ|s| + Σ|n|. Σ|s| is at most L times the largest statistic, and for counts the number of records. Σ|n|/b has
  the gamma law of shape L for Laplace noise; for Gaussian noise (Σ|n|)² ≤ L Σn². Records in place of noise fail this
  test if they are larger than noise.
* Counts of all records add up to their public number N, up to a sum of L noises. A Laplace noise has the moment
  generating function 1/(1 - b²θ²). By Chernoff, the sum of L exceeds t with probability at most
  (1 - b²θ²)^-L exp(-θt), for every θ < 1/b. The smallest t over θ that makes this RARE / 2 is the bound for Laplace
  noise. For Gaussian noise of standard deviation b it is t = b √(2L ln(2 / RARE)). Responsibilities are rounded to the
  lattice, so each record may add one step for each component.
* If only the records with all numbers are counted, their counts add up to at most N, and to the number of those
  records in the table of attributes, which counts blanks and atoms too.

* All Gaussian measurements of a release together: a measurement gives each component's number of records once by its
  count, and once by the values of each attribute. `standard_deviates` turns these numbers and N into independent
  standard normal ones: the difference of each number from the weighted mean of those before it, and of the sum of the
  means from N. Their sum of squares has a χ² law and their sum a normal law, each tested at RARE. Many numbers that
  are moved by a little each fail these tests.

* The counts of the values of each attribute add up to the same number: that of the records of the component, and over
  all components the public number N. The sums of two attributes differ by a sum of their noises only.

* Counts n, sums s and second moments S of the same records satisfy s_j² ≤ n S_jj and S_jl² ≤ S_jj S_ll
  (Cauchy-Schwarz), and tr S ≤ c² n, because no place is longer than c. They still do if each number is moved to its
  favourable end by the farthest that noise gets with probability RARE.

Numbers are on a lattice and rounded, so |x| counts as one step more here, and scales leave out all that rounding adds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special, stats

from privmix.errors import UserError
from privmix.privacy.exact import STEP

COUNTABLE = 2.0**48  # steps: a division of a larger number cannot be undone exactly
REACH = 1.05  # covers rounding, which adds to the scale of the noise
NEAR = (0.25, 0.1, 0.03, 0.01, 0.003, 0.001)  # distances from a whole number
RARE = 1e-12  # probability that one test refuses honest noise
TILTS = np.geomspace(1e-7, 0.999, 500)  # bθ of the Chernoff bound
UNEVEN = 0.05  # how far the probability of each half of a unit may be from 1/2
TAILS = 2.0 ** -np.arange(1, 9)  # probabilities of the tails whose numbers are counted


@dataclass(frozen=True)
class Noisy:
    """Numbers of one measurement, as they were measured, and the scale of their noise."""

    kind: str  # numbers of one kind are also tested together
    values: np.ndarray  # (L,)
    scale: float | np.ndarray  # the scale of a Laplace law, or the standard deviation of a Gaussian one
    law: Literal["laplace", "gaussian"] = "gaussian"
    rounded: bool = False  # whether the low digits were rounded away
    least: float = -math.inf  # of the statistic behind one number
    most: float = math.inf
    per_record: float | None = (
        None  # what each record adds to the sum of the numbers, if that is the same for all
    )
    rounding: float = 0.0  # largest error of the sum of the numbers by rounding
    whole: bool = False  # whether the statistics are whole numbers

    @property
    def ratios(self) -> np.ndarray:
        """The size of each number relative to the scale of its noise."""
        return (np.abs(self.values) + STEP) / self.scale


def check_noise(measured: Sequence[Noisy], where: str) -> None:
    """Refuse numbers that are smaller or more regular than noise of their scale alone would be."""
    groups: dict[tuple[str, str], list[Noisy]] = {}
    for each in measured:
        groups.setdefault((each.kind, each.law), []).append(each)
    for (kind, law), parts in groups.items():
        plausible = all(_has_energy(part.ratios, law) for part in parts)
        ratios = np.concatenate([part.ratios for part in parts])
        plausible = plausible and _has_energy(ratios, law) and _has_tails(ratios, law)
        plausible = plausible and _has_differences(parts, law) and has_low_parts(parts)
        plausible = plausible and all(_are_off_whole_numbers([part]) for part in parts if part.whole)
        plausible = plausible and all(_is_in_reach(part) and _is_small_enough(part) for part in parts)
        if not plausible:
            raise UserError(
                f"{where}: the {kind} do not have the noise that the plan of the mechanism demands; do not publish it."
            )
    # A kind may have few numbers, of which each may be whole by chance. All together may not.
    drawn = [part for part in measured if not part.rounded and len(part.values)]
    counts = [part for part in drawn if part.whole]
    if not (has_low_parts(drawn) and _are_off_whole_numbers(counts)):
        raise UserError(
            f"{where}: the noisy numbers together do not have the noise that the plan of the mechanism demands; do not "
            "publish it."
        )


def _are_off_whole_numbers(parts: Sequence[Noisy]) -> bool:
    """Test that no more of the counts are near whole numbers than noise puts there."""
    if not parts:
        return True
    values = np.concatenate([part.values for part in parts])
    apart = np.abs(values - np.rint(values)) + STEP
    return all(
        (apart <= within).sum()
        <= stats.binom.isf(
            RARE,
            len(apart),
            max(near_whole_number(float(np.min(part.scale)), part.law, within) for part in parts),
        )
        for within in NEAR
    )


def near_whole_number(scale: float, law: str, within: float) -> float:
    """Return the probability that noise of this scale lies within a distance of at most 1/2 of a whole number."""
    if law == "laplace":
        if scale < 1 / 100:
            return 1 - math.exp(-within / scale)
        return 1 - math.sinh((0.5 - within) / scale) / math.sinh(0.5 / scale)
    if scale > 10:
        return 2 * within
    numbers = np.arange(-math.ceil(12 * scale) - 1, math.ceil(12 * scale) + 2)
    law_of = stats.norm(scale=scale)
    return float((law_of.cdf(numbers + within) - law_of.cdf(numbers - within)).sum())


def farthest(deviation: float, size: int) -> float:
    """Return the distance that Gaussian noise of this deviation exceeds in one of `size` numbers with chance RARE."""
    return REACH * deviation * math.sqrt(2 * math.log(2 * size / RARE)) + 2 * STEP


def are_moments(most: np.ndarray, least: np.ndarray, squares: np.ndarray, slack: float, trace: float) -> bool:
    """Return whether these can be moments of the same records, whose second moments have at most this trace each.

    `most` (K,): upper ends of the counts. `least` (K, d): lower ends of the sizes of the sums. `squares` (K, d, d):
    noisy second moments, each within `slack` of the true one.
    """
    count, sums = np.maximum(most, 0), np.maximum(least, 0)
    spread = np.diagonal(squares, axis1=1, axis2=2)
    upper = np.maximum(spread + slack, 0)
    both = np.maximum(np.abs(squares) - slack, 0)
    both[:, range(len(both[0])), range(len(both[0]))] = 0
    return bool(
        (sums**2 <= count[:, None] * upper).all()
        and (both**2 <= upper[:, :, None] * upper[:, None, :]).all()
        and ((spread - slack).sum(axis=1) <= trace * count).all()
    )


def _is_in_reach(part: Noisy) -> bool:
    rare = math.log(2 * len(part.values) / RARE)
    reach = (
        REACH * np.asarray(part.scale) * (rare if part.law == "laplace" else math.sqrt(2 * rare)) + 2 * STEP
    )
    return bool(((part.values >= part.least - reach) & (part.values <= part.most + reach)).all())


def _is_small_enough(part: Noisy) -> bool:
    """Test the sum of all sizes: at most that of the statistics and that of the noise."""
    size = len(part.values)
    most = size * max(abs(part.least), abs(part.most)) if part.per_record is None else part.most
    noise = special.gammainccinv(size, RARE)
    if part.law == "gaussian":
        noise = math.sqrt(size * stats.chi2.isf(RARE, size))
    return bool(
        np.abs(part.values).sum() <= most + REACH * float(np.max(part.scale)) * noise + 2 * size * STEP
    )


def sum_reach(part: Noisy, size: int, tests: int) -> float:
    """Return the size that a sum of `size` noises exceeds in one of `tests` sums with chance below tests * RARE."""
    scale = float(np.max(part.scale))
    if part.law == "gaussian":
        return farthest(scale * math.sqrt(size), tests) + size * STEP
    bound = (math.log(2 / RARE) - size * np.log1p(-np.square(TILTS))) / TILTS
    return REACH * scale * float(bound.min()) + size * STEP


def are_sums_of_noise(sums: np.ndarray, part: Noisy, size: int) -> bool:
    """Return whether these are sums of `size` noises each: every one, all together, and their sizes.

    The squares of Gaussian sums have a χ² law. The sizes of Laplace sums add up to at most the sizes of their noises.
    """
    scale, number = REACH * float(np.max(part.scale)), len(sums)
    apart = np.abs(sums) - size * STEP
    if part.law == "gaussian":
        within = np.square(np.maximum(apart, 0)).sum() <= scale**2 * size * stats.chi2.isf(RARE, number)
    else:
        within = apart.sum() <= scale * special.gammainccinv(number * size, RARE)
    return bool(
        within
        and np.abs(sums).max() <= sum_reach(part, size, number)
        and abs(sums.sum()) <= sum_reach(part, number * size, 1)
    )


def check_total(measured: Sequence[Noisy], records: int, where: str, *, at_most: bool = False) -> None:
    """Refuse counts that do not add up to the public number of records, or, with `at_most`, to no more than it."""
    for each in measured:
        if each.per_record is not None:
            apart = each.values.sum() - each.per_record * records
            if (apart if at_most else abs(apart)) > total_reach(each):
                how = "add up to more than" if at_most else "do not add up to"
                raise UserError(
                    f"{where}: the {each.kind} {how} the {records:,} records that it states; do not publish it."
                )


def total_reach(part: Noisy) -> float:
    """Return the distance of the sum of all numbers from that of their statistics that occurs with chance RARE."""
    return sum_reach(part, len(part.values), 1) + part.rounding


@dataclass(frozen=True)
class Deviates:
    """Independent numbers that are standard normal if the noise is there, and their largest errors by rounding."""

    values: np.ndarray  # (n,)
    rounding: np.ndarray  # (n,)


def standard_deviates(
    estimates: np.ndarray, deviations: np.ndarray, rounding: np.ndarray, records: float | None
) -> Deviates:
    """Return the deviates of one measurement: E estimates of the number of records of each component, (K, E).

    `deviations` and `rounding` (E,): of the noise in each estimate, and the largest rounding error. `records`: the
    public number of records of all components together.
    """
    mean, variance, error = estimates[:, 0], deviations[0] ** 2, rounding[0]
    values, errors = [], []
    for own, deviation, rounded in zip(estimates.T[1:], deviations[1:], rounding[1:], strict=True):
        apart = math.sqrt(deviation**2 + variance)
        values.append((own - mean) / apart)
        errors.append(np.full(len(own), (error + rounded) / apart))
        share = variance / (variance + deviation**2)
        mean, error = mean + share * (own - mean), error + share * (rounded + error)
        variance = variance * deviation**2 / (variance + deviation**2)
    if records is not None:
        whole = math.sqrt(len(mean) * variance)
        values.append(np.array([mean.sum() - records]) / whole)
        errors.append(np.array([len(mean) * error / whole]))
    return Deviates(np.concatenate([np.empty(0), *values]), np.concatenate([np.empty(0), *errors]))


def are_standard(parts: Sequence[Deviates]) -> bool:
    """Return whether the squares and the sum of all deviates together are no larger than those of noise."""
    values = np.concatenate([np.empty(0), *(part.values for part in parts)])
    errors = np.concatenate([np.empty(0), *(part.rounding for part in parts)])
    size = len(values)
    if not size:
        return True
    length = REACH * math.sqrt(stats.chi2.isf(RARE, size)) + float(np.linalg.norm(errors))
    reach = REACH * math.sqrt(size) * float(stats.norm.isf(RARE / 2)) + float(errors.sum())
    return bool(np.linalg.norm(values) <= length and abs(values.sum()) <= reach)


def _has_energy(ratios: np.ndarray, law: str) -> bool:
    if law == "laplace":
        return bool(ratios.sum() >= special.gammaincinv(len(ratios), RARE))
    return bool(np.square(ratios).sum() / 2 >= special.gammaincinv(len(ratios) / 2, RARE))


def _has_tails(ratios: np.ndarray, law: str) -> bool:
    cuts = -np.log(TAILS) if law == "laplace" else stats.norm.isf(TAILS / 2)
    beyond = (ratios > cuts[:, None]).sum(axis=1)
    return bool((beyond >= stats.binom.ppf(RARE, len(ratios), TAILS)).all())


def _has_differences(parts: Sequence[Noisy], law: str) -> bool:
    """Test differences of neighbouring numbers that have the same scale."""
    pairs = [
        (np.abs(part.values[: len(part.values) // 2 * 2].reshape(-1, 2) @ (1, -1)) + 2 * STEP) / part.scale
        for part in parts
        if np.ndim(part.scale) == 0
    ]
    apart = np.concatenate([np.empty(0), *pairs])
    if not len(apart):
        return True
    return _has_energy(apart if law == "laplace" else apart / math.sqrt(2), law)


def has_low_parts(parts: Sequence[Noisy]) -> bool:
    """Test positions within a unit that is small beside the noise: no position is frequent, and each bit is random."""
    if not parts or any(part.rounded or not len(part.values) for part in parts):
        return True
    steps = np.rint(np.concatenate([part.values for part in parts]) / STEP)
    narrowest = min(float(np.min(part.scale)) for part in parts) / STEP / 16
    if narrowest < 64 or (np.abs(steps) > COUNTABLE).any():
        return True
    unit = 2 ** min(int(math.log2(narrowest)), 40)
    low, size = steps.astype(np.int64) % unit, len(steps)
    most = int(np.unique(low, return_counts=True)[1].max())
    ways = special.gammaln(size + 1) - special.gammaln(most + 1) - special.gammaln(size - most + 1)
    if math.log(unit) + ways + most * math.log(2 / unit) < math.log(RARE):
        return False
    for bit in range(1, unit.bit_length()):
        upper, uneven = int((low // (unit >> bit) % 2).sum()), UNEVEN / 2 ** (bit - 1)
        if not (
            stats.binom.ppf(RARE, size, 0.5 - uneven) <= upper <= stats.binom.isf(RARE, size, 0.5 + uneven)
        ):
            return False
    return True
