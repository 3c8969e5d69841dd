"""What (epsilon, delta) forbids to membership attacks beside the AUC: each point of the ROC, and the swap game."""

import math

import numpy as np

from privmix.evaluate.membership import auc_ceiling


def tpr_ceiling(fpr: np.ndarray | float, epsilon: float, delta: float) -> np.ndarray:
    """Highest true-positive rate at that false-positive rate.

    Every pair of false alarm FA and missed detection MD satisfies FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1).
    """
    fpr = np.asarray(fpr, dtype=float)
    odds = math.exp(min(epsilon, 700.0))
    return np.clip(np.minimum(delta + odds * fpr, 1 - (1 - delta - fpr) / odds), 0.0, 1.0)


def swap_ceiling(epsilon: float, delta: float, relation: str) -> float:
    """Largest AUC when the game replaces the record, as the worst record's does.

    Under add/remove a replacement is two steps, which cost (2ε, (1 + e^ε) δ) (group privacy, Dwork and Roth 2014,
    Theorem 2.2 and its (ε, δ) form).
    """
    if relation == "replace_one":
        return auc_ceiling(epsilon, delta)
    return auc_ceiling(2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta))
