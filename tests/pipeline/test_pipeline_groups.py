"""Group scores of a model file: shares, membership and parity by group, for awkward attributes and models."""

import numpy as np
import pytest
from making import clean_data, clusters

from privmix.evaluate.groupings import GroupingSpec
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.pipeline.groups import ReplicateDensities, metric_values, score_groups

RNG = np.random.default_rng(0)


def gaussians():
    return Mixture(
        np.array([0.4, 0.6]), np.array([[-0.2, 0.0], [0.3, 0.1]]), np.array([0.02 * np.eye(2)] * 2)
    )


def densities(clean, shares, replicates=2):
    """Return the log densities of some replicates of a model with these shares; they differ by noise."""
    found = ReplicateDensities()
    for _ in range(replicates):
        logs = gaussians().log_density(clean.points) + RNG.normal(size=len(clean.points))
        found.add(
            MixedMixture(gaussians(), shares), logs[clean.train], logs[~clean.train], logs[~clean.train]
        )
    return found


def towns(rows, values, **more):
    codes = {"town": RNG.integers(0, values, rows)}
    return clean_data(
        clusters(rows), codes=codes, attributes=[("town", tuple(map(str, range(values))))], **more
    )


def test_the_share_of_a_group_is_that_of_the_model_minus_that_of_held_out_records():
    clean = towns(1200, 2)
    [town] = score_groups(
        densities(clean, {"town": np.array([[0.9, 0.1], [0.5, 0.5]])}), clean, (), None
    ).groupings
    held = clean.codes["town"][~clean.train]
    assert town.records == tuple(np.bincount(held))
    assert town.model_share.mean["0"] == pytest.approx(0.4 * 0.9 + 0.6 * 0.5 - np.mean(held == 0))


def test_the_share_of_a_bin_is_the_mass_that_samples_have_there():
    clean = clean_data(clusters(1200))
    scores = score_groups(densities(clean, {}), clean, (GroupingSpec("v0", 2),), None)
    points = gaussians().sample(200_000, np.random.default_rng(1))
    held = clean.points[~clean.train, 0]
    [bins] = scores.groupings
    assert bins.model_share.mean[bins.groups[0]] == pytest.approx(
        np.mean(points[:, 0] < 0) - np.mean(held < 0), abs=0.006
    )  # five standard errors


def test_five_hundred_values_are_too_few_and_no_crash():
    clean = towns(1000, 500)
    [town] = score_groups(densities(clean, {}), clean, (), None).groupings
    assert town.groups == ()
    assert len(town.too_few) > 300
    assert town.membership is None
    assert metric_values(score_groups(densities(clean, {}), clean, (), None)) == []


def test_groups_absent_from_the_held_out_records_are_not_named():
    clean = towns(1000, 2)
    clean.codes["town"][~clean.train] = 0
    [town] = score_groups(densities(clean, {}), clean, (), None).groupings
    assert (town.groups, town.too_few) == (("0",), ())


def test_a_model_without_the_attribute_has_no_share_and_no_prediction():
    clean = towns(1200, 2)
    [town] = score_groups(densities(clean, {}), clean, (), "town").groupings
    assert town.model_share is None
    assert town.parity == {}
    assert town.membership is not None


def test_persons_with_many_records_weigh_as_much_as_others():
    owners = np.r_[np.arange(600), np.full(600, 7_000)]
    codes = {"town": np.r_[RNG.integers(0, 2, 600), np.zeros(600, dtype=int)]}
    train = np.r_[np.arange(600) % 2 == 0, np.zeros(600, dtype=bool)]
    clean = clean_data(
        clusters(1200), codes=codes, persons=owners, train=train, unit="person", max_records=600,
        attributes=[("town", ("0", "1"))],
    )  # fmt: skip
    [town] = score_groups(densities(clean, {}), clean, (), None).groupings
    held = codes["town"][:600][~train[:600]]
    assert town.shares[0] == pytest.approx((np.sum(held == 0) + 1) / (len(held) + 1))


def test_an_outcome_is_predicted_for_each_value_and_group():
    rows = 1200
    codes = {"sick": RNG.integers(0, 3, rows), "town": RNG.integers(0, 2, rows)}
    clean = clean_data(
        clusters(rows), codes=codes, attributes=[("sick", ("a", "b", "c")), ("town", ("0", "1"))]
    )
    shares = {
        "sick": np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]),
        "town": np.array([[0.5, 0.5], [0.5, 0.5]]),
    }
    sick, town = score_groups(densities(clean, shares), clean, (), "sick").groupings
    assert sick.parity == {}
    assert set(town.parity) == {"a", "b", "c"}
    held = clean.codes["sick"][~clean.train], clean.codes["town"][~clean.train]
    assert town.parity["a"]["base_rate"].mean["1"] == pytest.approx(np.mean(held[0][held[1] == 1] == 0))
    names = {
        metric for _, metric, _ in metric_values(score_groups(densities(clean, shares), clean, (), "sick"))
    }
    assert "parity_selection_rate[a][town=1]" in names
    secret = metric_values(score_groups(densities(clean, shares), clean, (), "sick"), sensitive=True)
    hidden = names - {metric for _, metric, _ in secret}
    assert {metric.partition("[")[0] for metric in hidden} == {"group_share_error", "parity_base_rate"}


def test_no_model_and_no_attribute_give_no_scores():
    clean = clean_data(clusters(300))
    assert score_groups(densities(clean, {}), clean, (), None) is None
    assert score_groups(ReplicateDensities(), towns(300, 2), (), None) is None
