"""The likelihood-ratio attack, LiRA (Carlini et al. 2022): compare a record in the target and in shadow models.

The attack compares the log density of a record in the target with that in shadow models fitted to the record and with
that in the others. It takes both distributions as normal. A few models give little information about one record, so
both sides share one pooled variance. The variance of each record is shrunk towards the median of all records, as if
the median were known from `PRIOR` more models. The gap between the two means is shrunk too, in units of its standard
deviation.
"""

from dataclasses import dataclass

import numpy as np

from privmix.attacks.membership.shadows import ShadowModels

PRIOR = 4.0


@dataclass(frozen=True, eq=False)
class ShadowStatistics:
    """Statistics of each record over all pairs except one, (pairs, n): row p excludes pair p."""

    inside: np.ndarray  # mean log density in models that were fitted to the record
    outside: np.ndarray  # mean log density in the other models
    variance: np.ndarray  # pooled variance about these two means
    outside_variance: np.ndarray  # variance about the second mean


def shadow_statistics(shadows: ShadowModels) -> ShadowStatistics:
    """Compute means and variances for the targets of each pair, from all other pairs."""
    inside, squares_in = _leave_one_out(shadows.known)
    outside, squares_out = _leave_one_out(shadows.unknown)
    freedom = shadows.pairs - 2  # of one side: pairs - 1 models, minus one for their mean
    return ShadowStatistics(
        inside,
        outside,
        _shrink_variance(squares_in + squares_out, 2 * freedom),
        _shrink_variance(squares_out, freedom),
    )


def online_scores(shadows: ShadowModels) -> np.ndarray:
    """Compute the log ratio of the two normal densities at the value of the target, (models, n)."""
    own = shadow_statistics(shadows)
    width = np.sqrt(own.variance)
    gap = shrink_gap((own.inside - own.outside) / width, 2 / (shadows.pairs - 1))
    middle = (own.inside + own.outside) / 2
    gap, middle, width = (np.repeat(each, 2, axis=0) for each in (gap, middle, width))
    return gap * (shadows.densities - middle) / width


def shrink_gap(gap: np.ndarray, error: float) -> np.ndarray:
    """Shrink the gap of each record towards the mean gap according to its sampling variance (Efron and Morris 1973).

    With few models, the gap of most records is noise and has the wrong sign nearly half of the time. Rows are pairs.
    """
    mean = gap.mean(axis=1, keepdims=True)
    true = np.maximum(gap.var(axis=1, keepdims=True) - error, 0.0)
    return mean + (gap - mean) * true / (true + error)


def offline_scores(shadows: ShadowModels) -> np.ndarray:
    """Compute by how many standard deviations the target exceeds the models that were not fitted to the record."""
    own = shadow_statistics(shadows)
    outside, variance = (np.repeat(each, 2, axis=0) for each in (own.outside, own.outside_variance))
    return (shadows.densities - outside) / np.sqrt(variance)


def _leave_one_out(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute, for each row, the mean of all other rows and the sum of squares about it."""
    number, mean = len(values), values.mean(axis=0)
    away = values - mean
    return mean - away / (number - 1), (away**2).sum(axis=0) - away**2 * number / (number - 1)


def _shrink_variance(squares: np.ndarray, freedom: int) -> np.ndarray:
    squares = np.maximum(squares, 0.0)
    typical = np.median(squares, axis=1, keepdims=True) / freedom
    return np.maximum((squares + PRIOR * typical) / (freedom + PRIOR), np.finfo(float).tiny)
