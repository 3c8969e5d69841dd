"""What can be saved from the page without the files beside it: the results whole, and the rows that are shown."""

import base64
import csv
import gzip
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from privmix.report.tables import Measured, ResultRow

MOST = 300_000  # bytes of one file inside the page, so that the page stays small however large the run
COLUMNS = ("dataset", "mechanism", "trust", "epsilon", *(field.name for field in fields(Measured)), "failure")


@dataclass(frozen=True)
class Attached:
    """A file that lies beside the page and, where it is small, also inside it."""

    address: str
    size: int
    content: str | None  # base64 of its bytes, of its gzip bytes where `packed`; None where it is too large
    packed: bool


def attached(address: str, content: bytes, packed: bool = False) -> Attached:
    """The file as the page holds it; the same bytes always make the same page."""
    carried = gzip.compress(content, mtime=0) if packed else content
    inside = base64.b64encode(carried).decode() if len(carried) * 4 / 3 <= MOST else None
    return Attached(address, len(content), inside, packed)


def header() -> str:
    """First line of the rows that are shown, as CSV."""
    return _line(COLUMNS)


def lines(dataset: str, rows: Iterable[ResultRow]) -> tuple[str, ...]:
    """Each row of a results table as a line of CSV, all digits kept; what was not measured is empty."""
    return tuple(
        _line([dataset, row.mechanism, row.trust, row.epsilon, *astuple(row.measured), row.failure])
        for row in rows
    )


def _line(values: Iterable[object]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(values)
    return stream.getvalue()
