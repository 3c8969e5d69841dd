"""Noisy numbers: brute-force sensitivity, promises kept by the noise of benchmarks and releases, and the smallest ε."""

import itertools
import math

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy.accuracy import laplace_within, lattice_laplace_within
from privmix.privacy.exact import STEP, ExactNoise, laplace_steps
from privmix.privacy.noise import SeededNoise, stream, with_rounding
from privmix.privacy.noisy_numbers import Count, CountTable, Mean, smallest_epsilon
from privmix.privacy.sensitivity import Neighbours

ALPHA_QUANTILE = 4.7534  # of the standard normal distribution, one-sided at 1e-6
DRAWS = 400_000
EVERYBODY = [
    Neighbours(unit, relation, records)
    for unit, relation, records in [
        ("record", "replace_one", 1),
        ("record", "add_remove", 1),
        ("person", "replace_one", 3),
        ("person", "add_remove", 3),
    ]
]
PROMISES = [
    Count(Neighbours("record", "replace_one")),
    CountTable(7, Neighbours("person", "replace_one", 3)),
    CountTable(1000, Neighbours("record", "add_remove")),
    *(Mean(0, 120, 20_000, each) for each in EVERYBODY),
    Mean(-5, 5, 60, Neighbours("record", "add_remove")),
]


def contributions(neighbours: Neighbours) -> list[tuple[float, ...]]:
    """Return all sets of records that one unit can have, with values at the bounds and in the middle of (0, 1)."""
    sizes = [1] if neighbours.unit == "record" else range(1, neighbours.max_records + 1)
    found = [records for size in sizes for records in itertools.product((0.0, 0.5, 1.0), repeat=size)]
    return [(), *found] if neighbours.unit == "person" or neighbours.relation == "add_remove" else found


def pairs(neighbours: Neighbours):
    """Return what the unit has in one dataset and in its neighbour."""
    units = contributions(neighbours)
    if neighbours.relation == "add_remove":
        return [(unit, ()) for unit in units]
    return list(itertools.product(units, units))


@pytest.mark.parametrize("neighbours", EVERYBODY)
def test_no_unit_moves_a_number_by_more_than_its_sensitivity_and_one_reaches_it(neighbours: Neighbours):
    def cells(unit):
        return np.bincount([int(2 * value) for value in unit], minlength=3)

    ways = pairs(neighbours)
    count = max(abs(sum(value == 1 for value in a) - sum(value == 1 for value in b)) for a, b in ways)
    table = max(np.abs(cells(a) - cells(b)).sum() for a, b in ways)
    total = max(abs(sum(2 * value - 1 for value in a) - sum(2 * value - 1 for value in b)) for a, b in ways)
    pair = max(
        abs(sum(2 * value - 1 for value in a) - sum(2 * value - 1 for value in b)) + abs(len(a) - len(b))
        for a, b in ways
    )
    assert Count(neighbours).sensitivity == count
    assert CountTable(3, neighbours).sensitivity == table
    assert Mean(0, 1, 100, neighbours).sensitivity == (total if neighbours.size_is_public else pair)


def missed(draws: np.ndarray, truth: float, within: float) -> int:
    return int((np.abs(draws - truth) > within).sum())


def too_often(misses: int, draws: int, allowed: float) -> bool:
    return misses > draws * allowed + ALPHA_QUANTILE * math.sqrt(draws * allowed * (1 - allowed))


@pytest.mark.parametrize("number", PROMISES, ids=str)
def test_noise_stays_within_the_promised_distance_and_leaves_a_distance_3_percent_smaller(number):
    """The mean lies at a bound, where its noise is largest. One cell of a table fails 1 - p^(1/k) of the time."""
    distance = 0.5 if isinstance(number, Mean) else 40.0
    epsilon = smallest_epsilon(number, distance, 0.95)
    within = number.within(epsilon, 0.95)
    truth = number.upper if isinstance(number, Mean) else 1e4
    allowed = -math.expm1(math.log(0.95) / number.cells) if isinstance(number, CountTable) else 0.05
    times = 40 * DRAWS if allowed < 1e-3 else DRAWS
    draws = number.draw(truth, times, epsilon, SeededNoise(stream(4711, "noisy numbers", repr(number))))
    assert not too_often(missed(draws, truth, within), times, allowed)
    assert too_often(missed(draws, truth, 0.97 * within), times, allowed)


