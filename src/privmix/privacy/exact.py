"""Noise for releases: exact samplers on a lattice, with randomness from the operating system.

Floating-point noise leaks: which doubles can be reached, and their low bits, depend on the value below the noise
(Mironov 2012). Here values are rounded to whole steps of 2^-20, OpenDP adds discrete noise in integer arithmetic,
and every output is again a whole number of steps, whatever the value was.

Rounding. Let q round each coordinate to the nearest step. |q(v)_j - v_j| <= 2^-21, so for neighbours v, v' that
differ in at most n coordinates (equal coordinates are rounded equally) the triangle inequality gives

    ‖q(v) - q(v')‖₁ <= ‖v - v'‖₁ + n 2^-20     and     ‖q(v) - q(v')‖₂ <= ‖v - v'‖₂ + √n 2^-20,

which `rounding` returns and from which the scale is computed. ‖v - v'‖ is that of the numbers as computed: a
floating-point sum depends on the order of its terms, so sums over records are taken as `privacy.noise` says.
"""

import math
import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privmix.errors import UserError

STEP = 2.0**-20
LARGEST = 2**53  # in steps: up to here every whole number of steps is a double
SMALLEST_SIGMA = 64  # in steps: see ExactNoise.add_gaussian
SLACK = 1 + 2.0**-50  # more than the few roundings, each at most 2^-53, that lie behind a scale


