"""The proportions section: shares of attributes as private releases estimate them."""

from dataclasses import dataclass

from privmix.report.format import SPACE, decimals, percent
from privmix.report.ledger import split
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

NARROW = 0.05  # an interval whose ends need a decimal


@dataclass(frozen=True)
class ProportionRow:
    """The share of one value of an attribute as one private release estimates it."""

    mechanism: str
    epsilon: float
    attribute: str
    value: str
    truth: str | None  # None where the data is sensitive
    estimate: str
    exact: str
    normal: str
    chebyshev: str
    covered: str | None


@dataclass(frozen=True)
class DatasetProportions:
    """The estimates of one dataset."""

    name: str
    title: str
    mechanism: str  # whose estimates are shown,
    epsilon: float  # at this budget,
    split: str  # of which the attributes had a part
    people: bool  # whether everybody counts once, however many records they have
    replicates: int
    shown: tuple[ProportionRow, ...]
    others: tuple[ProportionRow, ...]


@dataclass(frozen=True)
class ProportionsSection(PageSection):
    """The datasets whose attributes a mechanism has asked about."""

    datasets: tuple[DatasetProportions, ...]


def build(run: RunResults) -> ProportionsSection | None:
    """The section; None where no mechanism asks about attributes."""
    every = [dataset_proportions(run, name) for name in run.settings.datasets]
    datasets = tuple(dataset for dataset in every if dataset)
    return ProportionsSection(datasets) if datasets else None


def dataset_proportions(run: RunResults, dataset: str) -> DatasetProportions | None:
    """Estimates of the first mechanism that asks, at the reference ε if it was run there; None where none asks."""
    asking = [outcome for outcome in run.of(dataset) if outcome.model and _estimates(outcome)]
    if not asking:
        return None
    chosen = next((outcome for outcome in asking if outcome.epsilon == run.reference_epsilon), asking[0])
    return DatasetProportions(
        name=dataset,
        title=run.entries[dataset].title,
        mechanism=chosen.mechanism,
        epsilon=chosen.epsilon,
        split=split(chosen.model) or "",
        people=chosen.model.domain.unit == "person",
        replicates=len(chosen.model.models),
        shown=tuple(_rows(run, chosen)),
        others=tuple(row for outcome in asking if outcome is not chosen for row in _rows(run, outcome)),
    )


def _estimates(outcome: Outcome) -> bool:
    return any(fitted.proportions for fitted in outcome.model.models)


def _rows(run: RunResults, outcome: Outcome) -> list[ProportionRow]:
    """Estimates of the first replicate, and how many replicates' intervals hold the truth."""
    shares = run.materials[outcome.dataset].shares if outcome.dataset in run.materials else {}
    models, rows = outcome.model.models, []
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


def _coverage(estimates: list, truth: float) -> str:
    """How many of the exact, the normal and Chebyshev's intervals hold the truth."""
    hits = [
        sum(low <= truth <= high for low, high in spans)
        for spans in zip(*((each.exact, each.normal, each.chebyshev) for each in estimates), strict=True)
    ]
    return ", ".join(str(hit) for hit in hits)


def _span(bounds: tuple[float, float]) -> str:
    low, high = bounds
    if low == high:  # an interval is cut to what a share can be
        return f"outside 0 to {percent(1.0)}"
    digits = 0 if high - low >= NARROW else 1
    return f"{decimals(100 * low, digits)} to {decimals(100 * high, digits)}{SPACE}%"
