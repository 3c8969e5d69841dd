"""A small entry with person, place and a yes/no attribute, and a fixture that cleans rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privmix.artefacts.clean import CleanData, read_clean
from privmix.catalog.entry import Entry
from privmix.clean.pipeline import clean

KEY = b"k" * 32
CONTENT = {
    "name": "places", "title": "Places", "description": "", "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "places"}, "reader": {"format": "csv", "tolerated_bad_share": 0.2},
    "columns": [
        {"name": "who", "description": "person", "type": "identifier"},
        {
            "name": "lat", "description": "latitude", "type": "number", "unit": "degree",
            "geographic": "latitude", "lower": -90, "upper": 90, "bound_reason": "poles", "resolution": 0.01,
        },
        {
            "name": "lon", "description": "longitude", "type": "number", "unit": "degree",
            "geographic": "longitude", "lower": -180, "upper": 180, "bound_reason": "turn", "resolution": 0.01,
        },
        {"name": "night", "description": "at night", "type": "category", "values": ["no", "yes"]},
    ],
    "coordinates": ["lat", "lon"], "attributes": ["night"], "privacy": {"person_column": "who"},
    "visibility": "public",
}  # fmt: skip


@pytest.fixture
def entry() -> Callable[..., Entry]:
    """Return a function that makes the entry; keyword arguments replace its sections."""
    return lambda **changes: Entry.model_validate(CONTENT | changes)


@pytest.fixture
def cleaned(tmp_path: Path, entry: Callable[..., Entry]) -> Callable[..., CleanData]:
    """Return a function that cleans rows given as text lines (without header) and reads the result back."""

    def run(
        rows: list[str], *, master_seed: int = 1, key: bytes = KEY, overridden: bool = False, **changes: Any
    ) -> CleanData:
        raw = tmp_path / "places.raw"
        raw.write_text("\n".join(["who,lat,lon,night", *rows, ""]))
        output = tmp_path / "clean" / "places.parquet"
        info = clean(
            entry(**changes), raw, output, master_seed=master_seed, key=key, overridden=overridden
        )  # fmt: skip
        data = read_clean(output)
        assert data.info == info
        assert [path.name for path in output.parent.iterdir()] == ["places.parquet"]
        return data

    return run
