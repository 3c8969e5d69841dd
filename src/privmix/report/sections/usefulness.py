"""The usefulness section: synthetic rows of each model against held-out records, column by column and pair by pair."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.usefulness import ColumnComparison, PairComparison, TableComparison, Usefulness
from privmix.report import table_plot
from privmix.report.figures import INK, series
from privmix.report.format import compact, decimals, listing, percent, plain
from privmix.report.knowledge import GOOD_SHARE, knowledge_share
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.sections.answer import answers

EXCESS = 0.1  # a table whose worst column or pair exceeds the real sample by more is poor
MOST_PAIRS = 10
Lookup = Callable[[str], float | None]


@dataclass(frozen=True)
class UsefulnessRow:
    """One table: synthetic rows of a mechanism at one ε, or a real sample."""

    mechanism: str | None  # None for the real sample
    epsilon: float
    columns: str  # number of compared columns
    worst_column: str
    worst_column_distance: str
    worst_pair: str
    worst_pair_distance: str
    mean_pair_distance: str
    deviation_error: str
    association_error: str
    worst_association: str
    prediction: str
    poor: bool
    order: float


@dataclass(frozen=True)
class NumberRow:
    """The distance of one column, and the statistics of real and synthetic rows in its unit."""

    name: str
    distance: str
    sample_distance: str
    kind: str  # of a column without numbers
    tables: tuple[tuple[str, tuple[str, ...]], ...]  # which rows; mean, standard deviation and quantiles


@dataclass(frozen=True)
class PairRow:
    """One pair of columns: the distance, and the association in both tables."""

    names: str
    distance: str
    sample_distance: str
    measure: str
    real: str
    synthetic: str


@dataclass(frozen=True)
class Picture:
    """A picture and its caption."""

    caption: str
    drawn: Markup


@dataclass(frozen=True)
class Recommended:
    """The recommended model in detail: pictures, columns and the worst pairs; no real values of sensitive records."""

    mechanism: str
    epsilon: float
    pictures: tuple[Picture, ...]
    columns: tuple[NumberRow, ...]
    pairs: tuple[PairRow, ...]
    all_pairs: bool


@dataclass(frozen=True)
class DatasetUsefulness:
    """The tables of one dataset."""

    name: str
    title: str
    warning: str | None
    left_out: str | None
    shown: tuple[UsefulnessRow, ...]  # references, and mechanisms at the reference ε
    others: tuple[UsefulnessRow, ...]
    outcome: str | None  # the attribute that predictions are tested on, and their measure
    sensitive: bool
    recommended: Recommended | None

    @property
    def partial(self) -> bool:
        """Whether a table lacks columns."""
        return self.left_out is not None

    @property
    def paired(self) -> bool:
        """Whether any table has a pair of columns."""
        return any(row.worst_pair for row in self.shown)


@dataclass(frozen=True)
class UsefulnessSection(PageSection):
    """The datasets whose models were compared with held-out records."""

    datasets: tuple[DatasetUsefulness, ...]
    excess: float = EXCESS
    good: float = GOOD_SHARE


def build(run: RunResults, results: Results) -> UsefulnessSection | None:
    """Build the section; None if no table was compared."""
    best = {
        answer.dataset: answer.mechanism for answer in reversed(answers(run, results)) if answer.mechanism
    }
    datasets = [dataset_usefulness(run, results, name, best.get(name)) for name in run.settings.datasets]
    found = tuple(dataset for dataset in datasets if dataset)
    return UsefulnessSection(found) if found else None


def dataset_usefulness(
    run: RunResults, results: Results, dataset: str, best: str | None
) -> DatasetUsefulness | None:
    """Return the tables of one dataset; None if there are none. `best` is the recommended mechanism."""
    compared = [
        (outcome, outcome.scores_info.usefulness)
        for outcome in run.of(dataset)
        if outcome.comparable and outcome.scores_info and outcome.scores_info.usefulness
    ]
    if not compared or dataset not in run.materials:
        return None
    domain, entry = run.materials[dataset].domain, run.entries[dataset]
    widest = max((info for _, info in compared), key=lambda info: len(info.synthetic.columns))
    total = len(domain.axes) + len(domain.attributes)
    sample = _row(None, math.inf, widest.real_sample, total, widest.real_metrics.get, poor=False)
    rows = [_model_row(run, results, outcome, info, total) for outcome, info in compared]
    rows.sort(key=lambda row: (math.isfinite(row.epsilon), row.epsilon, row.order))
    shown = [row for row in rows if row.epsilon in (math.inf, run.reference_epsilon)]
    recommended = [
        (outcome, info)
        for outcome, info in compared
        if outcome.mechanism == best and outcome.epsilon == run.reference_epsilon
    ]
    return DatasetUsefulness(
        name=dataset,
        title=entry.title,
        warning=_warning(compared, [row for row in rows if row.poor]),
        left_out=_left_out(compared),
        shown=(sample, *shown),
        others=tuple(row for row in rows if row not in shown),
        outcome=_outcome(entry.outcome, widest),
        sensitive=domain.visibility == "sensitive",
        recommended=_recommended(run, domain, *recommended[0]) if recommended else None,
    )


def _model_row(
    run: RunResults, results: Results, outcome: Outcome, info: Usefulness, total: int
) -> UsefulnessRow:
    def mean(metric: str) -> float | None:
        found = results.estimate(*outcome.key, metric)
        return None if found is None else found.mean

    gap, excess = results.estimate(*outcome.key, "holdout_gap"), mean("table_worst_excess")
    kept = knowledge_share(run, results, outcome.dataset, gap) if gap else None
    good = kept is not None and kept.mean >= GOOD_SHARE
    poor = good and excess is not None and excess > EXCESS
    return _row(outcome.mechanism, outcome.epsilon, info.synthetic, total, mean, poor=poor)


def _row(
    mechanism: str | None, epsilon: float, compared: TableComparison, total: int, value: Lookup, *, poor: bool
) -> UsefulnessRow:
    pair, wrong = compared.worst_pair, compared.worst_association
    order = value("table_mean_pair_tv" if pair else "table_worst_column_distance")
    return UsefulnessRow(
        mechanism=mechanism,
        epsilon=epsilon,
        columns=f"{len(compared.columns)} of {total}",
        worst_column=spoken(compared.worst_column.name),
        worst_column_distance=_short(value("table_worst_column_distance")),
        worst_pair=_names(pair) if pair else "",
        worst_pair_distance=_short(value("table_worst_pair_tv")),
        mean_pair_distance=_short(value("table_mean_pair_tv")),
        deviation_error=_percent(value("table_worst_sd_error")),
        association_error=_short(value("table_worst_association_error")),
        worst_association=_names(wrong) if wrong else "",
        prediction=_short(value("table_outcome_auc"), value("table_outcome_accuracy")),
        poor=poor,
        order=math.inf if order is None else order,
    )


def _warning(compared: Sequence[tuple[Outcome, Usefulness]], poor: Sequence[UsefulnessRow]) -> str | None:
    """Warn of models with a good likelihood and a poor table, in one sentence; None if there are none."""
    if not poor:
        return None
    names = list(dict.fromkeys(row.mechanism for row in poor if row.mechanism))
    keys = {(row.mechanism, row.epsilon) for row in poor}
    worst = max(
        (_excess(info), outcome.mechanism, outcome.epsilon)
        for outcome, info in compared
        if (outcome.mechanism, outcome.epsilon) in keys
    )
    (_, what, mine, sample), mechanism, epsilon = worst
    whose = f"{mechanism} at ε = {plain(epsilon)}" if math.isfinite(epsilon) else mechanism
    keep = "keeps" if len(names) == 1 else "keep"
    sentence = (
        f"Good likelihood, poor table: where marked, {listing(names)} {keep} at least {percent(GOOD_SHARE)} of the "
        f"utility, but a column or pair of the synthetic rows is more than {plain(EXCESS)} further from held-out "
        f"records than a real sample (worst: {what} of {whose}, {decimals(mine, 2)} against {decimals(sample, 2)})."
    )
    if any(not math.isfinite(row.epsilon) for row in poor):
        sentence += " A larger ε does not help: the non-private mixture has the same flaw."
    return sentence


def _excess(info: Usefulness) -> tuple[float, str, float, float]:
    """Return the largest excess over the real sample, of which column or pair, and both distances."""
    columns = zip(info.synthetic.columns, info.real_sample.columns, strict=True)
    pairs = zip(info.synthetic.pairs, info.real_sample.pairs, strict=True)
    return max(
        *((a.distance - b.distance, f"column {spoken(a.name)}", a.distance, b.distance) for a, b in columns),
        *((a.distance - b.distance, f"pair {_names(a)}", a.distance, b.distance) for a, b in pairs),
        (-1.0, "", 0.0, 0.0),
    )


def _left_out(compared: Sequence[tuple[Outcome, Usefulness]]) -> str | None:
    """Describe the attributes that models do not describe, and so are not compared."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for outcome, info in compared:
        groups.setdefault(info.left_out, []).append(outcome.mechanism)
    alike = len(groups) == 1
    sentences = []
    for names, who in groups.items():
        if names:
            models = "The models do" if alike else f"The models of {listing(list(dict.fromkeys(who)))} do"
            sentences.append(f"{models} not describe {listing([f'“{spoken(name)}”' for name in names])}.")
    if not sentences:
        return None
    advice = "" if alike else " Compare means only between rows with equally many columns."
    return f"{' '.join(sentences)} These columns are not compared.{advice}"


