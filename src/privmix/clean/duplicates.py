"""Rows that repeat an earlier row in every declared column."""

import hashlib

import numpy as np
import pyarrow as pa

from privmix.catalog.readers.base import Batch
from privmix.clean.persons import hash64


def row_fingerprints(batch: Batch) -> np.ndarray:
    """Return a 64-bit hash of each row over all declared columns. Rows with equal values have equal hashes.

    Among n distinct rows, the probability of any collision is below n²/2^65: 1e-6 for 6 million rows.
    """
    # + 0.0 turns -0.0 into 0.0
    words = [(values + 0.0).view(np.uint64) for values in batch.numbers.values()]
    words += [codes.astype(np.uint64) for codes in batch.codes.values()]
    words += [hash64(texts, hashlib.blake2b(digest_size=8)) for texts in batch.identifiers.values()]
    if not len(batch.lines):
        return np.empty(0, dtype=np.uint64)
    rows = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(8 * len(words)), len(batch.lines), [None, pa.py_buffer(np.column_stack(words).tobytes())]
    )
    digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows.to_pylist())
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def duplicate_rows(fingerprint: np.ndarray) -> np.ndarray:
    """Return which rows have the fingerprint of an earlier row."""
    order = np.argsort(fingerprint, kind="stable")
    repeated = np.zeros(len(fingerprint), dtype=bool)
    repeated[order[1:]] = fingerprint[order[1:]] == fingerprint[order[:-1]]
    return repeated
