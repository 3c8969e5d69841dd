"""Limits that a claim sets to the expected success of attacks that tell two units apart, for tables and plots.

Both games on the report page are swaps. In the worst-record game, another record replaces the worst record. If the
unit includes all records of a person, a member and a held-out person could have been exchanged, so the average attack
is a swap too. If persons have several records and the unit is one record, nothing here limits the average attack.
"""

import math
from statistics import NormalDist

import numpy as np


def swap_guarantee(epsilon: float, delta: float, relation: str) -> tuple[float, float]:
    """Return the (epsilon, delta) that holds between two datasets if one unit is replaced by another.

    Under add/remove this takes two steps, which cost (2ε, (1 + e^ε) δ) (group privacy, Dwork and Roth 2014,
    Theorem 2.2 and its (ε, δ) form).
    """
    if relation == "replace_one":
        return epsilon, delta
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta)


def tpr_ceiling(fpr: np.ndarray | float, epsilon: float, delta: float) -> np.ndarray:
    """Compute the highest true-positive rate at a false-positive rate: the border of the DP region.

    Every pair of false alarm FA and missed detection MD satisfies FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1).
    """
    fpr = np.asarray(fpr, dtype=float)
    odds = math.exp(min(epsilon, 700.0))
    return np.clip(np.minimum(delta + odds * fpr, 1 - (1 - delta - fpr) / odds), 0.0, 1.0)


def auc_ceiling(epsilon: float, delta: float) -> float:
    """Compute the largest AUC under (epsilon, delta)-DP, 1 - (1-δ)²/(1+e^ε): the area under `tpr_ceiling`."""
    return 1 - (1 - delta) ** 2 / (1 + math.exp(min(epsilon, 700.0)))


def equal_error_floor(epsilon: float, delta: float) -> float:
    """Compute the smallest rate at which false alarm and missed detection can be equal, (1 - δ)/(1 + e^ε).

    It is the corner of the region of `tpr_ceiling`.
    """
    return (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))


def posterior_ceiling(prior: float, epsilon: float) -> float:
    """Compute how sure an observer can become of a fact, p e^ε/(p e^ε + 1 - p), for δ = 0.

    The odds grow by at most e^ε (Bayes; Dwork and Roth 2014, section 2.3.2; Kasiviswanathan and Smith 2014).
    """
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def positive_predictive_value(prior: float, tpr: float, fpr: float) -> float | None:
    """Compute the share of an attack's alarms that are right, p TPR/(p TPR + (1 - p) FPR); None if it has no alarm."""
    right, wrong = prior * tpr, (1 - prior) * fpr
    return right / (right + wrong) if right + wrong > 0 else None


def swap_auc_ceiling(epsilon: float, delta: float, relation: str) -> float:
    """Compute the largest AUC of a swap game."""
    return auc_ceiling(*swap_guarantee(epsilon, delta, relation))


def guess_ceiling(base_rate: float, epsilon: float, delta: float) -> float:
    """Compute the highest expected share of right guesses of a yes/no secret under (epsilon, delta)-DP.

    `base_rate` is the share of right guesses of someone who knows everything but the secret and the release. Datasets
    that differ in the secret must be neighbours. The share q(1 - FA) + (1 - q)(1 - MD) is linear in the errors FA and
    MD, so it is largest at a corner of the region of Kairouz, Oh, Viswanath (2015, Theorem 2.1): (0, 1 - δ) or both
    errors (1 - δ)/(1 + e^ε).
    """
    base_rate = max(base_rate, 1 - base_rate)
    corner = 1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return max(base_rate + (1 - base_rate) * delta, corner)


def gaussian_tpr_ceiling(fpr: np.ndarray, mu: float) -> np.ndarray:
    """Compute the highest true-positive rate under μ-Gaussian DP, Φ(Φ⁻¹(FPR) + μ) (Dong, Roth, Su 2022, equation 6)."""
    normal = NormalDist()
    inside = np.clip(np.asarray(fpr, dtype=float), 1e-300, 1 - 1e-16)
    found = np.array([normal.cdf(normal.inv_cdf(rate) + mu) for rate in inside.ravel()]).reshape(inside.shape)
    return np.where(np.asarray(fpr) <= 0, 0.0, np.where(np.asarray(fpr) >= 1, 1.0, found))


def gaussian_auc_ceiling(mu: float) -> float:
    """Compute the largest AUC under μ-Gaussian DP, Φ(μ/√2): the area under `gaussian_tpr_ceiling`."""
    return NormalDist().cdf(mu / math.sqrt(2))
