"""The published section: the statistics that mechanisms published beside their models, with intervals."""

from dataclasses import dataclass

from privmix.artefacts.model import ModelFile
from privmix.report import statistics
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.statistics import StatisticLine


@dataclass(frozen=True)
class PublishedTable:
    """The statistics of one mechanism at one ε: those of the first replicate."""

    mechanism: str
    epsilon: float
    lines: tuple[StatisticLine, ...]


@dataclass(frozen=True)
class DatasetStatistics:
    """The statistics of one dataset: one table in view, and the others in a fold."""

    name: str
    title: str
    shown: PublishedTable
    others: tuple[PublishedTable, ...]


@dataclass(frozen=True)
class PublishedSection(PageSection):
    """The datasets with statistics."""

    share: float  # of the budget
    head: tuple[str, ...]
    datasets: tuple[DatasetStatistics, ...]


def build(run: RunResults) -> PublishedSection | None:
    """Build the section; None if no statistics were published."""
    found = (_dataset(run, name) for name in run.settings.datasets)
    datasets = tuple(dataset for dataset in found if dataset)
    return PublishedSection(run.settings.statistics_share, statistics.HEAD, datasets) if datasets else None


def _dataset(run: RunResults, dataset: str) -> DatasetStatistics | None:
    tables = [
        _table(outcome, outcome.model)
        for outcome in run.of(dataset)
        if outcome.model and any(fitted.statistics for fitted in outcome.model.models)
    ]
    if not tables:
        return None
    shown = next((table for table in tables if table.epsilon == run.reference_epsilon), tables[0])
    others = tuple(table for table in tables if table is not shown)
    return DatasetStatistics(dataset, run.entries[dataset].title, shown, others)


def _table(outcome: Outcome, model: ModelFile) -> PublishedTable:
    lines = statistics.lines(model.models[0].statistics, model.domain)
    return PublishedTable(outcome.mechanism, outcome.epsilon, tuple(lines))
