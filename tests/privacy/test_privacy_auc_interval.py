"""The interval of an AUC: compared with the formula over all pairs, with resampling, and with its rate of 95 %."""

import math

import numpy as np
import pytest

from privmix.privacy.hypothesis_testing import (
    auc,
    auc_variance,
    auc_with_interval,
    newcombe_interval,
    placements,
)


def _scores(seed=0, members=60, others=80, shift=0.8, ties=False):
    generator = np.random.Generator(np.random.PCG64(seed))
    mine, theirs = generator.normal(shift, 1, members), generator.normal(0, 1, others)
    return (mine.round(1), theirs.round(1)) if ties else (mine, theirs)


def _variance(members, others, groups=()):
    return auc_variance(placements(members, others), 1 - placements(others, members), groups)


@pytest.mark.parametrize("ties", [False, True])
def test_the_variance_is_delongs_over_all_pairs(ties):
    members, others = _scores(ties=ties)
    wins = (members[:, None] > others) + (members[:, None] == others) / 2
    wanted = wins.mean(axis=1).var(ddof=1) / len(members) + wins.mean(axis=0).var(ddof=1) / len(others)
    assert _variance(members, others) == pytest.approx(wanted, rel=1e-12)


def test_the_variance_is_that_of_resampling():
    """200 scores per side: 2,000 resamples give a standard deviation to 2 %, and DeLong's is within 10 %."""
    members, others = _scores(members=200, others=200)
    generator = np.random.Generator(np.random.PCG64(1))
    drawn = [auc(generator.choice(members, 200), generator.choice(others, 200)) for _ in range(2000)]
    assert math.sqrt(_variance(members, others)) == pytest.approx(np.std(drawn), rel=0.1)


def test_groups_of_one_change_nothing_and_copies_add_nothing():
    members, others = _scores(members=70, others=70)
    own = [(np.arange(70), 70 + np.arange(70))]
    assert _variance(members, others, own) == pytest.approx(_variance(members, others), rel=0.01)
    twice = [np.repeat(each, 2) for each in own[0]]
    copied = _variance(np.repeat(members, 2), np.repeat(others, 2), [twice])
    assert copied == pytest.approx(_variance(members, others, own), rel=1e-9)
    assert _variance(np.repeat(members, 2), np.repeat(others, 2)) < 0.6 * copied


def test_grouped_intervals_cover_where_plain_ones_do_not():
    """300 tables of 20 rows by 10. Each row is inside or not and has its own shift; the AUC is 1/2.

    Fewer than 265 of 300 intervals at 95 % cover with a probability below 1e-5. With twenty groups the intervals are
    somewhat short, so the test requires 255.
    """
    generator = np.random.Generator(np.random.PCG64(2))
    row = np.repeat(np.arange(20), 10)
    inside, covered, plain = row < 10, 0, 0
    for _ in range(300):
        scores = generator.normal(size=200) * 0.5 + generator.normal(size=20)[row] * 2
        for groups in ([], [(row[inside], row[~inside])]):
            found = auc_with_interval(scores[inside], scores[~inside], groups)
            covers = found.low <= 0.5 <= found.high
            covered, plain = (covered + covers, plain) if groups else (covered, plain + covers)
    assert covered >= 255
    assert plain < 200


def test_two_ways_of_grouping_are_added_and_single_scores_taken_off():
    """Compare with the sums over all pairs of scores that share a row or a column."""
    generator = np.random.Generator(np.random.PCG64(3))
    scores = generator.normal(size=(9, 7)) + generator.normal(size=(9, 1)) + generator.normal(size=7)
    inside = generator.random((9, 7)) < 0.5
    row, column = np.broadcast_arrays(np.arange(9)[:, None], np.arange(7))
    groups = [(each[inside], each[~inside]) for each in (row, column)]
    members, others = scores[inside], scores[~inside]
    above, below = placements(members, others), 1 - placements(others, members)
    parts = np.empty((9, 7))
    parts[inside], parts[~inside] = (above - above.mean()) / len(above), (below - below.mean()) / len(below)
    by_row, by_column = 9 / 8 * (parts.sum(axis=1) ** 2).sum(), 7 / 6 * (parts.sum(axis=0) ** 2).sum()
    wanted = max(by_row + by_column - _variance(members, others), by_row, by_column)
    assert _variance(members, others, groups) == pytest.approx(wanted, rel=1e-12)


def test_the_interval_covers_the_true_area():
    """1,000 games of 60 against 80 with AUC Φ(0.8/√2): 95 % of intervals, less than 92 % with probability 1e-5."""
    true = 0.5 * (1 + math.erf(0.8 / 2))
    found = [auc_with_interval(*_scores(seed)) for seed in range(1000)]
    assert all(0 < each.low <= each.auc <= each.high < 1 for each in found)
    assert sum(each.low <= true <= each.high for each in found) > 920


def test_at_the_ends_the_interval_is_newcombes():
    members, others = np.arange(10.0) + 20, np.arange(12.0)
    assert auc_with_interval(members, others).auc == 1.0
    assert (
        auc_with_interval(members, others).low,
        auc_with_interval(members, others).high,
    ) == newcombe_interval(1.0, 10, 12)
    assert auc_with_interval(others, members).high == newcombe_interval(0.0, 12, 10)[1]
    few = [(np.arange(10) % 3, np.arange(12) % 4)]
    assert auc_with_interval(members, others, few).low == newcombe_interval(1.0, 3, 4)[0]


def test_scores_that_are_all_alike_prove_nothing():
    found = auc_with_interval(np.zeros(20), np.zeros(20))
    assert found.auc == 0.5
    assert found.low < 0.35
    assert found.high > 0.65
