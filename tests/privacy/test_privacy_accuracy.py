"""Accuracy formulas: against simulation with the noise functions, closed forms and their inverses over decades."""

import math

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy.accuracy import (
    gaussian_sigma_for,
    gaussian_within,
    laplace_pair_beyond,
    laplace_scale_for,
    laplace_within,
    largest_laplace_bound,
    largest_laplace_scale_for,
    largest_laplace_within,
    lattice_laplace_within,
    ratio_within,
)
from privmix.privacy.exact import STEP, ExactNoise, laplace_steps
from privmix.privacy.noise import SeededNoise, stream

ALPHA = 1e-6  # probability that a correct formula fails one of the simulations
QUANTILE = 4.8916  # of the standard normal distribution, two-sided at ALPHA
DECADES = [10.0**power for power in range(-6, 7)]
PROBABILITIES = [0.5, 0.9, 0.95, 0.99, 1 - 1e-9]
DRAWS = 400_000


def rejects(kept: np.ndarray, probability: float) -> bool:
    """Return whether the share of kept promises differs from the probability at the level ALPHA."""
    error = math.sqrt(probability * (1 - probability) / kept.size)
    return abs(kept.mean() - probability) > QUANTILE * error


def seeded(*purpose):
    return SeededNoise(stream(20231, "accuracy", *purpose))


@pytest.mark.parametrize("scale", DECADES)
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_inverse_gives_the_scale_back_and_never_promises_too_much(scale, probability):
    for within, scale_for in ((laplace_within, laplace_scale_for), (gaussian_within, gaussian_sigma_for)):
        t = within(scale, probability)
        assert scale_for(t, probability) == pytest.approx(scale, rel=1e-12)
        assert within(scale_for(t, probability), probability) <= t


@pytest.mark.parametrize("numbers", [1, 2, 100, 10_000, 10**9])
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_largest_of_many_has_the_probability_of_its_closed_form(numbers, probability):
    t = largest_laplace_within(3.0, numbers, probability)
    kept = math.exp(numbers * math.log1p(-math.exp(-t / 3.0)))
    assert 1 - kept == pytest.approx(1 - probability, rel=1e-6)
    assert t <= largest_laplace_bound(3.0, numbers, probability)
    assert largest_laplace_scale_for(t, numbers, probability) == pytest.approx(3.0, rel=1e-12)
    assert (
        largest_laplace_within(largest_laplace_scale_for(t, numbers, probability), numbers, probability) <= t
    )


def test_ten_thousand_names_are_within_ln_of_200_000():
    assert (
        largest_laplace_bound(1.0, 10_000, 0.95)
        == pytest.approx(math.log(10_000 / 0.05))
        == 12.206072645530174
    )
    assert largest_laplace_within(1.0, 10_000, 0.95) == pytest.approx(12.1805, abs=1e-4)


@pytest.mark.parametrize(
    ("draw", "within"),
    [
        (lambda source, scale: source.add_laplace(np.zeros(DRAWS), scale), laplace_within),
        (lambda source, scale: source.add_gaussian(np.zeros(DRAWS), scale), gaussian_within),
    ],
)
@pytest.mark.parametrize("probability", [0.5, 0.95])
def test_simulated_noise_stays_within_with_exactly_this_probability(draw, within, probability):
    t = within(2.0, probability)
    assert not rejects(np.abs(draw(seeded(within.__name__, probability), 2.0)) <= t, probability)
    assert rejects(np.abs(draw(seeded("small", within.__name__, probability), 0.97 * 2.0)) <= t, probability)


def test_the_largest_of_simulated_noise_stays_within_with_exactly_this_probability():
    t = largest_laplace_within(1.0, 50, 0.95)
    rounds = seeded("largest").add_laplace(np.zeros((60_000, 50)), 1.0)
    assert not rejects(np.abs(rounds).max(axis=1) <= t, 0.95)
    assert rejects(np.abs(0.97 * rounds).max(axis=1) <= t, 0.95)


