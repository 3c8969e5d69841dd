"""k-anonymity, l-diversity and t-closeness: measures of a table, and Mondrian's algorithm that makes a table.

A class is a set of rows with equal quasi-identifiers. For each sensitive column:

- k is the number of rows of the smallest class (Samarati and Sweeney 1998).
- distinct l is the fewest sensitive values in a class, entropy l the smallest exp(H) (Machanavajjhala et al. 2006).
- t is the largest earth mover's distance between a class, q, and the whole table, p (Li, Li, Venkatasubramanian 2007).
  The equal distance is Σ|q - p| / 2. The ordered distance of m values is Σ|cumsum(q - p)| / (m - 1).

These are properties of a table and not of the way it was made, so they are no guarantee. The cuts of Mondrian (LeFevre,
DeWitt, Ramakrishnan 2006) are medians of the records: the ranges that it publishes also disclose something about them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from privmix.errors import UserError
from privmix.naive.records import Records

FROM, TO = "_from", "_to"


@dataclass(frozen=True)
class Diversity:
    """How much the classes of a table vary in one sensitive column."""

    distinct_l: int
    entropy_l: float
    t_equal: float
    t_ordered: float | None  # None if the values have no order

    @property
    def t(self) -> float:
        """The ordered distance of values with an order, otherwise the equal distance."""
        return self.t_equal if self.t_ordered is None else self.t_ordered


@dataclass(frozen=True)
class Anonymity:
    """The measures of a table."""

    k: int
    classes: int
    rows: int
    unique_rows: int  # rows in a class of one
    sensitive: dict[str, Diversity]

    @property
    def distinct_l(self) -> int:
        """The fewest values of a sensitive column in a class."""
        return min(each.distinct_l for each in self.sensitive.values())

    @property
    def entropy_l(self) -> float:
        """The smallest exp(H) of a sensitive column in a class."""
        return min(each.entropy_l for each in self.sensitive.values())

    @property
    def t(self) -> float:
        """The largest distance of a sensitive column between a class and the table."""
        return max(each.t for each in self.sensitive.values())


def measure(frame: pd.DataFrame, quasi_identifiers: Sequence[str], sensitive: Sequence[str]) -> Anonymity:
    """Measure k, l and t of a table. Missing values are a value of their own.

    A sensitive column has an order if it is a number or an ordered `Categorical`. The order of a `Categorical` includes
    values that do not occur; that of numbers has the numbers of the table.
    """
    _check_columns(frame, quasi_identifiers, sensitive)
    groups = class_numbers(frame, quasi_identifiers)
    sizes = np.bincount(groups)
    return Anonymity(
        k=int(sizes.min()),
        classes=len(sizes),
        rows=len(frame),
        unique_rows=int((sizes == 1).sum()),
        sensitive={name: _diversity(frame[name], groups, sizes) for name in sensitive},
    )


def uniqueness(frame: pd.DataFrame, quasi_identifiers: Sequence[str]) -> pd.DataFrame:
    """Return the rows that are unique in the first one, two, ... quasi-identifiers.

    The columns are `known` (number of quasi-identifiers), `columns` (their names), `unique_rows` and `unique_share`.
    """
    _check_columns(frame, quasi_identifiers, ())
    rows = []
    for known in range(1, len(quasi_identifiers) + 1):
        names = list(quasi_identifiers[:known])
        unique = int((np.bincount(class_numbers(frame, names)) == 1).sum())
        rows.append((known, ", ".join(names), unique, unique / len(frame)))
    return pd.DataFrame(rows, columns=["known", "columns", "unique_rows", "unique_share"])


def class_numbers(frame: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Return the number of each row's class, from 0: rows with equal values have the same."""
    numbers = np.zeros(len(frame), dtype=np.int64)
    for name in columns:
        codes, values = pd.factorize(frame[name], use_na_sentinel=False)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
    return numbers


