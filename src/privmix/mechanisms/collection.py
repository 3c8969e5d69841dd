"""Collecting reports: the records answer part by part, and their reports come out in an order that tells nothing.

Reports wait in buckets drawn at random (`spool`), and each bucket is shuffled on its own when it is read. That is a
uniform order of all rows (Rao 1961; Sandelius 1962), and memory does not grow with their number.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from privmix.artefacts.private import PrivateWriter
from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, Reports, Spec
from privmix.mechanisms.local import LocalMechanism
from privmix.mechanisms.spool import Spool, as_columns, as_rows, deal, spools
from privmix.privacy import noise, order
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import NoiseSource

BUCKET = 1 << 18  # rows
MOST_BUCKETS = 256  # files open at a time


def write_reports(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    writer: PrivateWriter,
) -> tuple[Reports, int]:
    """Write the reports of all parts in an order that tells nothing; what they cost comes back, and their number."""
    with shuffling(spec.domain.rows, rng.noise, writer.folder) as shuffler:
        said = collect(mechanism, parts, spec, budget, rng, shuffler)
        for columns in shuffler.parts():
            writer.write(columns)
    return said, shuffler.rows


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
    for reports in mechanism.reports(filter(len, parts), spec, budget, rng, shuffler.folder):
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
    """A shuffler for about so many rows; what waits in the folder has no name, and is gone when it ends."""
    number = min(max(1, math.ceil(expected_rows / BUCKET)), MOST_BUCKETS)
    with spools(number, folder) as buckets:
        yield Shuffler(buckets, source, folder)


class Shuffler:
    """Rows go in as they come, and come out in a uniform order that the source draws."""

    def __init__(self, buckets: list[Spool], source: NoiseSource, folder: Path) -> None:
        self.rows = 0
        self.folder = folder
        self._buckets = buckets
        self._source = source

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Put rows into the buckets."""
        rows = as_rows(columns)
        self.rows += len(rows)
        deal(rows, noise.partition(len(rows), len(self._buckets), source=self._source), self._buckets)

    def parts(self) -> Iterator[dict[str, np.ndarray]]:
        """The columns of all rows, one bucket after another."""
        for bucket in self._buckets:
            [rows] = bucket.parts(max(self.rows, 1))
            rows = rows[order.shuffled(len(rows), source=self._source)]
            yield as_columns(rows)
