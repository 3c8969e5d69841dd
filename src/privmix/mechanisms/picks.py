"""The records that people report: so many of everybody, drawn at random among their own, as the records come.

Every record draws a key that nothing about it enters, and those with a person's smallest keys are picked: a uniform
draw without replacement, in whatever parts the records come. A record that cannot be picked any more is let go, so that
memory grows with the reports of the people, and not with their records.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from privmix.mechanisms.base import Records
from privmix.mechanisms.spool import PART
from privmix.privacy import order
from privmix.privacy.noise import NoiseSource

GROWTH = 4  # times as many records are held as could be picked at last look, before the next look


def picked(parts: Iterable[Records], each: int, *, source: NoiseSource) -> Iterator[Records]:
    """`each` records of everybody, one person after another; who has fewer has some of them again."""
    held: list[tuple[Records, np.ndarray]] = []
    most = PART
    for records in parts:
        held.append((records, order.keys(len(records), source=source)))
        if sum(len(some) for some, _ in held) > most:
            records, keys = _joined(held)
            kept = np.zeros(len(records), dtype=bool)  # each once: whoever has fewer may have more to come
            kept[order.picked(records.owners, keys, each)] = True
            held = [(records.taken(kept), keys[kept])]
            most = max(PART, GROWTH * np.count_nonzero(kept))
    if held:
        records, keys = _joined(held)
        rows = order.picked(records.owners, keys, each).ravel()
        for start in range(0, max(len(rows), 1), PART):
            yield records.taken(rows[start : start + PART])


def _joined(held: list[tuple[Records, np.ndarray]]) -> tuple[Records, np.ndarray]:
    return Records.joined([records for records, _ in held]), np.concatenate([keys for _, keys in held])
