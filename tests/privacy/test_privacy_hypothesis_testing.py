"""Membership inference: areas, rates and limits against definitions and simulation."""

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from privmix.attacks import limits
from privmix.privacy import hypothesis_testing


def _scores(seed=0, shift=0.4, ties=False):
    generator = np.random.Generator(np.random.PCG64(seed))
    members, others = generator.normal(shift, 1, 700), generator.normal(0, 1, 1300)
    return (members.round(1), others.round(1)) if ties else (members, others)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_is_the_share_of_pairs_in_order(ties):
    members, others = _scores(ties=ties)
    labels = np.repeat([1, 0], [len(members), len(others)])
    assert hypothesis_testing.auc(members, others) == pytest.approx(
        roc_auc_score(labels, np.concatenate([members, others]))
    )


def test_the_rate_accuses_no_more_than_allowed():
    for ties, rate in itertools.product([False, True], [0.001, 0.01, 0.1]):
        members, others = _scores(ties=ties)
        found = hypothesis_testing.true_positive_rate(members, others, rate)
        threshold = np.sort(others)[::-1][math.floor(len(others) * rate)]
        assert (others > threshold).mean() <= rate
        assert found == (members > threshold).mean()


def test_a_rate_that_cannot_be_measured_is_not_made_up():
    members, others = _scores()
    assert hypothesis_testing.true_positive_rate(members, others[:999], 0.001) is None
    assert hypothesis_testing.true_positive_rate(members, others[:1000], 0.001) is not None


def test_the_curve_climbs_from_few_false_alarms_to_all():
    members, others = _scores()
    curve = np.array(hypothesis_testing.roc_curve(members, others))
    assert (np.diff(curve, axis=0) >= 0).all()
    assert tuple(curve[-1]) == (1.0, 1.0)
    assert curve[0, 0] == 0.0
    area = np.trapezoid(curve[:, 1], curve[:, 0])
    assert area == pytest.approx(hypothesis_testing.auc(members, others), abs=0.01)


def test_the_interval_covers_the_true_area_at_its_rate():
    """Normal scores with AUC = Φ(shift/√2); 1,000 games of 12 against 12. Newcombe's method is conservative."""
    true = 0.5 * (1 + math.erf(0.8 / 2))
    generator = np.random.Generator(np.random.PCG64(1))
    covered = 0
    for _ in range(1000):
        found = hypothesis_testing.auc(generator.normal(0.8, 1, 12), generator.normal(0, 1, 12))
        low, high = hypothesis_testing.newcombe_interval(found, 12, 12)
        assert 0 <= low <= found <= high <= 1
        covered += low <= true <= high
    assert covered > 920


def test_a_perfect_attack_is_not_called_certain():
    low, high = hypothesis_testing.newcombe_interval(1.0, 6, 6)
    assert high == 1.0
    assert 0.5 < low < 0.8
    assert hypothesis_testing.newcombe_interval(1.0, 200, 200)[0] > 0.97


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.01), (4.0, 1e-6)])
def test_the_ceiling_is_the_area_under_the_region(epsilon, delta):
    """Integrate the largest true-positive rate that (ε, δ) allows at each false-positive rate."""
    rate = np.linspace(0, 1, 200_001)
    e = math.exp(epsilon)
    highest = np.minimum.reduce([np.ones_like(rate), e * rate + delta, 1 - (1 - delta - rate) / e])
    assert limits.auc_ceiling(epsilon, delta) == pytest.approx(np.trapezoid(highest, rate), abs=1e-6)


def test_randomized_response_reaches_the_ceiling_and_half_its_noise_breaks_it():
    def area(epsilon):
        truth = math.exp(epsilon) / (1 + math.exp(epsilon))
        return truth**2 + truth * (1 - truth)  # in order, or tied and counted half

    assert area(1.0) == pytest.approx(limits.auc_ceiling(1.0, 0.0))
    assert area(2.0) > limits.auc_ceiling(1.0, 0.0)