def quantise(values: np.ndarray) -> np.ndarray:
    """Each value to the nearest whole number of steps, int64. Scaling by 2^20 and rounding are both exact.

    Messages say nothing of the values: those are private.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(np.asarray(values, dtype=np.float64) / STEP)
    if not np.isfinite(steps).all():
        raise UserError(
            "exact noise: a value is NaN or infinite (or too large for a double once counted in steps of 2^-20); "
            "every value must be a finite number before noise is added."
        )
    if (np.abs(steps) > LARGEST).any():
        raise UserError(
            f"exact noise: a value lies outside ±{LARGEST * STEP:.0f}, beyond which steps of 2^-20 cannot be "
            "counted exactly; scale the values down, or clip them to their public bounds."
        )
    return steps.astype(np.int64)


def dequantise(steps: np.ndarray) -> np.ndarray:
    """Whole numbers of steps as doubles.

    Exact up to 2^53 steps. Beyond, which takes noise of that size, the nearest double is a function of the noised
    integer alone: post-processing.
    """
    return np.asarray(steps).astype(np.float64) * STEP


def quantised_sum(contributions: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """The sum over records (the first axis) of contributions rounded to the lattice: exact, in steps, int64.

    `times`: how often each record is there, whole numbers; once unless told.

    Integers add up the same in any order, so replacing (or adding) one record changes the sum by exactly the
    change of its rounded contribution: by the sensitivity and the rounding of one vector (see above), whatever the
    number of records; `privacy.noise` has what that adds to a sensitivity. `dequantise` gives what the noise functions
    take, and rounding it again changes nothing.
    """
    steps = quantise(contributions)
    number = len(steps) if times is None else int(times.sum())
    if len(steps) and number * int(np.abs(steps).max()) > LARGEST:
        raise UserError(
            f"exact noise: the sum of {number} contributions may leave ±{LARGEST * STEP:.0f}, beyond which "
            "steps of 2^-20 cannot be counted exactly; scale the contributions down."
        )
    if times is not None:
        return times.astype(np.int64) @ steps
    return steps.sum(axis=0, dtype=np.int64)


def whole_steps(scale: float) -> int:
    """A scale in steps, rounded up to a whole number: noise is never smaller than asked for."""
    if not (math.isfinite(scale) and 0 < scale < LARGEST * STEP):
        raise UserError(
            f"exact noise: scale {scale!r} must lie between 0 and {LARGEST * STEP:.0f}; "
            "choose a larger epsilon or scale the values down."
        )
    return math.ceil(scale / STEP * SLACK)


def laplace_steps(scale: float) -> int:
    """A Laplace scale in steps, rounded up, and one step more: see `ExactNoise.add_laplace`."""
    return whole_steps(scale) + 1


def sigma_steps(sigma: float) -> int:
    """A standard deviation in steps, rounded up, and one step more: see `ExactNoise.add_gaussian`."""
    steps = whole_steps(sigma)
    if steps < SMALLEST_SIGMA:
        raise UserError(
            f"exact noise: sigma {sigma!r} is less than {SMALLEST_SIGMA} steps of 2^-20 "
            f"({SMALLEST_SIGMA * STEP:.2g}), too few for the Gaussian's accounting; "
            "release sums instead of means, or scale the values up."
        )
    return steps + 1


@dataclass(frozen=True)
class ExactNoise:
    """Noise that may be published. There is no seed: two releases never share noise, and nobody can redraw it.

    Laplace and Gaussian noise, and proposals of planar noise, come from OpenDP, whose bits come from OpenSSL's
    generator, which the operating system seeds; uniform numbers come from the operating system.
    """

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The rounded values plus independent discrete Laplace noise: P(k steps) ∝ exp(-|k| / s).

        s is the scale in steps. P(k - x) / P(k - x') <= exp(|x - x'| / s) for every k, so with scale =
        (L1 sensitivity + rounding) / ε the vector is ε-DP exactly (Ghosh, Roughgarden, Sundararajan 2012). Sampler:
        Canonne, Kamath, Steinke 2020, §5.2.

        Composition by RDP or by privacy-loss distributions reads the ledger's event as continuous Laplace noise. At
        equal scale the discrete law can lose more: a shift of one step is binary randomized response. So s is a
        whole step more than asked for; then δ(ε) stays below the continuous one, which is shown by enumeration in
        the tests, not by a theorem. Linear, advanced and zCDP composition need only the pure ε.
        """
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        steps = laplace_steps(scale)
        return _invoke(make_laplace(_integers(), l1_distance(T="i64"), float(steps)), values)

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The rounded values plus independent discrete Gaussian noise: P(k steps) ∝ exp(-k² / 2s²).

        With s at least sigma in steps and μ = (L2 sensitivity + rounding) / sigma it is (μ²/2)-zCDP, and its Rényi
        divergence of every order is at most the continuous Gaussian's: Canonne, Kamath, Steinke 2020, Theorem 14
        (one coordinate: Theorem 4). Composition by zCDP or RDP therefore rests on a theorem, whatever sigma is.

        The exact (ε, δ) of the continuous Gaussian, which the ledger's event is also read as, is here a sum over the
        lattice (ibid., Theorem 7) instead of an integral, and at equal sigma exceeds it by up to 1/(12 s²) of ε. So
        sigma is at least 64 steps, and s is a whole step more than asked for, where 1/(12 s) of a step would do:
        then δ(ε) stays below the continuous one at every ε, and so do compositions of it (Dong, Roth, Su 2022,
        Theorem 4). That δ(ε) stays below is shown by enumeration in the tests, not by a theorem.
        """
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance

        steps = sigma_steps(sigma)
        return _invoke(make_gaussian(_integers(), l2_distance(T="f64"), float(steps)), values)

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The rounded rows (n, 2) plus discrete planar Laplace noise: P(z steps) ∝ exp(-‖z‖₂ / s) on all of Z².

        The normaliser does not depend on the row, so P(z - x) / P(z - x') <= exp(‖x - x'‖₂ / s) by the triangle
        inequality. Drawn by rejection: ‖z‖₁ <= √2 ‖z‖₂, so a pair of discrete Laplace numbers of scale t >= √2 s
        has everywhere the larger exponent, and is kept with probability exp(‖z‖₁ / t - ‖z‖₂ / s), about four times
        in five.

        That last probability is computed in double precision and compared with a uniform multiple of 2^-53, so a
        ratio may exceed the bound by 1e-9 of itself up to ‖z‖₂ = 50 s, where all but 1e-20 of the mass lies. This is
        the one sampler here that is not exact.
        """
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        steps = laplace_steps(scale)
        wide = math.ceil(math.sqrt(2) * steps * SLACK)
        proposal = make_laplace(_integers(), l1_distance(T="i64"), float(wide))
        drawn = np.empty(np.shape(values), dtype=np.int64)
        missing = np.arange(len(drawn))
        while len(missing):
            tried = _add_noise(proposal, np.zeros((len(missing), 2), dtype=np.int64))
            exponent = np.abs(tried).sum(axis=1) / wide - np.hypot(*tried.T.astype(np.float64)) / steps
            kept = self.uniform((len(missing),)) < np.exp(exponent)
            drawn[missing[kept]] = tried[kept]
            missing = missing[~kept]
        return dequantise(quantise(values) + drawn)

    def planar_scale(self, scale: float) -> float:
        """The scale of planar noise that is asked for at `scale`: whole steps, and one more."""
        return laplace_steps(scale) * STEP

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """How much farther apart rounding can bring neighbours that differ in `size` coordinates."""
        return size * STEP if norm == 1 else math.sqrt(size) * STEP

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform multiples of 2^-53 in [0, 1)."""
        return (_words(math.prod(shape)) >> np.uint64(11)).reshape(shape) * 2.0**-53

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform integers in [0, high), without bias: words above a multiple of `high` are redrawn."""
        if not 1 <= high <= 2**63:
            raise UserError(
                f"exact noise: integers below {high!r} were asked for; give a bound in 1 ... 2^63."
            )
        words = _words(math.prod(shape))
        last = np.uint64(2**64 - 2**64 % high - 1)
        while (beyond := words > last).any():
            words[beyond] = _words(int(beyond.sum()))
        return (words % np.uint64(high)).astype(np.int64).reshape(shape)


def _words(count: int) -> np.ndarray:
    """Uniform 64-bit words from the operating system."""
    return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


def _integers() -> Any:
    """OpenDP's domain of integer vectors. Importing it takes a while, and benchmarks never need it."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")  # without it OpenDP refuses its own noise
    return vector_domain(atom_domain(T="i64"))


def _invoke(measurement: Any, values: np.ndarray) -> np.ndarray:
    return dequantise(_add_noise(measurement, quantise(values)))


def _add_noise(measurement: Any, steps: np.ndarray) -> np.ndarray:
    return np.array(measurement(steps.ravel().tolist()), dtype=np.int64).reshape(steps.shape)
