"""Noise: the only module that adds privacy noise. Each function draws the noise and writes the ledger in one call.

Noise comes from a source: `SeededNoise` for benchmarks, `privacy.exact.ExactNoise` for releases. A source that
rounds to a lattice states how much that adds to the sensitivity. The scale is computed from the sum of both.
Every measurement goes through `measure`. An audit can replace the source (`Watch`). It then sees the exact statistic
behind each measurement, or decides what is returned instead of drawing.

Sums over records. Noise on a lattice hides a number only if the numbers of neighbouring datasets are as close as the
theorem says. Floating-point sums are not: changing one record changes how all later terms are rounded, by up to
n² 2^-53 for n records. n may be private, so no public number bounds this change. If a source puts noise on a lattice,
therefore

* each record's contribution is computed by operations that do not depend on the record's position
  (`mixture.standardised_moments`),
* it is rounded to whole steps of the lattice, where merged records are rounded once with their multiplicity, and
* the steps are added as integers (`exact_sum`), which is exact in any order.

The sums of two neighbouring datasets then differ only by the rounded contributions of the unit that differs. With at
most m records on a side, and each coordinate rounded by half a step, the difference is at most the sensitivity plus m
times `NoiseSource.rounding` of one vector (`with_rounding`). The sensitivity is that of contributions as computed.
Bounds such as Σ γ_k ≤ 1 and ‖z‖ ≤ c each hold up to a relative error of a few units of 2^-53 per component and axis.
COMPUTED covers this error for up to 2^15 of them. Counts of records are whole numbers and need none of this.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from privmix.errors import UserError
from privmix.privacy.exact import dequantise, quantised_sum
from privmix.privacy.ledger import (
    Event,
    Gaussian,
    Laplace,
    Ledger,
    PlanarLaplace,
    RecordCount,
    SampledGaussian,
    check_positive,
)
from privmix.privacy.noise_distributions import (
    GaussianNoise,
    LaplaceNoise,
    NoiseDistribution,
    PlanarLaplaceNoise,
    SampledGaussianNoise,
)
from privmix.privacy.sensitivity import Neighbours


def stream(master_seed: int, *purpose: str | int | float) -> np.random.Generator:
    """Return the random stream for exactly this purpose (dataset, mechanism, epsilon, replicate, ...).

    Two budgets must never share noise: s + a·z and s + b·z together reveal s exactly.
    """
    text = "\x1f".join(repr(part) for part in purpose).encode()
    words = np.frombuffer(hashlib.blake2b(text, digest_size=32).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([master_seed, *words.tolist()])))


def fresh_stream() -> np.random.Generator:
    """Return a stream that cannot be repeated, for what a release draws beside its noise."""
    return np.random.default_rng()


Measured = TypeVar("Measured")


class Watch(Protocol):
    """A noise source that sees every measurement."""

    def watch(
        self, event: Event, law: NoiseDistribution, statistic: Any, draw: Callable[[], Measured]
    ) -> Measured:
        """Return the value of the measurement. `draw` draws it."""


def measure(
    event: Event,
    law: NoiseDistribution,
    statistic: Any,
    draw: Callable[[], Measured],
    *,
    source: Any,
    ledger: Ledger,
) -> Measured:
    """Draw a measurement with `draw`, and write its event to the ledger.

    `law` is the distribution of the measurement given the statistic. The event states its privacy cost.
    """
    watch = getattr(source, "watch", None)
    released = draw() if watch is None else watch(event, law, statistic, draw)
    ledger.append(event)
    return released


class NoiseSource(Protocol):
    """A source of the random numbers that privacy depends on."""

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...
    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray: ...
    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...
    def planar_scale(self, scale: float) -> float: ...
    def rounding(self, size: int, norm: Literal[1, 2]) -> float: ...
    def uniform(self, shape: tuple[int, ...]) -> np.ndarray: ...
    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray: ...


@dataclass(frozen=True)
class SeededNoise:
    """Reproducible noise for benchmarks. Do not publish results that use it.

    With the seed anyone can remove the noise. Even without the seed, the set of possible floating-point numbers
    distinguishes inputs (Mironov 2012).
    """

    generator: np.random.Generator

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add independent Laplace(scale) numbers to the values."""
        return values + self.generator.laplace(0.0, scale, np.shape(values))

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Add independent N(0, sigma²) numbers to the values."""
        return values + self.generator.normal(0.0, sigma, np.shape(values))

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add independent vectors of density exp(-‖e‖/scale) / (2π scale²) to the rows (n, 2).

        Their direction is uniform, and their length has density r exp(-r/scale) / scale², the gamma law of shape 2.
        """
        length = scale * self.generator.standard_gamma(2.0, len(values))
        angle = self.generator.uniform(0.0, 2 * math.pi, len(values))
        moved: np.ndarray = values + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        return moved

    def planar_scale(self, scale: float) -> float:
        """Return the scale as requested: planar noise is drawn at exactly this scale."""
        return scale

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """Return 0: this source has no lattice."""
        return 0.0

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw independent uniform numbers in [0, 1)."""
        return self.generator.random(shape)

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Draw independent uniform integers in [0, high)."""
        return self.generator.integers(high, size=shape)


