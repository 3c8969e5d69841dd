"""Contribution sampling: draw the same number of records from every person while the records stream in.

Every record draws a key that is independent of the record, and the records with the smallest keys of a person are
selected. This is a uniform draw without replacement, for any split of the records into parts. A record that can no
longer be selected is dropped, so memory grows with the number of reports and not with the number of records.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from privmix.mechanisms.base import Records
from privmix.mechanisms.shared.report_shuffle import PART
from privmix.privacy import shuffle
from privmix.privacy.noise import NoiseSource

GROWTH = 4  # memory may grow by this factor before records are dropped again


def sample_records(parts: Iterable[Records], each: int, *, source: NoiseSource) -> Iterator[Records]:
    """Draw `each` records of every person, person by person. Records of a person with fewer are repeated."""
    held: list[tuple[Records, np.ndarray]] = []
    most = PART
    for records in parts:
        held.append((records, shuffle.random_keys(len(records), source=source)))
        if sum(len(some) for some, _ in held) > most:
            records, keys = _concatenate(held)
            kept = np.zeros(
                len(records), dtype=bool
            )  # each once: a person with fewer may have more in later parts
            kept[shuffle.pick_rows(records.owners, keys, each)] = True
            held = [(records.select(kept), keys[kept])]
            most = max(PART, GROWTH * int(np.count_nonzero(kept)))
    if held:
        records, keys = _concatenate(held)
        rows = shuffle.pick_rows(records.owners, keys, each).ravel()
        for start in range(0, max(len(rows), 1), PART):
            yield records.select(rows[start : start + PART])


def _concatenate(held: list[tuple[Records, np.ndarray]]) -> tuple[Records, np.ndarray]:
    return Records.concatenate([records for records, _ in held]), np.concatenate([keys for _, keys in held])
