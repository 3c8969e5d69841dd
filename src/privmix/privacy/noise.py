"""The only place where privacy noise is added: each function draws the noise and writes the ledger in one call.

Noise comes from a source: `SeededNoise` for benchmarks, `privacy.exact.ExactNoise` for releases. A source that
rounds to a lattice says how much that adds to the sensitivity, and the scale is computed from the sum of both.
Every measurement goes through `measure`. An audit can take the place of the source (`Watch`): it then sees the
exact statistic behind each measurement, or decides what is returned instead of drawing.

Sums over records. Noise on a lattice hides a number only if the numbers of neighbours are as close as the theorem
says. A floating-point sum is not: changing one record changes how all later terms are rounded, by up to n² 2^-53
for n records, and n may be private, so that no public number bounds it. Therefore, where a source puts noise on a
lattice,

* each record's contribution is computed by operations that do not depend on the record's position
  (`mixture.standardised_moments`),
* it is rounded to whole steps of the lattice, merged records once with their multiplicity, and
* the steps are added as integers (`exact_sum`), which is exact in any order.

Two neighbouring sums then differ by the rounded contributions of the unit that differs, and by nothing else. With
at most m records on a side, each coordinate rounded by half a step, that is the sensitivity plus m times
`NoiseSource.rounding` of one vector (`with_rounding`). The sensitivity is that of contributions as computed: bounds
such as Σ γ_k ≤ 1 and ‖z‖ ≤ c each hold up to a relative error of a few units of 2^-53 per component and axis, which
COMPUTED covers for up to 2^15 of them. Counts of records are whole numbers and need none of this.
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
    """The stream for exactly this purpose (dataset, mechanism, epsilon, replicate, ...).

    Two budgets must never share noise: s + a·z and s + b·z together give s back exactly.
    """
    text = "\x1f".join(repr(part) for part in purpose).encode()
    words = np.frombuffer(hashlib.blake2b(text, digest_size=32).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([master_seed, *words.tolist()])))


def fresh_stream() -> np.random.Generator:
    """A stream that nobody can repeat, for what a release draws beside its noise."""
    return np.random.default_rng()


Measured = TypeVar("Released")


class Watch(Protocol):
    """A source of noise that wants to see releases."""

    def watch(
        self, event: Event, law: NoiseDistribution, statistic: Any, draw: Callable[[], Measured]
    ) -> Measured:
        """What is released; `draw` draws it."""


def measure(
    event: Event,
    law: NoiseDistribution,
    statistic: Any,
    draw: Callable[[], Measured],
    *,
    source: Any,
    ledger: Ledger,
) -> Measured:
    """What `draw` draws from the law, given the statistic; the event says what it costs."""
    watch = getattr(source, "watch", None)
    released = draw() if watch is None else watch(event, law, statistic, draw)
    ledger.append(event)
    return released


class NoiseSource(Protocol):
    """Where random numbers for privacy come from."""

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...
    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray: ...
    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray: ...
    def planar_scale(self, scale: float) -> float: ...
    def rounding(self, size: int, norm: Literal[1, 2]) -> float: ...
    def uniform(self, shape: tuple[int, ...]) -> np.ndarray: ...
    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray: ...


@dataclass(frozen=True)
class SeededNoise:
    """Reproducible noise for benchmarks. What it makes must not be published.

    Whoever knows the seed takes the noise off; and even without it, the floating-point numbers that a double can
    reach tell inputs apart (Mironov 2012).
    """

    generator: np.random.Generator

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The values plus independent Laplace(scale) numbers."""
        return values + self.generator.laplace(0.0, scale, np.shape(values))

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The values plus independent N(0, sigma²) numbers."""
        return values + self.generator.normal(0.0, sigma, np.shape(values))

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The rows (n, 2) plus independent vectors of density exp(-‖e‖/scale) / (2π scale²).

        Their direction is uniform, and their length has density r exp(-r/scale) / scale², the gamma law of shape 2.
        """
        length = scale * self.generator.standard_gamma(2.0, len(values))
        angle = self.generator.uniform(0.0, 2 * math.pi, len(values))
        return values + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def planar_scale(self, scale: float) -> float:
        """Planar noise has the scale that was asked for."""
        return scale

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """Nothing is put on a lattice."""
        return 0.0

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform numbers in [0, 1)."""
        return self.generator.random(shape)

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform integers in [0, high)."""
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
    """`values` plus Laplace((sensitivity + rounding) / epsilon) noise: epsilon-DP for an L1 sensitivity.

    Dwork, McSherry, Nissim, Smith 2006, Theorem 1. `coordinates`: how many of the values one unit can change, all
    of them unless told; where each row is one record's own report, the number of columns.
    """
    reach = _check(sensitivity, "sensitivity") + _rounding(values, coordinates, 1, source)
    scale = reach / _check(epsilon, "epsilon")
    return measure(
        Laplace(label, epsilon),
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
    """`values` plus N(0, (noise_multiplier · (sensitivity + rounding))²): (1/noise_multiplier)-GDP, L2 sensitivity.

    Dong, Roth, Su 2022, Theorem 1; the (epsilon, delta) of it is Balle and Wang 2018, Theorem 8. For noise on a
    lattice see `ExactNoise.add_gaussian`. `coordinates`: as for `laplace`.
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
    """Each row of `places` (n, 2) plus planar Laplace noise of scale (within + rounding) / epsilon.

    Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013 (geo-indistinguishability), §4.1: the density ratio of a row
    for two places at distance r is at most exp(r / scale) by the triangle inequality, and reaches it. So rows are
    epsilon-indistinguishable for places no farther apart than `within`, and (diameter / scale)-DP for any two
    places of a box of that diameter; all three are distances in the units of the rows. For the ledger `within_m` states
    in metres whom `within` covers, and `metre` is how long one is in the units of the rows.
    """
    if np.ndim(places) != 2 or np.shape(places)[1] != 2:
        raise UserError(
            f"planar Laplace noise needs rows of 2 numbers, not an array of shape {np.shape(places)}."
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
    """A symmetric matrix with Gaussian noise on its upper triangle, copied below the diagonal.

    The released numbers are the d(d+1)/2 upper entries; their L2 sensitivity is at most the Frobenius
    sensitivity given here. Dwork, Talwar, Thakurta, Zhang 2014 (Analyze Gauss), Theorem 5.
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
    """`total` of a random sample of the units, plus N(0, (noise_multiplier · (sensitivity + rounding))²) noise.

    Each of the units, 0 ... units - 1, is in the sample with probability `rate`, by a draw of its own. `total` takes
    the numbers of those in it and gives a sum over units of contributions of at most `sensitivity` in L2. For a unit
    added or removed the release is dominated by N(0, σ²) against (1 - q) N(0, σ²) + q N(1, σ²) (Zhu, Dong, Wang 2022,
    Theorem 11; Mironov, Talwar, Zhang 2019). That rests on the secrecy of the sample: `total` must not let it out.
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
    """The block of each unit, (units,): uniform over 0 ... blocks - 1, by a draw of its own that no data enters.

    Two neighbours can be given the same draws for the units that they share. Then a unit added or removed changes
    the content of one block, its own; and a unit that takes another's place takes its draw too, and changes that
    one block. For every outcome of the draws, then, neighbours differ in one block; and since the law of the draws
    is the same for both, a guarantee that holds for every outcome holds for the mixture over them (joint convexity).
    """
    if blocks < 1:
        raise UserError(f"partition: blocks = {blocks!r} must be at least 1.")
    return source.integers(blocks, (units,))


COMPUTED = 2.0**-32


def needs_exact_sums(source: NoiseSource) -> bool:
    """Whether the source puts its noise on a lattice, so that sums must be exact too."""
    return source.rounding(1, 1) > 0


def exact_sum(parts: Iterable[tuple[np.ndarray, np.ndarray | None]], size: int) -> np.ndarray:
    """The exact sum (size,) of contributions (n, size), each rounded, as often as its record is there."""
    steps = np.zeros(size, dtype=np.int64)
    for contributions, times in parts:
        steps += quantised_sum(contributions, times)
    return dequantise(steps)


def with_rounding(
    sensitivity: float, size: int, norm: int, *, neighbours: Neighbours, source: NoiseSource
) -> float:
    """The sensitivity of a sum over records: as proven, or as the rounded contributions have it.

    The noise functions add the rounding of what they are given once more; here that is not needed, and costs nothing.
    """
    if not needs_exact_sums(source):
        return sensitivity
    return sensitivity * (1 + COMPUTED) + neighbours.records * source.rounding(size, norm)
