"""Lower bounds on ε from the scores that an attacker gave to runs of two neighbouring worlds.

Each theorem says what (ε, δ) allows an attacker at most, and is turned round with a confidence bound on what this one
achieved. `mine` and `other` are the scores of run i of either world: runs are independent of each other, and the two
runs of one number may share their noise. A pair with the same noise is an honest sample of either world, and what both
have in common leaves the comparison: far fewer runs prove as much.
"""

import math
from statistics import NormalDist

import numpy as np

from privmix.privacy.accounting import gaussian_epsilon
from privmix.privacy.hypothesis_testing import PairedScores, paired_auc

FEWEST_RUNS = 20  # runs of each world below which nothing is said
NORMAL = NormalDist()


def auc_lower_bound(sides: PairedScores, alpha: float) -> float:
    """What the AUC is at least, at confidence 1 - alpha.

    A normal bound is wrong where what lowers the AUC is too rare to be seen in these runs, as near AUC = 1. What has a
    chance above ln(1/alpha)/n is seen at confidence 1 - alpha, and takes at most 2 AUC from the mean of a run: as much
    is taken off beside the normal quantile, which together is more than Clopper and Pearson ask for a rare event.
    """
    estimate, variance = paired_auc(sides)
    unseen = 2 * estimate * math.log(1 / alpha) / len(sides)
    return max(0.0, estimate - NORMAL.inv_cdf(1 - alpha) * math.sqrt(variance) - unseen)


def gaussian_epsilon_bound(area: float, delta: float) -> float:
    """ε at δ of the least μ-GDP mechanism with that AUC: AUC ≤ Φ(μ/√2) (Dong, Roth, Su 2022).

    Only of a mechanism whose whole ledger is Gaussian. On a tight randomised response at ε = 1 it would "prove" 4.18.
    """
    if area <= 0.5:
        return 0.0
    return gaussian_epsilon(math.sqrt(2) * NORMAL.inv_cdf(min(area, 1 - 1e-16)), delta)


def pure_epsilon_bound(area: float, delta: float) -> float:
    """Least ε with AUC ≤ 1 - (1-δ)²/(1+e^ε), the area of the region of Kairouz, Oh, Viswanath 2015, Theorem 2.1."""
    odds = (1 - delta) ** 2 / max(1 - area, 1e-300) - 1
    return math.log(odds) if odds > 1 else 0.0


def error_counts(sides: PairedScores, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many runs of the other world are above each threshold, and how many of mine are not."""
    false_alarms = len(sides) - np.searchsorted(np.sort(sides.other), thresholds, side="right")
    return false_alarms, np.searchsorted(np.sort(sides.mine), thresholds, side="right")


def clopper_pearson_bound(
    false_alarms: np.ndarray, misses: np.ndarray, runs: int, delta: float, alpha: float
) -> np.ndarray:
    """Least ε that allows so many errors in so many runs of either world, at confidence 1 - alpha.

    Every test has FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ (Kairouz, Oh, Viswanath 2015). Upper bounds of both rates
    hold together at alpha/2 each (Clopper and Pearson 1934), whatever runs of the two worlds share.
    """
    from scipy.special import betaincinv

    def upper(errors: np.ndarray) -> np.ndarray:
        errors = np.asarray(errors, dtype=float)
        bound = betaincinv(errors + 1, np.maximum(runs - errors, 0.5), 1 - alpha / 2)
        return np.where(errors >= runs, 1.0, bound)

    alarms, missed = upper(false_alarms), upper(misses)
    odds = np.maximum((1 - delta - missed) / alarms, (1 - delta - alarms) / missed)
    return np.log(np.maximum(odds, 1.0))


def choose_threshold(training: PairedScores, runs: int, delta: float, alpha: float) -> float:
    """The threshold that will probably prove most in so many runs, from runs that prove nothing themselves."""
    values = np.unique(np.concatenate([training.mine, training.other]))
    values = values[np.isfinite(values)]
    between = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if not len(between):
        return 0.0
    alarms, misses = (
        (errors + 0.5) / (len(training) + 1) * runs for errors in error_counts(training, between)
    )
    return float(between[np.argmax(clopper_pearson_bound(alarms, misses, runs, delta, alpha))])
