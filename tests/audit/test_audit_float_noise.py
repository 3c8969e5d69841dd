"""The float audit: every mechanism passes with the noise of a release, and none with that of a benchmark."""

import numpy as np
import pytest
from making import PRIVATE, clusters, make_spec, quick_mechanism

from privmix.audit.noise_tests import CONTINUOUS_NOISE, low_bit_findings
from privmix.audit.recording import RecordingNoise
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.run import run
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import ExactNoise
from privmix.privacy.noise import fresh_stream


def _tape(name, randomness):
    spec, witness = make_spec(rows=300), RecordingNoise(randomness.noise)
    mechanism = quick_mechanism(name)
    run(mechanism, Records(clusters(300)), spec, Budget(1.0, 1e-6), Randomness(witness, randomness.search))
    return witness.recording


@pytest.mark.parametrize("name", PRIVATE)
def test_measurements_of_a_release_lie_on_the_lattice(name):
    assert low_bit_findings(_tape(name, Randomness(ExactNoise(), fresh_stream()))) == []


@pytest.mark.parametrize("name", PRIVATE)
def test_measurements_of_a_benchmark_are_found_off_the_lattice(name):
    tape = _tape(name, seeded_randomness(1, name))
    continuous = {entry.event.label for entry in tape.entries if isinstance(entry.law, CONTINUOUS_NOISE)}
    assert {sentence.partition(":")[0] for sentence in low_bit_findings(tape)} == continuous


def test_one_number_off_the_lattice_is_enough():
    tape = _tape("noisy_grid", Randomness(ExactNoise(), fresh_stream()))
    (entry,) = tape.entries
    entry.released[7] += 2.0**-22
    (sentence,) = low_bit_findings(tape)
    assert sentence.startswith("cell counts: 1 measured numbers")
    assert np.isfinite(entry.released).all()
