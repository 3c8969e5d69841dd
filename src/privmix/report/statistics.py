"""Published statistics in words: value, interval and accuracy in the units of the data, for cards and pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.statistics import Statistic
from privmix.clean.normalisation import BLANK, format_value
from privmix.mechanisms.shared.statistics.cells import AxisCells, equal_cells, find_attribute, find_axis
from privmix.report.format import MINUS, count

MOST_CELLS = 30  # of a histogram in a text; the model file has all of them
HEAD = ("Statistic", "Value", "95 % interval", "With 95 % probability")


@dataclass(frozen=True)
class StatisticLine:
    """One published number in words."""

    name: str
    value: str
    interval: str
    accuracy: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a table with the header `HEAD`."""
        return (self.name, self.value, self.interval, self.accuracy)


def lines(statistics: Sequence[Statistic], domain: Domain) -> list[StatisticLine]:
    """Describe all published statistics, one line per number; of a long histogram the first cells only."""
    return [line for each in statistics for line in _lines_of(each, domain)]


def _lines_of(statistic: Statistic, domain: Domain) -> list[StatisticLine]:
    request = statistic.request
    if statistic.public:
        return [
            StatisticLine(statistic.name, f"{statistic.values[0]:,.0f}", "exact", "public, costs nothing")
        ]
    if request.kind == "top":
        apart = count(math.ceil(statistic.accuracy), "record")
        return [
            StatisticLine(
                statistic.name,
                statistic.chosen or "",
                "–",
                f"within {apart} of the largest count",
            )
        ]
    if request.kind == "histogram":
        return _histogram_lines(statistic, domain)
    if request.kind == "count":
        return [_number_line(statistic.name, statistic, 0, accuracy_of_count(statistic.accuracy))]
    number = find_axis(domain, request.column)
    assert number is not None
    return [_axis_line(statistic, domain.axes[number])]


def accuracy_of_count(distance: float) -> str:
    """Describe the accuracy of a count."""
    return f"within ± {count(math.ceil(distance), 'record')}"


def _number_line(name: str, statistic: Statistic, cell: int, accuracy: str) -> StatisticLine:
    value, lower, upper = (part[cell] for part in (statistic.values, statistic.lower, statistic.upper))
    return StatisticLine(name, f"{value:,.0f}", f"{lower:,.0f} to {upper:,.0f}", accuracy)


def _histogram_lines(statistic: Statistic, domain: Domain) -> list[StatisticLine]:
    labels, joint = cell_labels(statistic, domain), f"all {accuracy_of_count(statistic.accuracy)}"
    found = [
        _number_line(
            f"records with {statistic.request.column} = {label}", statistic, cell, joint if cell == 0 else ""
        )
        for cell, label in enumerate(labels[:MOST_CELLS])
    ]
    if len(labels) > MOST_CELLS:
        rest = count(len(labels) - MOST_CELLS, "further count")
        found.append(StatisticLine(f"{statistic.name}: {rest}", "see model.json", "", ""))
    return found


def cell_labels(statistic: Statistic, domain: Domain) -> list[str]:
    """Return the names of the cells of a histogram."""
    request = statistic.request
    number = find_axis(domain, request.column)
    if number is None:
        attribute = find_attribute(domain, request.column)
        assert attribute is not None
        return list(attribute.values)
    assert request.bins is not None
    axis = domain.axes[number]
    cells = equal_cells(axis, request.bins)
    states = [*(format_value(axis, atom) for atom in axis.atoms), *([BLANK] if axis.blank else [])]
    return [*(_cell_label(cells, cell) for cell in range(cells.number)), *states]


def _cell_label(cells: AxisCells, cell: int) -> str:
    axis = cells.axis
    lower, upper = cells.ends(cell)
    if axis.step is not None and lower == upper:
        return format_value(axis, lower)
    if axis.step is None:
        return f"{lower:.6g} to {upper:.6g}"
    return f"{format_value(axis, lower)} to {format_value(axis, upper)}"


def _axis_line(statistic: Statistic, axis: Axis) -> StatisticLine:
    (value,), (lower,), (upper,) = statistic.values, statistic.lower, statistic.upper
    far, unit = statistic.accuracy, f" {axis.unit}" if axis.unit else ""
    if axis.kind == "date":
        shown = [format_value(axis, round(each)) for each in (value, lower, upper)]
        within = count(math.ceil(far), "day")
    elif axis.kind == "ordinal" and statistic.request.kind == "quantile":
        shown, within = (
            [format_value(axis, each) for each in (value, lower, upper)],
            count(math.ceil(far), "step"),
        )
    else:
        digits = decimals(far) if axis.kind == "number" or statistic.request.kind == "mean" else 0
        shown = [f"{each:,.{digits}f}".replace("-", MINUS) for each in (value, lower, upper)]
        within = f"{math.ceil(far * 10**digits * (1 - 1e-9)) / 10**digits:,.{digits}f}{unit}"
        shown[0] += unit
    return StatisticLine(statistic.name, shown[0], f"{shown[1]} to {shown[2]}", f"within ± {within}")


def decimals(accuracy: float) -> int:
    """Return how many decimals show two digits of an accuracy, at most 9."""
    return min(max(0, 1 - math.floor(math.log10(accuracy))), 9) if accuracy > 0 else 2
