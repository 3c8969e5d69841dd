"""Lower bounds on ε from the scores that an attacker gave to runs of two neighbouring worlds.

Each theorem limits what an attacker can achieve under (ε, δ). The bound inverts it with a confidence bound on what this
attacker achieved. `mine` and `other` are the scores of run i in each world. Runs are independent of each other, and the
two runs with the same number may share their noise. A pair with the same noise is an honest sample of each world, and
the shared part cancels in the comparison: far fewer runs prove the same.
"""

import math
from statistics import NormalDist

import numpy as np

from privmix.privacy.accounting import gaussian_epsilon
from privmix.privacy.hypothesis_testing import PairedScores, paired_auc

FEWEST_RUNS = 20  # runs of each world; with fewer there is no bound
NORMAL = NormalDist()


def auc_lower_bound(sides: PairedScores, alpha: float) -> float:
    """Return a lower bound on the AUC, at confidence 1 - alpha.

    A normal bound is wrong if events that lower the AUC are too rare to occur in these runs, for example near AUC = 1.
    An event with a chance above ln(1/alpha)/n occurs at confidence 1 - alpha, and a rarer one takes at most 2 AUC from
    the mean of a run. This amount is subtracted in addition to the normal quantile. Together this is more than Clopper
    and Pearson require for a rare event.
    """
    estimate, variance = paired_auc(sides)
    unseen = 2 * estimate * math.log(1 / alpha) / len(sides)
    return max(0.0, estimate - NORMAL.inv_cdf(1 - alpha) * math.sqrt(variance) - unseen)


def gaussian_epsilon_bound(area: float, delta: float) -> float:
    """Return ε at δ of the least μ-GDP mechanism with that AUC: AUC ≤ Φ(μ/√2) (Dong, Roth, Su 2022).

    Valid only if the whole ledger is Gaussian. On a tight randomised response at ε = 1 it would "prove" 4.18.
    """
    if area <= 0.5:
        return 0.0
    return gaussian_epsilon(math.sqrt(2) * NORMAL.inv_cdf(min(area, 1 - 1e-16)), delta)


def pure_epsilon_bound(area: float, delta: float) -> float:
    """Return the least ε with AUC ≤ 1 - (1-δ)²/(1+e^ε), the area of Kairouz, Oh, Viswanath 2015, Theorem 2.1."""
    odds = (1 - delta) ** 2 / max(1 - area, 1e-300) - 1
    return math.log(odds) if odds > 1 else 0.0


def error_counts(sides: PairedScores, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the runs of the other world above each threshold, and the runs of mine that are not above it."""
    false_alarms = len(sides) - np.searchsorted(np.sort(sides.other), thresholds, side="right")
    return false_alarms, np.searchsorted(np.sort(sides.mine), thresholds, side="right")


def clopper_pearson_bound(
    false_alarms: np.ndarray, misses: np.ndarray, runs: int, delta: float, alpha: float
) -> np.ndarray:
    """Return the least ε that allows these errors in `runs` runs of each world, at confidence 1 - alpha.

    Every test has FA + e^ε MD ≥ 1 - δ and e^ε FA + MD ≥ 1 - δ (Kairouz, Oh, Viswanath 2015). Upper bounds of both rates
    hold together at alpha/2 each (Clopper and Pearson 1934), even if runs of the two worlds share noise.
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
    """Choose the threshold that will probably prove most in `runs` runs, from training runs that prove nothing."""
    values = np.unique(np.concatenate([training.mine, training.other]))
    values = values[np.isfinite(values)]
    between = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if not len(between):
        return 0.0
    alarms, misses = (
        (errors + 0.5) / (len(training) + 1) * runs for errors in error_counts(training, between)
    )
    return float(between[np.argmax(clopper_pearson_bound(alarms, misses, runs, delta, alpha))])
