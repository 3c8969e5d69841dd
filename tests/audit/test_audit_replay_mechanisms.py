"""DP-EM replayed: every measured number is the exact statistic plus the noise that was drawn for it.

Each iteration follows only from measured numbers.
"""

import math

import numpy as np
import pytest
from making import Tape, clusters, make_spec

from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.central import dp_em
from privmix.mixture import em, kernel
from privmix.mixture.moments import Moments, Prior, estimate, observe
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import stream

COMPONENTS, ITERATIONS, BUDGET = 3, 4, Budget(50.0, 1e-6)
UPPER = np.triu_indices(2)


@pytest.fixture(
    params=[("llg", "replace_one"), ("llg", "add_remove"), ("ggg", "replace_one"), ("ggg", "add_remove")]
)
def played(request, monkeypatch):
    """A run with its recording, and the mixture that each pass over the data used."""
    noise, relation = request.param
    spec, used, original = make_spec(rows=1000, relation=relation), [], kernel.em_pass
    monkeypatch.setattr(
        kernel, "em_pass", lambda data, mixture: (used.append(mixture), original(data, mixture))[1]
    )
    mechanism = dp_em.DpEm(noise=noise, composition="linear", iterations=ITERATIONS)
    tape = Tape(seeded_randomness(3, noise, relation).noise)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, Randomness(tape, stream(1, "search")))
    monkeypatch.undo()
    return mechanism, spec, release, used, tape.drawn


def _exact(mixture):
    return kernel.em_pass(observe(clusters()), mixture)


def test_every_measurement_is_the_statistic_plus_its_noise_over_the_noisy_count(played):
    _, spec, release, used, drawn = played
    size = 1000 if spec.domain.relation == "replace_one" else 1
    assert len(drawn) == ITERATIONS * (2 * COMPONENTS + 1)
    taken = iter(drawn)
    for mixture, step in zip(used, release.transcript, strict=True):
        exact, counts = _exact(mixture), np.array(step["counts"])
        assert counts == pytest.approx(np.maximum(exact.counts + size * next(taken)[1], 1.0))
        for k in range(COMPONENTS):
            assert step["sums"][k] == pytest.approx(exact.sums[k] + counts[k] * next(taken)[1], abs=1e-8)
        for k in range(COMPONENTS):
            noisy = exact.squares[k][UPPER] + counts[k] * next(taken)[1]
            assert np.array(step["squares"][k])[UPPER] == pytest.approx(noisy, abs=1e-8)


def test_every_scale_follows_the_noisy_count(played):
    mechanism, spec, release, _, drawn = played
    share = mechanism.share(COMPONENTS, BUDGET)
    opposed, aligned = (spec.neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    block = 2 * COMPONENTS + 1
    for number, step in enumerate(release.transcript):
        scales = [scale for scale, _ in drawn[block * number : block * (number + 1)]]
        for k, count in enumerate(step["counts"]):
            l1 = math.sqrt(2) * opposed / count / share.laplace_epsilon
            wanted = l1 if mechanism.noise == "llg" else opposed / count * share.noise_multiplier
            assert scales[1 + k] == pytest.approx(wanted, rel=1e-9)
            second = aligned / count * share.noise_multiplier
            assert scales[1 + COMPONENTS + k] == pytest.approx(second, rel=1e-9)


def test_no_noise_is_used_twice(played):
    standard = np.concatenate([np.ravel(noise / scale) for scale, noise in played[4]])
    assert len(np.unique(standard)) == len(standard)


def test_each_iteration_uses_only_earlier_measurements(played):
    """The next mixture is recomputed from the transcript and public values: no count, bound or stop from the data."""
    mechanism, spec, release, used, _ = played
    start = em.public_start(spec.domain.lower, spec.domain.upper, COMPONENTS, stream(1, "search"))
    assert np.array_equal(used[0].means, start.means)
    share = mechanism.share(COMPONENTS, BUDGET)
    opposed, aligned = (spec.neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    of_means = math.sqrt(2) / share.laplace_epsilon if mechanism.noise == "llg" else share.noise_multiplier
    assert len(release.transcript) == ITERATIONS
    for step, following in zip(release.transcript, [*used[1:], release.mixture], strict=True):
        counts = np.array(step["counts"])
        released = Moments(counts, np.array(step["sums"]), np.array(step["squares"]), math.nan, counts.sum())
        least = aligned * share.noise_multiplier / counts + (opposed * of_means / counts) ** 2
        again = dp_em._project_to_box(estimate(released, floor=spec.floor, prior=Prior()), spec, least)
        assert following.weights == pytest.approx(again.weights, abs=1e-12)
        assert following.means == pytest.approx(again.means, abs=1e-12)
        assert following.covariances == pytest.approx(again.covariances, abs=1e-12)


def test_records_outside_the_box_count_as_on_its_edge():
    spec, far = make_spec(rows=50), np.full((50, 2), 30.0)
    edge = np.tile(spec.domain.upper, (50, 1))
    releases = [
        dp_em.DpEm(iterations=1).fit(Records(points), spec, BUDGET, seeded_randomness(1, "edge"))
        for points in (far, edge)
    ]
    assert releases[0].transcript == releases[1].transcript


@pytest.mark.parametrize("points", [np.zeros((1000, 2)), clusters()], ids=["one place", "clusters"])
def test_the_number_of_iterations_does_not_depend_on_the_data(points):
    """The measurements go on after the likelihood has converged: stopping would reveal something about the data."""
    release = dp_em.DpEm(iterations=40).fit(
        Records(points), make_spec(rows=1000), Budget(5000.0, 1e-6), seeded_randomness(1, "long")
    )
    assert len(release.transcript) == 40
