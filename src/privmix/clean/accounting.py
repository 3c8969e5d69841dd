"""What became of the raw rows: counted by reason, and judged against what the catalog entry tolerates and expects."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from privmix.catalog.entry import Entry
from privmix.catalog.readers.batch import BadRow
from privmix.errors import UserError

DUPLICATE = "duplicate"
OVER_LIMIT = "over the person's limit"

_BAD_ROWS_SHOWN = 5


@dataclass
class Tally:
    """Counts that grow while a raw file is read."""

    read: int = 0
    bad: Counter[str] = field(default_factory=Counter)  # by reason
    first_bad: list[BadRow] = field(default_factory=list)
    clipped: Counter[str] = field(default_factory=Counter)  # by column

    def add_bad(self, rows: Iterable[BadRow]) -> None:
        """Count rows that could not be read; the first few are kept to be shown."""
        for row in rows:
            self.bad[row.reason] += 1
            if len(self.first_bad) < _BAD_ROWS_SHOWN:
                self.first_bad.append(row)


def check_tolerated(tally: Tally, entry: Entry) -> None:
    """Raise when more rows are bad than the entry tolerates, and show the first of them."""
    bad = tally.bad.total()
    tolerated = entry.reader.tolerated_bad_share
    if bad <= tolerated * tally.read:
        return
    shown = "\n".join(f"  line {row.line}: {_fault(row)}: {row.text}" for row in tally.first_bad)
    raise UserError(
        f"{entry.name}: {bad:,} of {tally.read:,} rows cannot be read ({by_count(tally.bad)}), more than the "
        f"share of {tolerated:g} that reader.tolerated_bad_share allows; mend the file, or the catalog entry. "
        f"The first are:\n{shown}"
    )


def check_expected(read: int, persons: int, entry: Entry) -> None:
    """Raise unless the file has as many rows and people as are publicly known.

    Where neighbours may differ in a number it is private, and the public figure is only near it: there is no check.
    """
    for what, got, expected, public in (
        ("rows", read, entry.expected.rows, entry.privacy.rows_are_public),
        ("persons", persons, entry.expected.persons, entry.privacy.relation == "replace_one"),
    ):
        if public and expected is not None and got != expected:
            raise UserError(
                f"{entry.name}: the raw file has {got:,} {what}, but expected.{what} in the catalog entry is "
                f"{expected:,}; download it again, or mend the entry."
            )


def by_count(counts: dict[str, int]) -> str:
    """Counts in a sentence: `missing value 3, not a number 1`."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _fault(row: BadRow) -> str:
    return row.reason if row.column is None else f"{row.reason} in {row.column!r}"
