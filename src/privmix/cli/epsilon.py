"""`privmix epsilon`: the smallest ε for a wished accuracy, by formula from public values."""

import argparse
import dataclasses
import math
from dataclasses import dataclass

from privmix.catalog.entry import Column, Entry, find_entry
from privmix.cli import terminal
from privmix.cli.arguments import CATALOG
from privmix.errors import UserError, suggest
from privmix.privacy.accuracy import largest_laplace_bound
from privmix.privacy.noisy_numbers import Count, CountTable, Mean, NoisyNumber, round_up, smallest_epsilon
from privmix.privacy.sensitivity import Neighbours, Relation, Unit

OTHER: dict[Relation, Relation] = {"replace_one": "add_remove", "add_remove": "replace_one"}


@dataclass(frozen=True)
class Wish:
    """The number to publish, and how accurate it must be."""

    number: NoisyNumber
    name: str  # of the number in the records
    unit: str  # of the number, for instance years; may be empty
    rows: int | None
    within: float
    probability: float
    share: float
    notes: tuple[str, ...] = ()  # what is assumed about a column of the catalog

    @property
    def promise(self) -> str:
        """What the ε is enough for."""
        distance = f"{self.within:,g}{f' {self.unit}' if self.unit else ''}"
        if isinstance(self.number, CountTable):
            return f"all {self.number.cells:,} published counts are within {distance} of the counts of the records"
        return f"the published number is within {distance} of {self.name}"

    @property
    def known(self) -> tuple[float, float] | None:
        """The middle of the public range, and half the range: what is known without data. None without a range."""
        if isinstance(self.number, Mean):
            return (self.number.lower + self.number.upper) / 2, self.number.half_range
        return None if self.rows is None else (self.rows / 2, self.rows / 2)


def answer(arguments: argparse.Namespace) -> None:
    """Print the smallest ε, the formula in words, and what it assumes."""
    wish = read_wish(arguments)
    known = wish.known
    if known and wish.within >= known[1]:
        terminal.print_success(
            f"Any ε is enough: without data, {known[0]:,g} is already within {known[1]:,g} of {wish.name}."
        )
        return
    terminal.print_success(
        f"ε = {total_epsilon(wish):,g} is enough: with {100 * wish.probability:.10g} % probability, {wish.promise}."
    )
    first, *others = assumptions(wish)
    fields = [("Formula", formula(wish)), ("Assumes", first), *(("", text) for text in others)]
    terminal.print_fields([*fields, ("Instead", instead(wish))])


def total_epsilon(wish: Wish) -> float:
    """Return the smallest ε of the whole release, of which the number gets a share. It has three digits."""

    def enough(epsilon: float) -> bool:
        return wish.number.within(epsilon * wish.share, wish.probability) <= wish.within

    return round_up(smallest_epsilon(wish.number, wish.within, wish.probability) / wish.share * 0.99, enough)


def formula(wish: Wish) -> str:
    """Return the formula in words, with the numbers that it takes."""
    number, m = wish.number, wish.number.neighbours.records
    tail = f"{1 - wish.probability:.6g}"
    divisor = f"distance {wish.within:,g}" + (f" / share {wish.share:g}" if wish.share < 1 else "")
    if isinstance(number, Count):
        moved = f"{m} records of a person x " if m > 1 else ""
        return f"ε = {moved}ln(1 / {tail}) / {divisor}; a record changes a count by at most 1"
    if isinstance(number, CountTable):
        union = largest_laplace_bound(number.sensitivity, number.cells, wish.probability)
        return (
            f"ε = sensitivity {number.sensitivity:g} x -ln(1 - {wish.probability:g}^(1/{number.cells})) / {divisor}; "
            f"the union bound ln({number.cells} / {tail}) gives {union / wish.within / wish.share:.4g}"
        )
    if number.neighbours.size_is_public:
        width = f"range {2 * number.half_range:g} / {number.rows:,g} records"
        return f"ε = {width} x ln(1 / {tail}) / {divisor}"
    return (
        f"the mean is a noisy sum divided by a noisy number of records; both have Laplace noise of scale "
        f"{number.sensitivity:g} / ε, in units of half the range, {number.half_range:g}; ε is the solution of tails = "
        f"{tail} (Fieller) for a mean at a bound"
    )


def assumptions(wish: Wish) -> list[str]:
    """Return what the answer assumes, one sentence for each point."""
    number = wish.number
    whose = "one record" if number.neighbours.unit == "record" else "all records of one person"
    how = "replaced by any other" if number.neighbours.relation == "replace_one" else "added or removed"
    most = f", at most {number.neighbours.records}" if number.neighbours.unit == "person" else ""
    found = [f"δ is 0; neighbouring datasets differ in {whose}{most}, {how}."]
    if isinstance(number, Mean):
        found.append(
            f"Values outside {number.lower:g} to {number.upper:g} are clipped; these bounds are public."
        )
        if number.neighbours.size_is_public:
            found.append(f"The number of records with a value, {number.rows:,g}, is public.")
        else:
            found.append(
                f"The number of records with a value is private and at least {number.rows:,g}; fewer need a larger ε."
            )
    if isinstance(number, CountTable):
        found.append("Each record is in at most one cell of the table.")
    if not isinstance(number, Mean):
        found.append("The distance is that of the noise; rounding to whole numbers can add up to 0.5.")
    found.extend(wish.notes)
    if wish.share == 1:
        found.append(
            "All of ε is spent on this number; with a share of it, such as --share 0.1, ε is 1 / share times as large."
        )
    else:
        found.append(f"This number gets {100 * wish.share:g} % of ε.")
    found.append("The noise is that of a release; ε is rounded up to three digits.")
    return found


