import math

import numpy as np
import pytest

from privmix.evaluate.limits import auc_ceiling, swap_ceiling, tpr_ceiling


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


def test_no_privacy_forbids_nothing():
    assert tpr_ceiling(1e-3, math.inf, 0.0) == 1.0
    assert swap_ceiling(math.inf, 0.0, "replace_one") == 1.0


def test_swapping_a_record_costs_two_steps_under_add_or_remove():
    assert swap_ceiling(1.0, 0.0, "replace_one") == auc_ceiling(1.0, 0.0)
    assert swap_ceiling(1.0, 1e-6, "add_remove") == auc_ceiling(2.0, (1 + math.e) * 1e-6)
