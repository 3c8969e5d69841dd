"""The results section: every job as a row or with its reason, and what can be saved from inside the page."""

import base64
import csv
import gzip
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields

from privmix.report.format import compact, nats, percent, plain, plus_minus, rate, seconds
from privmix.report.knowledge import knowledge_share
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

MOST = 300_000  # bytes of one file inside the page, so that the page stays small however large the run


@dataclass(frozen=True)
class ResultNumbers:
    """The numbers behind a row of results: means over replicates, None where nothing was measured."""

    delta: float | None = None
    replicates: int | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    density_kept: float | None = None
    knowledge_kept: float | None = None
    loglik: float | None = None
    attack_auc: float | None = None
    seconds_fit: float | None = None
    seconds_privatise: float | None = None


@dataclass(frozen=True)
class ResultRow:
    """One mechanism at one epsilon."""

    mechanism: str
    trust: str
    epsilon: float
    loglik: str
    gap: str
    density: str
    kept: str
    auc: str
    fit: str
    privatise: str
    best: bool
    failure: str | None
    numbers: ResultNumbers  # the same, to sort by and to save


@dataclass(frozen=True)
class FailureRow:
    """A job without a result, and why."""

    dataset: str
    mechanism: str
    epsilon: str
    reason: str


@dataclass(frozen=True)
class Attachment:
    """A file that lies beside the page and, where it is small, also inside it."""

    address: str
    size: int
    content: str | None  # base64 of its bytes, of its gzip bytes where `packed`; None where it is too large
    packed: bool


@dataclass(frozen=True)
class DatasetResults:
    """The results on one dataset."""

    name: str
    title: str
    rows: tuple[ResultRow, ...]


@dataclass(frozen=True)
class ResultsSection(PageSection):
    """The results of the run, and the files that hold all of them."""

    datasets: tuple[DatasetResults, ...]
    failures: tuple[FailureRow, ...]
    csv: Attachment
    parquet: Attachment

    @property
    def script_data(self) -> Mapping[str, object]:
        """The rows as lines of CSV, and the files."""
        return {
            "header": csv_header(),
            "rows": {dataset.name: csv_lines(dataset.name, dataset.rows) for dataset in self.datasets},
            "files": {"csv": self.csv, "parquet": self.parquet},
        }


def build(run: RunResults, results: Results, csv: Attachment, parquet: Attachment) -> ResultsSection:
    """The section; `csv` and `parquet` are the files with all results."""
    datasets = tuple(
        DatasetResults(name, run.entries[name].title, tuple(result_rows(run, results, name)))
        for name in run.settings.datasets
    )
    return ResultsSection(datasets, tuple(failure_rows(run)), csv, parquet)


def result_rows(run: RunResults, results: Results, dataset: str) -> list[ResultRow]:
    """Every job of a dataset whose ε compares with that of others, failures too."""
    best = _best(run, results, dataset)
    compared = [outcome for outcome in run.of(dataset) if outcome.comparable]
    return [_result_row(run, results, outcome, outcome in best) for outcome in compared]


def _best(run: RunResults, results: Results, dataset: str) -> list[Outcome]:
    """The private outcome with the best held-out likelihood per trust model and epsilon."""
    leaders: dict[tuple[str, float], tuple[float, Outcome]] = {}
    for outcome in run.of(dataset):
        value = results.estimate(*outcome.key, "holdout_loglik")
        if outcome.private and value and not math.isnan(value.mean):
            group = (outcome.trust, outcome.epsilon)
            if group not in leaders or value.mean > leaders[group][0]:
                leaders[group] = (value.mean, outcome)
    return [outcome for _, outcome in leaders.values()]


def _result_row(run: RunResults, results: Results, outcome: Outcome, best: bool) -> ResultRow:
    key = outcome.key
    loglik, gap = results.estimate(*key, "holdout_loglik"), results.estimate(*key, "holdout_gap")
    kept = knowledge_share(run, results, outcome.dataset, gap) if gap else None
    fit, privatise = results.estimate(*key, "seconds_fit"), results.estimate(*key, "seconds_privatise")
    auc = results.estimate(*key, "mia_loss_auc")
    return ResultRow(
        mechanism=outcome.mechanism,
        trust=outcome.trust,
        epsilon=outcome.epsilon,
        loglik=nats(loglik.mean) if loglik else "–",
        gap=plus_minus(gap),
        density=compact(percent(math.exp(min(gap.mean, 700.0)))) if gap else "–",
        kept="–" if kept is None else compact(percent(max(kept.mean, 0.0))),
        auc=plus_minus(auc, rate),
        fit=seconds(fit.mean) if fit else "–",
        privatise=seconds(privatise.mean) if privatise else "–",
        best=best,
        failure=outcome.failure,
        numbers=ResultNumbers(
            delta=outcome.claimed_delta if loglik else None,
            replicates=loglik.count if loglik else None,
            gap=gap.mean if gap else None,
            gap_low=gap.low if gap else None,
            gap_high=gap.high if gap else None,
            density_kept=math.exp(min(gap.mean, 700.0)) if gap else None,
            knowledge_kept=None if kept is None else max(kept.mean, 0.0),
            loglik=loglik.mean if loglik else None,
            attack_auc=auc.mean if auc else None,
            seconds_fit=fit.mean if fit else None,
            seconds_privatise=privatise.mean if privatise else None,
        ),
    )


def failure_rows(run: RunResults) -> list[FailureRow]:
    """All jobs without a result; epsilons of one mechanism with one reason share a row."""
    grouped: dict[tuple[str, str, str], list[float]] = {}
    for outcome in run.outcomes:
        if outcome.failure:
            key = (outcome.dataset, outcome.mechanism, outcome.failure)
            grouped.setdefault(key, []).append(outcome.epsilon)
    return [
        FailureRow(dataset, mechanism, ", ".join(plain(epsilon) for epsilon in epsilons), reason)
        for (dataset, mechanism, reason), epsilons in grouped.items()
    ]


def attach(address: str, content: bytes, packed: bool = False) -> Attachment:
    """The file as the page holds it; the same bytes always make the same page."""
    carried = gzip.compress(content, mtime=0) if packed else content
    inside = base64.b64encode(carried).decode() if len(carried) * 4 / 3 <= MOST else None
    return Attachment(address, len(content), inside, packed)


def csv_header() -> str:
    """First line of the rows that are shown, as CSV."""
    return _csv_line(
        [
            "dataset",
            "mechanism",
            "trust",
            "epsilon",
            *(field.name for field in fields(ResultNumbers)),
            "failure",
        ]
    )


def csv_lines(dataset: str, rows: Iterable[ResultRow]) -> tuple[str, ...]:
    """Each row of a results table as a line of CSV, all digits kept; what was not measured is empty."""
    return tuple(
        _csv_line([dataset, row.mechanism, row.trust, row.epsilon, *astuple(row.numbers), row.failure])
        for row in rows
    )


def _csv_line(values: Iterable[object]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(values)
    return stream.getvalue()
