"""Reconstruction: many published counts determine the secret of each person (Dinur and Nissim 2003).

The attacker knows who is counted in each answer: A has a row per answer and a column per person. The secrets x are 0 or
1, and y are the published counts of people with secret 1. The attacker minimises ‖Ax - y‖₁ over 0 ≤ x ≤ 1, a linear
program (Dwork, McSherry, Talwar 2007), and rounds. With more than `MOST_UNKNOWNS` unknowns it is least squares instead,
by accelerated projected gradients (Beck and Teboulle 2009).

People who are the same in every published count share one unknown: how many of them have the secret.

The baseline guesses the most common secret for everyone. A table of counts also says how a secret depends on what is
known, and this is knowledge of the population too. With the same table of other people, `attack_by_table` therefore
compares with an attacker who has only that one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog

from privmix.attacks.finding import NotMeasured, Result, compare, too_few
from privmix.errors import UserError

MOST_UNKNOWNS = 400
MOST_STEPS = 2000
TOLERANCE = 1e-4  # of a person
ALL, PEOPLE = "all", "people"  # as in `naive.statistics`, which is a package beside this one


def solve(
    queries: np.ndarray | sparse.spmatrix, answers: np.ndarray, sizes: np.ndarray | None = None
) -> np.ndarray:
    """Return numbers in [0, sizes] that fit the answers best. `sizes` is 1 by default."""
    matrix = sparse.csr_matrix(queries, dtype=float)
    answers = np.asarray(answers, dtype=float)
    top = np.ones(matrix.shape[1]) if sizes is None else np.asarray(sizes, dtype=float)
    if matrix.shape[1] > MOST_UNKNOWNS:
        return _least_squares(matrix, answers, top)
    return _linear_program(matrix, answers, top)


def _linear_program(matrix: sparse.csr_matrix, answers: np.ndarray, top: np.ndarray) -> np.ndarray:
    rows, unknowns = matrix.shape
    errors = sparse.identity(rows, format="csr")
    done = linprog(
        np.concatenate([np.zeros(unknowns), np.ones(2 * rows)]),
        A_eq=sparse.hstack([matrix, errors, -errors], format="csr"),
        b_eq=answers,
        bounds=[*((0, each) for each in top), *[(0, None)] * (2 * rows)],
        method="highs",
    )
    if not done.success:
        raise UserError(
            f"reconstruction: the linear program was not solved ({done.message}); use fewer counts."
        )
    return np.clip(done.x[:unknowns], 0, top)


def _least_squares(matrix: sparse.csr_matrix, answers: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Return a minimum of ‖Az - y‖² over 0 ≤ z ≤ top. It starts at equal shares, where the answers leave a choice."""
    dense = matrix.nnz > 0.2 * np.prod(matrix.shape)
    squares = matrix.toarray().T @ matrix.toarray() if dense else None

    def normal(point: np.ndarray) -> np.ndarray:
        """Return AᵀA times a point."""
        return matrix.T @ (matrix @ point) if squares is None else squares @ point

    target = matrix.T @ answers
    included = matrix @ top
    now = ahead = top * float(np.clip(included @ answers / max(included @ included, 1e-300), 0, 1))
    rate = 1 / float(normal(np.ones(len(top))).max())  # the largest row sum bounds the eigenvalues
    momentum = 1.0
    for _ in range(MOST_STEPS):
        following = np.clip(ahead - rate * (normal(ahead) - target), 0, top)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / after * (following - now)
        moved, now, momentum = np.abs(following - now).max(), following, after
        if moved < TOLERANCE:
            break
    return now


def attack_by_subsets(secrets: np.ndarray, queries: np.ndarray, answers: np.ndarray) -> Result:
    """Reconstruct secrets (0 or 1) from counts of subsets: row i of `queries` marks the people of answer i."""
    secrets = np.asarray(secrets)
    problem = _reason(secrets, "reconstruction from subset counts")
    if problem is not None:
        return problem
    guesses = solve(queries, answers) > 0.5
    return compare("reconstruction from subset counts", guesses == secrets, _common(secrets))


