"""Persons: keyed pseudonyms, and the split into training and held-out records by person.

A pseudonym is a keyed hash. The key is a secret of this machine and never leaves it. The split hashes the person id
with the master seed. So it is the same on every clone, and all records of a person are on one side.
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
    """Read the key at `path`, or create it at first use. Only its owner can read it.

    A new key is written to a temporary file and then linked to `path`. So if several jobs start at the same time, all
    of them read the same complete key.
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
            "Delete it together with data/clean; the next run creates a new key."
        )
    return key


def pseudonymise(ids: pa.Array, key: bytes, dataset: str) -> np.ndarray:
    """Return pseudonyms of persons, (n,) uint64. A person has a different pseudonym in each dataset."""
    return hash64(ids, hashlib.blake2b(f"{dataset}\0".encode(), key=key, digest_size=8))


def hash64(texts: pa.Array, state: "hashlib.blake2b") -> np.ndarray:
    """Return hashes of `texts`, (n,) uint64. `state` is an 8-byte BLAKE2b that already has its key and prefix."""
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
    """Return the share of persons to hold out: 5 %, or more to reach about 500 records, but at most half."""
    return min(max(_LEAST_SHARE, _LEAST_ROWS / rows), _MOST_SHARE)


def person_draws(ids: pa.Array, master_seed: int, dataset: str) -> np.ndarray:
    """Return one uniform draw per person id as uint64: 2^64 times a number in [0, 1)."""
    return hash64(ids, hashlib.blake2b(f"{master_seed}\0{dataset}\0".encode(), digest_size=8))


def holdout_rows(
    person: np.ndarray, draw: np.ndarray, isolated: np.ndarray, rows: int, dataset: str
) -> np.ndarray:
    """Return which rows to hold out: the share for `rows` rows. Isolated persons are never held out.

    `rows` is the public number of rows if there is one. If the share depended on the private number, one added record
    would move other persons between training and held-out records.
    No side is empty: if chance leaves one empty, the person with the smallest (largest) draw changes sides.
    """
    movable = ~np.isin(person, isolated)
    holdout = movable & (draw < np.uint64(int(holdout_share(rows) * 2**64)))
    if not holdout.any() and movable.any():
        holdout = movable & (draw == draw[movable].min())
    if holdout.all():
        holdout = draw != draw.max()
    if holdout.all() or not holdout.any():
        persons = len(np.unique(person))
        raise UserError(
            f"{dataset}: {len(person)} usable row(s) of {persons} person{'s' if persons != 1 else ''}; the split into "
            "training and held-out records needs at least two persons, of which at least one is not isolated."
        )
    return holdout
