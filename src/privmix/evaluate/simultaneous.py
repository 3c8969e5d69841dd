"""Simultaneous intervals of the groups of one grouping, and of the differences between two groups.

Two things vary: which people (or places) are held out, and the noise of a replicate. The variance of a mean over R
replicates is C + s²/R, where C comes from the bootstrap over people and s² is the variance between replicates. With few
replicates, s² of a single group can be small by chance, so each group gets the larger one of its own s² and the average
over all groups (or over all differences).

The largest of several errors is larger than a single one. The correction is of max type: it takes the quantile of the
largest standardised error over all groups, from draws with the estimated covariance (the multiplier bootstrap of
Chernozhukov, Chetverikov, Kato 2013). Bonferroni's correction ignores that errors of groups and of differences are
correlated, and is wider. The quantile is that of a normal distribution; its tail probability is then looked up in a
Student distribution with the Welch-Satterthwaite degrees of freedom, because s² has only R - 1.
Simulations of 2 to 8 groups and 3 or 10 replicates, at a level of 95 %, cover all groups together in 93 to 99 %.
Random labels on `mpls_stops` (2 or 5 groups, 3 replicates, 2 mechanisms) show a real difference in 1.6 to 3.7 %.
"""

from dataclasses import dataclass

import numpy as np

DRAWS = 2000


@dataclass(frozen=True)
class Spread:
    """A mean over replicates, with its corrected interval; one that is not finite has none."""

    mean: float
    low: float | None
    high: float | None

    @property
    def real(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Difference:
    """The difference between two groups: the number of the lower one, of the higher one, and higher minus lower."""

    lower: int
    higher: int
    spread: Spread


def group_intervals(values: np.ndarray, covariance: np.ndarray, level: float, seed: int = 0) -> list[Spread]:
    """Return the mean of each group over replicates, (R, G), with intervals that hold for all groups together."""
    return _intervals(values, covariance, np.eye(values.shape[1]), level, seed)


def largest_difference(
    values: np.ndarray, covariance: np.ndarray, level: float, seed: int = 0
) -> Difference | None:
    """Return the largest difference between two groups; its interval is corrected for all pairs.

    If intervals of some pairs exclude 0, it is the largest difference of those.
    """
    groups = values.shape[1]
    pairs = [(i, j) for i in range(groups) for j in range(i)]
    if not pairs:
        return None
    contrasts = np.zeros((len(pairs), groups))
    for row, (first, second) in enumerate(pairs):
        contrasts[row, first], contrasts[row, second] = 1.0, -1.0
    found = _intervals(values, covariance, contrasts, level, seed)
    finite = [number for number, spread in enumerate(found) if spread.low is not None]
    if not finite:
        return None
    real = [number for number in finite if found[number].real]
    best = max(real or finite, key=lambda number: abs(found[number].mean))
    (first, second), spread = pairs[best], found[best]
    if spread.mean >= 0:
        return Difference(second, first, spread)
    assert spread.low is not None
    assert spread.high is not None
    return Difference(first, second, Spread(-spread.mean, -spread.high, -spread.low))


def _intervals(
    values: np.ndarray, covariance: np.ndarray, contrasts: np.ndarray, level: float, seed: int
) -> list[Spread]:
    """Return the mean of each contrast of groups, with intervals that hold for all contrasts together."""
    from scipy.special import ndtr, stdtrit  # only the report needs it

    usable = np.isfinite(values).all(axis=0) & np.isfinite(np.diag(covariance))
    known = ~(contrasts[:, ~usable] != 0).any(axis=1)
    with np.errstate(invalid="ignore"):
        means = (
            np.where(contrasts[:, None, :] != 0, contrasts[:, None, :] * values, 0.0).sum(axis=2).mean(axis=1)
        )
    rows = contrasts[np.ix_(known, usable)]
    replicates = len(values)
    of_units = np.einsum("ij,jk,ik->i", rows, covariance[np.ix_(usable, usable)], rows)
    deviations = (values[:, usable] - values[:, usable].mean(axis=0)) @ rows.T
    between = (deviations**2).sum(axis=0) / max(replicates - 1, 1) / replicates
    wide = np.maximum(between, between.mean() if len(between) else 0.0)
    error = np.sqrt(of_units + wide)
    found = [Spread(float(mean), None, None) for mean in means]
    if not len(rows) or not (error > 0).any():
        return found
    rng = np.random.default_rng(seed)
    root = _square_root(covariance[np.ix_(usable, usable)])
    draws = rng.standard_normal((DRAWS, len(root))) @ root @ rows.T
    weights = rng.standard_normal((DRAWS, replicates))
    noise = (weights - weights.mean(axis=1, keepdims=True)) @ deviations
    if replicates > 1:
        scale = np.sqrt(wide / np.where(between > 0, between, np.inf))
        draws = draws + noise * scale / np.sqrt(replicates * (replicates - 1))
    safe = np.where(error > 0, error, np.inf)
    quantile = float(np.quantile((np.abs(draws) / safe).max(axis=1), level))
    tail = ndtr(-quantile)
    with np.errstate(divide="ignore"):
        freedom = np.where(
            wide > 0, (replicates - 1) * (error**2 / np.where(wide > 0, wide, 1.0)) ** 2, np.inf
        )
    factors = np.where(np.isfinite(freedom), -stdtrit(np.minimum(freedom, 1e9), tail), quantile)
    for number, half in zip(np.flatnonzero(known), factors * error, strict=True):
        mean = float(means[number])
        found[number] = Spread(mean, mean - float(half), mean + float(half))
    return found


def _square_root(covariance: np.ndarray) -> np.ndarray:
    """Return a symmetric square root; negative eigenvalues are rounding errors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
