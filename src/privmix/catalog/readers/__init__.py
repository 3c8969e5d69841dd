"""Readers of raw files, one module a format, found by the format's name and imported when first used."""

from collections.abc import Callable, Iterator
from pathlib import Path

from privmix.catalog.entry import Entry
from privmix.catalog.readers.batch import Batch, RawBatch
from privmix.catalog.readers.values import typed
from privmix.errors import UserError


def batches(path: Path, entry: Entry) -> Iterator[Batch]:
    """Stream the declared columns of the raw file at `path`, good rows and bad; no rows at all is an error."""
    read = 0
    for raw in _reader(entry.reader.format)(path, entry):
        batch = typed(raw, entry)
        read += batch.read
        yield batch
    if read == 0:
        raise UserError(f"{path} holds no rows; records of at least two people were expected.")


def _reader(name: str) -> Callable[[Path, Entry], Iterator[RawBatch]]:
    if name == "csv":
        from privmix.catalog.readers.delimited import batches as read
    elif name == "parquet":
        from privmix.catalog.readers.parquet import batches as read
    else:
        from privmix.catalog.readers.snap_checkins import batches as read
    return read
