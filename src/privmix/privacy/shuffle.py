"""Random order of rows, and random rows of each unit. The draws do not depend on data, so they cost no privacy."""

import numpy as np

from privmix.privacy.noise import NoiseSource

KEYS = 2**62


def random_keys(rows: int, *, source: NoiseSource) -> np.ndarray:
    """A number of 62 bits for each row, (rows,): their order is uniform but for rows that drew the same."""
    return source.integers(KEYS, (rows,))


def random_order(rows: int, *, source: NoiseSource) -> np.ndarray:
    """A uniform order of the rows, (rows,). Two equal keys would leave their rows in order."""
    return np.argsort(random_keys(rows, source=source), kind="stable")


def pick_rows(units: np.ndarray, keys: np.ndarray, each: int) -> np.ndarray:
    """The rows of every unit with its smallest keys, (units, each), and the same again where it has fewer than `each`.

    `units` says which unit each row belongs to; the units come out in their order. These are draws without replacement
    as long as the unit has any row left. Every pick on its own is uniform over the unit's rows, and what is picked for
    one unit depends on nothing of another.
    """
    order = np.lexsort((keys, units))
    unit = units[order]
    starts = np.flatnonzero(np.append(True, unit[1:] != unit[:-1])[: len(unit)])
    counts = np.diff(starts, append=len(unit))
    return order[starts[:, None] + np.arange(each) % counts[:, None]]
