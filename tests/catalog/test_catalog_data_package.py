"""`data/datapackage.json`: the `frictionless` validator accepts it, and it agrees with the catalog."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from odd_entry import odd_entry

from privmix.catalog.data_package import PROFILE, describe_package
from privmix.catalog.dataset_files import DatasetFiles, find_all_files, find_files
from privmix.catalog.entry import Entry, entry_names, entry_paths, load_entry
from privmix.catalog.sources import acquire
from privmix.clean.pipeline import clean

FOLDER = Path(__file__).parents[2] / "data" / "catalog"
OFFLINE = ("breast_cancer", "checkins", "mpls_stops")
STOPS = 51_920


def described(holdings: list[DatasetFiles], folder: Path) -> dict[str, Any]:
    """Return the package as a program reads it."""
    (folder / "datapackage.json").write_text(json.dumps(describe_package(holdings, folder)), encoding="utf-8")
    return json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))


def faults(folder: Path) -> list[str]:
    """Return the errors that frictionless finds in the package: descriptor and every row."""
    from frictionless import Package

    report = Package(str(folder / "datapackage.json")).validate()
    return [f"{kind}: {note}" for kind, note in report.flatten(["type", "note"])]


def made(entry: Entry, folder: Path, content: bytes | None = None) -> DatasetFiles:
    """Return the entry with its raw file in the folder."""
    raw = folder / "raw" / f"{entry.name}.raw"
    raw.parent.mkdir(exist_ok=True)
    if content is None:
        acquire(entry, raw)
    else:
        raw.write_bytes(content)
    return find_files(entry, folder / f"{entry.name}.yaml", raw, folder / "clean" / f"{entry.name}.parquet")


def gowalla() -> Entry:
    return load_entry(FOLDER / "gowalla.yaml")


def checkin_lines(latitude: float = 30.2) -> bytes:
    line = f"7\t2010-10-19T23:55:27Z\t{latitude}\t-97.7\t22847\n"
    return line.encode() * 5


def test_frictionless_accepts_descriptor_and_every_row_of_the_offline_datasets(tmp_path: Path):
    from frictionless import Package

    holdings = [made(load_entry(FOLDER / f"{name}.yaml"), tmp_path) for name in OFFLINE]
    described(holdings, tmp_path)
    report = Package(str(tmp_path / "datapackage.json")).validate()
    assert report.valid, report.flatten(["type", "note"])[:5]
    assert [task.stats["rows"] for task in report.tasks] == [569, 24_000, STOPS]


def test_frictionless_accepts_a_catalog_without_raw_files(tmp_path: Path):
    holdings, problems = find_all_files(
        [FOLDER], str(tmp_path / "{dataset}.raw"), str(tmp_path / "{dataset}.parquet")
    )
    assert problems == ()
    content = described(list(holdings), tmp_path)
    assert faults(tmp_path) == []
    for resource in content["resources"]:
        assert resource["data"] == [[field["name"] for field in resource["schema"]["fields"]]]
        assert (
            f"This copy has no rows yet; run `snakemake --cores 1 data/raw/{resource['name']}.raw`"
            in resource["description"]
        )


def test_frictionless_reads_a_downloaded_dataset_packed_or_not(tmp_path: Path):
    for content in (checkin_lines(), gzip.compress(checkin_lines())):
        described([made(gowalla(), tmp_path, content)], tmp_path)
        assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (lambda text: text.replace(b",44.", b",54.", 1), "constraint-error"),
        (lambda text: text.replace(b'"suspicious"', b'"curious"', 1), "constraint-error"),
        (lambda text: text.replace(b'"lat"', b'"lad"', 1), "missing-label"),
    ],
    ids=["bound", "category", "column"],
)
def test_frictionless_finds_a_value_that_the_catalog_does_not_allow(tmp_path: Path, broken, expected: str):
    entry = load_entry(FOLDER / "mpls_stops.yaml")
    raw = tmp_path / "whole.raw"
    acquire(entry, raw)
    few = b"".join(raw.read_bytes().splitlines(keepends=True)[:50])
    assert broken(few) != few
    described([made(entry, tmp_path, broken(few))], tmp_path)
    assert expected in "".join(faults(tmp_path))


def test_frictionless_finds_a_file_that_was_replaced(tmp_path: Path):
    described([made(gowalla(), tmp_path, checkin_lines())], tmp_path)
    (tmp_path / "raw/gowalla.raw").write_bytes(checkin_lines(31.2))
    assert "hash" in "".join(faults(tmp_path))


def test_the_package_follows_the_standard(tmp_path: Path):
    """The MUSTs of https://datapackage.org/standard/data-package/ and /data-resource/ that apply here."""
    odd = Entry.model_validate(odd_entry(licence={"spdx": "MIT OR Apache-2.0"}))
    holdings = [DatasetFiles(load_entry(path), path) for path in entry_paths([FOLDER])]
    content = described([*holdings, DatasetFiles(odd, Path("odd.yaml"))], tmp_path)
    assert content["$schema"] == PROFILE == "https://datapackage.org/profiles/2.0/datapackage.json"
    names = [resource["name"] for resource in content["resources"]]
    assert names == [*entry_names([FOLDER]), "odd"]
    for resource in content["resources"]:
        assert ("path" in resource) != ("data" in resource), "exactly one of them"
        assert resource["licenses"]
        for licence in resource["licenses"]:
            assert re.fullmatch(r"[-a-zA-Z0-9._]+", licence["name"])
        for source in resource["sources"]:
            assert source["title"]
            assert re.match(r"https?://|[^./~]", source.get("path", "https://"))
        assert re.fullmatch(r"([^:]+:[a-fA-F0-9]+)?", resource.get("hash", ""))
        assert resource["schema"]["fieldsMatch"] in ("exact", "subset")
    assert content["resources"][-1]["licenses"] == [
        {"name": "MIT-OR-Apache-2.0", "title": "MIT OR Apache-2.0"}
    ]


