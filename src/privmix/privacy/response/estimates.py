"""What may be done with estimated shares: intervals around them, and the nearest shares that can be shares."""

import math

import numpy as np

from privmix.privacy.response.oracle import Oracle

NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal
CHEBYSHEV_95 = math.sqrt(1 / 0.05)  # P(|X - EX| >= t sd) <= 1/t²


def intervals(estimate: float, standard_error: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % intervals for a share, cut to [0, 1]: the normal one, and Chebyshev's, which needs no
    normality. Both take the standard error as known; it is itself estimated.
    """

    def around(width: float) -> tuple[float, float]:
        low, high = estimate - width * standard_error, estimate + width * standard_error
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high))

    return around(NORMAL_95), around(CHEBYSHEV_95)


def exact_interval(oracle: Oracle, support: float, n: float) -> tuple[float, float]:
    """A 95 % interval for a share that assumes nothing of its distribution, cut to [0, 1].

    Among n people drawn at random the support is binomial, so Clopper and Pearson's interval (1934) holds its
    probability, and (probability - q) / (p - q) is the share. For n given people the support is a sum of unequal coins
    of that mean, whose tails are no heavier from one report off it on (Hoeffding 1956): the interval covers their share
    at least as often. `support` and `n` need not be whole, where several reports of a person count as one.
    """
    from scipy.special import betaincinv

    low = betaincinv(support, n - support + 1, 0.025) if support > 0 else 0.0
    high = betaincinv(support + 1, n - support, 0.975) if support < n else 1.0
    ends = ((end - oracle.other) / (oracle.truth - oracle.other) for end in (low, high))
    return tuple(float(min(1.0, max(0.0, end))) for end in ends)


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """Norm-sub: the nearest non-negative shares that sum to one (Wang et al. 2020, §4.2). Post-processing."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    kept = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(shares - excess[kept], 0.0)
