"""What a model costs each group of records: means and rates by group, and their covariance over people or places.

Every number here is a ratio of sums over records, or an AUC. The contribution of one unit (a person or a place) to it
is its influence; the influences of a ratio S/N are Σ (s - n S/N) / N over the records of the unit. The covariance of
the numbers of all groups is the sum of products of influences, with the factor U/(U-1) for U units. A bootstrap that
gives each unit the weight 1 + a standard normal number has exactly this covariance (the multiplier bootstrap, Giné and
Zinn 1990), so the weights need not be drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmix.privacy.hypothesis_testing import placements


@dataclass(frozen=True, eq=False)
class GroupValues:
    """One number per replicate and group, and its covariance over units as mean over replicates."""

    values: np.ndarray  # (replicates, groups); nan if undefined
    covariance: np.ndarray  # (groups, groups)


def ratios(
    tops: Sequence[np.ndarray],
    bottoms: Sequence[np.ndarray],
    groups: np.ndarray,
    units: np.ndarray,
    number: int,
) -> GroupValues:
    """Compute the sum of `top` divided by the sum of `bottom` in each group, for each replicate.

    `tops` and `bottoms` have one array per replicate with a number for each record; `groups` is the group of each
    record, from 0 to `number` - 1, or -1.
    """
    chosen = np.flatnonzero(groups >= 0)
    groups, units = groups[chosen], units[chosen]
    values, pulls = [], np.zeros(len(chosen))
    for top, bottom in zip(tops, bottoms, strict=True):
        total = np.bincount(groups, bottom[chosen], number)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.bincount(groups, top[chosen], number) / total
            # A lost replicate (a density of zero, an empty group) leaves the group without an interval.
            pulls = pulls + (top[chosen] - bottom[chosen] * value[groups]) / total[groups] / len(tops)
        values.append(value)
    return GroupValues(np.array(values), unit_covariance(pulls, groups, units, number))


def unit_covariance(pulls: np.ndarray, groups: np.ndarray, units: np.ndarray, number: int) -> np.ndarray:
    """Return the covariance over units of the numbers of all groups; `pulls` are the influences of single records.

    The factor U/(U-1) uses the units of each pair of groups, so groups with few units are not understated.
    """
    _, unit = np.unique(units, return_inverse=True)
    rows = int(unit.max(initial=-1)) + 1
    table = np.bincount(unit * number + groups, pulls, rows * number).reshape(rows, number)
    present = np.bincount(unit * number + groups, minlength=rows * number).reshape(rows, number) > 0
    sizes = np.maximum(present.sum(axis=0), 2)
    factor = np.sqrt(sizes / (sizes - 1))
    return (table.T @ table) * np.outer(factor, factor)


def membership_auc(
    members: Sequence[np.ndarray],
    others: Sequence[np.ndarray],
    member_groups: np.ndarray,
    other_groups: np.ndarray,
    member_units: np.ndarray,
    other_units: np.ndarray,
    number: int,
) -> GroupValues:
    """Compute the AUC of the loss attack inside each group: its members against its held-out records.

    `members` and `others` have one array of log densities per replicate. The influences are the placements (DeLong,
    DeLong, Clarke-Pearson 1988), added up over the records of a unit (Obuchowski 1997).
    """
    mine = [np.flatnonzero(member_groups == group) for group in range(number)]
    theirs = [np.flatnonzero(other_groups == group) for group in range(number)]
    values = np.full((len(members), number), np.nan)
    pulls = np.zeros(sum(map(len, mine)) + sum(map(len, theirs)))
    groups = np.concatenate([np.repeat(range(number), list(map(len, side))) for side in (mine, theirs)])
    units = np.concatenate([member_units[np.concatenate(mine)], other_units[np.concatenate(theirs)]])
    for replicate, (inside, outside) in enumerate(zip(members, others, strict=True)):
        parts: list[list[np.ndarray]] = [[], []]
        for group in range(number):
            ours, rest = inside[mine[group]], outside[theirs[group]]
            if not len(ours) or not len(rest):
                parts[0].append(np.full(len(ours), np.nan))
                parts[1].append(np.full(len(rest), np.nan))
                continue
            above, below = placements(ours, rest), 1 - placements(rest, ours)
            values[replicate, group] = above.mean()
            parts[0].append((above - above.mean()) / len(ours))
            parts[1].append((below - below.mean()) / len(rest))
        pulls += np.concatenate([*parts[0], *parts[1]]) / len(members)
    return GroupValues(values, unit_covariance(pulls, groups, units, number))


def share_differences(
    model_shares: np.ndarray, groups: np.ndarray, weights: np.ndarray, units: np.ndarray, number: int
) -> GroupValues:
    """Compute the share of each group in the model minus its share of the held-out records, for each replicate.

    This is calibration in the large (Cox 1958): does the model give a group the mass that it has? `model_shares` is
    (replicates, groups). The share of a group is a ratio over all records, also those of other groups.
    """
    total = weights.sum()
    shares = np.bincount(groups[groups >= 0], weights[groups >= 0], number) / total
    _, unit = np.unique(units, return_inverse=True)
    rows = int(unit.max(initial=-1)) + 1
    inside = groups >= 0
    table = np.bincount(unit[inside] * number + groups[inside], weights[inside], rows * number)
    table = (table.reshape(rows, number) - np.outer(np.bincount(unit, weights, rows), shares)) / total
    return GroupValues(model_shares - shares, table.T @ table * (rows / max(rows - 1, 1)))
