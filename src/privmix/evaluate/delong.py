"""An AUC with an interval from its scores (DeLong, DeLong, Clarke-Pearson 1988), also where scores come in clusters.

The AUC is a mean over pairs; each score's part in its variance is its placement among the scores of the other side,
which one sort gives for all of them (Sun and Xu 2014). Scores of one person, or of one model, are not independent:
their parts are added up first (Obuchowski 1997); where they are grouped in two ways at once, by record and by model,
the two variances are added and that of single scores taken off (Cameron, Gelbach, Miller 2011).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmix.evaluate.membership import auc_interval, placements

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Area:
    """An AUC with the ends of its interval."""

    auc: float
    low: float
    high: float


def area(
    members: np.ndarray,
    others: np.ndarray,
    groups: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    z: float = Z95,
) -> Area:
    """The AUC, and its interval on the scale of the logit, which keeps it inside (0, 1) (Pepe 2003, section 5.2).

    `groups` has up to two ways in which scores belong together, each as the numbers, from 0, of the members' and of
    the others' groups. Where the variance cannot be seen, as at an AUC of 0 or 1, the interval is Newcombe's, with as
    many scores a side as there are groups.
    """
    above, below = placements(members, others), 1 - placements(others, members)
    estimate = float(above.mean())
    spread = variance(above, below, groups)
    if spread <= 0 or not 1e-12 < estimate < 1 - 1e-12:
        sizes = [tuple(np.count_nonzero(np.bincount(side)) for side in each) for each in groups]
        least = [min([len(side), *(size[i] for size in sizes)]) for i, side in enumerate((members, others))]
        return Area(estimate, *auc_interval(estimate, *least, z))
    logit = math.log(estimate / (1 - estimate))
    half = z * math.sqrt(spread) / (estimate * (1 - estimate))
    return Area(estimate, _expit(logit - half), _expit(logit + half))


def variance(above: np.ndarray, below: np.ndarray, groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The variance of the AUC from the placements of members among others, and of others below members."""
    if min(len(above), len(below)) < 2:
        return 0.0
    mine, theirs = (above - above.mean()) / len(above), (below - below.mean()) / len(below)
    single = (
        len(above) / (len(above) - 1) * (mine**2).sum() + len(below) / (len(below) - 1) * (theirs**2).sum()
    )
    grouped = [_grouped(mine, theirs, *each) for each in groups]
    if len(grouped) < 2:
        return float(grouped[0] if grouped else single)
    return float(max(sum(grouped) - single, *grouped))


def _grouped(mine: np.ndarray, theirs: np.ndarray, my_group: np.ndarray, their_group: np.ndarray) -> float:
    number = np.concatenate([my_group, their_group])
    parts = np.bincount(number, np.concatenate([mine, theirs]))
    groups = np.count_nonzero(np.bincount(number))
    return groups / (groups - 1) * float((parts**2).sum()) if groups > 1 else 0.0


def _expit(value: float) -> float:
    return 1 / (1 + math.exp(-min(max(value, -700.0), 700.0)))
