"""An entry that is hard to show on a page: sensitive, with HTML in every text, long words, and many columns."""

from pathlib import Path
from typing import Any

import yaml

MARKUP = "<b onclick=alert(1)>bold</b><script>document.title='planted'</script>"


def odd_entry(name: str = "odd", **changes: Any) -> dict[str, Any]:
    """Return the content of the entry."""
    columns = [
        {
            "name": f"measure {number}",
            "description": f"Measurement {number} {MARKUP}",
            "type": "number",
            "unit": "µm/s²",
            "lower": -1234567.25,
            "upper": 1e6 + number,
            "bound_reason": f"The scale of the instrument. {MARKUP}",
            "resolution": 0.5,
        }
        for number in range(1, 41)
    ]
    who = {"name": "who", "description": f"Patient {MARKUP}", "type": "identifier"}
    kind = {"name": "kind", "description": MARKUP, "type": "category", "values": [MARKUP, "x" * 90]}
    return {
        "name": name,
        "title": f"An odd dataset {MARKUP} {'endless' * 12}",
        "description": f"Zoë's café visits. {MARKUP} {'unbreakable' * 20}",
        "keywords": [MARKUP, "a&b=c#d"],
        "licence": {"spdx": "LicenseRef-internal"},
        "source": {"kind": "file", "path": "my/clinic.csv"},
        "reader": {"format": "csv", "delimiter": ";"},
        "columns": [who, kind, *columns],
        "coordinates": [column["name"] for column in columns],
        "attributes": ["kind"],
        "privacy": {
            "unit": "person",
            "relation": "add_remove",
            "person_column": "who",
            "max_records_per_person": 8,
            "note": MARKUP,
        },
        "expected": {"rows": 50000, "persons": 9000},
        "isolated": [MARKUP],
        "caveats": [MARKUP],
        **changes,
    }


def write_odd_entry(folder: Path, name: str = "odd", **changes: Any) -> None:
    """Write the entry as a file in the folder."""
    text = yaml.safe_dump(odd_entry(name, **changes), allow_unicode=True, sort_keys=False)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
