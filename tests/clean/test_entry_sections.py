"""`ENTRY_SECTIONS` lists exactly the sections of a catalog entry that cleaning reads."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import csv, parquet

from privmix.catalog.entry import Entry
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.pipeline import clean

KEY = b"k" * 32
ROWS = [f"p{index % 9},{index - 25},{2 * index},{'yes' if index % 3 else 'no'}" for index in range(50)]
ADD_REMOVE = {"person_column": "who", "relation": "add_remove"}
# Together they use every rule for rows and persons.
ENTRIES = {
    "plain": {},
    "people": {
        "privacy": {"unit": "person", "person_column": "who", "max_records_per_person": 3},
        "reader": {"format": "csv", "drop_duplicates": True}, "isolated": ["alone"], "expected": {"rows": 51},
    },
    "parquet": {"reader": {"format": "parquet"}, "privacy": ADD_REMOVE, "expected": {"rows": 51}},
}  # fmt: skip
OTHER_SECTIONS = {
    "name": "spots", "title": "Spots", "description": "Spots on a map.", "keywords": ["spots"],
    "licence": {"spdx": "MIT"}, "citation": "Spotters, 2020.", "homepage": "https://example.org",
    "source": {"kind": "file", "path": "spots"}, "reader": {"format": "csv"}, "coordinates": ["lon", "lat"],
    "attributes": [], "outcome": "night", "privacy": ADD_REMOVE, "expected": {"rows": 400}, "visibility": "sensitive",
    "isolated": ["p1"], "caveats": ["Few spots."],
    "roles": {"quasi_identifiers": ["night"], "sensitive": ["lat"], "bins": {"lat": 4}},
}  # fmt: skip


@pytest.fixture
def sections_read(tmp_path: Path, entry: Callable[..., Entry]) -> set[str]:
    """Return the sections of an entry that cleaning reads."""
    found: set[str] = set()

    class Watched(Entry):
        def __getattribute__(self, name: str):
            if name in Entry.model_fields:
                found.add(name)
            return super().__getattribute__(name)

    rows = tmp_path / "places.csv"
    rows.write_text("\n".join(["who,lat,lon,night", *ROWS, "alone,0,0,no", ""]))
    parquet.write_table(csv.read_csv(rows), tmp_path / "places.parquet")
    total: set[str] = set()
    for changes in ENTRIES.values():
        watched = Watched.model_validate(entry(**changes).model_dump(mode="json"))
        raw = tmp_path / f"places.{watched.reader.format}"
        found.clear()  # validation reads sections too
        clean(watched, raw, tmp_path / "clean.parquet", master_seed=1, key=KEY)
        total |= found
    return total


def test_the_digest_follows_the_sections_that_cleaning_reads_and_no_other(
    entry: Callable[..., Entry], sections_read: set[str]
):
    columns = entry().model_dump(mode="json")["columns"]
    others = OTHER_SECTIONS | {"columns": columns[::-1]}
    before = entry(expected={"rows": 200})
    changed = set()
    for section in Entry.model_fields:
        after = entry(**{"expected": {"rows": 200}, section: others[section]})
        assert getattr(after, section) != getattr(before, section)
        if after.digest(*ENTRY_SECTIONS) != before.digest(*ENTRY_SECTIONS):
            changed.add(section)
    assert changed == sections_read
    assert sections_read < set(Entry.model_fields)
