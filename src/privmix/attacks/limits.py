"""The success that a claim allows to attacks that tell two records (or people) apart, in expectation: for tables and
plots.

Both games of the page are swaps. The worst record is replaced by another one. Where the protected unit is all that a
person has, a member and a held-out person could have changed places, so the average attack plays a swap too.
Where people hold several records and one record is protected, nothing here limits the average attack.
"""

import math
from statistics import NormalDist

import numpy as np


def swap_guarantee(epsilon: float, delta: float, relation: str) -> tuple[float, float]:
    """The (epsilon, delta) that holds between two datasets of which one has a record in another's place.

    Under add/remove that is two steps, which cost (2ε, (1 + e^ε) δ) (group privacy, Dwork and Roth 2014,
    Theorem 2.2 and its (ε, δ) form).
    """
    if relation == "replace_one":
        return epsilon, delta
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta)


def tpr_ceiling(fpr: np.ndarray | float, epsilon: float, delta: float) -> np.ndarray:
    """Highest true-positive rate at that false-positive rate: the border of the DP region.

    Every pair of false alarm FA and missed detection MD satisfies FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1).
    """
    fpr = np.asarray(fpr, dtype=float)
    odds = math.exp(min(epsilon, 700.0))
    return np.clip(np.minimum(delta + odds * fpr, 1 - (1 - delta - fpr) / odds), 0.0, 1.0)


def auc_ceiling(epsilon: float, delta: float) -> float:
    """Largest AUC that (epsilon, delta)-DP allows any attacker: the area under `tpr_ceiling`, 1 - (1-δ)²/(1+e^ε)."""
    return 1 - (1 - delta) ** 2 / (1 + math.exp(min(epsilon, 700.0)))


def swap_auc_ceiling(epsilon: float, delta: float, relation: str) -> float:
    """Largest AUC of a game that swaps."""
    return auc_ceiling(*swap_guarantee(epsilon, delta, relation))


def gaussian_tpr_ceiling(fpr: np.ndarray, mu: float) -> np.ndarray:
    """Highest true-positive rate under μ-Gaussian DP, Φ(Φ⁻¹(FPR) + μ) (Dong, Roth, Su 2022, equation 6)."""
    normal = NormalDist()
    inside = np.clip(np.asarray(fpr, dtype=float), 1e-300, 1 - 1e-16)
    found = np.array([normal.cdf(normal.inv_cdf(rate) + mu) for rate in inside.ravel()]).reshape(inside.shape)
    return np.where(np.asarray(fpr) <= 0, 0.0, np.where(np.asarray(fpr) >= 1, 1.0, found))


def gaussian_auc_ceiling(mu: float) -> float:
    """Largest AUC under μ-Gaussian DP, Φ(μ/√2): the area under `gaussian_tpr_ceiling`."""
    return NormalDist().cdf(mu / math.sqrt(2))
