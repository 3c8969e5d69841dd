"""Parity criteria equal Fairlearn's on the same predictions, and predictions are Bayes' rule on the joint density."""

import json
from pathlib import Path

import numpy as np
import pytest

from privmix.evaluate.parity import cases, group_rates, parity_criteria, predict_outcome
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture

ORACLE = json.loads(Path(__file__).with_name("fairlearn_rates.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-12


def measured(case):
    """Return the rates of the groups of a case."""
    truth, predicted, groups, weights = (
        np.array(case[name]) for name in ("truth", "predicted", "groups", "weights")
    )
    found = group_rates(truth, [predicted], groups, int(groups.max()) + 1, weights)
    return {name: each.values[0] for name, each in found.items()}


@pytest.mark.parametrize("case", ORACLE, ids=range(len(ORACLE)))
def test_rates_and_criteria_equal_those_of_fairlearn(case):
    found = measured(case)
    for name, expected in case["rates"].items():
        assert found[name] == pytest.approx(expected, abs=TOLERANCE, rel=0)
    criteria = parity_criteria(found)
    assert set(criteria) == set(case["criteria"])
    for name, expected in case["criteria"].items():
        assert criteria[name] == pytest.approx(expected, abs=TOLERANCE, rel=0)


def test_a_rate_without_records_is_undefined_and_has_no_cases():
    truth, groups = np.array([1, 1, 0, 1]), np.array([0, 0, 1, 1])
    found = group_rates(truth, [np.array([1, 0, 0, 0])], groups, 2)
    assert np.isnan(found["fpr"].values[0, 0])
    assert np.isnan(found["ppv"].values[0, 1])
    behind = cases(truth, [np.array([1, 0, 0, 0])], groups, 2)
    assert behind["fpr"].tolist() == [0, 1]
    assert behind["ppv"].tolist() == [1, 0]


def test_records_without_a_group_do_not_count():
    truth, predicted = np.array([1, 0, 1]), np.array([1, 1, 0])
    found = group_rates(truth, [predicted], np.array([0, 0, -1]), 1)
    assert found["base_rate"].values.tolist() == [[0.5]]


def test_with_different_base_rates_a_prediction_without_errors_alone_meets_both_criteria():
    groups = np.repeat([0, 1], 10)
    truth = np.r_[np.ones(8), np.zeros(2), np.ones(3), np.zeros(7)].astype(int)
    perfect = {n: e.values[0] for n, e in group_rates(truth, [truth], groups, 2).items()}
    criteria = parity_criteria(perfect)
    assert criteria["equalized_odds_difference"] == 0
    assert criteria["ppv_difference"] == 0
    assert criteria["npv_difference"] == 0
    assert criteria["statistical_parity_difference"] == pytest.approx(0.5)


def test_a_prediction_follows_the_joint_density_by_enumeration():
    rng = np.random.default_rng(3)
    gaussians = Mixture(np.array([0.3, 0.7]), rng.normal(size=(2, 2)), np.array([np.eye(2), 2 * np.eye(2)]))
    model = MixedMixture(
        gaussians, {"y": np.array([[0.9, 0.1], [0.2, 0.8]]), "s": np.array([[0.5, 0.5], [0.1, 0.9]])}
    )
    points, codes = rng.normal(size=(200, 2)), {"y": rng.integers(0, 2, 200), "s": rng.integers(0, 2, 200)}
    joint = [model.log_density(points, {**codes, "y": np.full(200, value)}) for value in (0, 1)]
    assert (predict_outcome(model, "y", points, codes) == np.argmax(joint, axis=0)).all()
    assert len(set(np.argmax(joint, axis=0))) == 2


def test_the_true_outcome_of_a_record_does_not_help_to_predict_it():
    model = MixedMixture(
        Mixture(np.array([0.5, 0.5]), np.array([[0.0], [1.0]]), np.ones((2, 1, 1))),
        {"y": np.array([[0.6, 0.4], [0.4, 0.6]])},
    )
    points = np.linspace(-2, 3, 50)[:, None]
    found = [predict_outcome(model, "y", points, {"y": np.full(50, value)}) for value in (0, 1)]
    assert (found[0] == found[1]).all()
