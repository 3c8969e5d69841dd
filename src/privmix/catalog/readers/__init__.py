"""Readers of raw files, one module a format, found by the format's name and imported when first used."""

from collections.abc import Callable, Iterator
from pathlib import Path

from privmix.catalog.entry import Entry
from privmix.catalog.readers.batch import BadRow, Batch, RawBatch
from privmix.errors import UserError

__all__ = ["BadRow", "Batch", "batches"]


def batches(path: Path, entry: Entry) -> Iterator[Batch]:
    """Stream the declared columns of the raw file at `path`, good rows and bad; no rows at all is an error."""
    from privmix.catalog.readers.values import typed

    read = 0
    for raw in _reader(entry.reader.format)(path, entry):
        batch = typed(raw, entry)
        read += batch.read
        yield batch
    if read == 0:
        raise UserError(f"{path} holds no rows; records of at least two people were expected.")


def _reader(name: str) -> Callable[[Path, Entry], Iterator[RawBatch]]:
    if name == "csv":
        from privmix.catalog.readers import delimited as module
    elif name == "parquet":
        from privmix.catalog.readers import parquet as module
    else:
        from privmix.catalog.readers import snap_checkins as module
    return module.batches
