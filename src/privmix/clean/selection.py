"""Which rows stay: no repeats where the entry says so, and no more of a person than the limit.

The limit keeps records by a rule that sees only the person's id and the order of their own records: never the
values, and never another person's records, so that the neighbour of a dataset differs in one person's records
alone.
"""

import hashlib

import numpy as np
import pyarrow as pa

from privmix.catalog.readers.batch import Batch
from privmix.clean.hashing import hash64


def fingerprints(batch: Batch) -> np.ndarray:
    """A 64-bit hash of each row over all declared columns; rows with equal values have equal ones.

    Of n distinct rows some two collide with probability below n²/2^65: 1e-6 for 6 million.
    """
    words = [
        (values + 0.0).view(np.uint64) for values in batch.numbers.values()
    ]  # + 0.0 makes -0.0 equal 0.0
    words += [codes.astype(np.uint64) for codes in batch.codes.values()]
    words += [hash64(texts, hashlib.blake2b(digest_size=8)) for texts in batch.identifiers.values()]
    if not len(batch.lines):
        return np.empty(0, dtype=np.uint64)
    rows = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(8 * len(words)), len(batch.lines), [None, pa.py_buffer(np.column_stack(words).tobytes())]
    )
    digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows.to_pylist())
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def repeats(fingerprint: np.ndarray) -> np.ndarray:
    """Which rows have the fingerprint of an earlier row."""
    order = np.argsort(fingerprint, kind="stable")
    repeated = np.zeros(len(fingerprint), dtype=bool)
    repeated[order[1:]] = fingerprint[order[1:]] == fingerprint[order[:-1]]
    return repeated


def over_limit(person: np.ndarray, draw: np.ndarray, limit: int) -> np.ndarray:
    """Which rows are beyond `limit` records of their person, in an order drawn from the person's `draw`."""
    by_person = np.argsort(person, kind="stable")
    rank = np.empty(len(person), dtype=np.int64)
    rank[by_person] = _within_groups(person[by_person])
    by_key = np.lexsort((_splitmix64(draw, rank), person))
    over = np.empty(len(person), dtype=bool)
    over[by_key] = _within_groups(person[by_key]) >= limit
    return over


def _within_groups(grouped: np.ndarray) -> np.ndarray:
    """0, 1, 2, … within each run of equal values."""
    index = np.arange(len(grouped))
    starts = np.ones(len(grouped), dtype=bool)
    starts[1:] = grouped[1:] != grouped[:-1]
    return index - np.maximum.accumulate(np.where(starts, index, 0))


def _splitmix64(seed: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Output number `index` of the SplitMix64 generator (Steele, Lea and Flood 2014) started at `seed`."""
    state = seed + (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
