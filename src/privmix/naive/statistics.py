"""Published statistics: counts by one and two quasi-identifiers, exact, rounded, without small counts, or noisy.

A table of statistics has one row per count. The columns named like quasi-identifiers say which people are counted, with
"all" for any value. `column` and `value` say which sensitive value is counted; both are "people" if all people of the
group are. `count` is the number; a missing number was left out.

The Laplace noise of `NoisyAnswers` is what people add who do not account for it. It is no privacy claim, has no place
in a ledger, and an attack removes it by asking again.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from privmix.errors import UserError
from privmix.naive.records import Records

ALL, PEOPLE = "all", "people"


def count_table(records: Records, together: int = 2) -> pd.DataFrame:
    """Count people by every set of up to `together` quasi-identifiers and by each sensitive value, exactly."""
    roles = records.roles
    for name in roles.quasi_identifiers:
        if ALL in records.binned[name].cat.categories:
            raise UserError(
                f"statistics: column {name!r} has the value {ALL!r}, which means any value here; rename it."
            )
    return pd.concat(
        [
            _counts(records.binned, roles.quasi_identifiers, names, column)
            for number in range(min(together, len(roles.quasi_identifiers)) + 1)
            for names in itertools.combinations(roles.quasi_identifiers, number)
            for column in (PEOPLE, *roles.sensitive)
        ],
        ignore_index=True,
    )


def _counts(binned: pd.DataFrame, known: Sequence[str], names: Sequence[str], column: str) -> pd.DataFrame:
    """Count the rows of each group that occurs by the values of one column. Values that do not occur count zero."""
    numbers = np.zeros(len(binned), dtype=np.int64)
    for name in names:
        numbers = numbers * len(binned[name].cat.categories) + binned[name].cat.codes.to_numpy()
    _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
    values = [PEOPLE] if column == PEOPLE else list(map(str, binned[column].cat.categories))
    codes = np.zeros(len(binned), dtype=np.int64) if column == PEOPLE else binned[column].cat.codes.to_numpy()
    counts = np.bincount(group * len(values) + codes, minlength=len(first) * len(values))
    rows = np.repeat(first, len(values))
    groups = {name: binned[name].astype(object).to_numpy()[rows] if name in names else ALL for name in known}
    return pd.DataFrame({**groups, "column": column, "value": values * len(first), "count": counts})


@dataclass(frozen=True)
class ExactStatistics:
    """Exact counts."""

    name: ClassVar[str] = "exact_statistics"
    description: ClassVar[str] = "Exact counts of each sensitive value by one and by two quasi-identifiers."

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return the exact counts."""
        return count_table(records)


@dataclass(frozen=True)
class Rounded:
    """Counts rounded to a multiple of `to`."""

    to: int = 5
    name: ClassVar[str] = "rounded"

    def __post_init__(self) -> None:
        if self.to < 2:
            raise UserError(f"rounded: to = {self.to} must be at least 2.")

    @property
    def description(self) -> str:
        """What is published."""
        return f"Counts of each sensitive value by one and by two quasi-identifiers, rounded to multiples of {self.to}."

    def round(self, numbers: np.ndarray) -> np.ndarray:
        """Round to the nearest multiple, halves up."""
        return np.floor(np.asarray(numbers, dtype=float) / self.to + 0.5) * self.to

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return the rounded counts."""
        table = count_table(records)
        return table.assign(count=self.round(table["count"].to_numpy()))


@dataclass(frozen=True)
class Suppressed:
    """Counts of at least `below`; smaller ones are left out."""

    below: int = 5
    name: ClassVar[str] = "suppressed"

    def __post_init__(self) -> None:
        if self.below < 2:
            raise UserError(f"suppressed: below = {self.below} must be at least 2.")

    @property
    def description(self) -> str:
        """What is published."""
        return (
            "Counts of each sensitive value by one and by two quasi-identifiers; "
            f"counts below {self.below} are left out."
        )

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return the counts, with a missing number for each small one."""
        table = count_table(records)
        return table.assign(count=table["count"].where(table["count"] >= self.below))


@dataclass(frozen=True)
class NoisyAnswers:
    """Answers with Laplace noise of a fixed scale, to as many questions as anyone asks."""

    scale: float = 5.0
    name: ClassVar[str] = "noisy_answers"

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise UserError(f"noisy_answers: scale = {self.scale:g} must be a positive number.")

    @property
    def description(self) -> str:
        """What is published."""
        return f"Answers to any number of questions, each with fresh Laplace noise of scale {self.scale:g}."

    def add_noise(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Add noise without accounting. It protects nothing once a question is repeated."""
        return np.asarray(numbers, dtype=float) + rng.laplace(0, self.scale, np.shape(numbers))

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return one noisy answer to the question behind each count."""
        table = count_table(records)
        return table.assign(count=self.add_noise(table["count"].to_numpy(), rng))

    def open_server(self, rng: np.random.Generator, cached: bool) -> "AnswerServer":
        """Return a server of noisy counts. With a cache, the same question always gets the same answer."""
        return AnswerServer(lambda exact: float(self.add_noise(np.array([exact]), rng)[0]), cached)


@dataclass(frozen=True, eq=False)
class AnswerServer:
    """Answers questions about the number of rows. The cache knows a question by its wording."""

    noise: Callable[[float], float]
    cached: bool
    answers: dict[str, float] = field(default_factory=dict)

    def ask(self, wording: str, rows: np.ndarray) -> float:
        """Return the noisy number of the rows (a mask) that the wording describes."""
        if not self.cached:
            return self.noise(float(np.count_nonzero(rows)))
        if wording not in self.answers:
            self.answers[wording] = self.noise(float(np.count_nonzero(rows)))
        return self.answers[wording]
