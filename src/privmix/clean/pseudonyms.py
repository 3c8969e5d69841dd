"""Pseudonyms of people: a keyed hash, whose key is a local secret that never leaves this machine.

Nothing but the pseudonyms themselves depends on the key, so every clone gets the same results.
"""

import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.clean.hashing import hash64
from privmix.errors import UserError

KEY_BYTES = 32


def secret_key(path: Path) -> bytes:
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


def pseudonyms(ids: pa.Array, key: bytes, dataset: str) -> np.ndarray:
    """The (n,) uint64 pseudonyms of people; the same person has another one in another dataset."""
    return hash64(ids, hashlib.blake2b(f"{dataset}\0".encode(), key=key, digest_size=8))
