"""A small entry with one column of each type, and a fixture that reads a file with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privmix.catalog.entry import Entry
from privmix.catalog.readers.base import BadRow, read_batches

COLUMNS = [
    {"name": "who", "description": "person", "type": "identifier"},
    {
        "name": "height", "description": "height", "type": "number", "unit": "cm",
        "lower": 0, "upper": 300, "bound_reason": "no person is taller", "resolution": 1,
    },
    {"name": "smokes", "description": "smokes", "type": "category", "values": ["no", "yes", "unknown"]},
]  # fmt: skip


@dataclass(frozen=True)
class Read:
    """All batches of a file, concatenated."""

    who: list[str]
    height: list[float]
    smokes: list[int]
    lines: list[int]
    bad: list[BadRow]

    @property
    def faults(self) -> list[tuple[int, str]]:
        return [(row.line, row.reason) for row in self.bad]


@pytest.fixture
def entry() -> Callable[..., Entry]:
    """Return a function that makes the entry; keyword arguments replace its sections."""

    def make(**changes: Any) -> Entry:
        content = {
            "name": "people", "title": "People", "description": "", "licence": {"spdx": "CC0-1.0"},
            "source": {"kind": "file", "path": "people"}, "reader": {"format": "csv"}, "columns": COLUMNS,
            "coordinates": ["height"], "attributes": ["smokes"], "privacy": {"person_column": "who"},
        }  # fmt: skip
        return Entry.model_validate(content | changes)

    return make


@pytest.fixture
def read(tmp_path: Path, entry: Callable[..., Entry]) -> Callable[..., Read]:
    """Return a function that reads bytes as a raw file."""

    def run(content: bytes, **changes: Any) -> Read:
        path = tmp_path / "people.raw"
        path.write_bytes(content)
        found = list(read_batches(path, entry(**changes)))
        return Read(
            who=[text for batch in found for text in batch.identifiers["who"].to_pylist()],
            height=np.concatenate([batch.numbers["height"] for batch in found]).tolist(),
            smokes=np.concatenate([batch.codes["smokes"] for batch in found]).tolist(),
            lines=np.concatenate([batch.lines for batch in found]).tolist(),
            bad=[row for batch in found for row in batch.bad],
        )

    return run