def test_bounds_values_and_reasons_are_those_of_the_entry(tmp_path: Path):
    entry = load_entry(FOLDER / "mpls_stops.yaml")
    fields = described([DatasetFiles(entry, FOLDER)], tmp_path)["resources"][0]["schema"]["fields"]
    assert [field["name"] for field in fields] == ["lat", "long", "problem", "race", "gender"]
    assert fields[0]["constraints"] == {"minimum": 44.88, "maximum": 45.06}
    assert fields[0]["boundReason"].startswith("The city limits")
    assert fields[4]["constraints"] == {"enum": ["Female", "Male", "Unknown"]}
    assert fields[4]["missingCountsAs"] == "Unknown"


def test_a_missing_download_has_url_and_checksum_and_nothing_is_downloaded(tmp_path: Path):
    resource = described([DatasetFiles(gowalla(), FOLDER)], tmp_path)["resources"][0]
    assert resource["sources"] == [{"title": gowalla().source.url, "path": gowalla().source.url}]
    assert resource["contentHash"] == f"sha256:{gowalla().source.sha256}"
    assert resource["contentBytes"] == 394_645_737
    assert not {"path", "hash", "bytes"} & set(resource)


def test_passwords_in_urls_are_hidden(tmp_path: Path):
    source = gowalla().source.model_copy(
        update={
            "url": "https://me:s3cret@example.org/a.gz",
            "mirrors": ("https://me:s3cret@example.org/b.gz",),
        }
    )
    holding = DatasetFiles(gowalla().model_copy(update={"source": source}), tmp_path / "gowalla.yaml")
    package = described([holding], tmp_path)
    assert "s3cret" not in json.dumps(package)
    assert package["resources"][0]["sources"][0]["path"] == "https://***@example.org/a.gz"
    assert faults(tmp_path) == []


def test_bounds_with_values_outside_do_not_constrain_the_file(tmp_path: Path):
    rows = [f"{i % 40}\t2010-10-19T23:55:27Z\t{30 + i / 1000}\t-97.7\t{i}" for i in range(1500)]
    rows[7] = "7\t2010-10-19T23:55:27Z\t405.0\t-97.0\t7"
    raw = made(gowalla(), tmp_path, ("\n".join(rows) + "\n").encode())
    described([raw], tmp_path)
    assert "constraint-error" in "".join(faults(tmp_path)), "before anyone has counted"
    target = tmp_path / "gowalla.parquet"
    clean(gowalla(), raw.raw.path, target, master_seed=1, key=b"k" * 32, overridden=True)
    fields = described([find_files(gowalla(), FOLDER, raw.raw.path, target)], tmp_path)["resources"][0][
        "schema"
    ]["fields"]
    assert faults(tmp_path) == []
    assert fields[2]["clippedTo"] == {"minimum": -90, "maximum": 90}
    assert fields[3]["constraints"] == {"minimum": -180, "maximum": 180}


def test_size_and_hash_of_a_sensitive_file_are_left_out(tmp_path: Path):
    holding = made(Entry.model_validate(odd_entry()), tmp_path, b"who;kind\n")
    resource = described([holding], tmp_path)["resources"][0]
    assert resource["path"] == "raw/odd.raw"
    assert not {"hash", "bytes"} & set(resource)
    assert "my/" not in json.dumps(resource["sources"])


def test_a_parquet_file_is_described_as_a_file_whose_size_and_hash_are_checked(tmp_path: Path):
    entry = Entry.model_validate(odd_entry(reader={"format": "parquet"}, visibility="public"))
    resource = described([made(entry, tmp_path, b"PAR1")], tmp_path)["resources"][0]
    assert resource["mediatype"] == "application/vnd.apache.parquet"
    assert not {"schema", "type", "format"} & set(resource)
    assert faults(tmp_path) == []
    (tmp_path / "raw/odd.raw").write_bytes(b"PAR2")
    assert "hash" in "".join(faults(tmp_path))


def test_a_raw_file_outside_the_folder_of_the_package_is_not_listed(tmp_path: Path):
    holding = made(load_entry(FOLDER / "checkins.yaml"), tmp_path, b"person\n")
    (tmp_path / "elsewhere").mkdir()
    resource = describe_package([holding], tmp_path / "elsewhere")["resources"][0]
    assert "path" not in resource
