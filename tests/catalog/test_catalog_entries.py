"""The committed entries: all are valid, all justify their bounds, and no bound comes from the data."""

from pathlib import Path

import numpy as np
import pytest

from privmix.catalog import synthetic
from privmix.catalog.entry import Entry, load_entry
from privmix.catalog.sources import package_table
from privmix.clean import ENTRY_SECTIONS

FOLDER = Path(__file__).parents[2] / "data" / "catalog"
ENTRIES = [load_entry(path) for path in sorted(FOLDER.glob("*.yaml"))]


def the(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.name == name)


def named(entry: Entry) -> str:
    return entry.name


def test_the_catalog_has_its_datasets():
    names = [entry.name for entry in ENTRIES]
    assert names == [
        "breast_cancer", "breast_cancer_30", "checkins", "covid_testing", "gowalla", "movielens", "mpls_stops", "nafld",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_an_entry_describes_the_dataset_completely(entry: Entry):
    assert len(entry.description) > 100
    assert entry.caveats
    assert entry.keywords
    assert entry.privacy.note
    assert entry.licence.url.startswith("https://")
    assert entry.expected.rows or entry.source.kind == "url"
    if entry.visibility != "synthetic":
        assert entry.citation
        assert entry.homepage.startswith("https://")


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_every_number_column_says_why_its_bounds_are_public(entry: Entry):
    for column in entry.columns:
        if column.type == "number":
            assert len(column.bound_reason) > 20, column.name
            assert column.resolution < (column.upper - column.lower) / 50, column.name


@pytest.mark.parametrize("name", ["mpls_stops", "breast_cancer", "breast_cancer_30", "checkins"])
def test_the_public_bounds_are_not_the_extremes_of_the_data_and_hold_them(name: str):
    entry = the(name)
    if name == "checkins":
        table = synthetic.checkins(entry.source.seed, entry.source.rows)
    else:
        table = package_table(entry.source)
    for column in map(entry.column, entry.coordinates):
        values = table[column.name].to_numpy()
        assert column.lower <= values.min(), column.name
        assert values.max() < column.upper, column.name
        whole_globe = name == "checkins" and column.geographic == "longitude"
        assert whole_globe or np.ptp(values) < 0.95 * (column.upper - column.lower), column.name
    for column in map(entry.column, entry.attributes):
        found = set(table[column.name].to_pylist())
        assert found - {None} <= set(column.values), column.name
        assert None not in found or column.missing is not None, column.name
    assert table.num_rows == entry.expected.rows


@pytest.mark.parametrize("name", ["covid_testing", "movielens", "mpls_stops"])
def test_roles_are_in_the_data_and_their_values_are_public(name: str):
    entry = the(name)
    table = package_table(entry.source)
    assert table.num_rows == entry.expected.rows
    for column in map(entry.column, entry.roles.columns):
        if column.type in ("category", "ordinal"):
            found = {
                f"{each:g}" if column.name == "rating" else each for each in table[column.name].to_pylist()
            }
            assert found - {None} <= set(column.values), column.name
        else:
            values = table[column.name].to_numpy()
            inside = (values >= column.lower) & (values <= column.upper)
            assert inside.mean() > 0.999, column.name
    if entry.privacy.person_column:
        people = set(table[entry.privacy.person_column].to_pylist())
        assert len(people) == entry.expected.persons


def test_roles_are_no_part_of_what_cleaning_reads():
    entry = the("mpls_stops")
    other = entry.model_copy(update={"roles": None})
    assert other.digest(*ENTRY_SECTIONS) == entry.digest(*ENTRY_SECTIONS)
    assert other.digest("roles") != entry.digest("roles")


def test_geographic_resolutions_match_their_descriptions():
    for name, metres in (("checkins", 2_000), ("gowalla", 2_000), ("mpls_stops", 50)):
        for column in map(the(name).column, the(name).coordinates):
            shrink = np.cos(np.radians(45)) if (name, column.geographic) == ("mpls_stops", "longitude") else 1
            on_ground = column.resolution * synthetic.KM_PER_DEGREE * 1000 * shrink
            assert on_ground == pytest.approx(metres, rel=0.02), (name, column.name)


def test_checkins_follow_the_isolated_person_and_ask_about_the_night():
    entry = the("checkins")
    assert entry.isolated == (synthetic.ISOLATED_PERSON,)
    assert entry.attributes == ("at_night",)
    assert entry.source.rows == entry.expected.rows == 24_000
    assert (entry.privacy.unit, entry.privacy.relation) == ("record", "replace_one")


def test_gowalla_is_the_original_at_snap():
    entry = the("gowalla")
    assert entry.source.url == "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz"
    assert entry.source.bytes == 394_645_737
    assert entry.source.sha256.startswith("4e02ea12586a1bfb")
    assert entry.reader.format == "snap_checkins"


def test_breast_cancer_has_six_coordinates_and_breast_cancer_30_has_thirty():
    assert 5 <= len(the("breast_cancer").coordinates) <= 10
    assert len(the("breast_cancer_30").coordinates) == 30
    for name in the("breast_cancer").coordinates:
        few, all_thirty = the("breast_cancer").column(name), the("breast_cancer_30").column(name)
        assert all_thirty.resolution == pytest.approx(
            few.resolution / 10
        )  # for attacks, and not for a release
        assert all_thirty.model_copy(update={"resolution": few.resolution}) == few
