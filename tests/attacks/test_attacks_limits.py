import math
from statistics import NormalDist

import numpy as np
import pytest

from privmix.attacks.limits import (
    auc_ceiling,
    equal_error_floor,
    gaussian_auc_ceiling,
    gaussian_tpr_ceiling,
    guess_ceiling,
    positive_predictive_value,
    posterior_ceiling,
    swap_auc_ceiling,
    tpr_ceiling,
)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_area_under_the_highest_roc_is_the_highest_auc(epsilon, delta):
    x = np.linspace(0, 1, 2_000_001)
    assert np.trapezoid(tpr_ceiling(x, epsilon, delta), x) == pytest.approx(
        auc_ceiling(epsilon, delta), abs=1e-6
    )


def test_randomized_response_reaches_the_ceiling_and_does_not_pass_it():
    keep = math.e / (1 + math.e)  # two answers at epsilon = 1: false alarm 1 - keep, detection keep
    assert tpr_ceiling(1 - keep, 1.0, 0.0) == pytest.approx(keep)


def test_without_privacy_there_is_no_limit():
    assert tpr_ceiling(1e-3, math.inf, 0.0) == 1.0
    assert swap_auc_ceiling(math.inf, 0.0, "replace_one") == 1.0


def test_swapping_a_record_costs_two_steps_under_add_or_remove():
    assert swap_auc_ceiling(1.0, 0.0, "replace_one") == auc_ceiling(1.0, 0.0)
    assert swap_auc_ceiling(1.0, 1e-6, "add_remove") == auc_ceiling(2.0, (1 + math.e) * 1e-6)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 4.0])
def test_the_gaussian_ceiling_is_what_the_best_test_of_two_normals_reaches(mu):
    """Compare with the ROC curve of thresholds between N(0, 1) and N(μ, 1), and the area under it."""
    thresholds = np.linspace(-8, 12, 4001)
    tail = [0.5 * math.erfc(t / math.sqrt(2)) for t in thresholds]
    found = [0.5 * math.erfc((t - mu) / math.sqrt(2)) for t in thresholds]
    assert gaussian_tpr_ceiling(np.array(tail), mu) == pytest.approx(found, abs=1e-9)
    assert gaussian_auc_ceiling(mu) == pytest.approx(-np.trapezoid(found, tail), abs=1e-5)
    assert gaussian_tpr_ceiling(np.array([0.0, 1.0]), mu).tolist() == [0.0, 1.0]


def test_a_gaussian_claim_allows_less_than_the_region_around_it():
    """μ-GDP is (ε, δ(ε))-DP with δ = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) (Dong, Roth, Su 2022, Corollary 2.13)."""
    mu, epsilon = 1.0, 1.5
    normal = NormalDist()
    delta = normal.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal.cdf(-epsilon / mu - mu / 2)
    x = np.linspace(1e-6, 1 - 1e-6, 999)
    assert (gaussian_tpr_ceiling(x, mu) <= tpr_ceiling(x, epsilon, delta) + 1e-12).all()
    assert (gaussian_tpr_ceiling(x, mu) > tpr_ceiling(x, epsilon, delta / 2)).any()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.05), (3.0, 1e-6)])
@pytest.mark.parametrize("base_rate", [0.29, 0.5, 0.8])
def test_the_ceiling_of_guesses_is_the_best_point_of_the_region(
    base_rate: float, epsilon: float, delta: float
):
    fpr = np.linspace(0, 1, 100_001)
    right = base_rate * (1 - fpr) + (1 - base_rate) * tpr_ceiling(fpr, epsilon, delta)
    assert guess_ceiling(base_rate, epsilon, delta) == pytest.approx(right.max(), abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_the_corner_is_on_the_border_where_both_errors_are_equal(epsilon, delta):
    corner = equal_error_floor(epsilon, delta)
    assert 1 - tpr_ceiling(corner, epsilon, delta) == pytest.approx(corner, abs=1e-12)
    assert equal_error_floor(epsilon, 0.0) == pytest.approx(1 / (1 + math.exp(epsilon)))


@pytest.mark.parametrize("prior", [0.01, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_the_best_attack_at_few_false_alarms_is_as_sure_as_an_observer_can_become(prior, epsilon):
    rare = 1e-6
    best = float(tpr_ceiling(rare, epsilon, 0.0))
    assert positive_predictive_value(prior, best, rare) == pytest.approx(posterior_ceiling(prior, epsilon))
    often = float(tpr_ceiling(0.9, epsilon, 0.0))
    assert positive_predictive_value(prior, often, 0.9) <= posterior_ceiling(prior, epsilon) + 1e-12


def test_the_posterior_multiplies_the_odds():
    assert posterior_ceiling(0.1, math.log(9)) == pytest.approx(0.5)
    assert posterior_ceiling(0.3, 0.0) == pytest.approx(0.3)
    assert posterior_ceiling(0.3, math.inf) == 1.0


def test_guessing_leaves_the_prior_and_an_attack_without_an_alarm_has_no_value():
    assert positive_predictive_value(0.2, 0.05, 0.05) == pytest.approx(0.2)
    assert positive_predictive_value(0.2, 0.05, 0.0) == 1.0
    assert positive_predictive_value(0.2, 0.0, 0.0) is None
