"""Draws that decide whose row stands where: no data enters them, so they cost nothing and need no ledger."""

import numpy as np

from privmix.privacy.noise import NoiseSource

KEYS = 2**62


def shuffled(rows: int, *, source: NoiseSource) -> np.ndarray:
    """A uniform order of the rows, (rows,). Two equal keys of 62 bits would leave their rows in order."""
    return np.argsort(source.integers(KEYS, (rows,)), kind="stable")


def picked(units: np.ndarray, each: int, *, source: NoiseSource) -> np.ndarray:
    """`each` rows of every unit, (units, each), drawn without replacement as long as the unit has any left.

    `units` is the number, from 0, of the unit that each row belongs to. Every pick on its own is uniform over the
    unit's rows, and what is picked for one unit depends on nothing of another.
    """
    order = np.lexsort((source.integers(KEYS, (len(units),)), units))
    counts = np.bincount(units)
    starts = np.cumsum(counts) - counts
    return order[starts[:, None] + np.arange(each) % counts[:, None]]
