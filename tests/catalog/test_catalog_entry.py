"""Finding and reading entries. An error is one sentence with file, key and remedy."""

from pathlib import Path

import pytest

from privmix.catalog.entry import entry_names, find_entry, load_entry
from privmix.errors import UserError

ENTRY = """\
name: mine
title: Mine
description: My own rows.
licence: {spdx: CC0-1.0}
source: {kind: file, path: rows.csv}
reader: {format: csv}
columns:
  - {name: x, type: number, description: d, lower: 0, upper: 1, bound_reason: a share, resolution: 0.01}
  - {name: sick, type: category, description: d, values: ["yes", "no"]}
coordinates: [x]
attributes: [sick]
"""


def put(folder: Path, text: str = ENTRY, name: str = "mine") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_entry(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(str(path))
    assert len(sentence) < 400
    return sentence.removeprefix(str(path))


def test_an_entry_is_found_by_name_with_its_file(tmp_path: Path):
    path = put(tmp_path)
    entry, where = find_entry("mine", [tmp_path])
    assert entry.title == "Mine"
    assert where == path


def test_a_later_folder_overrides_an_earlier_one(tmp_path: Path):
    put(tmp_path / "a")
    put(tmp_path / "a", ENTRY.replace("name: mine", "name: other"), "other")
    put(tmp_path / "b", ENTRY.replace("Mine", "Changed"))
    folders = [tmp_path / "a", tmp_path / "b"]
    assert entry_names(folders) == ("mine", "other")
    assert find_entry("mine", folders)[0].title == "Changed"
    assert find_entry("mine", folders[::-1])[0].title == "Mine"


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path):
    put(tmp_path)
    with pytest.raises(UserError, match=r"'mime' is not in the catalog.*did you mean 'mine'"):
        find_entry("mime", [tmp_path])


def test_a_missing_folder_is_named_with_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"catalog folder no/where does not exist .*{tmp_path}/no/where"):
        entry_names(["no/where"])


def test_an_empty_folder_is_an_error(tmp_path: Path):
    with pytest.raises(UserError, match=r"no \.yaml file"):
        find_entry("mine", [tmp_path])


def test_the_file_must_have_the_name_of_its_entry(tmp_path: Path):
    assert "'mine'; name the file mine.yaml or write `name: yours`" in complaint(put(tmp_path, name="yours"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title:", "titel:", "unknown key 'titel'; did you mean 'title'?"),
        ("lower:", "lowest:", "unknown key 'columns.0.lowest'; did you mean 'lower'?"),
        ("path:", "pth:", "unknown key 'source.pth'; did you mean 'path'?"),
        (", path: rows.csv", "", "key 'source.path' is missing"),
        ("path: rows.csv", "path: rows.csv, byts: 3", "unknown key 'source.byts'; did you mean 'bytes'?"),
        ("{spdx: CC0-1.0}", "{spdx: CC0-1.0, uri: x}", "unknown key 'licence.uri'; did you mean 'url'?"),
        ("kind: file", "kind: fill", "source: input tag 'fill'"),
        ("format: csv", "format: xls", "reader.format = 'xls'"),
        ("upper: 1,", "upper: -1,", "columns.0: column 'x' needs public bounds lower < upper"),
        ("{name: x,", "{name: ' ',", "columns.0: a column needs a name"),
        ("bound_reason: a share, ", "", "columns.0: column 'x' needs bound_reason"),
        (
            "type: category,",
            "type: category, geographic: latitude,",
            "columns.1: column 'sick' is of type category; only a number or an integer can be a latitude",
        ),
        (
            "coordinates: [x]",
            "coordinates: [x]\nexpected: {rows: 1000, persons: 5000}",
            "expected: 5,000 persons cannot have 1,000 rows",
        ),
        (
            "coordinates: [x]",
            "coordinates: [x]\noutcome: x",
            "outcome names 'x', which is not in attributes",
        ),
        (
            "coordinates: [x]\nattributes: [sick]",
            "coordinates: []",
            "coordinates and attributes are both empty",
        ),
        (
            "coordinates: [x]",
            "coordinates: [y]",
            "coordinates names 'y', which is not a column of type number",
        ),
        ('["yes", "no"]', "[yes, no]", "columns.1.values.0 = True: input should be a valid string"),
        ("description: My", "description: [My", "line 4, column 8: this is not valid YAML"),
        ("name: mine", "\tname: mine", "line 1, column 1: this is not valid YAML"),
        (ENTRY, "- a list\n", "a catalog entry is a mapping"),
        (ENTRY, "", "a catalog entry is a mapping"),
    ],
)
def test_a_mistake_is_one_sentence_with_place_and_remedy(tmp_path: Path, old: str, new: str, expected: str):
    assert old in ENTRY
    assert expected in complaint(put(tmp_path, ENTRY.replace(old, new, 1)))