def anonymise(
    frame: pd.DataFrame,
    quasi_identifiers: Sequence[str],
    sensitive: Sequence[str],
    k: int,
    l: float | None = None,  # noqa: E741
    t: float | None = None,
) -> pd.DataFrame:
    """Generalise the quasi-identifiers with Mondrian's algorithm, so that each class has at least k rows.

    While every part keeps at least `k` rows, distinct values `l` and distance `t`, a part is cut at the median of its
    widest quasi-identifier. In the result, the columns `<name>_from` and `<name>_to` replace each quasi-identifier: the
    smallest and the largest value in the class. Rows stay in their order, and sensitive columns as they are.
    """
    _check_columns(frame, quasi_identifiers, sensitive)
    if not 1 <= k <= len(frame):
        raise UserError(f"k_anonymous: k = {k} must lie in 1 ... {len(frame)}, the number of rows.")
    test = _Requirement(k, l, t, [_distribution(frame[name]) for name in sensitive])
    everything = np.arange(len(frame))
    if not test.holds(everything):
        raise UserError(
            f"k_anonymous: a table with k = {k}, l = {l}, t = {t} does not exist: even all rows together fail; "
            "choose a smaller l."
        )
    ordered = [_ordered_codes(frame[name]) for name in quasi_identifiers]
    codes = np.column_stack([each for each, _ in ordered])
    low, high = np.empty_like(codes), np.empty_like(codes)
    for part in _mondrian(codes, test):
        low[part], high[part] = codes[part].min(axis=0), codes[part].max(axis=0)
    made: dict[str, object] = {}
    for column, (name, (_, values)) in enumerate(zip(quasi_identifiers, ordered, strict=True)):
        made[name + FROM], made[name + TO] = values[low[:, column]], values[high[:, column]]
    return pd.DataFrame(made, index=frame.index).join(frame[list(sensitive)])


def _mondrian(codes: np.ndarray, test: "_Requirement") -> list[np.ndarray]:
    """Return the rows of each part."""
    span = np.maximum(codes.max(axis=0) - codes.min(axis=0), 1)
    done, open_parts = [], [np.arange(len(codes))]
    while open_parts:
        part = open_parts.pop()
        halves = _cut(codes[part], span, part, test)
        if halves is None:
            done.append(part)
        else:
            open_parts += halves
    return done


