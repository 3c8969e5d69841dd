"""Pseudonymised rows: identifiers are replaced by keyed hashes, and everything else is published as it is."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from privmix.naive.records import Records

PSEUDONYM_BYTES = 8


@dataclass(frozen=True)
class Pseudonymised:
    """Rows without names. All rows of a person have the same pseudonym."""

    name: ClassVar[str] = "pseudonymised"
    description: ClassVar[str] = "Every row with all its values; only the names are replaced by random codes."

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return all declared columns with hashed identifiers, in random order."""
        made = records.frame.copy()
        for column in records.columns.values():
            if column.type == "identifier":
                made[column.name] = hash_identifiers(made[column.name], rng.bytes(32))
        return made.iloc[rng.permutation(len(made))].reset_index(drop=True)


def hash_identifiers(values: pd.Series, key: bytes) -> pd.Series:
    """Return the keyed hash of each identifier, as hexadecimal text. A blank stays blank."""
    known = {
        value: hashlib.blake2b(str(value).encode(), key=key, digest_size=PSEUDONYM_BYTES).hexdigest()
        for value in values.dropna().unique()
        if value != ""
    }
    return values.map(known).fillna("")
