"""Linkage: the attacker knows some facts about a person and looks for the only rows of a table that fit them.

A person is singled out if exactly one person of the table fits, and it is the right one (Sweeney 2000; Narayanan and
Shmatikov 2008). In a table with one row per person, a fact is the value of a quasi-identifier. In a table with many
rows per person, such as ratings of films, a fact is a row: this film, this rating, about this day. An attacker who
knows the population only points at a person at random.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from privmix.attacks.finding import MOST_PEOPLE, NotMeasured, Result, compare, mean_by_person, too_few
from privmix.attacks.generalised import find_classes, positions, range_names

FACTS = (1, 2, 4, 8)
TRIES = 20  # random choices of known rows for each person


def link_by_columns(
    table: pd.DataFrame,
    known: pd.DataFrame,
    quasi_identifiers: Sequence[str],
    rng: np.random.Generator,
    *,
    facts: Sequence[int] = FACTS,
    persons: np.ndarray | None = None,
    owners: np.ndarray | None = None,
) -> list[Result]:
    """Single out people by the values of some quasi-identifiers, averaged over all sets of that many.

    `table` is what was published: exact values in the same bins as in `known`, or ranges. `known` has a row of true
    values per record, and `persons` the number of its person. `owners` is the person behind each row of the table, -1
    if there is none, such as for synthetic rows; the attacker sees only which rows have the same owner. Without
    `owners`, each row of the table is another person and truthful.
    """
    persons = np.arange(len(known)) if persons is None else persons
    population = len(np.unique(persons))
    problem = too_few("linkage", population)
    found: list[Result] = []
    for number in facts:
        attack = f"linkage by {number} known fact{'s' if number > 1 else ''}"
        if problem is not None:
            found.append(NotMeasured(attack, problem.reason))
        elif number > len(quasi_identifiers):
            found.append(NotMeasured(attack, f"The table has only {_count(len(quasi_identifiers))} to know."))
        else:
            sets = list(itertools.combinations(range(len(quasi_identifiers)), number))
            if range_names(table):
                rows = rng.permutation(len(known))[:MOST_PEOPLE]
                hits = _hits_in_ranges(table, known, quasi_identifiers, rows, sets)
            else:
                rows = np.arange(len(known))
                hits = _hits_in_values(table, known, quasi_identifiers, sets, persons, owners)
            found.append(compare(attack, mean_by_person(hits, persons[rows]), 1 / population, population))
    return found


def _count(quasi_identifiers: int) -> str:
    return f"{quasi_identifiers} quasi-identifier{'s' if quasi_identifiers > 1 else ''}"


def _hits_in_ranges(
    table: pd.DataFrame,
    known: pd.DataFrame,
    names: Sequence[str],
    rows: np.ndarray,
    sets: list[tuple[int, ...]],
) -> np.ndarray:
    classes = find_classes(table, known, names)
    targets = np.column_stack([positions(known[name].iloc[rows], known[name]) for name in names])
    single = [classes.fit(targets, columns) @ classes.sizes.astype(float) == 1 for columns in sets]
    return np.mean(single, axis=0)


def _hits_in_values(
    table: pd.DataFrame,
    known: pd.DataFrame,
    names: Sequence[str],
    sets: list[tuple[int, ...]],
    persons: np.ndarray,
    owners: np.ndarray | None,
) -> np.ndarray:
    published = [positions(table[name], known[name]) for name in names]
    true = [positions(known[name], known[name]) for name in names]
    hits = np.zeros(len(known))
    for columns in sets:
        both = np.column_stack([np.concatenate([true[i], published[i]]) for i in columns])
        group = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        mine, theirs = group[: len(known)], group[len(known) :]
        if owners is None:
            hits += np.bincount(theirs, minlength=group.max() + 1)[mine] == 1
            continue
        first = np.full(group.max() + 1, -2)
        first[theirs] = owners
        mixed = np.zeros(len(first), dtype=bool)
        np.logical_or.at(mixed, theirs, first[theirs] != owners)
        hits += ~mixed[mine] & (first[mine] == persons)
    return hits / len(sets)


def link_by_rows(
    table: pd.DataFrame,
    known: pd.DataFrame,
    person: str,
    rng: np.random.Generator,
    *,
    exact: Sequence[str],
    about: Mapping[str, float] | None = None,
    facts: Sequence[int] = FACTS,
    tries: int = TRIES,
) -> list[Result]:
    """Single out people by some of their rows, chosen at random `tries` times. All people count the same.

    A row of the table fits a known row if the columns in `exact` are equal and those in `about` differ by at most the
    given number. `person` is the column of persons in both tables; the attacker sees only which rows of the table
    belong together, and the names serve to check the answer. Only people with as many rows are attacked, so a finding
    says nothing about others.
    """
    about = dict(about or {})
    index = _Index(table, person, exact, about)
    rows_of = [
        part.to_numpy()
        for part in pd.Series(np.arange(len(known))).groupby(known[person].to_numpy()).groups.values()
    ]
    names = known[person].to_numpy()
    keys, values = index.keys(known), known[list(about)].to_numpy(dtype=float)
    found: list[Result] = []
    for number in facts:
        attack = f"linkage by {number} known row{'s' if number > 1 else ''}"
        people = [rows for rows in rows_of if len(rows) >= number]
        problem = too_few(attack, len(people))
        if problem is not None:
            found.append(problem)
            continue
        hits = np.zeros(len(people))
        for place, rows in enumerate(people):
            for _ in range(tries):
                chosen = rng.choice(rows, number, replace=False)
                candidates = index.candidates([(keys[row], values[row]) for row in chosen])
                hits[place] += len(candidates) == 1 and names[rows[0]] in candidates
        found.append(compare(attack, hits / tries, 1 / len(rows_of), len(people)))
    return found


class _Index:
    """The rows of a table by their exact values."""

    def __init__(
        self, table: pd.DataFrame, person: str, exact: Sequence[str], about: Mapping[str, float]
    ) -> None:
        self._exact = list(exact)
        self._tolerance = np.array(list(about.values()), dtype=float)
        values, owners = table[list(about)].to_numpy(dtype=float), table[person].to_numpy()
        places: dict[tuple[object, ...], list[int]] = {}
        for row, key in enumerate(self.keys(table)):
            places.setdefault(key, []).append(row)
        self._rows = {key: (values[rows], owners[rows]) for key, rows in places.items()}

    def keys(self, table: pd.DataFrame) -> list[tuple[object, ...]]:
        return list(zip(*(table[name].tolist() for name in self._exact), strict=True))

    def candidates(self, facts: list[tuple[tuple[object, ...], np.ndarray]]) -> set[object]:
        """Return the people who have a fitting row for every fact."""
        left: set[object] | None = None
        for key, values in facts:
            if key not in self._rows:
                return set()
            published, owners = self._rows[key]
            near = (np.abs(published - values) <= self._tolerance).all(axis=1)
            people = set(owners[near].tolist())
            left = people if left is None else left & people
        return left or set()
