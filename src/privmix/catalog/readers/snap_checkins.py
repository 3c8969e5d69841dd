"""Check-ins as SNAP publishes them (Gowalla, Brightkite): no header, tabs, no quotes.

The fields are user number, time in ISO 8601, latitude, longitude and place number
(https://snap.stanford.edu/data/loc-Gowalla.html).
"""

from collections.abc import Iterator
from pathlib import Path

from privmix.catalog.entry import Entry
from privmix.catalog.readers.base import RawBatch, column_positions, open_raw
from privmix.catalog.readers.delimited import Layout, parse_records

FIELDS = ("person", "time", "latitude", "longitude", "place")


def read_raw_batches(path: Path, entry: Entry) -> Iterator[RawBatch]:
    """Yield the declared columns as text."""
    layout = Layout(len(FIELDS), column_positions(entry, FIELDS, path), "\t", quoted=False)
    with open_raw(path) as stream:
        yield from parse_records(stream, path, layout)
