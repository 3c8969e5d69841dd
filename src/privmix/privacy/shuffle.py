"""Random order of rows, and random rows of each unit. The draws do not depend on data, so they cost no privacy."""

import numpy as np

from privmix.privacy.noise import NoiseSource

KEYS = 2**62


def random_keys(rows: int, *, source: NoiseSource) -> np.ndarray:
    """Draw a number of 62 bits for each row, (rows,). Their order is uniform, except among rows with equal numbers."""
    return source.integers(KEYS, (rows,))


def random_order(rows: int, *, source: NoiseSource) -> np.ndarray:
    """Draw a uniform order of the rows, (rows,). Rows with equal keys keep their order."""
    return np.argsort(random_keys(rows, source=source), kind="stable")


def pick_rows(units: np.ndarray, keys: np.ndarray, each: int) -> np.ndarray:
    """Return the `each` rows with the smallest keys of every unit, (units, each).

    A unit with fewer rows repeats them in the same order. `units` is the unit of each row. The result is sorted by
    unit. These are draws without replacement as long as the unit has rows left. Every single pick is uniform over the
    unit's rows. The picks of one unit do not depend on any other unit.
    """
    order = np.lexsort((keys, units))
    unit = units[order]
    starts = np.flatnonzero(np.append(True, unit[1:] != unit[:-1])[: len(unit)])
    counts = np.diff(starts, append=len(unit))
    return order[starts[:, None] + np.arange(each) % counts[:, None]]
