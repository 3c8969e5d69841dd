"""The scores of groups in one model file: membership risk, shares and parity by group, and held-out log densities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.group_scores import GroupingScores, GroupMeasure, GroupScores, pack_densities
from privmix.evaluate.groupings import (
    Grouping,
    GroupingSpec,
    HeldOut,
    large_groups,
    make_groupings,
    number_units,
    select_held_out,
)
from privmix.evaluate.groups import GroupValues, membership_auc, share_differences
from privmix.evaluate.parity import FEWEST_CASES, cases, group_rates, predict_outcome
from privmix.mixture.mixed import MixedMixture

MOST_VALUES = 5  # of an outcome
SHARES = ("group_share_error", "parity_base_rate")  # metrics that tell the share of a group or of an outcome


@dataclass
class ReplicateDensities:
    """The models of a file, and log densities of all records under each: joint ones, and those of the gap."""

    models: list[MixedMixture] = field(default_factory=list)
    members: list[np.ndarray] = field(default_factory=list)  # joint
    others: list[np.ndarray] = field(default_factory=list)  # joint
    gaps: list[np.ndarray] = field(default_factory=list)  # of held-out records, as in `holdout_loglik`

    def add(self, model: MixedMixture, members: np.ndarray, others: np.ndarray, gaps: np.ndarray) -> None:
        """Add one replicate."""
        self.models.append(model)
        self.members.append(members)
        self.others.append(others)
        self.gaps.append(gaps)


def score_groups(
    found: ReplicateDensities, clean: CleanData, declared: Sequence[GroupingSpec], outcome: str | None
) -> GroupScores | None:
    """Score every grouping; None if there is no model or no grouping."""
    groupings = make_groupings(clean, declared)
    if not found.models or not groupings:
        return None
    units, _ = number_units(clean)
    held_out = select_held_out(clean, units)
    place = np.searchsorted(np.flatnonzero(~clean.train), held_out.rows)
    predicted = _predictions(found.models, clean, held_out, outcome)
    return GroupScores(
        groupings=tuple(
            _score_grouping(each, found, clean, held_out, units, outcome, predicted) for each in groupings
        ),
        densities=pack_densities([gaps[place] for gaps in found.gaps]),
    )


def _predictions(
    models: Sequence[MixedMixture], clean: CleanData, held_out: HeldOut, outcome: str | None
) -> list[np.ndarray]:
    """Return the predicted outcome of the held-out records in each replicate; nothing if a model does not have it."""
    if outcome is None or any(outcome not in model.shares for model in models):
        return []
    domain, rows = clean.info.domain, held_out.rows
    codes = {name: values[rows] for name, values in clean.codes.items()}
    absent = domain.absent(codes, len(rows)) if domain.states else None
    return [predict_outcome(model, outcome, clean.points[rows], codes, absent) for model in models]


def _score_grouping(
    grouping: Grouping,
    found: ReplicateDensities,
    clean: CleanData,
    held_out: HeldOut,
    units: np.ndarray,
    outcome: str | None,
    predicted: Sequence[np.ndarray],
) -> GroupingScores:
    codes = grouping.codes[held_out.rows]
    large = large_groups(grouping, held_out)
    number = np.full(len(grouping.labels) + 1, -1)  # the last is that of records without a group
    number[large] = np.arange(len(large))
    groups, every = number[codes], number[grouping.codes]
    names = tuple(grouping.labels[code] for code in large)
    inside = groups >= 0
    present = np.bincount(codes[codes >= 0], minlength=len(grouping.labels))
    shares = np.bincount(groups[inside], held_out.weights[inside], len(large)) / held_out.weights.sum()
    scores = GroupingScores(
        name=grouping.name,
        groups=names,
        records=tuple(present[large].tolist()),
        shares=tuple(shares.tolist()),
        too_few=tuple(
            label for code, label in enumerate(grouping.labels) if present[code] and code not in large
        ),
    )
    if not len(large):
        return scores
    held = ~clean.train
    auc = membership_auc(
        found.members,
        found.others,
        every[clean.train],
        every[held],
        units[clean.train],
        units[held],
        len(large),
    )
    masses = [_model_shares(model, grouping, clean) for model in found.models]
    known = [mass[large] for mass in masses if mass is not None]
    return scores.model_copy(
        update={
            "membership": measure(names, auc),
            "model_share": measure(
                names,
                share_differences(np.array(known), groups, held_out.weights, held_out.units, len(large)),
            )
            if len(known) == len(masses)
            else None,
            "parity": _parity(grouping, groups, names, clean, held_out, outcome, predicted),
        }
    )


def _parity(
    grouping: Grouping,
    groups: np.ndarray,
    names: tuple[str, ...],
    clean: CleanData,
    held_out: HeldOut,
    outcome: str | None,
    predicted: Sequence[np.ndarray],
) -> dict[str, dict[str, GroupMeasure]]:
    """Return the rates of each value of the outcome against the others; of two values, the last stands for both."""
    if not predicted or outcome is None or grouping.name == outcome or len(names) < 2:
        return {}
    attribute = next(each for each in clean.info.domain.attributes if each.name == outcome)
    truth = clean.codes[outcome][held_out.rows]
    common = np.argsort(-np.bincount(truth, minlength=len(attribute.values)), kind="stable")[:MOST_VALUES]
    values = [1] if len(attribute.values) == 2 else sorted(common.tolist())
    scores = {}
    for value in values:
        right, chosen = (truth == value).astype(int), [(each == value).astype(int) for each in predicted]
        rates = group_rates(right, chosen, groups, len(names), held_out.weights, held_out.units)
        behind = cases(right, chosen, groups, len(names))
        scores[attribute.values[value]] = {
            name: found
            for name, each in rates.items()
            if (found := measure(names, each, behind[name] >= FEWEST_CASES)) is not None
        }
    return scores


def _model_shares(model: MixedMixture, grouping: Grouping, clean: CleanData) -> np.ndarray | None:
    """Return the share of each group in the model; None if it does not describe the column."""
    if grouping.axis is None:
        return model.marginal(grouping.name) if grouping.name in model.shares else None
    axis, edges = grouping.axis, grouping.edges
    assert edges is not None, "a grouping by a coordinate has bins"
    given = np.ones(model.n_components)
    state = clean.info.domain.states.get(axis)
    if state is not None:
        if state.name not in model.shares:
            return None
        here = state.states(np.arange(len(state.values)))[clean.info.domain.axes[axis].name] == 0
        given = model.shares[state.name][:, here].sum(axis=1)
    means = model.gaussians.means[:, axis]
    deviations = np.sqrt(model.gaussians.covariances[:, axis, axis])
    standard = (edges[None, :] - means[:, None]) / deviations[:, None] / math.sqrt(2)
    below = (1 + np.vectorize(math.erf, otypes=[float])(standard)) / 2
    ends = np.ones((model.n_components, 1))
    return np.asarray((model.gaussians.weights * given) @ np.diff(np.hstack([0 * ends, below, ends]), axis=1))


def measure(
    names: Sequence[str], found: GroupValues, enough: np.ndarray | None = None
) -> GroupMeasure | None:
    """Return the numbers of the groups that have one in every replicate; None if none has."""
    usable = np.isfinite(found.values).all(axis=0) & np.isfinite(np.diag(found.covariance))
    if enough is not None:
        usable &= enough
    chosen = np.flatnonzero(usable)
    if not len(chosen):
        return None
    return GroupMeasure(
        groups=tuple(names[number] for number in chosen.tolist()),
        values=tuple(map(tuple, found.values[:, chosen].tolist())),
        covariance=tuple(map(tuple, found.covariance[np.ix_(chosen, chosen)].tolist())),
    )


def metric_values(scores: GroupScores, *, sensitive: bool = False) -> list[tuple[int, str, float]]:
    """Return the scores as rows of the results: the number of the replicate, the metric, and the value.

    Those of sensitive records have no share of the records.
    """
    rows = []
    for grouping in scores.groupings:
        measures = {"group_mia_loss_auc": grouping.membership, "group_share_error": grouping.model_share}
        for value, rates in grouping.parity.items():
            measures |= {f"parity_{name}[{value}]": each for name, each in rates.items()}
        for metric, each in measures.items():
            if each is not None and not (sensitive and metric.startswith(SHARES)):
                rows += [
                    (replicate, f"{metric}[{grouping.name}={group}]", number)
                    for replicate, numbers in enumerate(each.values)
                    for group, number in zip(each.groups, numbers, strict=True)
                ]
    return rows
