"""Train and holdout, by person: a hash of the person decides, the same on every clone."""

import hashlib

import numpy as np
import pyarrow as pa

from privmix.clean.hashing import hash64
from privmix.errors import UserError

_LEAST_SHARE = 0.05
_LEAST_ROWS = 500
_MOST_SHARE = 0.5


def share(rows: int) -> float:
    """Share of the people to hold out: 5 %, more where that is fewer than about 500 records, at most half."""
    return min(max(_LEAST_SHARE, _LEAST_ROWS / rows), _MOST_SHARE)


def draws(ids: pa.Array, master_seed: int, dataset: str) -> np.ndarray:
    """One uniform draw per person id as uint64: 2^64 times a number in [0, 1)."""
    return hash64(ids, hashlib.blake2b(f"{master_seed}\0{dataset}\0".encode(), digest_size=8))


def held_out(
    person: np.ndarray, draw: np.ndarray, isolated: np.ndarray, rows: int, dataset: str
) -> np.ndarray:
    """Which rows are held out, the share being that of `rows`. Isolated people never are; no side is left empty.

    `rows` is the public number of rows where there is one: a share that followed the private number would move
    other people between the parts when one record is added.
    Where chance leaves a side empty, the person with the least (greatest) draw changes sides.
    """
    movable = ~np.isin(person, isolated)
    holdout = movable & (draw < np.uint64(int(share(rows) * 2**64)))
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
