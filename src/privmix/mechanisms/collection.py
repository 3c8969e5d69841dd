"""Collecting reports: the records answer part by part, and their reports come out in an order that tells nothing.

Reports wait in files without a name, in buckets drawn at random, and each bucket is shuffled on its own when it is
read. That is a uniform order of all rows (Rao 1961; Sandelius 1962), and memory does not grow with their number.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, Reports, Spec
from privmix.mechanisms.local import LocalMechanism
from privmix.privacy import noise, order
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import NoiseSource

BUCKET = 1 << 18  # rows
MOST_BUCKETS = 256  # files open at a time


def collect(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    shuffler: "Shuffler",
) -> Reports:
    """The reports of all parts go into the shuffler; what they cost comes back, without rows.

    A report costs its own record's budget and no other's, so the ledger of one part is that of all.
    """
    said: Reports | None = None
    for records in filter(len, parts):
        if said is not None and not mechanism.streams:
            raise UserError(
                f"{type(mechanism).__name__} asks in the light of earlier answers and needs all records at once; "
                "give them as one part."
            )
        reports = mechanism.privatise(records, spec, budget, rng)
        if said is not None and list(said.events) != list(reports.events):
            raise UserError(
                f"{type(mechanism).__name__}: two parts of the records spent differently; "
                "this is a defect of the mechanism."
            )
        said = reports
        shuffler.add(reports.columns)
    if said is None:
        raise UserError(f"{spec.domain.dataset}: there is no training record to report.")
    return Reports({}, said.events, said.claim, said.asked)


@contextmanager
def shuffling(expected_rows: int, source: NoiseSource, folder: Path) -> Iterator["Shuffler"]:
    """A shuffler for about so many rows, whose files have no name and are gone when it ends, however it ends."""
    with ExitStack() as files:
        buckets = [
            files.enter_context(tempfile.TemporaryFile(dir=folder))
            for _ in range(min(max(1, math.ceil(expected_rows / BUCKET)), MOST_BUCKETS))
        ]
        yield Shuffler(buckets, source)


class Shuffler:
    """Rows go in as they come, and come out in a uniform order that the source draws."""

    def __init__(self, buckets: list[IO[bytes]], source: NoiseSource) -> None:
        self.rows = 0
        self._buckets = buckets
        self._source = source
        self._row: np.dtype | None = None

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Put rows into the buckets."""
        count = len(next(iter(columns.values())))
        rows = np.empty(count, dtype=_row_type(columns))
        for name, values in columns.items():
            rows[name] = values
        self._row, self.rows = rows.dtype, self.rows + count
        bucket = noise.partition(count, len(self._buckets), source=self._source)
        for number, file in enumerate(self._buckets):
            file.write(rows[bucket == number].tobytes())

    def parts(self) -> Iterator[dict[str, np.ndarray]]:
        """The columns of all rows, one bucket after another."""
        for file in self._buckets:
            file.seek(0)
            rows = np.frombuffer(file.read(), dtype=self._row)
            rows = rows[order.shuffled(len(rows), source=self._source)]
            yield {name: rows[name] for name in rows.dtype.names}


def _row_type(columns: Mapping[str, np.ndarray]) -> np.dtype:
    return np.dtype([(name, values.dtype, values.shape[1:]) for name, values in columns.items()])