def instead(wish: Wish) -> str:
    """Return the ε under the other relation of neighbours."""
    other = OTHER[wish.number.neighbours.relation]
    changed = dataclasses.replace(
        wish.number, neighbours=dataclasses.replace(wish.number.neighbours, relation=other)
    )
    try:
        epsilon = f"ε = {total_epsilon(dataclasses.replace(wish, number=changed)):,g}"
    except UserError:
        epsilon = "no ε is enough"
    return f"{epsilon} if neighbouring datasets differ by --relation {other}"


def read_wish(arguments: argparse.Namespace) -> Wish:
    """Return the wish, or an error that says what is missing or wrong."""
    if not (math.isfinite(arguments.within) and arguments.within > 0):
        raise UserError(f"--within {arguments.within:g} must be greater than 0, such as 0.5.")
    if not 0 < arguments.probability < 1:
        raise UserError(f"--probability {arguments.probability:g} must lie between 0 and 1, such as 0.95.")
    if not 0 < arguments.share <= 1:
        raise UserError(f"--share {arguments.share:g} must be greater than 0 and at most 1, such as 0.1.")
    if arguments.rows is not None and arguments.rows < 1:
        raise UserError(f"--rows {arguments.rows} must be at least 1; state the public number of records.")
    entry = None
    if arguments.dataset is not None:
        entry, _ = find_entry(arguments.dataset, arguments.catalog or [CATALOG])
    elif arguments.column is not None:
        raise UserError("--column needs --dataset, whose catalog entry describes the column.")
    rows = arguments.rows if arguments.rows is not None else _rows(entry)
    number, name, unit, notes = _number(arguments, entry, rows)
    return Wish(
        number,
        name,
        unit,
        rows,
        arguments.within,
        arguments.probability,
        arguments.share,
        notes,
    )


def _number(
    arguments: argparse.Namespace, entry: Entry | None, rows: int | None
) -> tuple[NoisyNumber, str, str, tuple[str, ...]]:
    """Return the number, its name, its unit, and what is assumed about it."""
    neighbours = _neighbours(arguments, entry)
    if not arguments.mean:
        for option in ("lower", "upper", "column"):
            if getattr(arguments, option) is not None:
                raise UserError(f"--{option} is for --mean; leave it out, since a count has no bounds.")
        if arguments.count:
            return Count(neighbours), "the count of the records", "", ()
        if arguments.largest_of < 1:
            raise UserError(f"--largest-of {arguments.largest_of} must be at least 1, the number of counts.")
        return CountTable(arguments.largest_of, neighbours), "every count", "", ()
    lower, upper, name, unit = arguments.lower, arguments.upper, "the mean of the records", ""
    notes: tuple[str, ...] = ()
    if arguments.column is not None:
        assert entry is not None  # `read_wish` has checked it
        column = _column(entry, arguments.column)
        half = 0.5 if column.type in ("integer", "date") else 0.0  # a whole number stands for its cell
        lower = column.bounds[0] - half if lower is None else lower
        upper = column.bounds[1] + half if upper is None else upper
        name, unit = f"the mean of {column.name}", "days" if column.type == "date" else column.unit
        if column.models_blanks or column.atoms:
            neighbours = dataclasses.replace(neighbours, all_counted=False)
            notes = (f"Every record has a value of {column.name} that is no blank and no atom.",)
    for option, value in (("lower", lower), ("upper", upper)):
        if value is None or not math.isfinite(value):
            raise UserError(
                f"--mean needs --{option}, a finite public bound of the column, or --dataset and --column."
            )
    if not lower < upper:
        raise UserError(f"--lower {lower:g} must be less than --upper {upper:g}.")
    if rows is None:
        source = (
            f"the entry of {entry.name} does not state expected.rows" if entry else "the mean depends on it"
        )
        raise UserError(f"--mean needs --rows, the public number of records; {source}.")
    return Mean(lower, upper, rows, neighbours), name, unit, notes


def _column(entry: Entry, name: str) -> Column:
    """Return a column that has a mean."""
    known = [column.name for column in entry.columns]
    if name not in known:
        raise UserError(f"{entry.name} has no column {name!r}; {suggest(name, known)}")
    column = entry.column(name)
    if column.type not in ("number", "integer", "date"):
        raise UserError(
            f"column {name!r} of {entry.name} is of type {column.type} and has no mean; use --count for one of its "
            "values, or --largest-of with the number of its values."
        )
    return column


def _rows(entry: Entry | None) -> int | None:
    """Return the public number of records of a release of this dataset."""
    if entry is None or entry.expected.rows is None:
        return None
    if entry.privacy.unit == "person" and entry.expected.persons is not None:
        return min(entry.expected.rows, entry.expected.persons * entry.privacy.max_records_per_person)
    return entry.expected.rows


def _neighbours(arguments: argparse.Namespace, entry: Entry | None) -> Neighbours:
    """Return the neighbouring datasets, as stated or as the catalog entry states them."""
    privacy = entry.privacy if entry else None
    unit: Unit = arguments.unit or (privacy.unit if privacy else "record")
    relation: Relation = arguments.relation or (privacy.relation if privacy else "replace_one")
    if unit == "record":
        if arguments.max_records is not None:
            raise UserError("--max-records is for --unit person; one record is one record.")
        return Neighbours(unit, relation)
    most = arguments.max_records
    if most is None and privacy is not None and privacy.unit == "person":
        most = privacy.max_records_per_person
    if most is None:
        raise UserError(
            "--unit person needs --max-records, the largest number of records that one person has."
        )
    if most < 1:
        raise UserError(f"--max-records {most} must be at least 1.")
    return Neighbours(unit, relation, most)
