"""Integers, dates, ordinals, booleans, atoms and blanks: from the raw file to the clean records."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clinic import COLUMNS, ENTRY, HEAD
from pydantic import ValidationError

from privmix.artefacts.clean import read_clean
from privmix.catalog.entry import Entry
from privmix.clean.pipeline import clean

GOOD = """\
3,2020-02-01,some,80.5,Yes,a,I
0,,none,,0,,II
99,2020-12-31,,70,TRUE,b,III
40,2021-05-05,much,300,,b,I
5.0,2020-01-01,much,30,f,a,I
"""


def read(folder: Path, text: str, **changes):
    (folder / "clinic.csv").write_text(HEAD + text)
    entry = Entry.model_validate({**ENTRY, **changes})
    info = clean(entry, folder / "clinic.csv", folder / "clean.parquet", master_seed=1, key=b"k" * 32)
    return info, read_clean(folder / "clean.parquet")


def test_every_type_is_read(tmp_path):
    info, found = read(tmp_path, GOOD)
    domain = info.domain
    values = domain.denormalise(found.points)
    day = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    assert values[:, 0].round(9).tolist() == [
        3,
        0,
        30,
        30,
        5,
    ]  # the atom 99 and the value 40 lie at the bound
    assert values[[0, 2, 3, 4], 1].round(9).tolist() == [day + 31, day + 365, day + 365, day]
    assert values[[0, 1, 3, 4], 2].round(9).tolist() == [1, 0, 2, 2]
    assert values[[0, 2, 3, 4], 3].round(9).tolist() == [80.5, 70, 200, 30]
    assert found.points[1, [1, 3]].tolist() == [0, 0]  # blanks are in the middle of the box
    assert {name: codes.tolist() for name, codes in found.codes.items()} == {
        "smokes": [1, 0, 1, 2, 0],
        "ward": [0, 2, 1, 1, 0],
        "grade": [0, 1, 2, 0, 0],
        "visits, seen, pain are": [0, 1 * 4 + 1 * 2, 2 * 4 + 1, 0, 0],
        "weight is": [0, 1, 0, 0, 0],
    }
    assert info.counts.clipped == {"visits": 1, "seen": 1, "weight": 1}  # not the atom
    assert domain.absent(found.codes, 5).tolist() == [
        [False, False, False, False],
        [True, True, False, True],
        [True, False, True, False],
        [False] * 4,
        [False] * 4,
    ]


def test_the_public_domain_of_every_type(tmp_path):
    domain = read(tmp_path, GOOD)[0].domain
    visits, seen, pain, weight = domain.axes
    assert (visits.lower, visits.upper, visits.values, visits.resolution) == (-0.5, 30.5, (0, 30), 1)
    assert seen.upper - seen.lower == 366
    assert (pain.lower, pain.upper, pain.labels) == (-0.5, 2.5, ("none", "some", "much"))
    assert (weight.lower, weight.upper, weight.step) == (30, 200, None)
    assert np.linalg.norm(domain.upper) == pytest.approx(1)
    assert [number for number, _ in domain.states.items()] == [0, 1, 2, 3]
    together, alone = domain.attributes[-2:]
    assert len(together.values) == 12  # weight would make it 24, more than 16
    assert together.values[:4] == ("given", "pain blank", "seen blank", "seen blank, pain blank")
    assert together.values[6] == "visits 0, seen blank"
    assert alone.values == ("given", "blank")
    by_name = {attribute.name: attribute for attribute in domain.attributes}
    assert by_name["smokes"].values == ("false", "true", "blank")
    assert by_name["ward"].values == ("a", "b", "blank")
    assert by_name["grade"].values == ("I", "II", "III")
    # A component's density at a value, times the cell, is at most 1.
    assert 1 / np.sqrt(2 * np.pi * domain.floor[0]) * domain.resolution[0] == pytest.approx(1)
    assert np.sqrt(domain.floor[3]) == pytest.approx(domain.resolution[3])


def test_values_settle_on_their_lattice_inside_the_bounds(tmp_path):
    """Rounding after clipping, or clipping to the box of the cells, would leave the bounds. 0 is an atom."""
    visits, seen, _, weight = read(tmp_path, GOOD)[0].domain.axes
    assert visits.settle(np.array([-7, -0.5, 0.4, 0.6, 30.49, 30.5, 99])).tolist() == [1, 1, 1, 1, 30, 30, 30]
    inner = visits.model_copy(update={"atoms": (7.0,)})
    assert inner.settle(np.array([6.4, 6.6, 7.0, 7.3, 8])).tolist() == [6, 6, 8, 8, 8]
    assert seen.settle(np.array([seen.upper + 3]))[0] == seen.values[1]
    assert weight.settle(np.array([29.0, 80.25, 999])).tolist() == [30, 80.25, 200]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2.5,2020-02-01,some,80,yes,a,I", "not a whole number"),
        ("x,2020-02-01,some,80,yes,a,I", "not a number"),
        ("nan,2020-02-01,some,80,yes,a,I", "not a number"),
        (",2020-02-01,some,80,yes,a,I", "missing value"),
        ("2,2020-02-30,some,80,yes,a,I", "not a date such as 2017-01-31"),
        ("2,01/02/2020,some,80,yes,a,I", "not a date such as 2017-01-31"),
        ("2,2020-2-1,some,80,yes,a,I", "not a date such as 2017-01-31"),
        ("2,2020-02-01,a lot,80,yes,a,I", "unknown category"),
        ("2,2020-02-01,some,80 kg,yes,a,I", "not a number"),
        ("2,2020-02-01,some,80,perhaps,a,I", "unknown category"),
        ("2,2020-02-01,some,80,yes,c,I", "unknown category"),
        ("2,2020-02-01,some,80,yes,a,", "missing value"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_counted_and_left_out(tmp_path, line, reason):
    info, found = read(tmp_path, GOOD + line + "\n" + GOOD)
    assert info.counts.dropped == {reason: 1}
    assert len(found.points) == 10


def test_the_default_is_to_drop_rows_with_blanks(tmp_path):
    plain = [{key: value for key, value in column.items() if key != "missing"} for column in COLUMNS]
    info, _ = read(tmp_path, GOOD, columns=plain)
    assert (info.counts.kept, info.counts.dropped) == (2, {"missing value": 3})
    assert [info.domain.axes[number].name for number in info.domain.states] == ["visits"]


def test_a_parquet_file_gives_the_same_records(tmp_path):
    info, text = read(tmp_path, GOOD)
    day = datetime.date
    table = pa.table({
        "visits": pa.array([3, 0, 99, 40, 5]),
        "seen": pa.array([day(2020, 2, 1), None, day(2020, 12, 31), day(2021, 5, 5), day(2020, 1, 1)]),
        "pain": pa.array(["some", "none", None, "much", "much"]),
        "weight": pa.array([80.5, None, 70, 300, 30]),
        "smokes": pa.array([True, False, True, None, False]),
        "ward": pa.array(["a", None, "b", "b", "a"]).dictionary_encode(),
        "grade": pa.array(["I", "II", "III", "I", "I"]),
    })  # fmt: skip
    for seen in (table["seen"], table["seen"].cast(pa.timestamp("us"))):
        pq.write_table(table.set_column(1, "seen", seen), tmp_path / "clinic.parquet")
        entry = Entry.model_validate({**ENTRY, "reader": {"format": "parquet"}})
        clean(entry, tmp_path / "clinic.parquet", tmp_path / "other.parquet", master_seed=1, key=b"k" * 32)
        found = read_clean(tmp_path / "other.parquet")
        assert found.info.domain == info.domain
        assert np.array_equal(found.points, text.points)
        assert all(np.array_equal(found.codes[name], codes) for name, codes in text.codes.items())


def _column(number, **changes):
    columns = [dict(column) for column in COLUMNS]
    columns[number] |= changes
    return {"columns": [{key: value for key, value in each.items() if value is not None} for each in columns]}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (_column(0, lower=0.5), "'visits' is of type integer; its bounds and atoms must be whole"),
        (_column(0, atoms=[0, 0]), "'visits' has an atom twice"),
        (_column(0, upper=1e16), "'visits' is of type integer; beyond 2^53, use type number"),
        (_column(0, atoms=[1e20]), "'visits' is of type integer; beyond 2^53, use type number"),
        (_column(3, atoms=[0.1, 0.10000000000000002]), "'weight' has an atom twice"),
        (_column(5, values=["a", "blank"]), "'ward': missing: model adds the value 'blank'"),
        (_column(2, values=["none", " "]), "'pain' has an empty value"),
        (_column(0, resolution=0.5), "'visits' is of type integer; its resolution must be whole"),
        (_column(0, lower=datetime.date(2020, 1, 1)), "its bounds and atoms must be numbers"),
        (_column(1, lower=3), "'seen' is of type date; its bounds and atoms must be dates, such as 2017-01-31"),
        (_column(1, upper=datetime.date(2019, 1, 1)), "'seen' needs public bounds lower < upper"),
        (_column(1, bound_reason=None), "'seen' needs bound_reason"),
        (_column(2, values=["none"]), "'pain' needs at least two distinct public values"),
        (_column(2, lower=0), "'pain' is of type ordinal and has no bounds"),
        (_column(2, atoms=[0]), "only a number, an integer or a date may have atoms"),
        (_column(3, missing="keep"), "'weight': missing = 'keep' must be drop or model"),
        (_column(3, upper=float("inf")), "'weight': bounds and atoms must be finite"),
        (_column(4, values=["no", "yes"]), "'smokes' is of type boolean; its values must not be listed"),
        (_column(5, missing="c"), "'ward': missing = 'c' must be drop or model or one of its values"),
        ({"coordinates": ["smokes"]}, "which is not a column of type number, integer, date or ordinal"),
        ({"attributes": ["visits"]}, "which is not a column of type category, boolean or ordinal"),
        ({"attributes": ["pain"]}, "'pain' is in coordinates and in attributes"),
        (_column(6, name="weight is"), "a column is named 'weight is', like a state of a coordinate"),
    ],
)  # fmt: skip
def test_a_declaration_that_does_not_fit_the_type_is_refused(changes, sentence):
    with pytest.raises(ValidationError) as caught:
        Entry.model_validate({**ENTRY, "attributes": ["smokes", "ward"], **changes})
    assert sentence in str(caught.value)
