"""Hypothesis tests between two sides from scores: AUC with intervals, error rates, ROC curves.

A high score is evidence for the first side: the members in membership inference, one of two neighbouring worlds in an
audit. Attacks and audits share these statistics. Nothing here depends on how the scores were computed.

The AUC is a mean over pairs of scores. Its interval is DeLong's (DeLong, DeLong, Clarke-Pearson 1988). The part of each
score in the variance is its placement among the scores of the other side. One sort gives all placements (Sun and Xu
2014). Scores of one person, or of one model, are not independent: their parts are added up first (Obuchowski 1997). If
scores are grouped in two ways at once, by record and by model, the two variances are added and the variance of single
scores is subtracted (Cameron, Gelbach, Miller 2011).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def placements(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the share of others below each score; a tie counts one half."""
    ordered, order = np.sort(others), np.argsort(scores)
    rising = scores[order]  # sorted lookups are near in memory: ten times as fast
    share = np.empty(len(scores))
    share[order] = np.searchsorted(ordered, rising, side="left")
    share[order] += np.searchsorted(ordered, rising, side="right")
    return share / (2 * len(others))


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Return the probability that a member scores above another record; a tie counts one half (Mann and Whitney)."""
    return float(placements(members, others).mean())


@dataclass(frozen=True, eq=False)
class PairedScores:
    """Scores of the same number of runs in each of two worlds. High scores are evidence for `mine`."""

    mine: np.ndarray
    other: np.ndarray

    def __len__(self) -> int:
        return len(self.mine)


def paired_auc(sides: PairedScores) -> tuple[float, float]:
    """Return the AUC over all pairs of different runs, and its variance.

    The AUC is a U-statistic of degree two of independent pairs. It is unbiased for scores that are drawn independently,
    whatever the two runs with the same index share. The variance is the jackknife's, which is never too small on
    average (Efron and Stein 1981).
    """
    n = len(sides)
    own = np.where(sides.mine == sides.other, 0.5, sides.mine > sides.other)
    of_mine, of_other = placements(sides.mine, sides.other), 1 - placements(sides.other, sides.mine)
    both = (n * (of_mine + of_other) - 2 * own) / (n - 1)
    estimate = float(both.mean() / 2)
    return estimate, float(np.square(both - both.mean()).sum() * (n - 1) / (n * (n - 2) ** 2))


def true_positive_rate(members: np.ndarray, others: np.ndarray, false_positive_rate: float) -> float | None:
    """Return the true-positive rate at a false-positive rate of at most this; None if there are too few others."""
    if len(others) * false_positive_rate < 1:
        return None
    accused = math.floor(len(others) * false_positive_rate)
    threshold = np.sort(others)[::-1][accused]
    return float((members > threshold).mean())


def advantage(members: np.ndarray, others: np.ndarray) -> float:
    """Return the largest difference of true-positive and false-positive rate at any threshold (Yeom et al. 2018)."""
    ordered, found = np.sort(others), np.sort(members)
    thresholds = np.concatenate([ordered, found])
    accused = 1 - np.searchsorted(ordered, thresholds, side="right") / len(others)
    hit = 1 - np.searchsorted(found, thresholds, side="right") / len(members)
    return max(float((hit - accused).max()), 0.0)


def roc_curve(members: np.ndarray, others: np.ndarray, points: int = 200) -> list[tuple[float, float]]:
    """Return pairs (false-positive rate, true-positive rate) at rates that are even on a log scale, then at 1."""
    ordered = np.sort(others)[::-1]
    accused = np.unique(np.geomspace(1, len(others), points).astype(np.int64) - 1)
    found = 1 - np.searchsorted(np.sort(members), ordered[accused], side="right") / len(members)
    curve = [(float(rate), float(hit)) for rate, hit in zip(accused / len(others), found, strict=True)]
    return [*curve, (1.0, 1.0)]


def newcombe_interval(
    estimate: float, members: int, others: int, z: float = 1.959963984540054
) -> tuple[float, float]:
    """Return a 95 % interval for an AUC that is also valid at 0 and 1 (Newcombe 2006, method 5).

    At its ends |estimate - θ| = z sqrt(V(θ)), with Hanley and McNeil's variance V under equal sizes.
    """

    def deviation(theta: float) -> float:
        size = (members + others) / 2
        spread = 1 + (size - 1) * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return z * math.sqrt(theta * (1 - theta) * spread / (members * others))

    def end(inside: float, outside: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2
            if abs(estimate - middle) <= deviation(middle):
                inside = middle
            else:
                outside = middle
        return inside

    return end(estimate, 0.0), end(estimate, 1.0)


Z95 = 1.959963984540054


@dataclass(frozen=True)
class AucInterval:
    """An AUC with the ends of its interval."""

    auc: float
    low: float
    high: float


def auc_with_interval(
    members: np.ndarray,
    others: np.ndarray,
    groups: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    z: float = Z95,
) -> AucInterval:
    """Return the AUC and its interval, computed on the logit scale to stay inside (0, 1) (Pepe 2003, section 5.2).

    `groups` contains up to two ways to group the scores. Each is a pair of arrays: the group numbers, from 0, of the
    members and of the others. If the variance cannot be estimated, for example at an AUC of 0 or 1, the interval is
    Newcombe's, with the number of groups as the number of scores on each side.
    """
    above, below = placements(members, others), 1 - placements(others, members)
    estimate = float(above.mean())
    spread = auc_variance(above, below, groups)
    if spread <= 0 or not 1e-12 < estimate < 1 - 1e-12:
        sizes = [[int(np.count_nonzero(np.bincount(side))) for side in each] for each in groups]
        mine, theirs = (
            min([len(side), *(size[i] for size in sizes)]) for i, side in enumerate((members, others))
        )
        return AucInterval(estimate, *newcombe_interval(estimate, mine, theirs, z))
    logit = math.log(estimate / (1 - estimate))
    half = z * math.sqrt(spread) / (estimate * (1 - estimate))
    return AucInterval(estimate, _expit(logit - half), _expit(logit + half))


def auc_variance(
    above: np.ndarray, below: np.ndarray, groups: Sequence[tuple[np.ndarray, np.ndarray]]
) -> float:
    """Return the variance of the AUC from the placements of members among others, and of others below members."""
    if min(len(above), len(below)) < 2:
        return 0.0
    mine, theirs = (above - above.mean()) / len(above), (below - below.mean()) / len(below)
    single = (
        len(above) / (len(above) - 1) * (mine**2).sum() + len(below) / (len(below) - 1) * (theirs**2).sum()
    )
    grouped = [_clustered_variance(mine, theirs, *each) for each in groups]
    if len(grouped) < 2:
        return float(grouped[0] if grouped else single)
    return float(max(sum(grouped) - single, *grouped))


def _clustered_variance(
    mine: np.ndarray, theirs: np.ndarray, my_group: np.ndarray, their_group: np.ndarray
) -> float:
    number = np.concatenate([my_group, their_group])
    parts = np.bincount(number, np.concatenate([mine, theirs]))
    groups = np.count_nonzero(np.bincount(number))
    return groups / (groups - 1) * float((parts**2).sum()) if groups > 1 else 0.0


def _expit(value: float) -> float:
    return 1 / (1 + math.exp(-min(max(value, -700.0), 700.0)))
