"""Persons: keyed pseudonyms, and the split into training and held-out records by person.

A pseudonym is a keyed hash whose key is a local secret and never leaves this machine. The split hashes the person
with the master seed, so it is the same on every clone, and all records of a person are on one side.
"""

import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.errors import UserError

KEY_BYTES = 32


def load_or_create_key(path: Path) -> bytes:
    """The key stored at `path`; made at first use, readable by its owner alone.

    A new key is written beside and linked into place, so that of several jobs that start at once one makes it
    and all read the same whole key.
    """
    path = Path(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(secrets.token_bytes(KEY_BYTES))
                stream.flush()
                os.fsync(stream.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            os.unlink(temporary)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise UserError(
            f"{path} holds {len(key)} bytes; a pseudonym key has {KEY_BYTES}. "
            "Delete it together with data/clean, and a new one is made."
        )
    return key


def pseudonymise(ids: pa.Array, key: bytes, dataset: str) -> np.ndarray:
    """The (n,) uint64 pseudonyms of people; the same person has another one in another dataset."""
    return hash64(ids, hashlib.blake2b(f"{dataset}\0".encode(), key=key, digest_size=8))


def hash64(texts: pa.Array, state: "hashlib.blake2b") -> np.ndarray:
    """The (n,) uint64 hashes of `texts` under `state`: a BLAKE2b of 8 bytes that has its key and prefix."""
    encoded = texts.dictionary_encode()
    digests = []
    for text in encoded.dictionary.to_pylist():
        hashed = state.copy()
        hashed.update(text.encode())
        digests.append(hashed.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[encoded.indices.to_numpy()]


_LEAST_SHARE = 0.05
_LEAST_ROWS = 500
_MOST_SHARE = 0.5


def holdout_share(rows: int) -> float:
    """Share of the people to hold out: 5 %, more where that is fewer than about 500 records, at most half."""
    return min(max(_LEAST_SHARE, _LEAST_ROWS / rows), _MOST_SHARE)


def person_draws(ids: pa.Array, master_seed: int, dataset: str) -> np.ndarray:
    """One uniform draw per person id as uint64: 2^64 times a number in [0, 1)."""
    return hash64(ids, hashlib.blake2b(f"{master_seed}\0{dataset}\0".encode(), digest_size=8))


def holdout_rows(
    person: np.ndarray, draw: np.ndarray, isolated: np.ndarray, rows: int, dataset: str
) -> np.ndarray:
    """Which rows are held out, the share being that of `rows`. Isolated people never are; no side is left empty.

    `rows` is the public number of rows where there is one: a share that followed the private number would move
    other people between the parts when one record is added.
    Where chance leaves a side empty, the person with the least (greatest) draw changes sides.
    """
    movable = ~np.isin(person, isolated)
    holdout = movable & (draw < np.uint64(int(holdout_share(rows) * 2**64)))
    if not holdout.any() and movable.any():
        holdout = movable & (draw == draw[movable].min())
    if holdout.all():
        holdout = draw != draw.max()
    if holdout.all() or not holdout.any():
        people = len(np.unique(person))
        raise UserError(
            f"{dataset}: {len(person)} usable row(s) of {people} {'person' if people == 1 else 'people'}; "
            "a train and a holdout part need at least two people, of whom one is not isolated."
        )
    return holdout
