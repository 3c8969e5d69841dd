"""The account follows persons and records: no change of the file, its format or its names hides them."""

import copy
import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from walks_park import ENTRY, Park

from privmix import cli
from privmix.artefacts.io import file_sha256
from privmix.catalog.entry import Entry
from privmix.errors import UserError
from privmix.release import account, fingerprints
from privmix.release.fingerprints import Fingerprints, canonical_id, fingerprint_records, siphash

KEY = bytes(range(32))
WITHOUT_IDS = {
    "columns": ENTRY["columns"][1:],
    "privacy": {"unit": "record", "relation": "replace_one"},
}


def test_the_hash_is_siphash():
    """The vector of the paper (Aumasson, Bernstein 2012, appendix A), among other rows."""
    rows = np.arange(45, dtype=np.uint8).reshape(3, 15)
    found = siphash(rows, bytes(range(16)))
    assert int(found[0]) == 0xA129CA6149BE45E5
    assert int(siphash(rows[:1, :0], bytes(range(16)))[0]) == 0x726FDB47DD0E0E31
    assert len({*found.tolist()}) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("7", "7.0", True),
        ("007", "7", True),
        ("123456789012", "1.23456789012e+11", True),
        ("1E3", "1000", True),
        ("a\u200bb", "ab", True),
        ("\uff17", "7", True),
        ("\u0667", "7", True),
        ("1e-3", "0", False),
        ("9" * 2000, "9" * 1999, False),
        ("Ada", "ada", True),
        ("Zo\u00eb", "Zoe\u0308", True),
        ("7", "8", False),
        ("7.5", "7", False),
        ("a", "b", False),
    ],
)
def test_ids_have_one_notation(one, other, same):
    assert (canonical_id(one) == canonical_id(other)) is same


def test_the_key_decides_the_hashes():
    values = np.random.Generator(np.random.PCG64(1)).normal(size=(100, 2))
    one, other = (fingerprints.hash_rows(values, bytes([byte] * 16)) for byte in (1, 2))
    assert not np.isin(one, other).any()
    ids = pa.array(["a", "b"])
    assert not np.isin(fingerprints.hash_ids(ids, b"1" * 32), fingerprints.hash_ids(ids, b"2" * 32)).any()