@pytest.mark.parametrize("scale", [STEP / 3, 3 * STEP, 40 * STEP, 1.0, 250.0])
@pytest.mark.parametrize("probability", [0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("numbers", [1, 1000])
def test_the_distance_on_the_lattice_is_the_smallest_one(scale, probability, numbers):
    t = lattice_laplace_within(scale, probability, numbers=numbers)
    steps = round(t / STEP)
    s = laplace_steps(scale)

    def kept(k):
        return (1 - 2 * math.exp(-(k + 1) / s) / (1 + math.exp(-1 / s))) ** numbers

    assert t == steps * STEP
    assert kept(steps) >= probability - 1e-12
    assert steps == 0 or kept(steps - 1) < probability + 1e-12


def test_noise_of_a_release_stays_within_the_distance_on_the_lattice():
    noise = ExactNoise().add_laplace(np.zeros(20_000), 4 * STEP)
    t = lattice_laplace_within(4 * STEP, 0.9)
    q = math.exp(-1 / laplace_steps(4 * STEP))
    exactly = 1 - 2 * q ** (round(t / STEP) + 1) / (1 + q)
    assert exactly >= 0.9
    assert not rejects(np.abs(noise) <= t, exactly)
    assert rejects(np.abs(noise) <= t - STEP, exactly)


def test_on_a_fine_lattice_the_distance_is_that_of_continuous_noise():
    for scale in (0.1, 1.0, 1000.0):
        assert lattice_laplace_within(scale, 0.95) == pytest.approx(laplace_within(scale, 0.95), abs=8 * STEP)


@pytest.mark.parametrize("second", [0.0, 1e-9, 0.3, 1 - 1e-9, 1.0, 1 + 1e-9, 4.0])
@pytest.mark.parametrize("distance", [1e-6, 0.5, 3.0, 40.0])
def test_the_tail_of_two_laplace_numbers_is_their_convolution(second, distance):
    beyond = laplace_pair_beyond(1.0, second, distance)
    if second == 0:
        assert beyond == math.exp(-distance)
        return
    y = (
        np.concatenate([-np.geomspace(1e-12, 60, 200_000)[::-1], [0.0], np.geomspace(1e-12, 60, 200_000)])
        * second
    )
    upper = np.where(
        y <= distance,
        0.5 * np.exp(-np.maximum(distance - y, 0)),
        1 - 0.5 * np.exp(-np.maximum(y - distance, 0)),
    )
    density = np.exp(-np.abs(y) / second) / (2 * second)
    assert beyond == pytest.approx(2 * np.trapezoid(upper * density, y), rel=1e-5)
    assert beyond == laplace_pair_beyond(second, 1.0, distance)


@pytest.mark.parametrize(("ratio", "records"), [(0.0, 400.0), (0.5, 400.0), (-1.0, 60.0), (30.0, 2000.0)])
def test_a_simulated_ratio_stays_within_its_distance(ratio, records):
    t = ratio_within(2.0, 3.0, ratio=ratio, records=records, probability=0.95)
    sums = seeded("sum", ratio).add_laplace(np.full(DRAWS, ratio * records), 2.0)
    numbers = seeded("number", ratio).add_laplace(np.full(DRAWS, records), 3.0)
    assert not rejects(np.abs(sums / numbers - ratio) <= t, 0.95)
    smaller = ratio + ((sums - ratio * numbers) * 0.97) / numbers
    assert rejects(np.abs(smaller - ratio) <= t, 0.95)


def test_without_noise_on_the_count_a_ratio_is_a_number_with_laplace_noise():
    t = ratio_within(5.0, 0.0, ratio=7.0, records=200.0, probability=0.95)
    assert t == pytest.approx(laplace_within(5.0 / 200, 0.95), rel=1e-9)


def test_a_ratio_of_few_records_with_a_noisy_count_stays_within_no_distance():
    assert ratio_within(1.0, 10.0, ratio=0.5, records=20.0, probability=0.95) == math.inf
    assert ratio_within(1.0, 10.0, ratio=0.5, records=31.0, probability=0.95) < math.inf


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 95.0, math.nan])
def test_an_impossible_probability_is_refused_by_all(probability):
    for formula in (
        lambda: laplace_within(1.0, probability),
        lambda: laplace_scale_for(1.0, probability),
        lambda: gaussian_within(1.0, probability),
        lambda: gaussian_sigma_for(1.0, probability),
        lambda: largest_laplace_within(1.0, 2, probability),
        lambda: largest_laplace_bound(1.0, 2, probability),
        lambda: lattice_laplace_within(1.0, probability),
        lambda: ratio_within(1.0, 1.0, ratio=0.5, records=100.0, probability=probability),
    ):
        with pytest.raises(UserError, match="strictly between 0 and 1"):
            formula()
