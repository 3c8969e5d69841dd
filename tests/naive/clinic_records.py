"""A small clinic: records with roles, as the raw file of a catalog entry would give them."""

import numpy as np
import pyarrow as pa

from privmix.catalog.entry import Entry
from privmix.catalog.readers.base import Batch
from privmix.naive.records import Records, read_records

ENTRY = {
    "name": "visits",
    "title": "Visits",
    "description": "Visits to a clinic.",
    "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "visits.csv"},
    "reader": {"format": "csv"},
    "columns": [
        {"name": "who", "type": "identifier", "description": "patient"},
        {"name": "age", "type": "integer", "description": "d", "lower": 0, "upper": 99, "bound_reason": "r"},
        {
            "name": "income",
            "type": "number",
            "description": "d",
            "lower": 0,
            "upper": 10,
            "bound_reason": "r",
            "resolution": 0.1,
            "missing": "model",
        },
        {"name": "town", "type": "category", "description": "d", "values": ["a", "b", "c"]},
        {"name": "sick", "type": "boolean", "description": "d"},
    ],
    "coordinates": ["age"],
    "attributes": ["sick"],
    "roles": {
        "quasi_identifiers": ["age", "income", "town"],
        "sensitive": ["sick"],
        "bins": {"age": 10, "income": 5},
    },
    "privacy": {"person_column": "who"},
}


def make_records(rows: int = 300, seed: int = 0) -> Records:
    """Return random visits of random people."""
    rng = np.random.default_rng(seed)
    income = rng.uniform(-1, 11, rows)
    income[rng.random(rows) < 0.1] = np.nan
    age = rng.integers(0, 100, rows)
    batch = Batch(
        numbers={"age": age.astype(float), "income": income},
        codes={
            "town": rng.integers(0, 3, rows).astype(np.int16),
            "sick": (rng.random(rows) < age / 150).astype(np.int16),
        },
        identifiers={"who": pa.array([f"p{number}" for number in rng.integers(0, rows, rows)])},
        lines=np.arange(rows),
        bad=[],
    )
    return read_records([batch], Entry.model_validate(ENTRY))
