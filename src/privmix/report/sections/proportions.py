"""The proportions section: private estimates of the shares of attribute values."""

from dataclasses import dataclass

from privmix.artefacts.fitted_model import Proportion
from privmix.artefacts.model import ModelFile
from privmix.report.format import SPACE, decimals, percent
from privmix.report.ledger import split
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

NARROW = 0.05  # a narrower interval needs a decimal


@dataclass(frozen=True)
class ProportionRow:
    """The private estimate of the share of one attribute value."""

    mechanism: str
    epsilon: float
    attribute: str
    value: str
    truth: str | None  # None if the data is sensitive
    estimate: str
    exact: str
    normal: str
    chebyshev: str
    covered: str | None  # number of replicates whose exact, normal and Chebyshev interval contains the truth


@dataclass(frozen=True)
class DatasetProportions:
    """The estimates of one dataset."""

    name: str
    title: str
    mechanism: str  # of the shown estimates
    epsilon: float  # of the shown estimates
    split: str  # how ε is split between coordinates and attributes
    people: bool  # whether each person counts once, with any number of records
    replicates: int
    shown: tuple[ProportionRow, ...]
    others: tuple[ProportionRow, ...]


@dataclass(frozen=True)
class ProportionsSection(PageSection):
    """The datasets with estimated shares."""

    datasets: tuple[DatasetProportions, ...]


def build(run: RunResults) -> ProportionsSection | None:
    """Build the section; None if no mechanism asks about attributes."""
    every = [dataset_proportions(run, name) for name in run.settings.datasets]
    datasets = tuple(dataset for dataset in every if dataset)
    return ProportionsSection(datasets) if datasets else None


def dataset_proportions(run: RunResults, dataset: str) -> DatasetProportions | None:
    """Return the estimates of the first mechanism that asks, at the reference ε if possible; None if none asks."""
    asking = [
        (outcome, outcome.model)
        for outcome in run.of(dataset)
        if outcome.model and any(fitted.proportions for fitted in outcome.model.models)
    ]
    if not asking:
        return None
    chosen, model = next((pair for pair in asking if pair[0].epsilon == run.reference_epsilon), asking[0])
    return DatasetProportions(
        name=dataset,
        title=run.entries[dataset].title,
        mechanism=chosen.mechanism,
        epsilon=chosen.epsilon,
        split=split(model) or "",
        people=model.domain.unit == "person",
        replicates=len(model.models),
        shown=tuple(_rows(run, chosen, model)),
        others=tuple(
            row for outcome, its in asking if outcome is not chosen for row in _rows(run, outcome, its)
        ),
    )


def _rows(run: RunResults, outcome: Outcome, model: ModelFile) -> list[ProportionRow]:
    """Return the estimates of the first replicate, and the number of replicates whose interval contains the truth."""
    shares = run.materials[outcome.dataset].shares if outcome.dataset in run.materials else {}
    models, rows = model.models, []
    for number, first in enumerate(models[0].proportions):
        truth = shares.get((first.attribute, first.value))
        rows.append(
            ProportionRow(
                mechanism=outcome.mechanism,
                epsilon=outcome.epsilon,
                attribute=first.attribute.replace("_", " "),
                value=first.value,
                truth=None if truth is None else percent(truth),
                estimate=percent(first.estimate),
                exact=_span(first.exact),
                normal=_span(first.normal),
                chebyshev=_span(first.chebyshev),
                covered=None if truth is None else _coverage([m.proportions[number] for m in models], truth),
            )
        )
    return rows


def _coverage(estimates: list[Proportion], truth: float) -> str:
    """Count the exact, normal and Chebyshev intervals that contain the truth."""
    hits = [
        sum(low <= truth <= high for low, high in spans)
        for spans in zip(*((each.exact, each.normal, each.chebyshev) for each in estimates), strict=True)
    ]
    return ", ".join(str(hit) for hit in hits)


def _span(bounds: tuple[float, float]) -> str:
    low, high = bounds
    if low == high:  # intervals are clipped to 0 to 1
        return f"outside 0 to {percent(1.0)}"
    digits = 0 if high - low >= NARROW else 1
    return f"{decimals(100 * low, digits)} to {decimals(100 * high, digits)}{SPACE}%"
