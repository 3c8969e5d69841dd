"""Fixtures of many tests."""

import numpy as np
import pytest
from making import RecordingNoise

from privmix.mechanisms.base import Randomness


@pytest.fixture
def recording():
    """Randomness whose noise is silent and remembered."""
    return Randomness(RecordingNoise(), np.random.Generator(np.random.PCG64(5)))