def _check(value: float, name: str) -> float:
    return check_positive(value, f"noise: {name}")


def _rounding(values: np.ndarray, coordinates: int | None, norm: Literal[1, 2], source: NoiseSource) -> float:
    size = np.size(values)
    if coordinates is not None and not 1 <= coordinates <= size:
        raise UserError(
            f"noise: coordinates = {coordinates!r} must lie in 1 ... {size}, the number of values."
        )
    return source.rounding(size if coordinates is None else coordinates, norm)


def laplace(
    values: np.ndarray,
    *,
    sensitivity: float,
    epsilon: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    coordinates: int | None = None,
) -> np.ndarray:
    """Add Laplace((sensitivity + rounding) / epsilon) noise to `values`: epsilon-DP for an L1 sensitivity.

    Dwork, McSherry, Nissim, Smith 2006, Theorem 1. `coordinates` is the number of values that one unit can change; the
    default is all of them. If each row is the report of one record, it is the number of columns.
    """
    return _add_laplace(Laplace(label, epsilon), values, sensitivity, coordinates, source, ledger)


def record_count(
    number: int, *, sensitivity: float, epsilon: float, source: NoiseSource, ledger: Ledger, label: str
) -> int:
    """Return the number of records plus Laplace noise, as a whole number of at least 1: `epsilon`-DP.

    Later parameters may depend on it: the ledger marks it as deciding, like a selection.
    """
    exact = np.array([float(number)])
    noisy = _add_laplace(RecordCount(label, epsilon), exact, sensitivity, None, source, ledger)
    return max(1, round(float(noisy[0])))


def _add_laplace(
    event: Laplace | RecordCount,
    values: np.ndarray,
    sensitivity: float,
    coordinates: int | None,
    source: NoiseSource,
    ledger: Ledger,
) -> np.ndarray:
    reach = _check(sensitivity, "sensitivity") + _rounding(values, coordinates, 1, source)
    scale = reach / _check(event.epsilon, "epsilon")
    return measure(
        event,
        LaplaceNoise(scale),
        values,
        lambda: source.add_laplace(values, scale),
        source=source,
        ledger=ledger,
    )


def gaussian(
    values: np.ndarray,
    *,
    sensitivity: float,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    coordinates: int | None = None,
) -> np.ndarray:
    """Add N(0, (noise_multiplier · (sensitivity + rounding))²) noise to `values`, for an L2 sensitivity.

    The measurement is (1/noise_multiplier)-GDP: Dong, Roth, Su 2022, Theorem 1. Its (epsilon, delta) is Balle and Wang
    2018, Theorem 8. For noise on a lattice see `ExactNoise.add_gaussian`. For `coordinates` see `laplace`.
    """
    reach = _check(sensitivity, "sensitivity") + _rounding(values, coordinates, 2, source)
    sigma = _check(noise_multiplier, "noise_multiplier") * reach
    return measure(
        Gaussian(label, noise_multiplier),
        GaussianNoise(sigma),
        values,
        lambda: source.add_gaussian(values, sigma),
        source=source,
        ledger=ledger,
    )


