"""Costs of groups: values by hand, covariances against a bootstrap, coverage of intervals, and which groups count."""

import numpy as np
import pytest
from making import clean_data, clusters

from privmix.evaluate.groupings import (
    GroupingSpec,
    bin_labels,
    large_groups,
    make_groupings,
    number_units,
    select_held_out,
)
from privmix.evaluate.groups import membership_auc, ratios, share_differences
from privmix.evaluate.simultaneous import group_intervals, largest_difference
from privmix.privacy.hypothesis_testing import auc


def records(rng, units=400, groups=3):
    """Return groups, units and values of records; each unit has one to four records and an effect of its own."""
    unit = np.repeat(np.arange(units), rng.integers(1, 5, units))
    return rng.integers(0, groups, len(unit)), unit, rng.normal(size=units)[unit] + rng.normal(size=len(unit))


def test_the_gap_of_a_group_is_its_weighted_mean_and_shares_add_up_to_the_overall_gap():
    rng = np.random.default_rng(0)
    groups, units, values = records(rng)
    weights = rng.uniform(0.5, 2, len(groups))
    found = ratios([weights * values], [weights], groups, units, 3)
    by_hand = [np.average(values[groups == g], weights=weights[groups == g]) for g in range(3)]
    assert found.values[0] == pytest.approx(by_hand, abs=1e-12)
    shares = np.bincount(groups, weights) / weights.sum()
    assert found.values[0] @ shares == pytest.approx(np.average(values, weights=weights), abs=1e-12)


def bootstrap(statistic, units, rng, draws=3000):
    """Return the covariance of a statistic of weights when units are drawn with replacement."""
    number = units.max() + 1
    drawn = [statistic(rng.multinomial(number, np.full(number, 1 / number))[units]) for _ in range(draws)]
    return np.cov(np.array(drawn).T)


def assert_same_covariance(found, expected):
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found - expected) <= 0.12 * scale).all()


def test_the_covariance_of_means_is_that_of_a_bootstrap_over_people():
    rng = np.random.default_rng(1)
    groups, units, values = records(rng)
    found = ratios([values, values], [np.ones(len(values))] * 2, groups, units, 3)

    def means(weights):
        return [np.average(values[groups == g], weights=weights[groups == g]) for g in range(3)]

    expected = bootstrap(means, units, rng)
    assert_same_covariance(found.covariance, expected)
    single = ratios([values], [np.ones(len(values))], groups, np.arange(len(values)), 3)
    # Records of a person are not independent.
    assert (np.diag(single.covariance) < 0.9 * np.diag(expected)).all()


def test_the_covariance_of_share_differences_is_that_of_a_bootstrap_over_people():
    rng = np.random.default_rng(2)
    groups, units, _ = records(rng)
    groups[groups == 2] = -1  # too few: they still count in the total
    found = share_differences(np.array([[0.5, 0.2]]), groups, np.ones(len(groups)), units, 2)
    assert found.values[0] == pytest.approx([0.5 - np.mean(groups == 0), 0.2 - np.mean(groups == 1)])

    def shares(weights):
        return [weights[groups == g].sum() / weights.sum() for g in range(2)]

    assert_same_covariance(found.covariance, bootstrap(shares, units, rng))


def test_the_membership_risk_of_a_group_compares_its_members_with_its_own_held_out_records():
    rng = np.random.default_rng(3)
    inside, outside = rng.normal(size=900) + 0.3, rng.normal(size=700)
    mine, theirs = rng.integers(-1, 2, 900), rng.integers(-1, 2, 700)
    inside[mine == 1] += 2
    outside[theirs == 1] += 2  # a group with a high density is not at risk by that alone
    units = np.arange(1600)
    found = membership_auc([inside], [outside], mine, theirs, units[:900], units[900:], 2)
    assert found.values[0] == pytest.approx([auc(inside[mine == g], outside[theirs == g]) for g in (0, 1)])
    drawn = []
    for _ in range(1500):
        a, b = rng.integers(0, 900, 900), rng.integers(0, 700, 700)
        drawn.append([auc(inside[a][mine[a] == g], outside[b][theirs[b] == g]) for g in (0, 1)])
    assert_same_covariance(np.diag(np.diag(found.covariance)), np.diag(np.var(drawn, axis=0)))


def simulate(rng, groups, replicates, noise, shift=0.0):
    """Draw the numbers of equal groups with unit variance over people, and replicates with `noise` times as much."""
    variances = rng.uniform(0.3, 3, groups)
    over_people = rng.normal(size=groups) * np.sqrt(variances)
    of_replicates = rng.normal(size=(replicates, groups)) * np.sqrt(noise * replicates * variances)
    centre = np.zeros(groups)
    centre[0] = shift
    return over_people + of_replicates + centre, np.diag(variances)