def test_blocks_of_rows_change_nothing(monkeypatch):
    values = np.random.Generator(np.random.PCG64(1)).normal(size=(1000, 3))
    whole = fingerprints.hash_rows(values, bytes(16))
    monkeypatch.setattr(fingerprints, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(fingerprints.hash_rows(values, bytes(16)), whole)


def _table(park: Park) -> list[list[str]]:
    return list(csv.reader((park.folder / "walks.csv").open()))


def _write(park: Park, rows: list[list[str]]) -> None:
    (park.folder / "walks.csv").write_text("".join(",".join(row) + "\n" for row in rows))


def _bytes(park: Park, change: Callable[[bytes], bytes]) -> None:
    path = park.folder / "walks.csv"
    path.write_bytes(change(path.read_bytes()))


def _cells(park: Park, change: Callable[[str, str], str]) -> None:
    header, *rows = _table(park)
    changed = [[change(name, cell) for name, cell in zip(header, row, strict=True)] for row in rows]
    _write(park, [header, *changed])


def _to_parquet(park: Park, kind: pa.DataType) -> dict:
    table = pa.csv.read_csv(park.folder / "walks.csv")
    for name in ("east", "north"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    pq.write_table(table, park.folder / "walks.csv")
    return {"reader": {"format": "parquet"}}


def _renamed_columns(park: Park) -> dict:
    _bytes(park, lambda content: content.replace(b"east,north", b"x,y"))
    columns = copy.deepcopy(ENTRY["columns"])
    columns[1]["name"], columns[2]["name"] = "x", "y"
    return {"columns": columns, "coordinates": ["x", "y"]}


def _reordered_columns(park: Park) -> dict:
    _write(park, [[row[3], row[2], row[1], row[0]] for row in _table(park)])
    return {"coordinates": ["north", "east"]}


def _without_attributes(park: Park) -> dict:
    _bytes(park, lambda content: content + b"\n")
    return {"columns": ENTRY["columns"][:3], "attributes": []}


def _added_column(park: Park) -> dict:
    header, *rows = _table(park)
    _write(park, [[*header, "age"], *([*row, str(number)] for number, row in enumerate(rows))])
    age = {**ENTRY["columns"][1], "name": "age", "lower": 0, "upper": 999}
    return {"columns": [*ENTRY["columns"], age]}


def _wider_bounds(park: Park) -> dict:
    _bytes(park, lambda content: content + b"\n")
    columns = copy.deepcopy(ENTRY["columns"])
    columns[1]["upper"] = 9
    return {"columns": columns}


SAME_RECORDS = {
    "blank line": lambda park: _bytes(park, lambda content: content + b"\n"),
    "compressed": lambda park: _bytes(park, gzip.compress),
    "byte-order mark and CR LF": lambda park: _bytes(
        park, lambda content: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")
    ),
    "reordered rows": lambda park: _write(park, [_table(park)[0], *_table(park)[:0:-1]]),
    "reordered columns": _reordered_columns,
    "renamed columns": _renamed_columns,
    "quoted": lambda park: _cells(park, lambda name, cell: f'"{cell}"'),
    "numbers": lambda park: _cells(
        park, lambda name, cell: f"{float(cell):+.9e}" if name in ("east", "north") else cell
    ),
    "row added": lambda park: _write(park, [*_table(park), ["newcomer", "0.5", "0.25", "no"]]),
    "person removed": lambda park: _write(park, _table(park)[:-1]),
    "one person left of many": lambda park: _write(
        park,
        [*_table(park)[:2], *([f"new-{n}", f"{n / 7:.6f}", f"{n / 9:.6f}", "no"] for n in range(30))],
    ),
    "parquet": lambda park: _to_parquet(park, pa.float64()),
    "parquet of single precision": lambda park: _to_parquet(park, pa.float32()),
    "without attributes": _without_attributes,
    "added number column": _added_column,
    "other bounds": _wider_bounds,
}


def _fingerprints(park: Park, entry: dict) -> Fingerprints:
    path = park.folder / "walks.csv"
    checked = Entry.model_validate({**ENTRY, **entry})
    nothing = np.empty((0, len(checked.coordinates)))
    return fingerprint_records(path, file_sha256(path), checked, KEY, nothing)


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("change", SAME_RECORDS.values(), ids=SAME_RECORDS.keys())
def test_the_same_records_have_the_same_fingerprints(park, change, ids):
    kept = {} if ids else WITHOUT_IDS
    before = _fingerprints(park, kept)
    changed = change(park) or {}
    if not ids and "columns" in changed:
        changed["columns"] = [column for column in changed["columns"] if column["name"] != "who"]
    after = _fingerprints(park, {**kept, **changed})
    assert fingerprints.share_any(before.rows, after.rows)
    assert fingerprints.share_any(before.persons, after.persons) is ids
    assert before.overlaps(after)
    assert (before.most, after.most) == ((1, 1) if ids else (None, None))


@pytest.mark.parametrize("change", SAME_RECORDS.items(), ids=SAME_RECORDS.keys())
def test_only_the_same_records_of_the_same_persons_have_the_same_pairs(park, change):
    name, apply = change
    _trips(park)
    assert _fingerprints(park, WITHOUT_IDS).pairs is None
    before = _fingerprints(park, {}).pairs
    after = _fingerprints(park, apply(park) or {}).pairs
    assert (before == after) is (name not in OTHER_RECORDS)


OTHER_RECORDS = (
    "row added",
    "person removed",
    "one person left of many",
    "without attributes",
    "added number column",
)


def _trips(park: Park) -> None:
    """Give every person three rows."""
    header, *rows = _table(park)
    _write(park, [header, *([f"p{number // 3}", *row[1:]] for number, row in enumerate(rows))])


def test_the_same_persons_and_the_same_rows_in_other_pairs_are_other_records(park):
    """Otherwise two files with one record of a person each would count as one file."""
    _trips(park)
    before = _fingerprints(park, {})
    header, *rows = _table(park)
    _write(park, [header, *([who[0], *row[1:]] for who, row in zip(rows, rows[1:] + rows[:1], strict=True))])
    after = _fingerprints(park, {})
    np.testing.assert_array_equal(before.persons, after.persons)
    assert len(np.setxor1d(before.rows, after.rows)) == 2  # those of the files
    assert before.pairs != after.pairs


def test_repeated_records_and_other_identifiers_are_other_pairs(park):
    _trips(park)
    visit = {"name": "visit", "type": "identifier", "description": "visit"}
    with_visits = {"columns": [*ENTRY["columns"], visit]}
    header, *rows = _table(park)
    found = set()
    for table in (rows, [*rows, rows[0]], [*rows, rows[0], rows[0]]):
        for first in (0, 1000):
            _write(park, [[*header, "visit"], *([*row, f"{first + n}"] for n, row in enumerate(table))])
            found.add(_fingerprints(park, with_visits).pairs)
            found.add(_fingerprints(park, {}).pairs)
    assert len(found) == 9


def test_the_key_decides_the_pairs(park):
    path, entry, nothing = park.folder / "walks.csv", Entry.model_validate(ENTRY), np.empty((0, 2))
    one, other = (
        fingerprint_records(path, file_sha256(path), entry, bytes([byte] * 32), nothing).pairs
        for byte in (1, 2)
    )
    assert one != other


def test_the_order_of_columns_does_not_change_a_fingerprint():
    values = np.array([[1.0, 2.0, 3.0], [5.0, 4.0, np.nan]])
    key = bytes(range(16))
    assert np.array_equal(fingerprints.hash_rows(values, key), fingerprints.hash_rows(values[:, ::-1], key))
    assert len(np.unique(fingerprints.hash_rows(values, key))) == 2


def test_changed_places_of_known_persons_overlap_and_strangers_do_not(park):
    before = _fingerprints(park, {})
    _cells(park, lambda name, cell: f"{float(cell) / 2 + 1:.6f}" if name in ("east", "north") else cell)
    moved, nameless = _fingerprints(park, {}), _fingerprints(park, WITHOUT_IDS)
    assert before.overlaps(moved)
    assert not before.overlaps(nameless)  # a limit: without ids, other values are other records
    _cells(park, lambda name, cell: f"other-{cell}" if name == "who" else cell)
    assert not before.overlaps(_fingerprints(park, {}))


def test_a_file_without_ids_overlaps_with_the_same_records_with_ids(park):
    before = _fingerprints(park, {})
    _bytes(park, lambda content: content + b"\n")
    assert before.overlaps(_fingerprints(park, WITHOUT_IDS))


def test_a_number_column_that_becomes_a_coordinate_overlaps(park):
    rows = [[str(number), str(number + 0.5), str(3 * number)] for number in range(30)]
    _write(park, [["a", "b", "c"], *rows])
    columns = [{**ENTRY["columns"][1], "name": name, "upper": 999} for name in "abc"]
    entry = {**WITHOUT_IDS, "columns": columns, "coordinates": ["a", "b"], "attributes": []}
    before = _fingerprints(park, entry)
    _bytes(park, lambda content: content + b"\n")
    assert before.overlaps(_fingerprints(park, {**entry, "coordinates": ["a", "b", "c"]}))


def _roles(kind: str, **more: object) -> dict:
    """Return an entry with coordinates age and income, and a rating that has this type and role."""
    places = [{**ENTRY["columns"][1], "name": name, "upper": 999} for name in ("age", "income")]
    rating = {"name": "rating", "description": "d", "type": kind, **more}
    if kind in ("number", "integer"):
        rating = {**ENTRY["columns"][1], "name": "rating", "upper": 9, "resolution": 1, "type": kind}
        rating.update(more)
    used = [] if kind in ("category", "boolean") else ["rating"]
    return {
        **WITHOUT_IDS,
        "columns": [*places, rating],
        "coordinates": ["age", "income", *used],
        "attributes": [] if used else ["rating"],
    }


def _rated(park: Park, ratings: list[str], *, reverse: bool = False) -> None:
    rows = [[str(20 + number), str(7 * number % 90), ratings[number % len(ratings)]] for number in range(60)]
    _write(park, [["age", "income", "rating"], *(rows[::-1] if reverse else rows)])


FIVE = ["1", "2", "3", "4", "5"]
DAYS = ["2017-01-31", "2018-02-03", "2019-12-24"]
GRADES = ["low", "mid", "high"]
SAME_COLUMN = {
    "number and category": (("number", {}, FIVE), ("category", {"values": FIVE}, FIVE)),
    "number in another notation": (
        ("number", {}, FIVE),
        ("category", {"values": ["1.0", "02", "3e0000", "+4", "5."]}, ["1.0", "02", "3e0000", "+4", "5."]),
    ),
    "integer and ordinal": (("integer", {}, FIVE), ("ordinal", {"values": FIVE}, FIVE)),
    "ordinal and category": (
        ("ordinal", {"values": GRADES}, GRADES),
        ("category", {"values": ["High", "Low", "Mid"]}, ["Low", "Mid", "High"]),
    ),
    "ordinals in another order": (
        ("ordinal", {"values": GRADES}, GRADES),
        ("ordinal", {"values": GRADES[::-1]}, GRADES),
    ),
    "boolean and category": (
        ("boolean", {}, ["true", "false"]),
        ("category", {"values": ["true", "false"]}, ["true", "false"]),
    ),
    "boolean in another spelling": (("boolean", {}, ["yes", "no"]), ("integer", {}, ["1", "0"])),
    "boolean and category in another spelling": (
        ("boolean", {}, ["T", "F"]),
        ("category", {"values": ["yes", "no"]}, ["yes", "no"]),
    ),
    "date and category": (
        ("date", {"lower": "2000-01-01", "upper": "2030-01-01", "bound_reason": "r"}, DAYS),
        ("category", {"values": DAYS}, DAYS),
    ),
    "atoms and category": (("integer", {"atoms": [1]}, FIVE), ("category", {"values": FIVE}, FIVE)),
    "blanks": (
        ("integer", {"missing": "model"}, [""]),
        ("category", {"values": FIVE, "missing": "1"}, [""]),
    ),
    "dropped rows": (
        ("integer", {}, ["x", "", "2"]),
        ("category", {"values": ["x", "2"], "missing": "model"}, ["x", "", "2"]),
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("one", "other"), SAME_COLUMN.values(), ids=SAME_COLUMN.keys())
def test_a_column_with_another_type_or_role_is_the_same(park, one, other, swapped):
    found = []
    for reverse, (kind, more, ratings) in enumerate((other, one) if swapped else (one, other)):
        _rated(park, ratings, reverse=bool(reverse))
        found.append(_fingerprints(park, _roles(kind, **more)))
    assert found[0].overlaps(found[1])


def test_other_ratings_of_the_same_places_are_other_rows_unless_the_places_are_coordinates(park):
    _rated(park, FIVE)
    three = _fingerprints(park, _roles("number"))
    _rated(park, ["1", "2"], reverse=True)
    two = _fingerprints(park, _roles("category", values=FIVE))
    assert three.overlaps(two)  # some rows kept their rating
    _rated(park, ["7"])
    others = _fingerprints(park, _roles("category", values=["7", "8"]))
    assert not three.overlaps(others)
    assert two.overlaps(others)  # the same coordinates


def test_a_changed_role_and_one_more_declared_column_from_another_file_is_a_limit(park):
    _rated(park, FIVE)
    before = _fingerprints(park, _roles("number"))
    header, *rows = _table(park)
    _write(park, [[*header, "dog"], *([*row, "big"] for row in rows)])
    entry = _roles("category", values=FIVE)
    dog = {"name": "dog", "description": "d", "type": "category", "values": ["big", "small"]}
    assert not before.overlaps(_fingerprints(park, {**entry, "columns": [*entry["columns"], dog]}))
    assert before.overlaps(_fingerprints(park, entry))


def test_a_category_stored_as_a_number_or_time_in_parquet_is_the_same(park):
    _rated(park, ["1", "2", "3"])
    before = _fingerprints(park, _roles("category", values=FIVE))
    table = pa.csv.read_csv(park.folder / "walks.csv")
    stored = table.set_column(2, "rating", table["rating"].cast(pa.float64()))
    pq.write_table(stored, park.folder / "walks.csv")
    assert before.overlaps(_fingerprints(park, {**_roles("number"), "reader": {"format": "parquet"}}))
    entry = {**_roles("category", values=FIVE), "reader": {"format": "parquet"}}
    assert before.overlaps(_fingerprints(park, entry))
    days = pa.array([17000 + number for number in range(60)], pa.int32()).cast(pa.date32())
    for kind in (pa.date32(), pa.timestamp("us")):
        pq.write_table(table.set_column(2, "rating", days.cast(kind)), park.folder / "walks.csv")
        date = _roles("date", lower="2000-01-01", upper="2030-01-01", bound_reason="r")
        category = _roles("category", values=["2017-01-31", "2018-02-03"])
        found = [
            _fingerprints(park, {**each, "reader": {"format": "parquet"}}).rows for each in (date, category)
        ]
        assert len(np.intersect1d(*found)) >= 60


def test_the_ordinals_of_a_changed_clean_file_overlap(park):
    _rated(park, GRADES)
    entry = _roles("ordinal", values=GRADES)
    before = _fingerprints(park, entry)
    places = np.array([[20 + n, 7 * n % 90, n % 3] for n in range(60)], dtype=np.float64)
    _rated(park, ["low"] * 59 + ["mid"])
    _cells(park, lambda name, cell: str(float(cell) / 2 + 300) if name == "income" else cell)
    path = park.folder / "walks.csv"
    decoy = fingerprint_records(
        path, file_sha256(path), Entry.model_validate({**ENTRY, **entry}), KEY, places
    )
    assert not before.overlaps(_fingerprints(park, entry))
    assert before.overlaps(decoy)


@pytest.mark.parametrize("text", ["low", "2017-02-30", "Ä", "1,5", "0x1"])
def test_a_text_is_a_keyed_number_that_no_column_of_numbers_has(text):
    one, other = (fingerprints.text_values(pa.array([text, text]), bytes([byte] * 32)) for byte in (1, 2))
    assert one[0] == one[1] == np.float32(one[0])
    assert 2.0**65 <= abs(one[0]) < 2.0**97
    assert one[0] != other[0]


def test_negative_zero_is_zero(park):
    _write(park, [["who", "east", "north", "dog"], ["a", "-0.0", "1", "no"]])
    before = _fingerprints(park, WITHOUT_IDS)
    _write(park, [["who", "east", "north", "dog"], ["a", "0", "1", "no"]])
    assert before.overlaps(_fingerprints(park, WITHOUT_IDS))


def test_ids_of_one_person_in_two_notations_count_together(park):
    rows = [["7", "1", "1", "no"], ["7.0", "2", "1", "no"], ["8", "3", "1", "no"]]
    _write(park, [["who", "east", "north", "dog"], *rows])
    found = _fingerprints(park, {})
    assert (len(found.persons), found.most) == (2, 2)


def test_every_purpose_has_its_own_key():
    keys = {
        fingerprints.derive_key(KEY, purpose, 16)
        for purpose in (b"persons", b"rows", b"texts", b"files", b"pairs", b"sources", b"chain")
    }
    assert len(keys) == 7


def test_other_columns_of_the_same_file_overlap_also_without_ids(park):
    rows = [[str(number), str(number + 0.5), str(3 * number), str(7 * number)] for number in range(30)]
    _write(park, [["a", "b", "c", "d"], *rows])

    def entry(*names: str) -> dict:
        columns = [{**ENTRY["columns"][1], "name": name, "upper": 999} for name in names]
        return {**WITHOUT_IDS, "columns": columns, "coordinates": list(names), "attributes": []}

    before = _fingerprints(park, entry("a", "b"))
    assert before.overlaps(_fingerprints(park, entry("c", "d")))
    _bytes(park, lambda content: content + b"\n")
    assert not before.overlaps(
        _fingerprints(park, entry("c", "d"))
    )  # a limit: other columns from another file


def test_the_largest_number_of_records_of_a_person_is_that_of_the_file(park):
    _cells(park, lambda name, cell: f"p{int(cell.split('-')[1]) % 7}" if name == "who" else cell)
    entry = {
        "privacy": {"unit": "person", "person_column": "who", "max_records_per_person": 2},
        "expected": {"rows": 300},
    }
    found = _fingerprints(park, entry)
    assert len(found.persons) == 7
    assert found.most == 43


def test_the_bytes_of_a_fingerprint_file_restore_it(park):
    found = _fingerprints(park, {})
    restored = Fingerprints.from_bytes(found.to_bytes())
    np.testing.assert_array_equal(found.persons, restored.persons)
    np.testing.assert_array_equal(found.rows, restored.rows)


def test_records_of_a_changed_clean_file_overlap(park):
    """A clean file can name any raw file. The records in it count too."""
    before = _fingerprints(park, WITHOUT_IDS)
    rows = np.array([[float(cell) for cell in row[1:3]] for row in _table(park)[1:]])
    _cells(park, lambda name, cell: f"{float(cell) / 2 + 1:.6f}" if name in ("east", "north") else cell)
    path, entry = park.folder / "walks.csv", Entry.model_validate({**ENTRY, **WITHOUT_IDS})
    decoy = fingerprint_records(path, file_sha256(path), entry, KEY, rows)
    assert not before.overlaps(_fingerprints(park, WITHOUT_IDS))
    assert before.overlaps(decoy)


def test_a_raw_file_that_was_not_cleaned_is_refused(park):
    entry, path, nothing = Entry.model_validate(ENTRY), park.folder / "walks.csv", np.empty((0, 2))
    with pytest.raises(UserError, match="is not the file that walks was cleaned from"):
        fingerprint_records(path, "ab" * 32, entry, KEY, nothing)
    with pytest.raises(UserError, match="is missing"):
        fingerprint_records(Path("nowhere.raw"), "ab" * 32, entry, KEY, nothing)


LIMIT = {"release": {"limit_epsilon": 1.5, "limit_delta": 1e-5}}


@pytest.mark.parametrize("name", ["blank line", "compressed", "reordered rows", "row added", "parquet"])
def test_a_changed_file_does_not_reset_the_account(park, capsys, name):
    park.write(config=LIMIT, entry=WITHOUT_IDS)
    park.release(out="one")
    entry = SAME_RECORDS[name](park) or {}
    (park.folder / "catalog/walks.yaml").write_text(yaml.safe_dump({**ENTRY, **WITHOUT_IDS, **entry}))
    said = park.refused(capsys, "release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "two")
    assert "sum: ε = 2, δ = 0" in said
    assert not (park.folder / "two").exists()


def test_a_column_that_changes_its_role_does_not_reset_the_account(park, capsys):
    five = {"values": FIVE}
    for out, entry in (("one", _roles("number")), ("two", _roles("category", **five))):
        park.write(config=LIMIT, entry=entry)
        _rated(park, FIVE, reverse=out == "two")
        if out == "one":
            park.release(out=out)
    said = park.refused(capsys, "release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "two")
    assert "sum: ε = 2, δ = 0" in said


def test_another_dataset_of_the_same_records_shares_the_account(park, capsys):
    park.write(config={**LIMIT, "datasets": ["walks", "strolls"]})
    (park.folder / "walks.csv").rename(park.folder / "strolls.csv")
    source = {"kind": "file", "path": "strolls.csv"}
    for name in ("walks", "strolls"):
        entry = {**ENTRY, "name": name, "source": source}
        (park.folder / f"catalog/{name}.yaml").write_text(yaml.safe_dump(entry))
    park.release(out="one")
    words = ("release", "strolls", "--mechanism", "grid", "--epsilon", "1", "--out", "two")
    assert "walks, grid, " in park.refused(capsys, *words)


def test_other_records_are_not_charged(park, capsys):
    park.write(config=LIMIT)
    park.release(out="one")
    _cells(
        park,
        lambda name, cell: (
            f"other-{cell}" if name == "who" else cell if name == "dog" else f"{float(cell) / 2:.6f}"
        ),
    )
    capsys.readouterr()
    park.release(out="two")
    assert "this release: ε = 1, δ = 0" in capsys.readouterr().out


@pytest.mark.parametrize("declared", [True, False])
def test_other_records_of_known_persons_without_a_person_column_are_charged(park, capsys, declared):
    """The ids are recognised in any declared identifier. Undeclared, they cannot be: a stated limit."""
    park.write(config=LIMIT)
    park.release(out="one")
    columns = [column for column in ENTRY["columns"] if declared or column["type"] != "identifier"]
    park.write(config=LIMIT, entry={"privacy": {"unit": "record"}, "columns": columns})
    _cells(park, lambda name, cell: cell if name in ("who", "dog") else f"{float(cell) / 2:.6f}")
    words = ("release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "two")
    if declared:
        assert "share records or persons with it" in park.refused(capsys, *words)
    else:
        cli.main(list(words))
        assert any("does not declare the column of their ids" in limit for limit in account.LIMITS)


def test_ids_are_recognised_whichever_column_names_the_persons(park, capsys):
    """The second release has another column of person ids, and declares the first one as an identifier."""
    park.write(config=LIMIT)
    park.release(out="one")
    visit = {"name": "visit", "type": "identifier", "description": "visit"}
    privacy = {"unit": "record", "person_column": "visit"}
    park.write(config=LIMIT, entry={"privacy": privacy, "columns": [*ENTRY["columns"], visit]})
    _cells(park, lambda name, cell: cell if name in ("who", "dog") else f"{float(cell) / 2:.6f}")
    raw = park.folder / "walks.csv"
    lines = raw.read_text().splitlines()
    visits = ["visit", *(f"v{number}" for number in range(len(lines) - 1))]
    raw.write_text("\n".join(f"{line},{own}" for line, own in zip(lines, visits, strict=True)) + "\n")
    words = ("release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "two")
    assert "share records or persons with it" in park.refused(capsys, *words)


PERSON_LEVEL = {
    "privacy": {"unit": "person", "person_column": "who", "max_records_per_person": 2},
    "expected": {"rows": 300, "persons": 150},
}


@pytest.mark.parametrize(
    "order", [({}, PERSON_LEVEL), (PERSON_LEVEL, {})], ids=["record first", "person first"]
)
def test_releases_of_records_and_persons_are_refused_in_both_orders(park, capsys, order):
    header, *rows = _table(park)
    pairs = [[f"p{number // 2}", *row[1:]] for number, row in enumerate(rows)]
    words = ["release", "walks", "--mechanism", "response", "--epsilon", "1", "--out"]
    for entry in order:
        park.write(config={"release": {"limit_epsilon": 2.5, "limit_delta": 1e-5}}, entry=entry)
        _write(park, [header, *pairs])
        if entry is order[0]:
            cli.main([*words, "one"])
    said = park.refused(capsys, *words, "two")
    assert "sum: ε = 3, " in said
    assert "ε = 2 × 1 = 2, δ = 0 (one person has up to 2 records in one of these releases)" in said


@pytest.mark.parametrize(
    "change", [lambda content: content + b"\n", gzip.compress], ids=["blank line", "compressed"]
)
def test_other_bytes_of_the_same_records_are_no_other_file(park, capsys, change):
    """A release without ids, then two that protect the persons of the same records, the second from other bytes."""
    header, *rows = _table(park)
    pairs = [[f"p{number // 2}", *row[1:]] for number, row in enumerate(rows)]
    words = ["release", "walks", "--mechanism", "response", "--epsilon", "1", "--out"]
    for entry in (WITHOUT_IDS, PERSON_LEVEL):
        park.write(config={"release": {"limit_epsilon": 3.5, "limit_delta": 1e-5}}, entry=entry)
        _write(park, [header, *pairs])
        cli.main([*words, "one" if entry is WITHOUT_IDS else "two"])
    _bytes(park, change)
    said = park.refused(capsys, *words, "three")
    assert "ε = 2 × 1 = 2, δ = 0 (one person has up to 2 records in one of these releases)" in said
    assert "sum: ε = 4, " in said


def test_two_id_columns_of_one_file_charge_the_records_of_the_person(park, capsys):
    """The later release has an id for each record. The earlier one knows that a person has two of them."""
    visit = {"name": "visit", "type": "identifier", "description": "visit"}
    both = {"columns": [*ENTRY["columns"], visit]}
    header, *rows = _table(park)
    table = [[*header, "visit"], *([f"p{n // 2}", *row[1:], f"v{n}"] for n, row in enumerate(rows))]
    visits = {"privacy": {"unit": "record", "person_column": "visit"}}
    words = ["release", "walks", "--mechanism", "response", "--epsilon", "1", "--out"]
    for entry in (PERSON_LEVEL, visits):
        park.write(config={"release": {"limit_epsilon": 2.5, "limit_delta": 1e-5}}, entry={**entry, **both})
        _write(park, table)
        if entry is PERSON_LEVEL:
            cli.main([*words, "one"])
    said = park.refused(capsys, *words, "two")
    assert "this release: ε = 2 × 1 = 2, δ = 0 (one person has up to 2 records" in said


def test_a_second_account_in_the_configuration_is_refused(park, capsys):
    park.write(config={"release": {"limit_epsilon": 1.5, "accounts": "elsewhere"}})
    words = ("release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "one")
    assert "accounts is no longer a setting" in park.refused(capsys, *words)
    assert not (park.folder / "elsewhere").exists()


def test_no_id_and_no_number_is_in_the_account(park):
    park.release(out="one")
    content = b"".join(
        path.read_bytes() for path in (park.folder / "releases/.spending").rglob("*") if path.is_file()
    )
    for who, east, *_ in _table(park)[1:]:
        assert who.encode() not in content
        assert east.encode() not in content
        assert np.float64(east).tobytes() not in content
        assert np.float32(east).tobytes() not in content or np.float32(east).tobytes().count(0) > 1