def planar_laplace(
    places: np.ndarray,
    *,
    epsilon: float,
    within: float,
    within_m: float,
    metre: float,
    diameter: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> np.ndarray:
    """Add planar Laplace noise of scale (within + rounding) / epsilon to each row of `places` (n, 2).

    Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013 (geo-indistinguishability), §4.1: the density ratio of a row
    for two places at distance r is at most exp(r / scale) by the triangle inequality, and reaches it. Rows are
    therefore epsilon-indistinguishable for places at most `within` apart, and (diameter / scale)-DP for any two
    places of a box of that diameter. `within`, `diameter` and the scale are distances in the units of the rows. For
    the ledger, `within_m` states in metres which places `within` covers, and `metre` is the length of one metre in the
    units of the rows.
    """
    if np.ndim(places) != 2 or np.shape(places)[1] != 2:
        raise UserError(
            f"planar Laplace noise needs rows of 2 numbers, got an array of shape {np.shape(places)}."
        )
    if not _check(within, "within") <= _check(diameter, "diameter"):
        raise UserError(
            f"noise: within = {within!r} must be at most the diameter {diameter!r} of the domain."
        )
    rounding = source.rounding(2, 2)
    scale = (within + rounding) / _check(epsilon, "epsilon")
    drawn = source.planar_scale(scale)
    anywhere = max((diameter + rounding) / drawn, epsilon)
    return measure(
        PlanarLaplace(label, anywhere, within_m, epsilon, drawn / metre),
        PlanarLaplaceNoise(drawn),
        places,
        lambda: source.add_planar_laplace(places, scale),
        source=source,
        ledger=ledger,
    )


def gaussian_symmetric(
    matrix: np.ndarray,
    *,
    sensitivity: float,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> np.ndarray:
    """Add Gaussian noise to the upper triangle of a symmetric matrix, and copy it below the diagonal.

    The measured numbers are the d(d+1)/2 upper entries. Their L2 sensitivity is at most the Frobenius sensitivity
    given here. Dwork, Talwar, Thakurta, Zhang 2014 (Analyze Gauss), Theorem 5.
    """
    upper = np.triu_indices(len(matrix))
    released = gaussian(
        matrix[upper],
        sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        source=source,
        ledger=ledger,
        label=label,
    )
    noisy = np.zeros(matrix.shape)
    noisy[upper] = released
    return noisy + np.triu(noisy, 1).T


def sampled_gaussian(
    total: Callable[[np.ndarray], np.ndarray],
    units: int,
    *,
    rate: float,
    sensitivity: float,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> np.ndarray:
    """Add N(0, (noise_multiplier · (sensitivity + rounding))²) noise to the `total` of a random sample of the units.

    Each unit 0 ... units - 1 is in the sample with probability `rate`, independently. `total` takes the numbers of
    the units in the sample and returns a sum over units, whose contributions have an L2 norm of at most `sensitivity`.
    For a unit added or removed the measurement is dominated by N(0, σ²) against (1 - q) N(0, σ²) + q N(1, σ²) (Zhu,
    Dong, Wang 2022, Theorem 11; Mironov, Talwar, Zhang 2019). The sample must stay secret: `total` must not reveal it.
    """
    event = SampledGaussian(label, noise_multiplier, rate)
    sample = np.flatnonzero(source.uniform((units,)) < rate)
    values = total(sample)
    reach = _check(sensitivity, "sensitivity") + _rounding(values, None, 2, source)
    sigma = noise_multiplier * reach
    return measure(
        event,
        SampledGaussianNoise(sigma, rate),
        values,
        lambda: source.add_gaussian(values, sigma),
        source=source,
        ledger=ledger,
    )


def partition(units: int, blocks: int, *, source: NoiseSource) -> np.ndarray:
    """Draw the block of each unit, (units,): uniform over 0 ... blocks - 1, one draw per unit, independent of the data.

    Two neighbouring datasets can be given the same draws for the units that they share. Then a unit added or removed
    changes the content of one block, its own. A unit that replaces another takes its draw too, and changes that one
    block. For every outcome of the draws, neighbouring datasets therefore differ in one block. The law of the draws is
    the same for both, so a guarantee that holds for every outcome holds for the mixture over them (joint convexity).
    """
    if blocks < 1:
        raise UserError(f"partition: blocks = {blocks!r} must be at least 1.")
    return source.integers(blocks, (units,))


COMPUTED = 2.0**-32


def needs_exact_sums(source: NoiseSource) -> bool:
    """Return whether the source puts its noise on a lattice. Sums must then be exact too."""
    return source.rounding(1, 1) > 0


def exact_sum(parts: Iterable[tuple[np.ndarray, np.ndarray | None]], size: int) -> np.ndarray:
    """Return the exact sum (size,) of contributions (n, size), each rounded and times its record's multiplicity."""
    steps = np.zeros(size, dtype=np.int64)
    for contributions, times in parts:
        steps += quantised_sum(contributions, times)
    return dequantise(steps)


def with_rounding(
    sensitivity: float, size: int, norm: Literal[1, 2], *, neighbours: Neighbours, source: NoiseSource
) -> float:
    """Return the sensitivity of a sum over records: as proven, or of rounded contributions if the source has a lattice.

    The noise functions add the rounding of their input once more. Here that is not needed, and costs nothing.
    """
    if not needs_exact_sums(source):
        return sensitivity
    return sensitivity * (1 + COMPUTED) + neighbours.records * source.rounding(size, norm)
