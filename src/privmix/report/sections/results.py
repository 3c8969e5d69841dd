"""The results section: one row per job, best first, or the reason why it has no result; and files to save."""

import base64
import csv
import gzip
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields

from privmix.report.format import SPACE, compact, percent, plain, plus_minus, rate
from privmix.report.knowledge import knowledge_share
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

MOST = 300_000  # largest size in bytes of a file inside the page


@dataclass(frozen=True)
class ResultNumbers:
    """The numbers behind a row of results: means over replicates, None if nothing was measured."""

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
    kept: str  # utility kept, in per cent
    gap: str
    auc: str
    fit: str  # in seconds
    best: bool
    failure: str | None
    suitable: bool  # whether the mechanism can run on the dataset
    numbers: ResultNumbers  # for sorting and saving


@dataclass(frozen=True)
class FailureRow:
    """A job without a result, and why."""

    dataset: str
    mechanism: str
    epsilon: str
    reason: str


@dataclass(frozen=True)
class Attachment:
    """A file beside the page. A small file is also inside the page."""

    address: str
    size: int
    content: str | None  # base64 of the bytes (gzip bytes if `packed`); None if the file is too large
    packed: bool


@dataclass(frozen=True)
class DatasetResults:
    """The results on one dataset."""

    name: str
    title: str
    rows: tuple[ResultRow, ...]


@dataclass(frozen=True)
class ResultsSection(PageSection):
    """The results of the run, and the files with all scores."""

    datasets: tuple[DatasetResults, ...]
    failures: tuple[FailureRow, ...]
    csv: Attachment
    parquet: Attachment

    @property
    def script_data(self) -> Mapping[str, object]:
        """Rows as lines of CSV, and the files."""
        return {
            "header": csv_header(),
            "rows": {dataset.name: csv_lines(dataset.name, dataset.rows) for dataset in self.datasets},
            "files": {"csv": self.csv, "parquet": self.parquet},
        }


def build(run: RunResults, results: Results, csv: Attachment, parquet: Attachment) -> ResultsSection:
    """Build the section; `csv` and `parquet` are the files with all results."""
    datasets = tuple(
        DatasetResults(name, run.entries[name].title, tuple(result_rows(run, results, name)))
        for name in run.settings.datasets
    )
    return ResultsSection(datasets, tuple(failure_rows(run)), csv, parquet)


def result_rows(run: RunResults, results: Results, dataset: str) -> list[ResultRow]:
    """Return a row per job whose ε is comparable: non-private first, then by ε; within an ε the best first.

    Jobs without a result come last within their ε. Equal jobs keep the order of the mechanisms.
    """
    best = _best(run, results, dataset)
    compared = [outcome for outcome in run.of(dataset) if outcome.comparable]
    rows = [_result_row(run, results, outcome, outcome in best) for outcome in compared]
    return sorted(rows, key=_best_first)


def _best_first(row: ResultRow) -> tuple[bool, float, bool, float]:
    score = row.numbers.gap if row.numbers.gap is not None else row.numbers.loglik
    if score is None or math.isnan(score):
        return math.isfinite(row.epsilon), row.epsilon, True, 0.0
    return math.isfinite(row.epsilon), row.epsilon, False, -score


def _best(run: RunResults, results: Results, dataset: str) -> list[Outcome]:
    """Return the private outcome with the best held-out likelihood per trust model and epsilon."""
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
        kept="–" if kept is None else compact(percent(max(kept.mean, 0.0))).removesuffix(f"{SPACE}%"),
        gap=plus_minus(gap),
        auc=plus_minus(auc, rate),
        fit=f"{fit.mean:,.{2 if fit.mean < 9.995 else 0}f}" if fit else "–",
        best=best,
        failure=outcome.failure,
        suitable=outcome.model is None or outcome.model.failure is None,
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
    """Return all jobs without a result; epsilons of one mechanism with one reason share a row."""
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
    """Return the file as part of the page; the same bytes always give the same page."""
    carried = gzip.compress(content, mtime=0) if packed else content
    inside = base64.b64encode(carried).decode() if len(carried) * 4 / 3 <= MOST else None
    return Attachment(address, len(content), inside, packed)


def csv_header() -> str:
    """Return the header line of the CSV of shown rows."""
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
    """Return each row of a results table as a line of CSV with all digits; a missing value is empty."""
    return tuple(
        _csv_line([dataset, row.mechanism, row.trust, row.epsilon, *astuple(row.numbers), row.failure])
        for row in rows
    )


def _csv_line(values: Iterable[object]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(values)
    return stream.getvalue()
