"""The statistics section: what each ε costs in the data's own units, for means, shares and counts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.model import ModelFile
from privmix.attacks.membership.worst_record import EARTH_RADIUS_KM
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.noisy_numbers import Count, CountTable, Mean, NoisyNumber
from privmix.privacy.sensitivity import Neighbours
from privmix.report.error_plot import draw_errors
from privmix.report.format import SPACE, count, listing, percent, plain
from privmix.report.run import RunResults
from privmix.report.sections import PageSection
from privmix.report.sections.usefulness import Picture, in_unit, spoken
from privmix.report.statistics import StatisticLine, lines
from privmix.report.true_numbers import NumberKey

PROBABILITY = 0.95
DRAWS = 100  # of each number at each ε, in a picture
MOST_ROWS = 8  # columns that the table shows before a fold
ALONE = "bounds alone"  # where the noise is as wide as the public range


@dataclass(frozen=True)
class ErrorRow:
    """The distance that the noise of one number keeps at each ε, in the number's own unit."""

    name: str
    unit: str
    distances: tuple[str, ...]


@dataclass(frozen=True)
class PublishedRow:
    """One number that is published beside a model, and the true one."""

    line: StatisticLine
    truth: str | None  # None if the data is sensitive


@dataclass(frozen=True)
class Published:
    """The statistics that one mechanism published beside its model, in its first replicate."""

    mechanism: str
    epsilon: float
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True)
class DatasetStatistics:
    """The errors of one dataset's numbers."""

    name: str
    title: str
    unit: str  # what is protected
    rows: str  # number of training records in words; without the number if the data is sensitive
    shown: tuple[ErrorRow, ...]
    others: tuple[ErrorRow, ...]
    blanks: tuple[str, ...]  # columns that not every record has
    pictures: tuple[Picture, ...]
    published: tuple[Published, ...]  # the first is in view, the others in a fold
    sensitive: bool


@dataclass(frozen=True)
class StatisticsSection(PageSection):
    """The datasets of the run."""

    epsilons: tuple[float, ...]
    datasets: tuple[DatasetStatistics, ...]
    draws: int = DRAWS
    alone: str = ALONE


def build(run: RunResults) -> StatisticsSection | None:
    """Build the section; None if the run has no private mechanism, and so no ε, or no dataset was cleaned."""
    names = [name for name in run.settings.datasets if name in run.materials]
    if not run.epsilons or not names:
        return None
    return StatisticsSection(tuple(run.epsilons), tuple(dataset_statistics(run, name) for name in names))


def dataset_statistics(run: RunResults, dataset: str) -> DatasetStatistics:
    """Return the errors of one dataset's numbers, from public values, and the pictures of two numbers."""
    domain, shows_counts = run.materials[dataset].domain, run.materials[dataset].shows_counts
    rows = [_mean_row(domain, axis, run.epsilons) for axis in domain.axes]
    fixed = [_count_row(domain, run.epsilons)]
    if domain.attributes:
        fixed.insert(0, _share_row(domain, run.epsilons))
    blank = {domain.axes[number].name for number in domain.states}
    return DatasetStatistics(
        name=dataset,
        title=run.entries[dataset].title,
        unit="person" if domain.unit == "person" else "record",
        rows=count(domain.rows, "training record") if shows_counts else "training records",
        shown=(*rows[:MOST_ROWS], *fixed),
        others=tuple(rows[MOST_ROWS:]),
        blanks=tuple(spoken(axis.name) for axis in domain.axes if axis.name in blank),
        pictures=_pictures(run, dataset),
        published=_published(run, dataset),
        sensitive=domain.visibility == "sensitive",
    )


def _published(run: RunResults, dataset: str) -> tuple[Published, ...]:
    """Return what private mechanisms published, in their first replicate: first at the reference ε, if there is one."""
    tables = [
        Published(outcome.mechanism, outcome.epsilon, tuple(_published_rows(run, dataset, outcome.model)))
        for outcome in run.of(dataset)
        if outcome.private and outcome.model and any(fitted.statistics for fitted in outcome.model.models)
    ]
    first = next((table for table in tables if table.epsilon == run.reference_epsilon), None)
    return tuple(tables) if first is None else (first, *(table for table in tables if table is not first))


