"""Tests of noise: correct noise passes at the stated rate, and each kind of error is found."""

import numpy as np
import pytest
from scipy import stats

from privmix.audit.noise_tests import WINDOW, NoiseDraw, find_copies, noise_findings
from privmix.privacy.noise_distributions import GaussianNoise, LaplaceNoise, OracleNoise

RUNS, TURNS, NUMBERS = 3, 4, 12


def _rng(*seed):
    return np.random.Generator(np.random.PCG64(seed))


def _drawn(rng, change=lambda noise, run, turn: noise, *, label="sums", numbers=NUMBERS, law=GaussianNoise):
    """Return the measurements of a label over some runs; `change` makes their scaled noise wrong."""
    found = []
    for run in range(RUNS):
        for turn in range(TURNS):
            noise = rng.normal(size=numbers) if law is GaussianNoise else rng.laplace(size=numbers)
            noise = np.asarray(change(noise, run, turn), dtype=float)
            scores = law(1.0).scores(noise, np.zeros(len(noise)), rng)
            found.append(NoiseDraw(label, run, turn, law(1.0), scores, noise))
    return found


def _answered(rng, truth=0.4, told=0.4, coins=None):
    """Return the reports of 200 persons to one question in each run, true at the rate `told`."""
    law = OracleNoise(1.0, truth, lambda reports, codes: reports == codes)
    found = []
    for run in range(RUNS):
        drawn = rng.random(200) if coins is None else coins
        reports, codes = (drawn < told).astype(int), np.ones(200, dtype=int)
        scores = law.scores(reports, codes, rng)
        found.append(NoiseDraw("cell", run, 0, law, scores, law.noise(reports, codes)))
    return found


@pytest.mark.slow
def test_correct_noise_is_suspected_as_rarely_as_stated():
    """1,000 verdicts at an alarm of 5 %: more than 80 happen once in 40,000 times; fewer than 10 hardly ever.

    The tests depend on each other, so Bonferroni's bound is not reached, but the rate is close enough to be useful.
    """
    alarms = 0
    for number in range(1000):
        rng = _rng(1, number)
        drawn = [
            *_drawn(rng),
            *_drawn(rng, label="counts", law=LaplaceNoise, numbers=30),
            *_answered(rng),
        ]
        alarms += bool(noise_findings(drawn, rng, alarm=0.05))
    assert stats.binom.sf(80, 1000, 0.05) < 2.5e-5
    assert 10 <= alarms <= 80


@pytest.mark.parametrize("law", [GaussianNoise, LaplaceNoise])
def test_correct_noise_passes(law):
    assert noise_findings(_drawn(_rng(2), law=law), _rng(3)) == []
    assert noise_findings(_answered(_rng(2)), _rng(3)) == []


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("law", [GaussianNoise, LaplaceNoise])
def test_noise_of_another_scale_is_found(law, factor):
    found = noise_findings(_drawn(_rng(4), lambda noise, run, turn: factor * noise, law=law), _rng(5))
    size = "small" if factor < 1 else "large"
    assert any(f"sums: the noise is too {size}" in sentence for sentence in found)


def test_one_measurement_or_one_block_of_the_wrong_scale_is_found():
    def last(noise, run, turn):
        return noise * (0.3 if turn == TURNS - 1 else 1.0)

    (sentence,) = noise_findings(_drawn(_rng(6), last, numbers=20), _rng(7))
    assert sentence.startswith("sums, measurement 4: the noise is too small")

    def first_block(noise, run, turn):
        return np.concatenate([0.3 * noise[:5], noise[5:]])

    (sentence,) = noise_findings(_drawn(_rng(6), first_block, numbers=20), _rng(7))
    assert sentence.startswith("sums, quarter 1 of its numbers: the noise is too small")


def test_noise_of_another_shape_is_found():
    """Uniform numbers of variance 1: the sum of squares does not tell them from normal ones."""
    rng = _rng(8)
    found = noise_findings(
        _drawn(rng, lambda noise, run, turn: rng.uniform(-(3**0.5), 3**0.5, 400), numbers=400), _rng(9)
    )
    assert any("noise values is" in sentence for sentence in found)


def test_a_shifted_mean_is_found():
    found = noise_findings(_drawn(_rng(10), lambda noise, run, turn: noise + 0.6), _rng(11))
    assert any("the mean of the noise" in sentence for sentence in found)


@pytest.mark.parametrize("factor", [1.0, -1.0, 3.0])
def test_the_same_noise_in_each_iteration_is_found_at_any_scale(factor):
    fixed = _rng(12).normal(size=(RUNS, NUMBERS))
    found = find_copies(_drawn(_rng(13), lambda noise, run, turn: fixed[run] * factor**turn))
    assert len(found) == 1
    assert "the noise is reused" in found[0]


def test_the_same_noise_in_each_run_is_found_even_if_it_is_shifted():
    tape = _rng(14).normal(size=500)
    assert find_copies(_drawn(_rng(15), lambda noise, run, turn: tape[37 * run + 12 * turn :][:NUMBERS]))


def test_fresh_noise_repeats_nothing():
    assert find_copies(_drawn(_rng(16), numbers=20_000)) == []
    lattice = _drawn(_rng(17), lambda noise, run, turn: np.rint(64 * noise) / 64, numbers=5000)
    assert find_copies(lattice) == []


def test_a_copy_of_a_few_numbers_is_found():
    copied = _drawn(_rng(18), numbers=1000)
    copied[5].noise[100 : 100 + WINDOW] = copied[1].noise[7 : 7 + WINDOW]
    assert find_copies(copied)


def test_correlated_noise_is_found():
    """Half of the noise is shared between adjacent numbers, between measurements, and between runs."""
    common = _rng(19).normal(size=(RUNS, 200))

    def mixed(parts):
        return lambda noise, run, turn: (noise + parts(run, turn)) / 2**0.5

    def noisy(parts):
        return noise_findings(_drawn(_rng(20), mixed(parts), numbers=200), _rng(21))

    assert any(
        "one measurement is correlated with that of the next" in each
        for each in noisy(lambda run, _: common[run])
    )
    by_turn = _rng(22).normal(size=(TURNS, 200))
    assert any(
        "one run is correlated with that of the next" in each for each in noisy(lambda _, turn: by_turn[turn])
    )
    found = noise_findings(
        _drawn(_rng(23), lambda noise, run, turn: (noise + np.roll(noise, 1)) / 2**0.5, numbers=200), _rng(24)
    )
    assert any("adjacent numbers of the noise are correlated" in sentence for sentence in found)


def test_reports_that_are_true_too_often_are_found():
    assert any("cell" in sentence for sentence in noise_findings(_answered(_rng(25), told=0.6), _rng(26)))


def test_the_same_coins_in_each_run_are_found():
    coins = _rng(27).random(200)
    found = noise_findings(_answered(_rng(28), coins=coins), _rng(29))
    assert any("cell: the noise of one run is correlated" in sentence for sentence in found)


def test_no_noise_gives_no_finding():
    assert noise_findings([], _rng(30)) == []
