"""What may be done with estimated shares: intervals around them, and the nearest shares that can be shares."""

import math

import numpy as np

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


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """Norm-sub: the nearest non-negative shares that sum to one (Wang et al. 2020, §4.2). Post-processing."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    kept = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(shares - excess[kept], 0.0)
