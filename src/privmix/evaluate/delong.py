"""The AUC and its variance without any assumption on the scores (DeLong, DeLong, Clarke-Pearson 1988)."""

import numpy as np


def placements(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of others that each member is above, and the share of members above each other; ties are one half.

    Both by sorting, in O((m + n) log(m + n)) (Sun and Xu 2014).
    """
    return _share_below(members, others), 1 - _share_below(others, members)


def delong(members: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """AUC of independent scores, and its variance."""
    of_members, of_others = placements(members, others)
    spread = of_members.var(ddof=1) / len(members) + of_others.var(ddof=1) / len(others)
    return float(of_members.mean()), float(spread)


def _share_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    ordered = np.sort(others)
    twice = np.searchsorted(ordered, scores, side="left") + np.searchsorted(ordered, scores, side="right")
    return twice / (2 * len(others))
