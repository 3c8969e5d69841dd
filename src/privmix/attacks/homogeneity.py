"""Homogeneity and intersection: what a k-anonymous table says about people who cannot be singled out in it.

All people of a class may have the same sensitive value: then this value is disclosed for each of them (Machanavajjhala
et al. 2006). And if a person is in two tables with different classes, only the values that occur in both classes are
possible (Ganta, Kasiviswanathan, Smith 2008).

A disclosed value is news only if the population does not say it already. So the baseline is an attacker who guesses the
most common value of all, on the same people: where nearly all tests are negative, classes with only negative tests
disclose nothing that this guess does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privmix.attacks.finding import MOST_PEOPLE, NotMeasured, Result, compare
from privmix.attacks.generalised import find_classes, positions, range_names

ONE_VALUE = "All people have the same value, so the population says everything."


@dataclass(frozen=True)
class Homogeneity:
    """What the classes of a table disclose about one sensitive column."""

    column: str
    certain: Result  # people in a class with one value only; baseline: those of them who have the most common value
    guess: Result  # people who have the most common value of their class; baseline: of all


def attack_by_homogeneity(
    table: pd.DataFrame, quasi_identifiers: Sequence[str], sensitive: str
) -> Homogeneity:
    """Read the sensitive values off the classes of a published table, with exact values or with ranges.

    A k-anonymous table has no names, so each row counts as a person.
    """
    groups = (
        table.groupby(_class_columns(table, quasi_identifiers), observed=True, dropna=False)
        .ngroup()
        .to_numpy()
    )
    codes, values = pd.factorize(table[sensitive], use_na_sentinel=False)
    counts = np.zeros((groups.max() + 1, len(values)))
    np.add.at(counts, (groups, codes), 1)
    common = codes == np.bincount(codes).argmax()
    alone = ((counts > 0).sum(axis=1) == 1)[groups]
    guess = codes == counts.argmax(axis=1)[groups]
    attacks = [f"homogeneity: {sensitive} is {how}" for how in ("certain", "guessed")]
    if len(values) < 2:
        return Homogeneity(sensitive, *(NotMeasured(attack, ONE_VALUE) for attack in attacks))
    return Homogeneity(
        sensitive, compare(attacks[0], alone, alone & common), compare(attacks[1], guess, common)
    )


def attack_by_intersection(
    tables: Sequence[pd.DataFrame], known: pd.DataFrame, sensitive: str, rng: np.random.Generator
) -> Result:
    """Find the people who have only one possible sensitive value, given all tables.

    `known` has the true quasi-identifiers of all people and, to check the answer, their sensitive value. Each table may
    have other quasi-identifiers and other ranges. The baseline are those people who have the most common value.
    """
    attack = f"intersection of {len(tables)} table{'s' if len(tables) > 1 else ''}: {sensitive} is certain"
    rows = rng.permutation(len(known))[:MOST_PEOPLE]
    truth, values = pd.factorize(known[sensitive], use_na_sentinel=False)
    if len(values) < 2:
        return NotMeasured(attack, ONE_VALUE)
    possible = np.ones((len(rows), len(values)), dtype=bool)
    for table in tables:
        names = range_names(table) or [str(name) for name in table if name in known and name != sensitive]
        classes = find_classes(table, known, names)
        there = np.zeros((len(classes.sizes), len(values)))
        there[classes.of_row, pd.Index(values).get_indexer(pd.Index(table[sensitive]))] = 1
        targets = np.column_stack([positions(known[name].iloc[rows], known[name]) for name in names])
        possible &= classes.fit(targets, range(len(names))).astype(float) @ there > 0
    alone = (possible.sum(axis=1) == 1) & possible[np.arange(len(rows)), truth[rows]]
    common = truth[rows] == np.bincount(truth).argmax()
    return compare(attack, alone, alone & common, len(known))


def _class_columns(table: pd.DataFrame, quasi_identifiers: Sequence[str]) -> list[str]:
    ranged = set(range_names(table))
    return [
        column
        for name in quasi_identifiers
        for column in ([f"{name}_from", f"{name}_to"] if name in ranged else [name])
    ]
