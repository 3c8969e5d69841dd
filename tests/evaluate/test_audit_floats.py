"""The float audit: every mechanism passes with the noise of a release, and none with that of a benchmark."""

import numpy as np
import pytest
from making import PRIVATE, clusters, make_spec, quick_mechanism

from privmix.evaluate.audit.floats import CONTINUOUS, low_bits
from privmix.mechanisms.base import Randomness, Records, seeded
from privmix.mechanisms.running import run
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import ExactNoise
from privmix.privacy.streams import fresh
from privmix.privacy.witness import Witness


def _tape(name, randomness):
    spec, witness = make_spec(rows=300), Witness(randomness.noise)
    mechanism = quick_mechanism(name)
    run(mechanism, Records(clusters(300)), spec, Budget(1.0, 1e-6), Randomness(witness, randomness.search))
    return witness.tape


@pytest.mark.parametrize("name", PRIVATE)
def test_what_a_release_gives_out_lies_on_the_lattice(name):
    assert low_bits(_tape(name, Randomness(ExactNoise(), fresh()))) == []


@pytest.mark.parametrize("name", PRIVATE)
def test_what_a_benchmark_gives_out_is_found(name):
    tape = _tape(name, seeded(1, name))
    continuous = {entry.event.label for entry in tape.entries if isinstance(entry.law, CONTINUOUS)}
    assert {sentence.partition(":")[0] for sentence in low_bits(tape)} == continuous


def test_one_number_off_the_lattice_is_enough():
    tape = _tape("noisy_grid", Randomness(ExactNoise(), fresh()))
    (entry,) = tape.entries
    entry.released[7] += 2.0**-22
    (sentence,) = low_bits(tape)
    assert sentence.startswith("cell counts: 1 released numbers")
    assert np.isfinite(entry.released).all()