ROLES = (
    ENTRY
    + """\
  - {name: day, type: integer, description: d, lower: 1, upper: 7, bound_reason: a week}
  - {name: who, type: identifier, description: d}
roles: {quasi_identifiers: [x, day], sensitive: [sick], bins: {x: 10, day: 7}}
"""
)
ROLES = ROLES.replace("coordinates: [x]\nattributes: [sick]\n", "") + "coordinates: [x]\n"


def test_roles_say_what_an_attacker_knows_and_wants_to_know(tmp_path: Path):
    roles = load_entry(put(tmp_path, ROLES)).roles
    assert roles.columns == ("x", "day", "sick")
    assert roles.bins == {"x": 10, "day": 7}
    assert load_entry(put(tmp_path)).roles is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "sensitive: [sick]",
            "sensitive: [sick, x]",
            "'x' is in roles.quasi_identifiers and in roles.sensitive",
        ),
        (
            "[x, day]",
            "[x, day, age]",
            "roles.quasi_identifiers names 'age', which is not a column of type number",
        ),
        (
            "[x, day]",
            "[x, day, who]",
            "roles.quasi_identifiers names 'who', which is not a column of type number",
        ),
        ("[x, day]", "[x, day, x]", "roles.quasi_identifiers names a column twice"),
        ("{x: 10, day: 7}", "{day: 7}", "roles.bins needs a number of bins for 'x', a column of type number"),
        (
            "day: 7}",
            "day: 8}",
            "roles.bins: 'day' has 7 whole numbers between its bounds; use at most as many bins",
        ),
        ("day: 7}", "day: 7, sick: 2}", "roles.bins names 'sick', which is not a role of type number"),
        ("{x: 10,", "{x: 1,", "roles.bins.x = 1"),
        ("sensitive: [sick]", "sensitive: []", "roles.sensitive"),
        ("sensitive:", "sensitiv:", "unknown key 'roles.sensitiv'; did you mean 'sensitive'?"),
    ],
)
def test_a_mistake_in_roles_is_one_sentence(tmp_path: Path, old: str, new: str, expected: str):
    assert old in ROLES
    assert expected in complaint(put(tmp_path, ROLES.replace(old, new, 1)))


def test_a_boolean_in_a_list_of_words_is_explained(tmp_path: Path):
    assert "quote the value" in complaint(put(tmp_path, ENTRY.replace('["yes", "no"]', "[yes, no]")))


def test_a_file_that_is_not_utf8_is_one_sentence(tmp_path: Path):
    path = put(tmp_path)
    path.write_bytes(ENTRY.replace("My own", "M\xfc").encode("latin-1"))
    assert "is not UTF-8" in complaint(path)


def test_a_missing_file_is_one_sentence(tmp_path: Path):
    with pytest.raises(UserError, match="does not exist"):
        load_entry(tmp_path / "none.yaml")


GROUPED = ROLES.replace("coordinates: [x]", "coordinates: [x, day]\nattributes: [sick]").replace(
    "roles: {", "roles: {groups: {x: 4, day: 7}, "
)


def test_groups_are_coordinates_with_public_bins(tmp_path: Path):
    assert load_entry(put(tmp_path, GROUPED)).groupings == ("x:4", "day:7")
    assert load_entry(put(tmp_path)).groupings == ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{x: 4, day: 7}", "{sick: 2}", "roles.groups names 'sick'; an attribute is a grouping already"),
        ("{x: 4, day: 7}", "{who: 2}", "roles.groups names 'who', which is not in coordinates"),
        (
            "{x: 4, day: 7}",
            "{x: null}",
            "roles.groups needs a number of bins for 'x', a column of type number",
        ),
        ("{x: 4, day: 7}", "{day: 8}", "roles.groups: 'day' has 7 values between its bounds"),
        ("{x: 4, day: 7}", "{x: 1}", "roles.groups.x"),
    ],
)
def test_a_mistake_in_groups_is_one_sentence(tmp_path: Path, old: str, new: str, expected: str):
    assert old in GROUPED
    assert expected in complaint(put(tmp_path, GROUPED.replace(old, new, 1)))