def _outcome(name: str | None, info: Usefulness) -> str | None:
    """Describe what predictions are tested on; None if nothing is predicted."""
    if name is None or "table_outcome_accuracy" not in info.real_metrics:
        return None
    return f"{spoken(name)} ({'AUC' if 'table_outcome_auc' in info.real_metrics else 'accuracy'})"


def _recommended(run: RunResults, domain: Domain, outcome: Outcome, info: Usefulness) -> Recommended:
    sensitive = domain.visibility == "sensitive"
    sample = {pair.columns: pair.distance for pair in info.real_sample.pairs}
    worst = sorted(info.synthetic.pairs, key=lambda pair: -pair.distance)[:MOST_PAIRS]
    return Recommended(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        pictures=() if sensitive else _pictures(run, domain, outcome, info.synthetic),
        columns=tuple(
            _number_row(domain, mine, real.distance, sensitive)
            for mine, real in zip(info.synthetic.columns, info.real_sample.columns, strict=True)
        ),
        pairs=tuple(_pair_row(pair, sample[pair.columns], sensitive) for pair in worst),
        all_pairs=len(worst) == len(info.synthetic.pairs),
    )


def _pictures(
    run: RunResults, domain: Domain, outcome: Outcome, compared: TableComparison
) -> tuple[Picture, ...]:
    look = series(run.private, run.trust).get(outcome.mechanism)
    colour = look.colour if look else INK
    who, name = f"{outcome.mechanism} at ε = {plain(outcome.epsilon)}", f"usefulness-{outcome.dataset}"
    column = compared.worst_column
    text = (
        f"Worst column, {spoken(column.name)}: held-out records (grey) and synthetic rows of {who} "
        f"(distance {decimals(column.distance, 2)})"
    )
    drawn = table_plot.draw_column(domain, column, colour, f"{name}-column", f"{outcome.dataset}: {text}.")
    pictures = [Picture(text, drawn)]
    pair = compared.worst_pair
    if pair:
        for side, rows in (("real", "held-out records"), ("synthetic", f"synthetic rows of {who}")):
            distance = f" (distance {decimals(pair.distance, 2)})" if side == "synthetic" else ""
            text = f"Worst pair, {_names(pair)}: {rows}{distance}"
            drawn = table_plot.draw_pair(
                domain, compared, side, INK if side == "real" else colour, f"{name}-{side}",
                f"{outcome.dataset}: {text}.",
            )  # fmt: skip
            pictures.append(Picture(text, drawn))
    return tuple(pictures)