@pytest.mark.parametrize("number", [PROMISES[0], PROMISES[3], PROMISES[4]], ids=str)
def test_the_noise_of_a_release_keeps_the_promise_of_the_smallest_epsilon(number):
    within = 0.5 if isinstance(number, Mean) else 40.0
    epsilon = smallest_epsilon(number, within, 0.9)
    draws = number.draw(100.0, 30_000, epsilon, ExactNoise())
    assert not too_often(missed(draws, 100.0, within), 30_000, 0.1)


@pytest.mark.parametrize("number", PROMISES, ids=str)
@pytest.mark.parametrize("within", [0.01, 0.25, 3.0])
def test_the_smallest_epsilon_is_enough_and_one_unit_of_its_last_digit_less_is_not(number, within):
    epsilon = smallest_epsilon(number, within, 0.95)
    assert float(f"{epsilon:.2e}") == epsilon
    assert number.within(epsilon, 0.95) <= within
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    assert number.within(epsilon - 1.01 * unit, 0.95) > within


@pytest.mark.parametrize("number", PROMISES, ids=str)
def test_the_promise_is_for_at_least_the_scale_that_a_release_draws(number):
    """A release rounds the contributions and their sum; its scale must not exceed the one behind the distance."""
    coordinates = {Count: 1, Mean: 1 if number.neighbours.size_is_public else 2}.get(type(number), 2)
    source = ExactNoise()
    reach = with_rounding(number.sensitivity, coordinates, 1, neighbours=number.neighbours, source=source)
    scale = (reach + source.rounding(coordinates, 1)) / 2.0
    if isinstance(number, Mean):
        released = laplace_within(laplace_steps(scale) * STEP, 0.95) / number.rows * number.half_range
    else:
        cells = number.cells if isinstance(number, CountTable) else 1
        released = lattice_laplace_within(scale, 0.95, numbers=cells)
    assert number.within(2.0, 0.95) >= released


def test_a_mean_of_a_public_number_of_records_has_the_closed_form():
    mean = Mean(0, 120, 20_000, Neighbours("record", "replace_one"))
    assert mean.within(1.0, 0.95) == pytest.approx(120 / 20_000 * math.log(20), rel=1e-1)
    assert smallest_epsilon(mean, 0.5, 0.95) == pytest.approx(120 / 20_000 * math.log(20) / 0.5, rel=2e-2)


def test_ten_thousand_names_need_an_epsilon_of_one():
    table = CountTable(10_000, Neighbours("record", "add_remove"))
    assert smallest_epsilon(table, 12.2, 0.95) == 0.999
    assert smallest_epsilon(CountTable(10_000, Neighbours("record", "replace_one")), 12.2, 0.95) == 2.0


def test_ten_thousand_names_of_a_release_stay_within_the_bound_of_the_union_with_probability_095():
    """The exact probability on the lattice is .9512; 300 releases of 10,000 numbers agree at the level 1e-6."""
    kept = sum(
        np.abs(SeededNoise(stream(99, run)).add_laplace(np.zeros(10_000), 1.0)).max()
        <= math.log(10_000 / 0.05)
        for run in range(2000)
    )
    assert abs(kept / 2000 - 0.9512) < 4.9 * math.sqrt(0.9512 * 0.0488 / 2000)


def test_the_mean_of_few_records_whose_number_is_private_needs_a_large_epsilon():
    few = Mean(0, 1, 3, Neighbours("record", "add_remove"))
    assert few.within(0.5, 0.95) == math.inf
    assert few.within(100.0, 0.95) < 0.1


def test_a_distance_below_the_lattice_is_refused():
    with pytest.raises(UserError, match="no ε up to"):
        smallest_epsilon(Mean(0, 1, 100, Neighbours("record", "replace_one")), 1e-7, 0.95)
