"""Recording every mechanism: it gives the same result as without, and nothing but its measurements gets out."""

import copy
import math

import numpy as np
import pytest
from making import PRIVATE, clusters, make_mechanism, make_spec, quick_mechanism

from privmix.audit.recording import RecordingNoise, ReplayedNoise, ReplayMismatch, StopRun
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.run import run
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import SeededNoise

BUDGET = Budget(1.0, 1e-6)
PEOPLE = 100
LIMIT = 3


def _worlds(spec, relation):
    """Return records with the last unit in one corner, and the same with it in the other corner, or without it."""
    points = clusters(PEOPLE * LIMIT)
    own = slice(-LIMIT, None) if spec.domain.unit == "person" else slice(-1, None)
    codes = {"colour": np.arange(len(points)) % 3}
    persons = np.repeat(np.arange(PEOPLE), LIMIT)
    points[own] = spec.domain.upper
    mine = Records(points, codes, persons)
    if relation == "add_remove":
        return mine, mine.select(np.arange(len(points))[: own.start])
    points, other = points.copy(), {"colour": codes["colour"].copy()}
    points[own], other["colour"][own] = spec.domain.lower, 1 - codes["colour"][own].clip(0, 1)
    return mine, Records(points, other, persons)


def _spec(unit, relation, **more):
    return make_spec(
        rows=PEOPLE * LIMIT, unit=unit, relation=relation, max_records=LIMIT if unit == "person" else 1,
        attributes=[("colour", ("red", "green", "blue"))], **more,
    )  # fmt: skip


def _played(mechanism, spec, noise, records, search):
    return run(mechanism, records, spec, BUDGET, Randomness(noise, copy.deepcopy(search)))


def _assert_same_output(found, wanted):
    for part in ("weights", "means", "covariances"):
        assert np.array_equal(getattr(found.mixture, part), getattr(wanted.mixture, part)), part
    assert (found.events, found.claim, found.transcript) == (wanted.events, wanted.claim, wanted.transcript)
    assert (found.proportions, found.notes) == (wanted.proportions, wanted.notes)


@pytest.mark.parametrize("name", PRIVATE)
def test_recording_changes_nothing(name):
    spec, mechanism = _spec("record", "replace_one"), quick_mechanism(name)
    records, randomness = _worlds(spec, "replace_one")[0], seeded_randomness(1, name)
    watched = _played(
        mechanism, spec, RecordingNoise(copy.deepcopy(randomness.noise)), records, randomness.search
    )
    plain = _played(mechanism, spec, randomness.noise, records, randomness.search)
    _assert_same_output(watched, plain)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("name", PRIVATE)
def test_with_fixed_measurements_the_output_does_not_depend_on_the_records(name, unit, relation):
    """And no measurement moves by more than its noise was scaled for."""
    spec, mechanism, randomness = _spec(unit, relation), quick_mechanism(name), seeded_randomness(2, name)
    mine, other = _worlds(spec, mechanism.relation(spec).relation)
    witness = RecordingNoise(randomness.noise)
    first = _played(mechanism, spec, witness, mine, randomness.search)
    replay = ReplayedNoise(witness.recording, randomness.noise)
    _assert_same_output(_played(mechanism, spec, replay, other, randomness.search), first)
    assert len(replay.entries) == len(witness.recording.entries) > 0
    for here, there in zip(witness.recording.entries, replay.entries, strict=True):
        found = here.law.distance(here.released, here.statistic, there.statistic)
        assert found <= _limit(here.event) * (1 + 1e-9), here.event.label


def _limit(event):
    return 1 / event.noise_multiplier if hasattr(event, "noise_multiplier") else event.epsilon


def test_the_choice_of_the_number_of_components_too():
    spec, randomness = _spec("record", "replace_one"), seeded_randomness(2, "choice")
    spec = type(spec)(spec.domain, 4, candidates=(1, 2, 4))
    mine, other = _worlds(spec, "replace_one")
    witness, mechanism = RecordingNoise(randomness.noise), make_mechanism("dp_em")
    first = _played(mechanism, spec, witness, mine, randomness.search)
    replay = ReplayedNoise(witness.recording, randomness.noise)
    _assert_same_output(_played(mechanism, spec, replay, other, randomness.search), first)
    assert "selection" in {entry.event.kind for entry in witness.recording.entries}


class Leaking(type(make_mechanism("dp_em"))):
    """DP-EM whose notes reveal the number of records in a place."""

    def fit(self, view, spec, budget, rng):
        release = super().fit(view, spec, budget, rng)
        release.notes.append(str(int((view.points[:, 0] > 0.6).sum())))
        return release


def test_an_exact_count_beside_the_measurements_is_seen():
    spec, randomness = _spec("record", "replace_one"), seeded_randomness(2, "leak")
    mine, other = _worlds(spec, "replace_one")
    witness = RecordingNoise(randomness.noise)
    first = _played(Leaking(), spec, witness, mine, randomness.search)
    again = _played(
        Leaking(), spec, ReplayedNoise(witness.recording, randomness.noise), other, randomness.search
    )
    assert first.notes != again.notes


def test_a_sampled_unit_can_be_put_into_every_sample():
    spec, randomness = _spec("record", "add_remove"), seeded_randomness(2, "sampled")
    mechanism = make_mechanism("dp_sgd", steps=5, batch=10)
    mine, other = _worlds(spec, "add_remove")
    witness = RecordingNoise(randomness.noise)
    _played(mechanism, spec, witness, other, randomness.search)
    within, without = (
        ReplayedNoise(witness.recording, randomness.noise, sampled=flag) for flag in (True, False)
    )
    _played(mechanism, spec, within, mine, randomness.search)
    _played(mechanism, spec, without, other, randomness.search)
    moved = [
        here.law.distance(here.released, here.statistic, there.statistic)
        for here, there in zip(within.entries, without.entries, strict=True)
        if here.event.kind == "sampled_gaussian"
    ]
    assert len(moved) == 5
    assert min(moved) > 0


def test_a_mechanism_that_acts_differently_is_named():
    source = SeededNoise(np.random.Generator(np.random.PCG64(1)))
    witness = RecordingNoise(source)
    with pytest.raises(ReplayMismatch, match="extra draw"):
        ReplayedNoise(witness.recording, source).uniform((3,))
    with pytest.raises(ReplayMismatch, match="outside of a measurement"):
        ReplayedNoise(witness.recording, source).add_laplace(np.zeros(3), 1.0)
    assert math.isclose(ReplayedNoise(witness.recording, source).rounding(3, 2), 0.0)


def test_noise_outside_of_a_measurement_is_recorded():
    witness = RecordingNoise(SeededNoise(np.random.Generator(np.random.PCG64(1))))
    witness.add_gaussian(np.zeros(3), 1.0)
    assert witness.recording.unaccounted == ["gaussian"]


@pytest.mark.parametrize("name", ["dp_em", "noisy_tree", "laplace_input"])
def test_a_short_replay_sees_every_statistic_and_stops(name):
    spec, mechanism, randomness = (
        _spec("record", "replace_one"),
        quick_mechanism(name),
        seeded_randomness(2, name),
    )
    mine, other = _worlds(spec, "replace_one")
    witness = RecordingNoise(randomness.noise)
    _played(mechanism, spec, witness, mine, randomness.search)
    assert witness.recording.unaccounted == []
    replay = ReplayedNoise(witness.recording, randomness.noise, short=True)
    with pytest.raises(StopRun):
        _played(mechanism, spec, replay, other, randomness.search)
    assert len(replay.entries) == len(witness.recording.entries)