def _cut(
    codes: np.ndarray, span: np.ndarray, part: np.ndarray, test: "_Requirement"
) -> list[np.ndarray] | None:
    """Return the two halves of a part that both meet the requirement, or None."""
    if len(part) < 2 * test.k:
        return None
    widths = np.ptp(codes, axis=0) / span
    for axis in np.argsort(-widths, kind="stable"):
        if widths[axis] == 0:
            return None
        column = codes[:, axis]
        median = np.partition(column, len(column) // 2)[len(column) // 2]
        for left in (column < median, column <= median):
            halves = [part[left], part[~left]]
            if all(map(test.holds, halves)):
                return halves
    return None


@dataclass(frozen=True, eq=False)
class _Requirement:
    """What each class of the table must satisfy."""

    k: int
    l: float | None  # noqa: E741
    t: float | None
    columns: list[tuple[np.ndarray, np.ndarray, bool]]

    def holds(self, rows: np.ndarray) -> bool:
        if len(rows) < self.k:
            return False
        if self.l is None and self.t is None:
            return True
        for codes, whole, ordered in self.columns:
            counts = np.bincount(codes[rows], minlength=len(whole))
            if self.l is not None and np.count_nonzero(counts) < self.l:
                return False
            if (
                self.t is not None
                and _distances(counts[None] / len(rows), whole, ordered)[0] > self.t + 1e-12
            ):
                return False
        return True


def _diversity(values: pd.Series, groups: np.ndarray, sizes: np.ndarray) -> Diversity:
    codes, whole, ordered = _distribution(values)
    counts = np.zeros((len(sizes), len(whole)))
    np.add.at(counts, (groups, codes), 1)
    shares = counts / sizes[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(shares > 0, shares * np.log(shares), 0.0).sum(axis=1)
    return Diversity(
        distinct_l=int((counts > 0).sum(axis=1).min()),
        entropy_l=math.exp(entropy.min()),
        t_equal=float(_distances(shares, whole, ordered=False).max()),
        t_ordered=float(_distances(shares, whole, ordered=True).max()) if ordered else None,
    )


def _distances(shares: np.ndarray, whole: np.ndarray, ordered: bool) -> np.ndarray:
    """Return the earth mover's distance of each row of shares from the whole."""
    away = shares - whole
    moved = np.abs(np.cumsum(away, axis=1) if ordered else away)
    distances: np.ndarray = moved.sum(axis=1) / (max(len(whole) - 1, 1) if ordered else 2)
    return distances


def _distribution(values: pd.Series) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the code of each value, the share of each code, and whether the codes have an order."""
    categorical = isinstance(values.dtype, pd.CategoricalDtype)
    ordered = bool(values.cat.ordered) if categorical else pd.api.types.is_numeric_dtype(values)
    codes, names = _ordered_codes(values)
    return codes, np.bincount(codes, minlength=len(names)) / len(codes), ordered


def _ordered_codes(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each value in the order of its column, and the values in this order."""
    if isinstance(values.dtype, pd.CategoricalDtype) and not values.hasnans:
        return values.cat.codes.to_numpy().astype(np.int64), values.cat.categories.to_numpy()
    codes, names = pd.factorize(values, sort=True, use_na_sentinel=False)
    return codes, np.asarray(names)


def _check_columns(frame: pd.DataFrame, quasi_identifiers: Sequence[str], sensitive: Sequence[str]) -> None:
    if isinstance(quasi_identifiers, str) or isinstance(sensitive, str):
        raise UserError("k-anonymity: give lists of column names, such as ['age', 'gender'].")
    for name in (*quasi_identifiers, *sensitive):
        if name not in frame:
            raise UserError(f"k-anonymity: the table has no column {name!r}; correct the name.")
    both = sorted({*quasi_identifiers} & {*sensitive})
    if both:
        raise UserError(
            f"k-anonymity: {both[0]!r} is a quasi-identifier and sensitive; keep it in one of the lists."
        )
    if not quasi_identifiers:
        raise UserError("k-anonymity: name at least one quasi-identifier.")
    if frame.empty:
        raise UserError("k-anonymity: the table has no rows.")


@dataclass(frozen=True)
class KAnonymous:
    """A k-anonymous table, if asked also l-diverse and t-close."""

    k: int = 5
    l: int | None = None  # noqa: E741
    t: float | None = None
    name: ClassVar[str] = "k_anonymous"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise UserError(f"k_anonymous: k = {self.k} must be at least 2.")
        if self.l is not None and self.l < 2:
            raise UserError(f"k_anonymous: l = {self.l} must be at least 2, or left out.")
        if self.t is not None and not 0 < self.t <= 1:
            raise UserError(f"k_anonymous: t = {self.t:g} must lie in (0, 1], or be left out.")

    @property
    def description(self) -> str:
        """What is published."""
        also = [f"at least {self.l} sensitive values in each class"] if self.l is not None else []
        also += [f"each class within {self.t:g} of the whole table"] if self.t is not None else []
        rest = f", with {' and '.join(also)}" if also else ""
        return (
            f"Quasi-identifiers are replaced by ranges that at least {self.k} rows share{rest}. "
            "The ranges come from the data and disclose something too."
        )

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return the generalised table, in random order."""
        roles = records.roles
        if self.k > len(records):
            raise UserError(
                f"k_anonymous: k = {self.k} is more than the {len(records)} rows of the table; choose a smaller k."
            )
        made = anonymise(records.binned, roles.quasi_identifiers, roles.sensitive, self.k, self.l, self.t)
        return made.iloc[rng.permutation(len(made))].reset_index(drop=True)
