"""The likelihood-ratio attack, LiRA (Carlini et al. 2022): the log density of a record in the target is compared with
its log density in shadow models that were fitted to the record and in those that were not. Both are taken as normal.

Few models say little about one record. So both sides share one pooled variance, and the variance of each record is
shrunk towards the median of all records as if it were known from `PRIOR` more models. The gap between the two means is
shrunk too, in units of its standard deviation.
"""

from dataclasses import dataclass

import numpy as np

from privmix.attacks.membership.shadows import ShadowModels

PRIOR = 4.0


@dataclass(frozen=True, eq=False)
class ShadowStatistics:
    """What all pairs but one say of each record, (pairs, n): row p leaves pair p out."""

    inside: np.ndarray  # mean log density in models that were fitted to it
    outside: np.ndarray  # in those that were not
    variance: np.ndarray  # around these two means
    outside_variance: np.ndarray


def shadow_statistics(shadows: ShadowModels) -> ShadowStatistics:
    """Means and variances for the targets of each pair, without that pair."""
    inside, squares_in = _leave_one_out(shadows.known)
    outside, squares_out = _leave_one_out(shadows.unknown)
    freedom = shadows.pairs - 2  # of one side: so many models left, less one for their mean
    return ShadowStatistics(
        inside,
        outside,
        _shrink_variance(squares_in + squares_out, 2 * freedom),
        _shrink_variance(squares_out, freedom),
    )


def online_scores(shadows: ShadowModels) -> np.ndarray:
    """Log of the ratio of both normal densities at the target's value, (models, n)."""
    own = shadow_statistics(shadows)
    width = np.sqrt(own.variance)
    gap = shrink_gap((own.inside - own.outside) / width, 2 / (shadows.pairs - 1))
    middle = (own.inside + own.outside) / 2
    gap, middle, width = (np.repeat(each, 2, axis=0) for each in (gap, middle, width))
    return gap * (shadows.densities - middle) / width


def shrink_gap(gap: np.ndarray, error: float) -> np.ndarray:
    """Each record's gap drawn towards the mean gap as far as its sampling variance asks (Efron and Morris 1973).

    With few models most records' own gap is noise, in the wrong direction nearly as often as not. Rows by pair.
    """
    mean = gap.mean(axis=1, keepdims=True)
    true = np.maximum(gap.var(axis=1, keepdims=True) - error, 0.0)
    return mean + (gap - mean) * true / (true + error)


def offline_scores(shadows: ShadowModels) -> np.ndarray:
    """How many standard deviations the target's value is above models that were not fitted to the record."""
    own = shadow_statistics(shadows)
    outside, variance = (np.repeat(each, 2, axis=0) for each in (own.outside, own.outside_variance))
    return (shadows.densities - outside) / np.sqrt(variance)


def _leave_one_out(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and sums of squares about them over all rows but each one."""
    number, mean = len(values), values.mean(axis=0)
    away = values - mean
    return mean - away / (number - 1), (away**2).sum(axis=0) - away**2 * number / (number - 1)


def _shrink_variance(squares: np.ndarray, freedom: int) -> np.ndarray:
    squares = np.maximum(squares, 0.0)
    typical = np.median(squares, axis=1, keepdims=True) / freedom
    return np.maximum((squares + PRIOR * typical) / (freedom + PRIOR), np.finfo(float).tiny)