@pytest.mark.parametrize(
    ("groups", "replicates", "noise"), [(2, 3, 0.3), (5, 3, 1.0), (5, 10, 1.0), (8, 1, 0.0)]
)
def test_intervals_hold_for_all_groups_and_differences_together(groups, replicates, noise):
    rng, runs = np.random.default_rng(4), 600
    missed = [0, 0]
    for _ in range(runs):
        values, covariance = simulate(rng, groups, replicates, noise)
        missed[0] += any(each.real for each in group_intervals(values, covariance, 0.95))
        missed[1] += largest_difference(values, covariance, 0.95).spread.real
    # The intervals may miss in 6.5 % of runs: with three replicates, the noise is estimated from three numbers.
    assert max(missed) / runs <= 0.065 + 5 * np.sqrt(0.065 * 0.935 / runs)
    if replicates == 1:  # exact, apart from the draws of the bootstrap
        assert min(missed) / runs >= 0.05 - 5 * np.sqrt(0.05 * 0.95 / runs)


def test_a_real_difference_is_found_and_named():
    rng = np.random.default_rng(5)
    values, covariance = simulate(rng, 4, 3, 0.1)
    values[:, 2] -= 30.0
    found = largest_difference(values, covariance, 0.95)
    assert found.lower == 2
    assert found.spread.real
    assert found.spread.mean == pytest.approx(values[:, found.higher].mean() - values[:, 2].mean())
    assert found.spread.low < found.spread.mean < found.spread.high


def test_noise_of_replicates_widens_intervals():
    values = np.array([[0.0, 1.0], [0.2, 0.7], [-0.2, 1.3]])
    calm = group_intervals(np.repeat(values.mean(axis=0)[None], 3, axis=0), np.eye(2) * 0.001, 0.95)
    noisy = group_intervals(values, np.eye(2) * 0.001, 0.95)
    assert noisy[1].high - noisy[1].low > 3 * (calm[1].high - calm[1].low)


def test_a_group_without_density_has_no_interval_and_does_not_spoil_the_others():
    values, covariance = np.array([[-np.inf, 0.0, 1.0], [-1.0, 0.1, 1.1]]), np.diag([np.nan, 0.01, 0.01])
    first, second, third = group_intervals(values, covariance, 0.95)
    assert first.low is None
    assert second.low is not None
    assert third.real
    found = largest_difference(values, covariance, 0.95)
    assert (found.lower, found.higher) == (1, 2)
    assert largest_difference(values[:, :1], covariance[:1, :1], 0.95) is None


def test_small_groups_are_too_few_and_at_most_twenty_groups_are_measured():
    rng = np.random.default_rng(6)
    codes = np.r_[np.zeros(98, int), np.ones(102, int), np.repeat(np.arange(2, 30), 120)]
    clean = clean_data(
        rng.uniform(-0.5, 0.5, (len(codes), 2)), codes={"town": codes}, train=np.zeros(len(codes), dtype=bool),
        attributes=[("town", tuple(map(str, range(500))))],
    )  # fmt: skip
    [grouping] = make_groupings(clean)
    units, kind = number_units(clean)
    held_out = select_held_out(clean, units)
    assert kind == "record"
    chosen = large_groups(grouping, held_out)
    assert len(chosen) == 20
    assert 0 not in chosen
    assert 2 in chosen


def test_units_are_people_then_places_then_records():
    points = np.repeat(clusters(50), 2, axis=0)
    assert number_units(clean_data(points, persons=np.arange(100) // 4))[1] == "person"
    units, kind = number_units(clean_data(points))
    assert kind == "place"
    assert len(np.unique(units)) == 50
    assert number_units(clean_data(clusters(100)))[1] == "record"


def test_declared_groups_are_public_bins():
    points = np.array([[-0.7, 0.0], [-0.1, 0.0], [0.1, 0.0], [0.7, 0.0]])
    [grouping] = make_groupings(clean_data(points), [GroupingSpec.parse("v0:2")])
    assert grouping.codes.tolist() == [0, 0, 1, 1]
    axis = clean_data(points).info.domain.axes[0]
    whole = axis.model_copy(update={"kind": "integer", "lower": -0.5, "upper": 99.5})
    assert bin_labels(whole, 4)[0] == ("0 to 24", "25 to 49", "50 to 74", "75 to 99")
    ordinal = axis.model_copy(
        update={"kind": "ordinal", "lower": -0.5, "upper": 2.5, "labels": ("a", "b", "c")}
    )
    assert bin_labels(ordinal, None)[0] == ("a", "b", "c")
