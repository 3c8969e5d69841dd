"""The catalog entry of a small clinic: a column of every type, with atoms and blanks."""

import datetime

BOUNDS = {"bound_reason": "public"}
COLUMNS = [
    {"name": "visits", "type": "integer", "description": "d", "lower": 0, "upper": 30, "atoms": [0, 99], **BOUNDS},
    {"name": "seen", "type": "date", "description": "d", "lower": datetime.date(2020, 1, 1),
     "upper": datetime.date(2020, 12, 31), "missing": "model", **BOUNDS},
    {"name": "pain", "type": "ordinal", "description": "d", "values": ["none", "some", "much"], "missing": "model"},
    {"name": "weight", "type": "number", "description": "d", "lower": 30, "upper": 200, "resolution": 1,
     "missing": "model", **BOUNDS},
    {"name": "smokes", "type": "boolean", "description": "d", "missing": "model"},
    {"name": "ward", "type": "category", "description": "d", "values": ["a", "b"], "missing": "model"},
    {"name": "grade", "type": "ordinal", "description": "d", "values": ["I", "II", "III"]},
]  # fmt: skip
ENTRY = {
    "name": "clinic", "title": "Clinic", "description": "d", "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "clinic.csv"}, "reader": {"format": "csv", "tolerated_bad_share": 0.9},
    "columns": COLUMNS, "coordinates": ["visits", "seen", "pain", "weight"], "attributes": ["smokes", "ward", "grade"],
}  # fmt: skip
HEAD = "visits,seen,pain,weight,smokes,ward,grade\n"