def _number_row(domain: Domain, column: ColumnComparison, sample: float, sensitive: bool) -> NumberRow:
    axis = next((axis for axis in domain.axes if axis.name == column.name), None)
    given = {"synthetic": column.synthetic_numbers}
    if not sensitive:
        given = {"held-out": column.real_numbers, **given}
    tables = tuple(
        (
            rows,
            tuple(
                in_unit(value, axis)
                for value in (numbers.mean, numbers.standard_deviation, *numbers.quantiles)
            ),
        )
        for rows, numbers in given.items()
        if axis and numbers
    )
    name = spoken(column.name) + (f" ({axis.unit})" if axis and axis.unit else "")
    return NumberRow(
        name, decimals(column.distance, 2), decimals(sample, 2), describe_kind(domain, column.name), tables
    )


def describe_kind(domain: Domain, name: str) -> str:
    """Describe a column without numbers: a category, or which numbers are blank or an atom."""
    states = [attribute.state_of for attribute in domain.attributes if attribute.name == name]
    if not any(states):
        return "a category"
    atoms = any(axis.atoms for axis in domain.axes if axis.name in states[0])
    return "given, blank or an atom" if atoms else "given or blank"


def _pair_row(pair: PairComparison, sample: float, sensitive: bool) -> PairRow:
    return PairRow(
        names=_names(pair),
        distance=decimals(pair.distance, 2),
        sample_distance=decimals(sample, 2),
        measure=pair.measure,
        real="" if sensitive else decimals(pair.real, 2),
        synthetic=decimals(pair.synthetic, 2),
    )


def in_unit(value: float, axis: Axis) -> str:
    """Format a value of a coordinate with the digits of its resolution."""
    return decimals(value, max(0, math.ceil(-math.log10(axis.resolution))))


def spoken(name: str) -> str:
    """Return the name of a column without underscores."""
    return name.replace("_", " ")


def _names(pair: PairComparison) -> str:
    return " × ".join(spoken(name) for name in pair.columns)


def _short(*values: float | None) -> str:
    """Format the first known distance, or nothing."""
    return next((decimals(value, 2) for value in values if value is not None), "")


def _percent(value: float | None) -> str:
    return "" if value is None else compact(percent(value))