def _published_rows(run: RunResults, dataset: str, model: ModelFile) -> Iterator[PublishedRow]:
    material = run.materials[dataset]
    for statistic in model.models[0].statistics:
        exact = material.statistics.get(statistic.request)
        shown = lines([statistic], material.domain)
        if exact is None:
            yield from (PublishedRow(line, None) for line in shown)
            continue
        # The true value is written like the published one, with as many digits.
        alike = exact.model_copy(update={"accuracy": statistic.accuracy, "public": statistic.public})
        truths = lines([alike], material.domain)
        yield from (PublishedRow(line, truth.value) for line, truth in zip(shown, truths, strict=True))


def neighbours(domain: Domain, *, complete: bool = True) -> Neighbours:
    """Return the neighbouring datasets; `complete` is false for a column that a record may lack."""
    return Neighbours(domain.unit, domain.relation, domain.max_records_per_person, complete)


def mean_of(domain: Domain, axis: Axis) -> Mean:
    """Return the mean of a coordinate over the public number of training records."""
    lacking = {domain.axes[number].name for number in domain.states}
    return Mean(axis.lower, axis.upper, domain.rows, neighbours(domain, complete=axis.name not in lacking))


def _mean_row(domain: Domain, axis: Axis, epsilons: list[float]) -> ErrorRow:
    mean = mean_of(domain, axis)
    shown = []
    for epsilon in epsilons:
        within = mean.within(epsilon, PROBABILITY)
        if within >= mean.half_range:
            shown.append(ALONE)
        else:
            shown.append(_metres(domain, axis, within) if axis.geographic else plus_minus(within))
    unit = "as a distance" if axis.geographic else _unit(axis)
    return ErrorRow(f"mean of {spoken(axis.name)}", unit, tuple(shown))


def _metres(domain: Domain, axis: Axis, degrees: float) -> str:
    """Format a distance along a geographic axis, in the middle of the public box."""
    along = 1.0
    if axis.geographic == "longitude":
        middle = next((each.centre for each in domain.axes if each.geographic == "latitude"), 0.0)
        along = math.cos(math.radians(middle))
    kilometres = math.radians(degrees) * EARTH_RADIUS_KM * along
    if kilometres < 1:
        return f"{plus_minus(1000 * kilometres)}{SPACE}m"
    return f"{plus_minus(kilometres)}{SPACE}km"


def _share_row(domain: Domain, epsilons: list[float]) -> ErrorRow:
    """Return the row of the shares of all values of one attribute. It is the same for every attribute."""
    names = [f"“{spoken(attribute.name)}”" for attribute in domain.attributes]
    which = listing(names) if len(names) <= MOST_ROWS else "an attribute"
    table = CountTable(2, neighbours(domain))
    shares = (table.each_within(epsilon, PROBABILITY) / domain.rows for epsilon in epsilons)
    return ErrorRow(
        f"share of a value of {which}",
        "percentage points",
        tuple(plus_minus(100 * each) if each < 0.5 else ALONE for each in shares),
    )


def _count_row(domain: Domain, epsilons: list[float]) -> ErrorRow:
    number = Count(neighbours(domain))
    distances = (number.within(epsilon, PROBABILITY) for epsilon in epsilons)
    return ErrorRow(
        "number of records with any property",
        "records",
        tuple(plus_minus(each) if each < domain.rows / 2 else ALONE for each in distances),
    )


def plus_minus(value: float) -> str:
    """Format a distance with two digits, rounded up: ± 0.38."""
    exponent = math.floor(math.log10(value)) - 1
    digits = math.ceil(value / 10.0**exponent - 1e-9)
    rounded = float(f"{digits}e{exponent}")
    return f"±{SPACE}{f'{rounded:,.0f}' if rounded >= 100 else plain(rounded)}"


def _unit(axis: Axis) -> str:
    return {"date": "days", "ordinal": "steps"}.get(axis.kind, axis.unit)