def attack_by_table(
    known: pd.DataFrame,
    table: pd.DataFrame,
    column: str,
    value: str,
    secrets: np.ndarray,
    others: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> Result:
    """Reconstruct who has `value` in a sensitive column from a published table of counts.

    `known` has the quasi-identifiers of everyone, as the table words them. `table` has a column per quasi-identifier
    ("all" for any value), `column`, `value` and `count`, which may be missing. `secrets` are 1 for the people who have
    the value, to check the answer. `others` are the known values and the exact table of other people of the same
    population, for the baseline.
    """
    attack = f"reconstruction of {column} = {value} from the published table"
    secrets = np.asarray(secrets).astype(int)
    problem = _reason(secrets, attack)
    if problem is not None:
        return problem
    guesses = _guess(known, known, table, column, value)
    if guesses is None:
        return NotMeasured(attack, "The table has no count of this value.")
    baseline = None if others is None else _guess(known, *others, column, value)
    right = _common(secrets) if baseline is None else baseline == secrets
    return compare(attack, guesses == secrets, right)


def fill_by_subtraction(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every missing count that is the only one of its group: all people minus the others."""
    names = [name for name in table if name not in ("column", "value", "count")]
    everyone = table[table["column"] == PEOPLE].set_index(names)["count"]
    of_values = table[table["column"] != PEOPLE]
    groups = of_values.groupby([*names, "column"], observed=True, sort=False)["count"]
    missing = groups.transform("size") - groups.transform("count")
    alone = of_values["count"].isna() & (missing == 1)
    rest = everyone.reindex(pd.MultiIndex.from_frame(of_values.loc[alone, names])).to_numpy(dtype=float)
    filled = table["count"].astype(float)
    filled.loc[of_values.index[alone]] = rest - groups.transform("sum")[alone].to_numpy()
    return table.assign(count=filled)


def _guess(
    targets: pd.DataFrame, counted: pd.DataFrame, table: pd.DataFrame, column: str, value: str
) -> np.ndarray | None:
    """Guess the secret of each target from a table of the counted people; the common one if none of them is alike."""
    if table["count"].isna().any():
        table = fill_by_subtraction(table)
    asked = table[(table["column"] == column) & (table["value"] == value) & table["count"].notna()]
    if asked.empty:
        return None
    system = table_system(counted, asked)
    amounts = solve(system.queries, asked["count"].to_numpy(dtype=float), system.sizes)
    shares = amounts / system.sizes
    names = [name for name in counted if name in asked]
    both = pd.concat([counted[names].astype(str), targets[names].astype(str)])
    like = both.groupby(names, sort=False).ngroup().to_numpy()
    of_group = np.full(like.max() + 1, float(amounts.sum() / system.sizes.sum()))
    of_group[like[: len(counted)]] = shares[system.of_person]
    return of_group[like[len(counted) :]] > 0.5


@dataclass(frozen=True, eq=False)
class TableSystem:
    """Which groups of equal people each count of a table includes."""

    queries: sparse.csr_matrix  # (counts, groups)
    sizes: np.ndarray  # people of each group
    of_person: np.ndarray  # group of each person


def table_system(known: pd.DataFrame, asked: pd.DataFrame) -> TableSystem:
    """Return the linear system behind the counts of a table. People with the same known values are one group."""
    names = [name for name in known if name in asked]
    codes, orders = zip(*(_factorize(known[name]) for name in names), strict=True)
    groups, of_person = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    of_person = of_person.ravel()
    wanted = np.column_stack([_lookup(order, asked[name]) for name, order in zip(names, orders, strict=True)])
    pieces, numbers = [], []
    given = wanted != -1  # -1 is "all"
    for pattern in np.unique(given, axis=0):
        rows = np.flatnonzero((given == pattern).all(axis=1))
        both = np.concatenate([wanted[rows][:, pattern], groups[:, pattern]])
        keys = (
            np.unique(both, axis=0, return_inverse=True)[1].ravel()
            if pattern.any()
            else np.zeros(len(both), int)
        )
        ordered = rows[np.argsort(keys[: len(rows)], kind="stable")]
        asked_keys, group_keys = np.sort(keys[: len(rows)]), keys[len(rows) :]
        place = np.searchsorted(asked_keys, group_keys)
        inside = (place < len(rows)) & (asked_keys[np.minimum(place, len(rows) - 1)] == group_keys)
        pieces.append(ordered[place[inside]])
        numbers.append(np.flatnonzero(inside))
    row, column = np.concatenate(pieces), np.concatenate(numbers)
    shape = (len(asked), len(groups))
    matrix = sparse.csr_matrix((np.ones(len(row)), (row, column)), shape)
    return TableSystem(matrix, np.bincount(of_person).astype(float), of_person)


def _factorize(values: pd.Series) -> tuple[np.ndarray, pd.Index]:
    codes, order = pd.factorize(values.astype(str))
    return codes, pd.Index(order)


def _lookup(order: pd.Index, values: pd.Series) -> np.ndarray:
    """Return the code of each value, -1 for "all" and -2 for a value that does not occur."""
    texts = values.astype(str)
    codes = order.get_indexer(pd.Index(texts))
    return np.where(texts == ALL, -1, np.where(codes < 0, -2, codes))


def _common(secrets: np.ndarray) -> np.ndarray:
    """Return who is guessed right by the most common secret."""
    return secrets == (secrets.mean() > 0.5)


def _reason(secrets: np.ndarray, attack: str) -> NotMeasured | None:
    if len(np.unique(secrets)) < 2:
        return NotMeasured(attack, "All people have the same secret, so the population says everything.")
    return too_few(attack, len(secrets))


def random_subsets(people: int, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return random subsets, each with every person with probability one half, as rows of 0 and 1."""
    return rng.integers(0, 2, (number, people))


def count_secrets(secrets: np.ndarray, queries: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Return the exact number of people with the secret in each subset."""
    return np.asarray(queries) @ np.asarray(secrets, dtype=float)
