"""What (epsilon, delta) forbids, in expectation, to attacks that tell two records (or people) apart.

Both games of the page are swaps. The worst record is replaced by another; and where the protected unit is all that a
person has, a member and a held-out person could have changed places, so the average attack plays a swap too.
Where people hold several records and one record is protected, nothing here limits the average attack.
"""

import math

import numpy as np

from privmix.evaluate.membership import auc_ceiling


def swap(epsilon: float, delta: float, relation: str) -> tuple[float, float]:
    """The (epsilon, delta) that holds between two datasets of which one has a record in another's place.

    Under add/remove that is two steps, which cost (2ε, (1 + e^ε) δ) (group privacy, Dwork and Roth 2014,
    Theorem 2.2 and its (ε, δ) form).
    """
    if relation == "replace_one":
        return epsilon, delta
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta)


def tpr_ceiling(fpr: np.ndarray | float, epsilon: float, delta: float) -> np.ndarray:
    """Highest true-positive rate at that false-positive rate.

    Every pair of false alarm FA and missed detection MD satisfies FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1).
    """
    fpr = np.asarray(fpr, dtype=float)
    odds = math.exp(min(epsilon, 700.0))
    return np.clip(np.minimum(delta + odds * fpr, 1 - (1 - delta - fpr) / odds), 0.0, 1.0)


def swap_ceiling(epsilon: float, delta: float, relation: str) -> float:
    """Largest AUC of a game that swaps."""
    return auc_ceiling(*swap(epsilon, delta, relation))
