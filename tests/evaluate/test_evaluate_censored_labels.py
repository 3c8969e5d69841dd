"""What labels tell: against a direct computation, and for labels that tell everything or nothing."""

import math

import numpy as np
import pytest

from privmix.evaluate.censored_labels import guess_recall, information, joint_shares, probe_recall


def test_the_joint_shares_are_means_over_records():
    chances = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    joint = joint_shares(chances, np.array([0, 1, 0]), 2)
    assert joint == pytest.approx(np.array([[0.7, 1.0], [1.3, 0.0]]) / 3)


def test_information_of_independent_and_of_equal_variables():
    assert information(np.outer([0.2, 0.8], [0.5, 0.3, 0.2])) == pytest.approx(0, abs=1e-12)
    assert information(np.diag([0.25, 0.75])) == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))


def test_a_probe_of_labels_that_tell_all_is_always_right():
    assert probe_recall(np.diag([0.2, 0.8]), np.diag([0.5, 0.5])) == 1
    nothing = np.outer([0.4, 0.6], [0.1, 0.9])
    assert probe_recall(nothing, nothing) == pytest.approx(0.5)
    assert guess_recall(nothing, nothing) == 0.5


def test_the_probe_is_judged_on_records_that_it_has_not_seen():
    train, test = np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[0.0, 0.5], [0.5, 0.0]])
    assert probe_recall(train, test) == 0


def test_values_that_do_not_occur_in_both_parts_do_not_count():
    train, test = np.array([[0.3, 0.2, 0.0], [0.1, 0.4, 0.0]]), np.array([[0.3, 0.1, 0.1], [0.1, 0.3, 0.1]])
    assert guess_recall(train, test) == 0.5
    assert probe_recall(train, test) == pytest.approx((0.75 + 0.75) / 2)
    assert math.isnan(probe_recall(np.diag([1.0, 0.0]), np.diag([0.0, 1.0])))
