"""Attacks on floating-point noise (Mironov 2012): they succeed on numpy's noise and fail on exact noise.

An attacker knows that the value is one of two, and how the noise is drawn. An output that only one of the two values
can produce identifies it, for every epsilon.
"""

import numpy as np
import pytest
from scipy import stats

from privmix.privacy.exact import STEP, ExactNoise, quantise
from privmix.privacy.noise import SeededNoise, stream

ALPHA = 1e-6
EACH = 500_000  # draws per value: 1e6 in all
SCALE, SIGMA = 2.0, 20.0


def _reached_by_numpy(outputs: np.ndarray, value: float) -> np.ndarray:
    """Return which outputs are value + numpy's Laplace noise for some uniform number k/2^53, computed like numpy."""
    nearest = np.rint(2.0**52 * np.exp(-np.abs(outputs - value) / SCALE))
    reached = np.zeros(len(outputs), dtype=bool)
    for offset in range(-3, 4):
        below = np.clip(nearest + offset, 1, 2.0**52) * 2.0**-53
        above = 1.0 - below
        reached |= value + SCALE * np.log(below + below) == outputs
        reached |= value - SCALE * np.log(2.0 - above - above) == outputs
    return reached


def _reached_by_lattice(outputs: np.ndarray, start: float) -> np.ndarray:
    """Return which outputs are whole numbers of steps from `start`; discrete noise reaches every such step."""
    steps = (outputs - start) / STEP
    return steps == np.rint(steps)


def _identified(own: np.ndarray, other: np.ndarray) -> float:
    return float((own & ~other).mean())


def _has_low_bits(outputs: np.ndarray) -> np.ndarray:
    """Return which outputs near 0 have bits below 2^-53: 1 + noise has none, 0 + noise keeps those of the noise."""
    scaled = outputs * 2.0**53
    return (np.abs(outputs) < 0.5) & (scaled != np.rint(scaled))


def test_the_reachable_set_of_numpys_laplace_identifies_most_inputs():
    source = SeededNoise(stream(1, "reachable"))
    shares = []
    for value, other in ((0.0, 1.0), (1.0, 0.0)):
        outputs = source.add_laplace(np.full(EACH, value), SCALE)
        own, foreign = _reached_by_numpy(outputs, value), _reached_by_numpy(outputs, other)
        assert own.mean() > 0.99  # the attack's model of the noise is right
        shares.append(_identified(own, foreign))
    assert np.mean(shares) > 0.5


def test_the_low_bits_of_numpys_normal_identify_some_inputs():
    source = SeededNoise(stream(1, "low bits"))
    assert _has_low_bits(source.add_gaussian(np.zeros(EACH), SIGMA)).mean() > 0.002
    assert not _has_low_bits(source.add_gaussian(np.ones(EACH), SIGMA)).any()


def _same_low_bits(outputs: list[np.ndarray]) -> float:
    """Return the p-value of one law for the last four bits of the step count, for all values."""
    counts = [np.bincount(quantise(drawn) & 15, minlength=16) for drawn in outputs]
    return stats.chi2_contingency(np.array(counts)).pvalue


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scale"), [("laplace", SCALE), ("gaussian", SIGMA)])
def test_exact_noise_gives_nothing_away(kind, scale):
    """1e6 draws: none identifies its value by reachable set or low bits. Fails by chance once in 1e6 runs."""
    values = (0.0, 1.0)
    outputs = [getattr(ExactNoise(), f"add_{kind}")(np.full(EACH, value), scale) for value in values]
    for drawn in outputs:
        assert all(_reached_by_lattice(drawn, value).all() for value in values)
        assert not _has_low_bits(drawn).any()
    assert _same_low_bits(outputs) > ALPHA
    assert _same_low_bits([outputs[0], outputs[1] - outputs[1] % (2 * STEP)]) < ALPHA


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_value_between_two_steps_is_rounded_before_noise_is_added(kind):
    """Otherwise every output shows its position between the steps. The twin adds lattice noise to the raw value."""
    add, values = getattr(ExactNoise(), f"add_{kind}"), (0.0, 1 / 3)
    for value in values:
        drawn = add(np.full(1000, value), 1.0)
        assert _reached_by_lattice(drawn, 0.0).all()
    raw = 1 / 3 + add(np.zeros(1000), 1.0)
    assert not _reached_by_lattice(raw, 0.0).any()
