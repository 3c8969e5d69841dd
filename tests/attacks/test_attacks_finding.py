"""Findings: intervals against scipy and by simulation, the baseline, and a sentence for too few people."""

import numpy as np
import pytest
from scipy.stats import binomtest

from privmix.attacks.finding import (
    Finding,
    NotMeasured,
    compare,
    mean_by_person,
    paired_interval,
    wilson_interval,
)


@pytest.mark.parametrize(("hits", "people"), [(0, 30), (1, 30), (15, 30), (30, 30), (123, 1000)])
def test_the_interval_of_a_rate_is_wilsons(hits: int, people: int):
    expected = binomtest(hits, people).proportion_ci(0.95, "wilson")
    assert wilson_interval(hits / people, people) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("related", [0.0, 0.9, -0.9])
def test_the_interval_of_a_gain_covers_the_truth(related: float):
    """Each of 1,000 intervals covers with 95 %: 920 or more do, but for a chance of about 1e-5."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        first = rng.random(80)
        second = np.where(rng.random(80) < abs(related), first if related >= 0 else 1 - first, rng.random(80))
        low, high = paired_interval(1.0 * (first < 0.6), 1.0 * (second < 0.4))
        covered += low <= 0.2 <= high
    assert covered >= 920


def test_a_finding_says_how_many_people_beyond_the_population():
    hits = np.arange(100) < 40
    found = compare("attack", hits, np.arange(100) < 10, population=1000)
    assert (found.rate, found.baseline, found.lift) == (0.4, 0.1, pytest.approx(4))
    assert found.disclosed == 300
    assert found.beats_population
    same = compare("attack", hits, hits)
    assert (same.gain, same.disclosed, same.beats_population) == (0, 0, False)
    nothing = compare("attack", hits, 0.0)
    assert nothing.lift is None


def test_few_people_give_a_sentence_and_no_number():
    found = compare("linkage", np.ones(19), 0.1)
    assert found == NotMeasured("linkage", "This attack needs at least 20 people; there are 19.")
    assert isinstance(compare("linkage", np.ones(20), 0.1), Finding)


def test_each_person_counts_once():
    assert mean_by_person(np.array([1, 0, 1.0]), np.array([0, 0, 2])).tolist() == [0.5, 1]
