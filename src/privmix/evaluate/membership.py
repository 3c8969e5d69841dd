"""How well scores tell members from others: areas, rates, curves. A high score says "member".

The loss attack scores a record by its log density under the model (Yeom et al. 2018); attacks with shadow models have
scores of their own. `members` and `others` are the scores of records that were and were not in the training data.
"""

import math
from dataclasses import dataclass

import numpy as np


def placements(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The share of others below each score, ties counting one half."""
    ordered, order = np.sort(others), np.argsort(scores)
    rising = scores[order]  # looked up in order, neighbours are near in memory: ten times as fast
    share = np.empty(len(scores))
    share[order] = np.searchsorted(ordered, rising, side="left")
    share[order] += np.searchsorted(ordered, rising, side="right")
    return share / (2 * len(others))


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Probability that a member scores above another record, ties counting one half (Mann and Whitney)."""
    return float(placements(members, others).mean())


@dataclass(frozen=True, eq=False)
class Sides:
    """Scores of the same number of runs of either world; high ones speak for mine."""

    mine: np.ndarray
    other: np.ndarray

    def __len__(self) -> int:
        return len(self.mine)


def paired_auc(sides: Sides) -> tuple[float, float]:
    """The AUC over all pairs of different runs, and its variance.

    A U-statistic of degree two of independent pairs: unbiased for scores that are drawn independently, whatever the two
    runs of one number share. The variance is the jackknife's, never too small on average (Efron and Stein 1981).
    """
    n = len(sides)
    own = np.where(sides.mine == sides.other, 0.5, sides.mine > sides.other)
    of_mine, of_other = placements(sides.mine, sides.other), 1 - placements(sides.other, sides.mine)
    both = (n * (of_mine + of_other) - 2 * own) / (n - 1)
    estimate = float(both.mean() / 2)
    return estimate, float(np.square(both - both.mean()).sum() * (n - 1) / (n * (n - 2) ** 2))


def true_positive_rate(members: np.ndarray, others: np.ndarray, false_positive_rate: float) -> float | None:
    """Share of members found when at most that share of others is accused; None where others are too few."""
    if len(others) * false_positive_rate < 1:
        return None
    accused = math.floor(len(others) * false_positive_rate)
    threshold = np.sort(others)[::-1][accused]
    return float((members > threshold).mean())


def advantage(members: np.ndarray, others: np.ndarray) -> float:
    """The largest true-positive rate less false-positive rate at any threshold (Yeom et al. 2018)."""
    ordered, found = np.sort(others), np.sort(members)
    thresholds = np.concatenate([ordered, found])
    accused = 1 - np.searchsorted(ordered, thresholds, side="right") / len(others)
    hit = 1 - np.searchsorted(found, thresholds, side="right") / len(members)
    return max(float((hit - accused).max()), 0.0)


def roc(members: np.ndarray, others: np.ndarray, points: int = 200) -> list[tuple[float, float]]:
    """(false-positive rate, true-positive rate) at rates spread evenly in the logarithm, then 1."""
    ordered = np.sort(others)[::-1]
    accused = np.unique(np.geomspace(1, len(others), points).astype(np.int64) - 1)
    found = 1 - np.searchsorted(np.sort(members), ordered[accused], side="right") / len(members)
    curve = [(float(rate), float(hit)) for rate, hit in zip(accused / len(others), found, strict=True)]
    return [*curve, (1.0, 1.0)]


def auc_interval(
    estimate: float, members: int, others: int, z: float = 1.959963984540054
) -> tuple[float, float]:
    """95 % interval for an AUC that stays honest at 0 and 1 (Newcombe 2006, method 5).

    Its ends are where |estimate - θ| = z sqrt(V(θ)), with Hanley and McNeil's variance V under equal sizes.
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
