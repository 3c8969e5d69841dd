"""The groups section: what each model costs each group of people, and parity of predictions between groups."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from privmix.artefacts.group_scores import GroupingScores, GroupMeasure
from privmix.evaluate.groupings import FEWEST_RECORDS
from privmix.evaluate.parity import FEWEST_CASES, largest_gap, parity_criteria
from privmix.evaluate.simultaneous import Spread
from privmix.report.format import compact, count, decimals, listing, nats, percent, plain, rate
from privmix.report.group_costs import (
    GroupDifference,
    difference,
    gap_measure,
    group_scores,
    level,
    spreads,
)
from privmix.report.group_plot import GroupLine, draw_groups
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.sections.answer import answers

MOST_NAMES = 6  # of groups with too few records
MOST_PICTURES = 4  # of one mechanism
RATE_NAMES = {
    "base_rate": "base rate",
    "selection_rate": "predicted share",
    "tpr": "found of the true (TPR)",
    "fpr": "false alarms (FPR)",
    "ppv": "right if predicted (PPV)",
    "npv": "right if not (NPV)",
}


@dataclass(frozen=True)
class GroupRow:
    """One group under one model."""

    name: str
    records: str
    gap: str
    gap_interval: str
    auc: str
    auc_interval: str
    share: str  # of the model
    held_out_share: str
    share_interval: str  # of the difference


@dataclass(frozen=True)
class ParityRow:
    """The rates of one group."""

    name: str
    rates: tuple[str, ...]


@dataclass(frozen=True)
class ParityTable:
    """The rates of all groups of one grouping, and sentences about the criteria."""

    grouping: str
    value: str  # the predicted value of the outcome
    rows: tuple[ParityRow, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class GroupTable:
    """One grouping under one model."""

    name: str
    rows: tuple[GroupRow, ...]
    sentence: str
    too_few: str | None
    picture: Markup | None
    caption: str


@dataclass(frozen=True)
class ModelGroups:
    """The groupings of the recommended mechanism of one trust model, at the reference ε."""

    mechanism: str
    trust: str
    epsilon: float
    tables: tuple[GroupTable, ...]
    parity: tuple[ParityTable, ...]


@dataclass(frozen=True)
class DifferenceRow:
    """The largest difference of one mechanism at one ε."""

    mechanism: str
    epsilon: float
    grouping: str
    worse: str
    better: str
    gaps: str
    difference: str
    real: bool


@dataclass(frozen=True)
class DatasetGroups:
    """The groups of one dataset."""

    name: str
    title: str
    missing: str | None  # why there is no table
    unit: str  # of the intervals, in the plural
    outcome: str | None
    models: tuple[ModelGroups, ...]
    others: tuple[DifferenceRow, ...]
    sensitive: bool

    @property
    def shares(self) -> bool:
        """Whether any model has shares of groups to show."""
        return not self.sensitive and any(
            row.share for model in self.models for table in model.tables for row in table.rows
        )


@dataclass(frozen=True)
class GroupsSection(PageSection):
    """The datasets of the run."""

    datasets: tuple[DatasetGroups, ...]
    rates: tuple[str, ...] = tuple(RATE_NAMES.values())
    fewest: int = FEWEST_RECORDS
    fewest_cases: int = FEWEST_CASES


def build(run: RunResults, results: Results) -> GroupsSection | None:
    """Build the section; None if no dataset has groups."""
    recommended: dict[str, list[tuple[str, str]]] = {}
    for answer in answers(run, results):
        if answer.mechanism:
            recommended.setdefault(answer.dataset, []).append((answer.mechanism, answer.trust))
    datasets = tuple(
        _dataset(run, results, name, recommended.get(name, [])) for name in run.settings.datasets
    )
    return GroupsSection(datasets) if any(not each.missing for each in datasets) else None


def _dataset(
    run: RunResults, results: Results, dataset: str, recommended: list[tuple[str, str]]
) -> DatasetGroups:
    scored = [each for each in run.of(dataset) if each.private and each.comparable and group_scores(each)]
    models = tuple(
        _model(run, results, outcome, trust)
        for mechanism, trust in recommended
        for outcome in scored
        if outcome.mechanism == mechanism and outcome.epsilon == run.reference_epsilon
    )
    held = run.held_out.get(dataset)
    return DatasetGroups(
        name=dataset,
        title=run.entries[dataset].title,
        missing=_missing(run, dataset, scored),
        unit={"person": "people", "place": "places"}.get(held.unit if held else "", "records"),
        outcome=run.entries[dataset].outcome,
        models=models,
        others=tuple(row for outcome in scored for row in _differences(run, results, outcome)),
        sensitive=run.entries[dataset].visibility == "sensitive",
    )


def _missing(run: RunResults, dataset: str, scored: list[Outcome]) -> str | None:
    """Say why a dataset has no table of groups; None if it has one."""
    entry = run.entries[dataset]
    if not entry.attributes and not entry.groupings:
        return "This dataset has no attribute, and its entry declares no groups: add `roles: {groups: …}`."
    if not scored:
        return "No private mechanism has a result on this dataset."
    groupings = [grouping for each in scored if (found := group_scores(each)) for grouping in found.groupings]
    if not any(grouping.groups for grouping in groupings):
        return f"Too few: no group has {FEWEST_RECORDS} held-out records."
    return None


def _model(run: RunResults, results: Results, outcome: Outcome, trust: str) -> ModelGroups:
    scores = group_scores(outcome)
    assert scores is not None, "only scored outcomes are shown"
    sensitive = run.entries[outcome.dataset].visibility == "sensitive"
    tables, parity = [], []
    for number, grouping in enumerate(scores.groupings):
        tables.append(_table(run, results, outcome, grouping, sensitive, pictured=number < MOST_PICTURES))
        parity += [
            _parity(grouping, value, rates, level(run, outcome.dataset), sensitive)
            for value, rates in grouping.parity.items()
            if {"selection_rate", "base_rate"} <= rates.keys()
        ]
    return ModelGroups(outcome.mechanism, trust, outcome.epsilon, tuple(tables), tuple(parity))


def _table(
    run: RunResults,
    results: Results,
    outcome: Outcome,
    grouping: GroupingScores,
    sensitive: bool,
    pictured: bool,
) -> GroupTable:
    at = level(run, outcome.dataset)
    measure = gap_measure(run, results, outcome, grouping)
    gaps, risks = spreads(measure, at), spreads(grouping.membership, at, 0.5)
    errors = spreads(grouping.model_share, at)
    rows = []
    for number, group in enumerate(grouping.groups):
        risk, error, share = risks.get(group), errors.get(group), grouping.shares[number]
        rows.append(
            GroupRow(
                name=group,
                records="" if sensitive else f"{grouping.records[number]:,}",
                gap=nats(gaps[group].mean) if group in gaps else "–",
                gap_interval=_ends(gaps.get(group)),
                auc=rate(0.5 + risk.mean) if risk else "–",
                auc_interval=_ends(risk, lambda value: rate(min(max(0.5 + value, 0.0), 1.0))),
                share=percent(share + error.mean) if error and not sensitive else "",
                held_out_share="" if sensitive else percent(share),
                share_interval=_ends(error, _points),
            )
        )
    picture = _picture(run, results, outcome, grouping) if pictured and len(grouping.groups) > 1 else None
    name = spoken(grouping.name)
    return GroupTable(
        name=name,
        rows=tuple(rows),
        sentence=_sentence(difference(measure, at), outcome, len(grouping.groups)),
        too_few=_too_few(grouping),
        picture=picture,
        caption=f"Gap by {name} (0: as good as the best non-private model)",
    )


def _ends(spread: Spread | None, form: Callable[[float], str] = nats) -> str:
    if spread is None or spread.low is None or spread.high is None:
        return ""
    return f"{form(spread.low)} to {form(spread.high)}"


def _sentence(found: GroupDifference | None, outcome: Outcome, groups: int) -> str:
    if groups < 2:
        who = "one group has" if groups else "no group has"
        return f"{who} enough held-out records, so no two groups are compared."
    if found is None or found.spread.low is None:
        return "the difference between groups has no interval."
    ends = _ends(found.spread)
    said = (
        f"“{found.lower}” has the gap {nats(found.lower_mean)}, “{found.higher}” {nats(found.higher_mean)}: "
        f"difference {nats(found.spread.mean)} nats per record (interval {ends})"
    )
    if found.spread.real:
        return f"{outcome.mechanism} describes one group worse than another. {said}."
    return f"no difference between groups is larger than chance allows. The largest: {said}."


def _too_few(grouping: GroupingScores) -> str | None:
    if not grouping.too_few:
        return None
    names = [f"“{name}”" for name in grouping.too_few]
    more = len(names) - MOST_NAMES
    shown = [*names[:MOST_NAMES], count(more, "other group")] if more > 0 else names
    return f"Too few held-out records: {listing(shown)}."


def _picture(run: RunResults, results: Results, outcome: Outcome, grouping: GroupingScores) -> Markup | None:
    """Draw the gaps of the groups at every ε of a mechanism; None if there is nothing finite to draw."""
    at, lines = level(run, outcome.dataset), dict[str, list[tuple[float, Spread]]]()
    for each in run.of(outcome.dataset):
        scores = group_scores(each) if each.mechanism == outcome.mechanism else None
        same = (
            next((other for other in scores.groupings if other.name == grouping.name), None)
            if scores
            else None
        )
        for group, spread in spreads(gap_measure(run, results, each, same) if same else None, at).items():
            if np.isfinite(spread.mean):
                lines.setdefault(group, []).append((each.epsilon, spread))
    if not lines:
        return None
    name = f"groups-{outcome.dataset}-{outcome.mechanism}-{grouping.name}"
    label = f"{outcome.dataset}: gap of {outcome.mechanism} by {spoken(grouping.name)} in nats per record against ε. "
    label += "; ".join(
        f"{group}: " + ", ".join(f"{nats(spread.mean)} at ε {plain(epsilon)}" for epsilon, spread in points)
        for group, points in lines.items()
    )
    drawn = [GroupLine(group, tuple(points)) for group, points in lines.items()]
    return draw_groups(drawn, run.epsilons, "".join(c if c.isalnum() else "-" for c in name), f"{label}.")


def _parity(
    grouping: GroupingScores, value: str, rates: dict[str, GroupMeasure], at: float, sensitive: bool
) -> ParityTable:
    rows = tuple(
        ParityRow(
            group,
            tuple(
                compact(percent(rates[name].mean[group]))
                if name in rates and group in rates[name].groups
                else "–"
                for name in RATE_NAMES
            ),
        )
        for group in grouping.groups
    )
    return ParityTable(
        spoken(grouping.name), value, () if sensitive else rows, _criteria(rates, value, at, sensitive)
    )


def _criteria(rates: dict[str, GroupMeasure], value: str, at: float, sensitive: bool) -> tuple[str, ...]:
    """Describe the three criteria in a sentence each, and whether base rates differ (not of sensitive records)."""
    means = {name: np.array(list(each.mean.values())) for name, each in rates.items()}

    def widest(name: str) -> str:
        found = difference(rates.get(name), at)
        if found is None:
            return "not measured"
        real = "" if found.spread.real else ", no more than chance allows"
        size = f"{_points(found.spread.mean)} percentage points"
        ends = _ends(found.spread, _points)
        return f"differs by {size} between “{found.lower}” and “{found.higher}” (interval {ends}{real})"

    said = [f"Statistical parity: the predicted share {widest('selection_rate')}."]
    if {"tpr", "fpr", "ppv", "npv"} <= means.keys() and min(map(len, means.values())) > 1:
        found = parity_criteria(means)
        said[0] += f" Ratio of the lowest to the highest: {decimals(found['statistical_parity_ratio'], 2)}."
    said.append(f"Error parity: TPR {widest('tpr')}, FPR {widest('fpr')}.")
    said.append(f"Sufficiency: PPV {widest('ppv')}, NPV {widest('npv')}.")
    base = means.get("base_rate")
    if base is not None and len(base) > 1 and not sensitive:
        said.append(
            f"The base rate of “{value}” differs by up to {_points(largest_gap(base))} percentage points "
            "between groups. Where it differs, error parity and sufficiency cannot both hold unless prediction is "
            "perfect."
        )
    return tuple(said)


def _points(value: float) -> str:
    return decimals(100 * value, 1)


def _differences(run: RunResults, results: Results, outcome: Outcome) -> list[DifferenceRow]:
    scores, rows = group_scores(outcome), []
    for grouping in scores.groupings if scores else ():
        found = difference(gap_measure(run, results, outcome, grouping), level(run, outcome.dataset))
        if found is not None:
            rows.append(
                DifferenceRow(
                    mechanism=outcome.mechanism,
                    epsilon=outcome.epsilon,
                    grouping=spoken(grouping.name),
                    worse=found.lower,
                    better=found.higher,
                    gaps=f"{nats(found.lower_mean)} / {nats(found.higher_mean)}",
                    difference=f"{nats(found.spread.mean)} ({_ends(found.spread)})",
                    real=found.spread.real,
                )
            )
    return rows


def spoken(name: str) -> str:
    """Return the name of a column without underscores."""
    return name.replace("_", " ")
