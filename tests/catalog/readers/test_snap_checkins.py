"""SNAP's check-in format, against a parser of three lines."""

import gzip

import numpy as np
import pytest

from privmix.catalog.readers.base import read_batches
from privmix.errors import UserError

LINES = [
    "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847",
    "0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315",
    "7\t2010-10-17T23:42:03Z\t-0.0000000001\t179.9999999999\t316637",
    '12\t2009-02-04T05:17:38Z\t59.3\t18.0687\t"1',
    "12\t2009-02-04T05:17:38Z\t59\t1.80687e1\t2",
]


@pytest.fixture
def checkins(entry):
    degrees = {"type": "number", "description": "", "bound_reason": "definition", "resolution": 0.018}
    columns = [
        {"name": "person", "description": "", "type": "identifier"},
        {"name": "time", "description": "", "type": "identifier"},
        {"name": "latitude", "lower": -90, "upper": 90, "geographic": "latitude"} | degrees,
        {"name": "longitude", "lower": -180, "upper": 180, "geographic": "longitude"} | degrees,
        {"name": "place", "description": "", "type": "identifier"},
    ]

    def make(columns=columns):
        return entry(
            reader={"format": "snap_checkins"}, columns=columns, attributes=[],
            coordinates=["latitude", "longitude"], privacy={"person_column": "person"},
        )  # fmt: skip

    return make


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_field_is_read_exactly(tmp_path, checkins, pack):
    path = tmp_path / "checkins.raw"
    path.write_bytes(pack("\n".join([*LINES, ""]).encode()))
    (batch,) = [batch for batch in read_batches(path, checkins()) if len(batch.lines)]
    expected = [line.split("\t") for line in LINES]
    for field, name in ((2, "latitude"), (3, "longitude")):
        assert batch.numbers[name].tolist() == [float(fields[field]) for fields in expected]
    for field, name in ((0, "person"), (1, "time"), (4, "place")):
        assert batch.identifiers[name].to_pylist() == [fields[field] for fields in expected]
    assert np.array_equal(batch.lines, [1, 2, 3, 4, 5])
    assert batch.bad == []


def test_broken_lines_are_counted_with_their_numbers(tmp_path, checkins):
    path = tmp_path / "checkins.raw"
    path.write_text("\n".join([LINES[0], "0\t2010", LINES[1].replace("30.2691029532", ""), LINES[2]]))
    found = list(read_batches(path, checkins()))
    faults = [(row.line, row.reason) for batch in found for row in batch.bad]
    assert faults == [(2, "wrong field count"), (3, "missing value")]
    assert sum(batch.read for batch in found) == 4


def test_only_the_fields_of_the_format_can_be_declared(tmp_path, checkins):
    path = tmp_path / "checkins.raw"
    path.write_text(LINES[0])
    columns = [column.model_dump() for column in checkins().columns]
    columns[4]["name"] = "location"
    with pytest.raises(UserError, match=r"'location'.*'person', 'time', 'latitude', 'longitude', 'place'"):
        list(read_batches(path, checkins(columns)))


def test_an_empty_file_is_one_sentence(tmp_path, checkins):
    path = tmp_path / "checkins.raw"
    path.touch()
    with pytest.raises(UserError, match="is empty"):
        list(read_batches(path, checkins()))
