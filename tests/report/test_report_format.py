import math

import pytest

from privmix.report import format
from privmix.report.results import estimate


def spaced(text: str) -> str:
    return text.replace(format.SPACE, " ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.66, "66 %"),
        (0.046, "4.6 %"),
        (0.07, "7 %"),
        (0.997, "99.7 %"),
        (0.9999, "over 99.9 %"),
        (1.0, "100 %"),
        (1.034, "103 %"),
        (0.0, "0 %"),
        (0.00001, "less than 0.01 %"),
        (0.0005, "0.05 %"),
        (-0.03, "−3 %"),
        (math.inf, "more than 10,000,000 %"),
    ],
)
def test_percent_never_rounds_to_a_false_zero_or_hundred(share, text):
    assert spaced(format.percent(share)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.0001, "0.000"), (-0.0234, "−0.023"), (-1.641, "−1.64"), (-23.46, "−23.5"), (-math.inf, "−∞")],
)
def test_nats_have_fewer_decimals_for_large_values(value, text):
    assert format.nats(value) == text


@pytest.mark.parametrize(
    ("kilometres", "text"),
    [(2e-15, "less than 1 m"), (0.32, "320 m"), (0.9999, "1.0 km"), (3.24, "3.2 km"), (2812.4, "2,812 km")],
)
def test_distances_have_a_fitting_unit(kilometres, text):
    assert spaced(format.distance(kilometres)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1e-6, "10⁻⁶"), (2.5e-7, "2.5·10⁻⁷"), (0.1, "0.1"), (10.0, "10"), (math.inf, "∞")]
)
def test_parameters_are_written_as_people_write_them(value, text):
    assert format.plain(value) == text


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [(0.1, "×1.11"), (1.0, "×2.72"), (3.0, "×20.1"), (10.0, "×22,026"), (30.0, "×1.07·10¹³")],
)
def test_odds_are_the_exponential_of_epsilon(epsilon, text):
    assert format.odds(epsilon) == text


def test_the_nearest_distance_has_the_number_of_replicates():
    assert spaced(format.nearest([0.0002, 0.0009, 31.0])) == "less than 1 m in 2 of 3"
    assert spaced(format.nearest([31.0])) == "31 km"


def test_nouns_agree_with_their_number():
    assert spaced(format.count(1, "replicate")) == "1 replicate"
    assert spaced(format.count(12345, "record")) == "12,345 records"
    assert spaced(format.count(2, "person", "people")) == "2 people"
    assert format.listing(["a"]) == "a"
    assert format.listing(["a", "b", "c"]) == "a, b and c"


def test_one_replicate_has_no_interval():
    assert format.interval(estimate([1.0])) == "one replicate, so no interval"
    assert "over 2 replicates" in format.interval(estimate([1.0, 2.0]))
    assert format.plus_minus(estimate([1.0])) == "1.00"
    assert "±" in format.plus_minus(estimate([1.0, 2.0]))
