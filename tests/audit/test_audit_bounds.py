"""Bounds on ε: theorems inverted exactly, and confidence that holds where the truth is known."""

import math

import numpy as np
import pytest
from scipy import stats

from privmix.attacks.limits import auc_ceiling
from privmix.audit import bounds
from privmix.privacy.accounting import gaussian_mu
from privmix.privacy.hypothesis_testing import PairedScores, paired_auc

ALPHA = 0.05
REPETITIONS = 400
# Of 400 bounds that are wrong with probability 0.05 more than 40 are wrong with probability 2e-5.
MOST_WRONG = 40


def _generator(*words):
    return np.random.Generator(np.random.PCG64(list(words)))


def gaussian(epsilon, runs, rng, coupled):
    """Tight Gaussian noise at δ = 1e-6, and its AUC."""
    mu = gaussian_mu(epsilon, 1e-6)
    first = rng.normal(size=runs)
    second = first if coupled else rng.normal(size=runs)
    return PairedScores(first + mu / 2, second - mu / 2), stats.norm.cdf(mu / math.sqrt(2))


def response(epsilon, runs, rng, coupled):
    """Tight binary randomised response: its likelihood ratio has two values."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    first = rng.random(runs)
    second = first if coupled else rng.random(runs)
    return PairedScores(np.where(first < truth, 1.0, -1.0), np.where(second < truth, -1.0, 1.0)), truth


def many_answers(epsilon, runs, rng, coupled):
    """Randomised response with thirty answers: three values."""
    truth, other = math.exp(epsilon) / (math.exp(epsilon) + 29), 1 / (math.exp(epsilon) + 29)
    first = rng.random(runs)
    second = first if coupled else rng.random(runs)
    value = np.where(first < truth, 1.0, np.where(first < truth + other, -1.0, 0.0))
    rival = np.where(second < truth, -1.0, np.where(second < truth + other, 1.0, 0.0))
    tied = 2 * truth * other + (1 - truth - other) ** 2
    above = truth**2 + 2 * truth * (1 - truth - other)  # beside the rare ones, which are other²
    return PairedScores(value, rival), above + tied / 2


def laplace(epsilon, runs, rng, coupled):
    """Laplace noise; its likelihood ratio has atoms at ±ε and numbers in between."""
    first = rng.laplace(size=runs)
    second = first if coupled else rng.laplace(size=runs)
    sides = (np.round(np.abs(r) - np.abs(r - epsilon), 9) for r in (first + epsilon, second))
    return PairedScores(*sides), 1 - (2 + epsilon) * math.exp(-epsilon) / 4


def test_the_area_leaves_out_pairs_that_share_their_noise():
    rng = _generator(2)
    sides = PairedScores(rng.integers(0, 5, 30).astype(float), rng.integers(0, 4, 30).astype(float))
    above = (sides.mine[:, None] > sides.other) + 0.5 * (sides.mine[:, None] == sides.other)
    different = ~np.eye(30, dtype=bool)
    area, variance = paired_auc(sides)
    assert area == pytest.approx(above[different].mean())
    left_out = []
    for run in range(30):
        rest = np.arange(30) != run
        left_out.append(above[np.ix_(rest, rest)][different[:29, :29]].mean())
    assert variance == pytest.approx(29 / 30 * np.square(np.array(left_out) - np.mean(left_out)).sum())


def test_theorems_are_inverted():
    for epsilon in (0.1, 1.0, 5.0):
        mu = gaussian_mu(epsilon, 1e-6)
        assert bounds.gaussian_epsilon_bound(stats.norm.cdf(mu / math.sqrt(2)), 1e-6) == pytest.approx(
            epsilon, rel=1e-6
        )
        for delta in (0.0, 1e-3):
            assert bounds.pure_epsilon_bound(auc_ceiling(epsilon, delta), delta) == pytest.approx(epsilon)
    for theorem in (bounds.gaussian_epsilon_bound, bounds.pure_epsilon_bound):
        assert theorem(0.5, 1e-6) == theorem(0.3, 1e-6) == 0.0
        assert 30 < theorem(1.0, 1e-6) < 1000


def test_the_gaussian_theorem_is_wrong_on_a_randomised_response():
    """So it is used only for Gaussian ledgers."""
    tight = math.e / (1 + math.e)
    assert bounds.pure_epsilon_bound(tight, 0.0) == pytest.approx(1.0)
    assert bounds.gaussian_epsilon_bound(tight, 1e-6) == pytest.approx(4.18, abs=0.01)


def test_runs_without_errors_prove_the_clopper_pearson_bound():
    for runs in (20, 300):
        upper = 1 - (ALPHA / 2) ** (1 / runs)
        found = bounds.clopper_pearson_bound(np.array([0]), np.array([0]), runs, 1e-6, ALPHA)
        assert found[0] == pytest.approx(math.log((1 - 1e-6 - upper) / upper))
    assert bounds.clopper_pearson_bound(np.array([20]), np.array([0]), 20, 0.0, ALPHA)[0] == 0.0
    assert bounds.clopper_pearson_bound(np.array([10]), np.array([10]), 20, 0.0, ALPHA)[0] == 0.0


def test_a_rate_is_bounded_as_by_scipy():
    alarms, misses, runs = 17, 120, 300
    upper = [stats.binomtest(k, runs).proportion_ci(1 - ALPHA, method="exact").high for k in (alarms, misses)]
    found = bounds.clopper_pearson_bound(np.array([alarms]), np.array([misses]), runs, 0.0, ALPHA)[0]
    assert found == pytest.approx(math.log((1 - upper[1]) / upper[0]))


def test_the_threshold_separates_the_worlds():
    sides, _ = response(2.0, 100, _generator(3), coupled=True)
    assert -1 < bounds.choose_threshold(sides, 300, 0.0, ALPHA) < 1
    same = PairedScores(np.zeros(30), np.zeros(30))
    assert bounds.clopper_pearson_bound(
        *bounds.error_counts(same, np.array([bounds.choose_threshold(same, 30, 0.0, ALPHA)])), 30, 0.0, ALPHA
    ) == [0.0]
    endless = PairedScores(np.full(30, math.inf), np.full(30, -math.inf))
    at = np.array([bounds.choose_threshold(endless, 30, 0.0, ALPHA)])
    assert [int(errors[0]) for errors in bounds.error_counts(endless, at)] == [0, 0]
    assert paired_auc(endless) == (1.0, 0.0)


LAWS = [gaussian, response, many_answers, laplace]


@pytest.mark.parametrize("coupled", [True, False], ids=["shared noise", "own noise"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_auc_bound_holds_at_its_confidence(law, epsilon, coupled):
    """Fails with probability below 2e-5 if the bounds are as wrong as they may be."""
    rng, wrong = _generator(4, int(10 * epsilon), LAWS.index(law), coupled), 0
    for repetition in range(REPETITIONS):
        sides, true = law(epsilon, (20, 60, 200)[repetition % 3], rng, coupled)
        wrong += bounds.auc_lower_bound(sides, ALPHA) > true + 1e-9
    assert wrong <= MOST_WRONG


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_true_aucs_are_correct(law):
    sides, true = law(1.0, 400_000, _generator(5, LAWS.index(law)), False)
    area, variance = paired_auc(sides)
    assert abs(area - true) < 5 * math.sqrt(variance)


def test_a_normal_bound_alone_would_be_wrong_near_one():
    """The deduction for events that are too rare to occur in the runs is needed."""
    rng, wrong = _generator(6), 0
    for _ in range(REPETITIONS):
        sides, true = response(6.0, 60, rng, coupled=True)
        area, variance = paired_auc(sides)
        wrong += area - 1.645 * math.sqrt(variance) > true
    assert wrong > 4 * MOST_WRONG


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_thresholds_prove_no_more_than_is_true(law):
    """All distributions here are (ε, δ) at exactly ε = 1: a bound above it is wrong."""
    rng, wrong, proven, delta = _generator(7, LAWS.index(law)), 0, [], 1e-6 if law is gaussian else 0.0
    for _ in range(REPETITIONS):
        (training, _), (judged, _) = law(1.0, 60, rng, True), law(1.0, 300, rng, True)
        at = np.array([bounds.choose_threshold(training, 300, delta, ALPHA)])
        proven.append(bounds.clopper_pearson_bound(*bounds.error_counts(judged, at), 300, delta, ALPHA)[0])
        wrong += proven[-1] > 1.0
    assert wrong <= MOST_WRONG
    if law is response:
        assert np.median(proven) > 0.6


def test_shared_noise_proves_more():
    """At ε = 1, 300 runs with shared noise prove as much as thousands with independent noise."""
    rng = _generator(8)
    shared, own = (
        np.mean(
            [
                bounds.gaussian_epsilon_bound(
                    bounds.auc_lower_bound(gaussian(1.0, 300, rng, coupled)[0], ALPHA), 1e-6
                )
                for _ in range(20)
            ]
        )
        for coupled in (True, False)
    )
    assert shared > 0.7 > 0.5 > own
