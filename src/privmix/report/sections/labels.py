"""The labels section: random labels that tell little about an attribute, and what a probe still predicts from them."""

from collections.abc import Callable
from dataclasses import dataclass

from privmix.artefacts.fitted_model import CensoredLabels
from privmix.report.format import decimals, listing, percent, plain, plus_minus
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class LabelRow:
    """The labels of one mechanism at one ε, for one attribute."""

    mechanism: str
    epsilon: float
    attribute: str
    limit: str
    information: str
    kept: str
    probe: str
    uncensored: str


@dataclass(frozen=True)
class DatasetLabels:
    """The censored labels of one dataset."""

    name: str
    title: str
    wanted: str  # the limit and the recall of a guess for each attribute, in words
    rows: tuple[LabelRow, ...]
    missing: str | None  # the mechanisms that have no labels


@dataclass(frozen=True)
class LabelsSection(PageSection):
    """The datasets with censored labels."""

    datasets: tuple[DatasetLabels, ...]


def build(run: RunResults, results: Results) -> LabelsSection | None:
    """Build the section; None if the configuration asks for no labels."""
    found = [_dataset(run, results, name) for name in run.settings.datasets]
    datasets = tuple(each for each in found if each)
    return LabelsSection(datasets) if datasets else None


def _dataset(run: RunResults, results: Results, name: str) -> DatasetLabels | None:
    wanted = run.settings.censored_labels.get(name)
    if not wanted:
        return None
    private = [outcome for outcome in run.of(name) if outcome.private and outcome.failure is None]
    labelled = [(outcome, labels) for outcome in private if (labels := _labels(outcome))]
    without = sorted(
        {outcome.mechanism for outcome in private} - {outcome.mechanism for outcome, _ in labelled}
    )
    asked = [
        f"at most {plain(most)} nats about {attribute.replace('_', ' ')}"
        + (f" (recall of a guess without a label: {percent(values[0])})" if values else "")
        for attribute, most in wanted.items()
        for values in [_first(results, labelled, f"labels_guess[{attribute}]")]
    ]
    return DatasetLabels(
        name=name,
        title=run.entries[name].title,
        wanted=listing(asked),
        rows=tuple(row for outcome, labels in labelled for row in _rows(results, outcome, labels)),
        missing=f"No labels from {listing(without)}, without the noisy table from which the limit follows."
        if without
        else None,
    )


def _labels(outcome: Outcome) -> CensoredLabels | None:
    models = outcome.model.models if outcome.model else ()
    return models[0].labels if models else None


def _first(results: Results, labelled: list[tuple[Outcome, CensoredLabels]], metric: str) -> list[float]:
    return results.values(*labelled[0][0].key, metric) if labelled else []


def _rows(results: Results, outcome: Outcome, labels: CensoredLabels) -> list[LabelRow]:
    def mean(metric: str, form: Callable[[float], str] = percent) -> str:
        return plus_minus(results.estimate(*outcome.key, metric), form)

    return [
        LabelRow(
            mechanism=outcome.mechanism,
            epsilon=outcome.epsilon,
            attribute=each.attribute.replace("_", " "),
            limit=mean(f"labels_limit[{each.attribute}]", _nats),
            information=mean(f"labels_information[{each.attribute}]", _nats),
            kept=mean("labels_kept"),
            probe=mean(f"labels_probe[{each.attribute}]"),
            uncensored=mean(f"labels_probe_uncensored[{each.attribute}]"),
        )
        for each in labels.limits
    ]


def _nats(value: float) -> str:
    return decimals(value, 4)
