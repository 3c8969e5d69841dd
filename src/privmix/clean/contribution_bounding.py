"""Contribution bounding: at most `max_records_per_person` records of each person.

The choice depends only on the person's id and the order of this person's records. It never depends on values or on
records of other persons. So neighbouring datasets still differ only in the records of one person.
"""

import numpy as np


def rows_over_limit(person: np.ndarray, draw: np.ndarray, limit: int) -> np.ndarray:
    """Return which rows exceed `limit` records of their person, in a random order seeded by the person's `draw`."""
    by_person = np.argsort(person, kind="stable")
    rank = np.empty(len(person), dtype=np.int64)
    rank[by_person] = _rank_within_groups(person[by_person])
    by_key = np.lexsort((_splitmix64(draw, rank), person))
    over = np.empty(len(person), dtype=bool)
    over[by_key] = _rank_within_groups(person[by_key]) >= limit
    return over


def _rank_within_groups(grouped: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, … within each run of equal values."""
    index = np.arange(len(grouped))
    starts = np.ones(len(grouped), dtype=bool)
    starts[1:] = grouped[1:] != grouped[:-1]
    return index - np.maximum.accumulate(np.where(starts, index, 0))


def _splitmix64(seed: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return output number `index` of the SplitMix64 generator (Steele, Lea and Flood 2014) with this `seed`."""
    state = seed + (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
