"""Noise for releases: exact samplers on a lattice, with randomness from the operating system.

Floating-point noise leaks: the set of possible doubles, and their low bits, depend on the value under the noise
(Mironov 2012). This module therefore rounds values to whole steps of 2^-20, and OpenDP adds discrete noise in integer
arithmetic. Every output is again a whole number of steps, for every value.

Rounding. Let q round each coordinate to the nearest step. Then |q(v)_j - v_j| <= 2^-21. Let neighbours v, v' differ in
at most n coordinates; equal coordinates are rounded equally. The triangle inequality gives

    ‖q(v) - q(v')‖₁ <= ‖v - v'‖₁ + n 2^-20     and     ‖q(v) - q(v')‖₂ <= ‖v - v'‖₂ + √n 2^-20.

`rounding` returns the added term, and the scale is computed from the sum. ‖v - v'‖ is the norm for the numbers as
computed. A floating-point sum depends on the order of its terms, so compute sums over records as `privacy.noise` says.
"""

import math
import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privmix.errors import UserError

STEP = 2.0**-20
LARGEST = 2**53  # in steps: every whole number of steps up to this one is a double
SMALLEST_SIGMA = 64  # in steps: see ExactNoise.add_gaussian
SLACK = 1 + 2.0**-50  # more than the few roundings, each at most 2^-53, in the computation of a scale


