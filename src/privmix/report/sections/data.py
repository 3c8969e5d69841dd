"""The data section: the public facts about each dataset."""

from dataclasses import dataclass

from privmix.catalog.entry import Entry
from privmix.report.run import Material, RunResults
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class DatasetCard:
    """One dataset."""

    entry: Entry
    material: Material | None  # None if the dataset was not cleaned


@dataclass(frozen=True)
class DataSection(PageSection):
    """The datasets of the run."""

    datasets: tuple[DatasetCard, ...]


def build(run: RunResults) -> DataSection:
    """Build the section."""
    return DataSection(
        tuple(DatasetCard(run.entries[name], run.materials.get(name)) for name in run.settings.datasets)
    )
