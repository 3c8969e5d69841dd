"""Floating-point attacks on the sampler of releases.

`tests/privacy/test_privacy_float_attacks.py` holds the attacks and shows that they succeed on the noise of numpy.
"""

import numpy as np
import pytest
from scipy import stats

from privmix.privacy import noise
from privmix.privacy.exact import STEP, ExactNoise
from privmix.privacy.ledger import Ledger
from privmix.release import make

ALPHA = 1e-6
EACH = 250_000  # draws per value and kind: 1e6 in all
VALUES = (0.0, 1.0)


def _drawn(kind: str, value: float) -> np.ndarray:
    """Draw noisy values as a mechanism does."""
    values, common = np.full(EACH, value), {"source": make.exact_randomness().noise, "ledger": Ledger()}
    if kind == "laplace":
        return noise.laplace(values, sensitivity=1.0, epsilon=0.5, label="x", coordinates=1, **common)
    return noise.gaussian(values, sensitivity=1.0, noise_multiplier=20.0, label="x", coordinates=1, **common)


def _low_bits(drawn: np.ndarray) -> np.ndarray:
    return np.bincount(np.rint(drawn / STEP).astype(np.int64) & 15, minlength=16)


def test_a_release_draws_from_the_exact_sampler():
    assert type(make.exact_randomness().noise) is ExactNoise


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_draw_of_a_release_tells_its_value_by_its_bits(kind):
    """Half of 1e6 draws: all reachable from either value, no low bits, one law of the last ones. Chance: 1e-6."""
    zero, one = (_drawn(kind, value) for value in VALUES)
    for drawn in (zero, one):
        for value in VALUES:
            steps = (drawn - value) / STEP
            assert np.array_equal(steps, np.rint(steps))
    counts = np.array([_low_bits(zero), _low_bits(one)])
    assert stats.chi2_contingency(counts).pvalue > ALPHA
    spoiled = np.array([_low_bits(zero), _low_bits(one - one % (2 * STEP))])
    assert stats.chi2_contingency(spoiled).pvalue < ALPHA  # the twin: values on every other step