def quantise(values: np.ndarray) -> np.ndarray:
    """Round each value to the nearest whole number of steps, int64. Scaling by 2^20 and rounding are both exact.

    Messages do not contain the values, which are private.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(np.asarray(values, dtype=np.float64) / STEP)
    if not np.isfinite(steps).all():
        raise UserError(
            "exact noise: a value is NaN or infinite, or too large for a double when counted in steps of 2^-20; "
            "every value must be a finite number before noise is added."
        )
    if (np.abs(steps) > LARGEST).any():
        raise UserError(
            f"exact noise: a value lies outside ±{LARGEST * STEP:.0f}, where steps of 2^-20 cannot be "
            "counted exactly; scale the values down, or clip them to their public bounds."
        )
    return steps.astype(np.int64)


def dequantise(steps: np.ndarray) -> np.ndarray:
    """Convert whole numbers of steps to doubles.

    The conversion is exact up to 2^53 steps. Beyond that, which takes noise of that size, the nearest double is a
    function of the noisy integer alone: post-processing.
    """
    return np.asarray(steps).astype(np.float64) * STEP


def quantised_sum(contributions: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """Sum the contributions of records (the first axis), rounded to the lattice: exact, in steps, int64.

    `times` is the multiplicity of each record, a whole number; the default is 1.

    The sum of integers does not depend on their order. Replacing (or adding) one record therefore changes the sum by
    exactly the change of its rounded contribution. This is at most the sensitivity plus the rounding of one vector (see
    above), for any number of records; `privacy.noise` states what that adds to a sensitivity. Pass the sum through
    `dequantise` to the noise functions. Rounding it again changes nothing.
    """
    steps = quantise(contributions)
    number = len(steps) if times is None else int(times.sum())
    if len(steps) and number * int(np.abs(steps).max()) > LARGEST:
        raise UserError(
            f"exact noise: the sum of {number} contributions may leave ±{LARGEST * STEP:.0f}, the range where "
            "steps of 2^-20 can be counted exactly; scale the contributions down."
        )
    if times is not None:
        weighted: np.ndarray = times.astype(np.int64) @ steps
        return weighted
    total: np.ndarray = steps.sum(axis=0, dtype=np.int64)
    return total


def whole_steps(scale: float) -> int:
    """Return a scale in steps, rounded up to a whole number: noise is never smaller than requested."""
    if not (math.isfinite(scale) and 0 < scale < LARGEST * STEP):
        raise UserError(
            f"exact noise: scale {scale!r} must lie between 0 and {LARGEST * STEP:.0f}; "
            "choose a larger epsilon or scale the values down."
        )
    return math.ceil(scale / STEP * SLACK)


def laplace_steps(scale: float) -> int:
    """Return a Laplace scale in steps, rounded up, plus one step: see `ExactNoise.add_laplace`."""
    return whole_steps(scale) + 1


def sigma_steps(sigma: float) -> int:
    """Return a standard deviation in steps, rounded up, plus one step: see `ExactNoise.add_gaussian`."""
    steps = whole_steps(sigma)
    if steps < SMALLEST_SIGMA:
        raise UserError(
            f"exact noise: sigma {sigma!r} is less than {SMALLEST_SIGMA} steps of 2^-20 "
            f"({SMALLEST_SIGMA * STEP:.2g}), too few for the Gaussian's accounting; "
            "measure sums instead of means, or scale the values up."
        )
    return steps + 1


@dataclass(frozen=True)
class ExactNoise:
    """Noise that may be published. It has no seed: no two draws share noise, and the noise cannot be reproduced.

    Laplace and Gaussian noise, and proposals of planar noise, come from OpenDP. OpenDP takes its bits from OpenSSL's
    generator, which the operating system seeds. Uniform numbers come from the operating system.
    """

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add independent discrete Laplace noise to the rounded values: P(k steps) ∝ exp(-|k| / s).

        s is the scale in steps. P(k - x) / P(k - x') <= exp(|x - x'| / s) for every k, so with scale =
        (L1 sensitivity + rounding) / ε the vector is ε-DP exactly (Ghosh, Roughgarden, Sundararajan 2012). Sampler:
        Canonne, Kamath, Steinke 2020, §5.2.

        Composition by RDP or by privacy-loss distributions reads the ledger's event as continuous Laplace noise. At
        equal scale the discrete law can lose more: a shift of one step is binary randomized response. Therefore s is
        one whole step more than requested. Then δ(ε) stays below the continuous one. The tests show this by
        enumeration; no theorem proves it. Linear, advanced and zCDP composition need only the pure ε.
        """
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        steps = laplace_steps(scale)
        return _invoke(make_laplace(_integers(), l1_distance(T="i64"), float(steps)), values)

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Add independent discrete Gaussian noise to the rounded values: P(k steps) ∝ exp(-k² / 2s²).

        With s at least sigma in steps and μ = (L2 sensitivity + rounding) / sigma, the noise is (μ²/2)-zCDP, and its
        Rényi divergence of every order is at most the continuous Gaussian's: Canonne, Kamath, Steinke 2020, Theorem 14
        (one coordinate: Theorem 4). Composition by zCDP or RDP therefore rests on a theorem, for every sigma.

        The ledger's event is also read as a continuous Gaussian with its exact (ε, δ). The exact (ε, δ) of the discrete
        law is a sum over the lattice (ibid., Theorem 7) instead of an integral. At equal sigma it exceeds the
        continuous one by up to 1/(12 s²) of ε. Therefore sigma is at least 64 steps, and s is one whole step more than
        requested, where 1/(12 s) of a step would be enough. Then δ(ε) stays below the continuous one at every ε, and so
        do its compositions (Dong, Roth, Su 2022, Theorem 4). The tests show by enumeration that δ(ε) stays below; no
        theorem proves it.
        """
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance

        steps = sigma_steps(sigma)
        return _invoke(make_gaussian(_integers(), l2_distance(T="f64"), float(steps)), values)

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add discrete planar Laplace noise to the rounded rows (n, 2): P(z steps) ∝ exp(-‖z‖₂ / s) on all of Z².

        The normaliser does not depend on the row, so P(z - x) / P(z - x') <= exp(‖x - x'‖₂ / s) by the triangle
        inequality. The noise is drawn by rejection. ‖z‖₁ <= √2 ‖z‖₂, so a pair of discrete Laplace numbers of scale
        t >= √2 s has the larger exponent everywhere. The pair is kept with probability exp(‖z‖₁ / t - ‖z‖₂ / s), about
        four times in five.

        This probability is computed in double precision and compared with a uniform multiple of 2^-53. A ratio may
        therefore exceed the bound by 1e-9 of itself up to ‖z‖₂ = 50 s, where all but 1e-20 of the mass lies. This is
        the only sampler here that is not exact.
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
        """Return the scale at which planar noise is drawn if you request `scale`: whole steps, plus one."""
        return laplace_steps(scale) * STEP

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """Return how much rounding can increase the distance of neighbours that differ in `size` coordinates."""
        return size * STEP if norm == 1 else math.sqrt(size) * STEP

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw independent uniform multiples of 2^-53 in [0, 1)."""
        return (_words(math.prod(shape)) >> np.uint64(11)).reshape(shape) * 2.0**-53

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Draw independent uniform integers in [0, high), without bias.

        Words at or above the largest multiple of `high` are drawn again.
        """
        if not 1 <= high <= 2**63:
            raise UserError(f"exact noise: cannot draw integers below {high!r}; give a bound in 1 ... 2^63.")
        words = _words(math.prod(shape))
        last = np.uint64(2**64 - 2**64 % high - 1)
        while (beyond := words > last).any():
            words[beyond] = _words(int(beyond.sum()))
        return (words % np.uint64(high)).astype(np.int64).reshape(shape)


def choose(scores: np.ndarray, scale: float, lowest: float) -> int:
    """Return the position of the largest rounded score after Gumbel noise: P(i) ∝ exp(max(u_i, u_max + lowest b) / b).

    b is the scale, and `lowest` is below 0. A score of -inf is never drawn. OpenDP compares the noisy scores with as
    many random bits as it needs (its name for this law is the noisy maximum under zero-concentrated privacy), so the
    law has these probabilities exactly. u and b are in steps, b is no less than requested, and rounding adds one step
    to the distance of neighbours (see above).
    """
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance

    of_steps = scale / STEP * SLACK
    possible = np.flatnonzero(~np.isneginf(scores))
    steps = quantise(scores[possible])
    steps -= steps.max()  # exact, and the law depends on differences only
    steps = np.maximum(steps, math.floor(max(lowest * of_steps, -2.0 * LARGEST)))
    draw = make_noisy_max(_integers(), linf_distance(T="i64"), zero_concentrated_divergence(), of_steps)
    return int(possible[draw(steps.tolist())])


def _words(count: int) -> np.ndarray:
    """Draw uniform 64-bit words from the operating system."""
    return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


def _integers() -> Any:
    """Return OpenDP's domain of integer vectors. The import is slow, and benchmarks never need it."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")  # OpenDP's noise needs it
    return vector_domain(atom_domain(T="i64"))


def _invoke(measurement: Any, values: np.ndarray) -> np.ndarray:
    return dequantise(_add_noise(measurement, quantise(values)))


def _add_noise(measurement: Any, steps: np.ndarray) -> np.ndarray:
    return np.array(measurement(steps.ravel().tolist()), dtype=np.int64).reshape(steps.shape)
