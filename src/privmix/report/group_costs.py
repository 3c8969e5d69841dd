"""What each mechanism costs each group of records: gaps, membership risk and shares, with corrected intervals.

All intervals of one mechanism on one dataset hold together with 95 % probability: those of the groups of a grouping by
their joint distribution (`evaluate.simultaneous`), groupings and values of ε by Bonferroni's correction.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privmix.artefacts.group_scores import GroupingScores, GroupMeasure, GroupScores
from privmix.artefacts.scores import RESULT_COLUMNS
from privmix.evaluate.groups import ratios
from privmix.evaluate.simultaneous import Spread, group_intervals, largest_difference
from privmix.report.format import nats, plain
from privmix.report.results import CONFIDENCE, Results
from privmix.report.run import Outcome, RunResults


@dataclass(frozen=True)
class GroupDifference:
    """The largest difference of a grouping: the group with the lower and the higher number, and higher minus lower."""

    lower: str
    higher: str
    lower_mean: float
    higher_mean: float
    spread: Spread


def group_scores(outcome: Outcome) -> GroupScores | None:
    """Return the group scores of a job; None if there are none."""
    return outcome.scores_info.groups if outcome.scores_info and not outcome.failure else None


def level(run: RunResults, dataset: str) -> float:
    """Return the level of the intervals of one grouping at one ε."""
    groupings = len(run.held_out[dataset].groupings) if dataset in run.held_out else 1
    return 1 - (1 - CONFIDENCE) / max(groupings * len(run.epsilons), 1)


def gap_measure(
    run: RunResults, results: Results, outcome: Outcome, grouping: GroupingScores
) -> GroupMeasure | None:
    """Return the gap of each group to the best non-private model on the same held-out records; None if unknown."""
    baseline, scores = results.baseline(outcome.dataset), group_scores(outcome)
    held = run.held_out.get(outcome.dataset)
    if baseline is None or scores is None or held is None or grouping.name not in held.groupings:
        return None
    best = next(
        (
            each
            for each in run.of(outcome.dataset)
            if each.mechanism == baseline.mechanism and not each.private and group_scores(each)
        ),
        None,
    )
    bare = group_scores(best) if best else None
    if best is None or best.model is None or bare is None or not grouping.groups:
        return None
    number = [fitted.replicate for fitted in best.model.models].index(baseline.replicate)
    reference, densities = bare.log_densities()[number], scores.log_densities()
    codes, labels = held.groupings[grouping.name].codes, held.groupings[grouping.name].labels
    if densities.shape[1] != len(codes) or len(reference) != len(codes):
        return None
    place = {label: position for position, label in enumerate(grouping.groups)}
    groups = np.array([*(place.get(label, -1) for label in labels), -1])[codes]
    weights = held.held_out.weights
    with np.errstate(invalid="ignore"):
        tops = [weights * (each - reference) for each in densities]
    found = ratios(tops, [weights] * len(tops), groups, held.held_out.units, len(place))
    return GroupMeasure(
        groups=grouping.groups,
        values=tuple(map(tuple, found.values.tolist())),
        covariance=tuple(map(tuple, found.covariance.tolist())),
    )


def spreads(measure: GroupMeasure | None, at: float, zero: float = 0.0) -> dict[str, Spread]:
    """Return the corrected intervals of a measure minus `zero`, by group."""
    if measure is None:
        return {}
    found = group_intervals(np.array(measure.values) - zero, np.array(measure.covariance), at)
    return dict(zip(measure.groups, found, strict=True))


def difference(measure: GroupMeasure | None, at: float) -> GroupDifference | None:
    """Return the largest difference between two groups; None with less than two groups or without an interval."""
    if measure is None:
        return None
    found = largest_difference(np.array(measure.values), np.array(measure.covariance), at)
    if found is None:
        return None
    lower, higher = measure.groups[found.lower], measure.groups[found.higher]
    return GroupDifference(lower, higher, measure.mean[lower], measure.mean[higher], found.spread)


def add_group_gaps(run: RunResults, results: Results) -> Results:
    """Return the results with the gap of each group, `group_gap[grouping=group]`."""
    rows = [dict(zip(RESULT_COLUMNS, row, strict=True)) for row in _gap_rows(run, results)]
    if not rows:
        return results
    order = ["dataset", "mechanism", "epsilon", "replicate", "metric"]
    frame = pd.concat([results.frame, pd.DataFrame(rows).astype(results.frame.dtypes.to_dict())])
    return Results(frame.sort_values(order, kind="stable", ignore_index=True)[list(RESULT_COLUMNS)])


def _gap_rows(run: RunResults, results: Results) -> Iterator[tuple[object, ...]]:
    for outcome in run.outcomes:
        scores = group_scores(outcome)
        if scores is None or outcome.scores is None or outcome.model is None:
            continue
        numbers = [fitted.replicate for fitted in outcome.model.models]
        fixed = [outcome.scores[name][0].as_py() for name in RESULT_COLUMNS[:8]]
        for grouping in scores.groupings:
            measure = gap_measure(run, results, outcome, grouping)
            for replicate, values in zip(numbers, measure.values if measure else (), strict=False):
                for group, value in zip(grouping.groups, values, strict=True):
                    yield (*fixed, replicate, f"group_gap[{grouping.name}={group}]", value)


@dataclass(frozen=True)
class RealDifference:
    """A difference between two groups whose interval excludes 0."""

    outcome: Outcome
    grouping: str
    found: GroupDifference


def real_differences(run: RunResults, results: Results, dataset: str, mechanism: str) -> list[RealDifference]:
    """Return the real differences of a mechanism between groups, at most one per grouping and ε."""
    found = []
    for outcome in run.of(dataset):
        scores = group_scores(outcome) if outcome.mechanism == mechanism else None
        for grouping in scores.groupings if scores else ():
            largest = difference(gap_measure(run, results, outcome, grouping), level(run, dataset))
            if largest and largest.spread.real:
                found.append(RealDifference(outcome, grouping.name, largest))
    return found


def describe_worst_paid(run: RunResults, results: Results, dataset: str, mechanisms: list[str]) -> str | None:
    """Describe the largest real difference between groups of these mechanisms, at the reference ε if there is one."""
    real = [each for name in mechanisms for each in real_differences(run, results, dataset, name)]
    if not real:
        return None
    here = [each for each in real if each.outcome.epsilon == run.reference_epsilon]
    worst = max(here or real, key=lambda each: each.found.spread.mean)
    found, column = worst.found, worst.grouping.replace("_", " ")
    assert found.spread.low is not None
    assert found.spread.high is not None
    return (
        f"At ε = {plain(worst.outcome.epsilon)}, {worst.outcome.mechanism} describes records with {column} "
        f"“{found.lower}” worse than those with “{found.higher}”: gap {nats(found.lower_mean)} against "
        f"{nats(found.higher_mean)} nats per record (difference {nats(found.spread.mean)}, 95\u00a0% interval "
        f"{nats(found.spread.low)} to {nats(found.spread.high)}, corrected for all groups and ε)."
    )