def _pictures(run: RunResults, dataset: str) -> tuple[Picture, ...]:
    """Return the pictures of one mean and one share, as far as the dataset has them."""
    domain = run.materials[dataset].domain
    found = []
    if domain.axes:
        found.append(_mean_picture(run, dataset, domain.axes[0]))
    if domain.attributes:
        outcome = run.entries[dataset].outcome
        chosen = next((each for each in domain.attributes if each.name == outcome), domain.attributes[0])
        found.append(_share_picture(run, dataset, chosen))
    else:
        found.append(_above_picture(run, dataset, domain.axes[0]))
    return tuple(found)


def _mean_picture(run: RunResults, dataset: str, axis: Axis) -> Picture:
    material = run.materials[dataset]
    mean, key = mean_of(material.domain, axis), NumberKey("mean", axis.name)
    truth = material.numbers.get(key)
    centre = (mean.lower + mean.upper) / 2 if truth is None else truth
    unit = f" ({_unit(axis)})" if _unit(axis) else ""
    value = (
        None
        if truth is None or axis.kind in ("date", "ordinal")
        else f"{in_unit(truth, axis)}{SPACE}{axis.unit}".rstrip()
    )
    what = f"mean of {spoken(axis.name)}"
    return _picture(run, dataset, mean, key, centre, 1.0, what, f"error of the mean{unit}", value)


def _share_picture(run: RunResults, dataset: str, attribute: Attribute) -> Picture:
    material = run.materials[dataset]
    rows, key = material.domain.rows, NumberKey("share", attribute.name, attribute.values[-1])
    truth = material.numbers.get(key)
    table = CountTable(len(attribute.values), neighbours(material.domain))
    what = f"share of “{spoken(attribute.name)}: {attribute.values[-1]}”"
    value = None if truth is None else percent(truth)
    return _picture(
        run, dataset, table, key, (truth or 0.0) * rows, 100 / rows, what, "error of the share (points)", value
    )  # fmt: skip


def _above_picture(run: RunResults, dataset: str, axis: Axis) -> Picture:
    material = run.materials[dataset]
    rows, key = material.domain.rows, NumberKey("above", axis.name)
    truth = material.numbers.get(key)
    number = Count(neighbours(material.domain))
    what = f"number of records whose {spoken(axis.name)} is above the middle of its bounds"
    value = None if truth is None else f"{truth * rows:,.0f}"
    return _picture(
        run, dataset, number, key, (truth or 0.0) * rows, 1.0, what, "error of the number (records)", value
    )  # fmt: skip


def _picture(
    run: RunResults, dataset: str, number: NoisyNumber, key: NumberKey, truth: float, scale: float, what: str,
    axis: str, value: str | None,
) -> Picture:  # fmt: skip
    """Draw a number at each ε of the run, with noise of its own; `scale` turns the number into the shown unit."""
    errors = [
        (number.draw(truth, DRAWS, epsilon, _noise(run, dataset, key, epsilon)) - truth) * scale
        for epsilon in run.epsilons
    ]
    within = [_each_within(number, epsilon) * scale for epsilon in run.epsilons]
    if isinstance(number, Mean):  # a published mean lies between the bounds
        errors = [np.clip(each, number.lower - truth, number.upper - truth) for each in errors]
        within = [min(each, number.half_range) for each in within]
    line = f"the dashed line is the true value, {value}" if value else "the dashed line is the true value"
    caption = f"{what[0].upper()}{what[1:]}: {DRAWS} noisy values at each ε; {line}."
    name = f"statistics-{dataset}-{key.kind}"
    return Picture(
        caption,
        draw_errors(
            run.epsilons,
            errors,
            within,
            [plus_minus(each) for each in within],
            axis,
            name,
            f"{dataset}: {caption}",
        ),
    )


def _each_within(number: NoisyNumber, epsilon: float) -> float:
    if isinstance(number, CountTable):
        return number.each_within(epsilon, PROBABILITY)
    return number.within(epsilon, PROBABILITY)


def _noise(run: RunResults, dataset: str, key: NumberKey, epsilon: float) -> SeededNoise:
    """Return noise of exactly this number and ε: two ε that share noise would reveal the true value."""
    purpose = ("statistics shown", dataset, key.kind, key.column, key.value, epsilon)
    return SeededNoise(stream(run.settings.master_seed, *purpose))
