"""Check-ins as SNAP publishes them (Gowalla, Brightkite): no header, tabs, no quotes.

Fields are the user's number, the time in ISO 8601, latitude, longitude and the number of the place
(https://snap.stanford.edu/data/loc-Gowalla.html).
"""

from collections.abc import Iterator
from pathlib import Path

from privmix.catalog.entry import Entry
from privmix.catalog.readers.batch import RawBatch, positions
from privmix.catalog.readers.records import Layout, raw_batches
from privmix.catalog.readers.stream import opened

FIELDS = ("person", "time", "latitude", "longitude", "place")


def batches(path: Path, entry: Entry) -> Iterator[RawBatch]:
    """The declared columns as text."""
    layout = Layout(len(FIELDS), positions(entry, FIELDS, path), "\t", quoted=False)
    with opened(path) as stream:
        yield from raw_batches(stream, path, layout)
