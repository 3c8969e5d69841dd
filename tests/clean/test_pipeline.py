"""From a raw file to the clean Parquet: kept rows, counts, errors, and atomic writes."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from privmix.artefacts.clean import read_clean
from privmix.catalog.readers import delimited
from privmix.clean import ENTRY_SECTIONS
from privmix.clean.pipeline import clean
from privmix.errors import UserError

KEY = b"k" * 32
ADD_REMOVE = {"person_column": "who", "relation": "add_remove"}


def rows_of(number: int, people: int = 40) -> list[str]:
    rng = np.random.default_rng(0)
    return [
        f"p{index % people},{rng.uniform(-90, 90):.6f},{rng.uniform(-180, 180):.6f},{'no' if index % 3 else 'yes'}"
        for index in range(number)
    ]


def test_clean_records_restore_to_the_raw_values_in_source_order(cleaned):
    rows = rows_of(200)
    data = cleaned(rows)
    fields = [row.split(",") for row in rows]
    expected = np.array([[float(row[1]), float(row[2])] for row in fields])
    assert np.abs(data.info.domain.denormalise(data.points) - expected).max() < 1e-12 * 360
    assert data.codes["night"].tolist() == [int(row[3] == "yes") for row in fields]
    assert np.linalg.norm(data.points, axis=1).max() <= 1
    same = {name: set() for name, *_ in fields}
    for (name, *_), person in zip(fields, data.person, strict=True):
        same[name].add(int(person))
    assert all(len(found) == 1 for found in same.values())
    assert len(set.union(*same.values())) == 40


def test_a_file_in_many_blocks_gives_the_same_records(cleaned, monkeypatch):
    rows = [*rows_of(300), "p1,x,0,no", *rows_of(100), *rows_of(150, people=7)]
    privacy = {"unit": "person", "person_column": "who", "max_records_per_person": 8}
    reader = {"format": "csv", "drop_duplicates": True}
    whole = cleaned(rows, privacy=privacy, reader=reader, expected={"rows": 500})
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 500)
    pieces = cleaned(rows, privacy=privacy, reader=reader, expected={"rows": 500})
    assert pieces.info == whole.info
    assert set(whole.info.counts.dropped) == {"not a number", "duplicate", "over the person's limit"}
    for name in ("points", "person", "train"):
        assert np.array_equal(getattr(pieces, name), getattr(whole, name))


def test_the_file_holds_the_counts_of_its_rows(cleaned, entry, tmp_path):
    data = cleaned([*rows_of(96), "p1,91,0,no", "p2,-90.5,181,no", "p3,x,0,no", "p4,0,,no", "p5,0,0"])
    counts = data.info.counts
    assert (counts.read, counts.kept, counts.persons) == (101, 98, 40)
    assert counts.dropped == {"not a number": 1, "missing value": 1, "wrong field count": 1}
    assert counts.clipped == {"lat": 2, "lon": 1}
    assert counts.train + counts.holdout == counts.kept == len(data.points)
    assert (counts.train, counts.holdout) == (data.train.sum(), (~data.train).sum())
    assert data.info.raw_sha256 == hashlib.sha256((tmp_path / "places.raw").read_bytes()).hexdigest()
    assert data.info.entry_digest == entry().digest(*ENTRY_SECTIONS)
    domain = data.info.domain
    assert data.points[96].tolist() == [domain.upper[0], 0]
    assert data.points[97].tolist() == [domain.lower[0], domain.upper[1]]
    assert (domain.dataset, domain.unit, domain.visibility) == ("places", "record", "public")
    assert domain.attributes[0].values == ("no", "yes")


def test_results_do_not_depend_on_the_secret_key(cleaned):
    privacy = {"unit": "person", "person_column": "who", "max_records_per_person": 3}
    one = cleaned(rows_of(300), privacy=privacy, expected={"rows": 300})
    other = cleaned(rows_of(300), privacy=privacy, expected={"rows": 300}, key=b"o" * 32)
    assert np.array_equal(one.points, other.points)
    assert np.array_equal(one.train, other.train)
    assert one.info.counts == other.info.counts
    assert not set(one.person.tolist()) & set(other.person.tolist())


def test_the_master_seed_changes_the_split(cleaned):
    assert not np.array_equal(cleaned(rows_of(200)).train, cleaned(rows_of(200), master_seed=2).train)


def test_no_person_is_in_both_parts(cleaned):
    data = cleaned(rows_of(400))
    assert not set(data.person[data.train].tolist()) & set(data.person[~data.train].tolist())


def test_without_a_person_column_every_row_is_its_own_person(cleaned):
    data = cleaned(rows_of(200), privacy={})
    assert len(set(data.person.tolist())) == 200
    assert data.info.counts.persons == 200
    assert 60 < data.info.counts.holdout < 140


def test_equal_rows_are_kept_by_default(cleaned):
    data = cleaned(["p1,1,2,no"] * 50 + ["p2,1,2,no"] * 50)
    assert data.info.counts.kept == 100
    assert np.ptp(data.points, axis=0).tolist() == [0, 0]


def test_repeated_rows_are_dropped_only_if_the_entry_says_so(cleaned):
    rows = ["p1,1,2,no", "p2,1,2,no", "p1,1.0,2,no", "p1,1,2,yes", "p1,1,2,no"]
    assert cleaned(rows).info.counts.kept == 5
    reader = {"format": "csv", "tolerated_bad_share": 0, "drop_duplicates": True}
    data = cleaned(rows, reader=reader, privacy=ADD_REMOVE, expected={"rows": 5})
    assert data.info.counts.dropped == {"duplicate": 2}
    assert data.codes["night"].tolist() == [0, 0, 1]


def test_person_level_keeps_at_most_the_limit_of_each_person(cleaned):
    rows = rows_of(300, people=20)
    privacy = {"unit": "person", "person_column": "who", "max_records_per_person": 4}
    data = cleaned(rows, privacy=privacy, expected={"rows": 300})
    assert set(np.unique(data.person, return_counts=True)[1]) == {4}
    assert data.info.counts.dropped == {"over the person's limit": 300 - 80}
    assert data.info.domain.max_records_per_person == 4
    assert cleaned(rows).info.counts.kept == 300


def test_one_row_or_one_person_is_an_error_and_leaves_no_file(cleaned, tmp_path):
    for rows in (["p1,1,2,no"], ["p1,1,2,no", "p1,3,4,no"]):
        with pytest.raises(UserError, match="at least two persons"):
            cleaned(rows)
        assert list((tmp_path / "clean").iterdir()) == []


def test_too_many_bad_rows_are_refused_with_the_first_line_numbers_and_no_content(cleaned, tmp_path):
    bad = ["p,x,0,no", "p,,0,no", "p,0,0", "p,0,0,?", "p,nan,0,no", "p,inf,0,no"]
    with pytest.raises(UserError) as refused:
        cleaned(rows_of(18)[:9] + bad + rows_of(18)[9:])
    sentence, *shown = str(refused.value).splitlines()
    assert "6 of 24 rows cannot be read" in sentence
    assert "missing value 1, not a number 3, unknown category 1, wrong field count 1" in sentence
    assert "share of 0.2" in sentence
    assert shown == [
        "  line 11: not a number in 'lat'",
        "  line 12: missing value in 'lat'",
        "  line 13: wrong field count",
        "  line 14: unknown category in 'night'",
        "  line 15: not a number in 'lat'",
    ]
    assert list((tmp_path / "clean").iterdir()) == []


def test_bad_rows_up_to_the_tolerated_share_pass_and_repeats_are_not_bad(cleaned):
    reader = {"format": "csv", "tolerated_bad_share": 0.25, "drop_duplicates": True}
    changes = {"reader": reader, "privacy": ADD_REMOVE, "expected": {"rows": 9}}
    data = cleaned([*rows_of(3), "p,x,0,no"], **changes)
    assert data.info.counts.dropped == {"not a number": 1}
    data = cleaned([*rows_of(3), *rows_of(3), *rows_of(3)], **changes)
    assert data.info.counts.dropped == {"duplicate": 6}


def test_the_expected_counts_are_checked_before_dropping(cleaned):
    rows = [*rows_of(99), "p1,x,0,no"]
    cleaned(rows, expected={"rows": 100, "persons": 40})
    with pytest.raises(UserError, match=r"100 rows, but expected.rows .* is 99"):
        cleaned(rows, expected={"rows": 99})
    with pytest.raises(UserError, match=r"40 persons, but expected.persons .* is 1,041"):
        cleaned(rows, expected={"persons": 1041})
    assert cleaned(rows, expected={"rows": 7, "persons": 7}, overridden=True).info.counts.read == 100


def test_isolated_persons_are_kept_in_train(cleaned):
    rows = [*rows_of(100), *(f"alone{n},{n},{n},no" for n in range(20))]
    isolated = [f"alone{n}" for n in range(19, -1, -1)]
    data = cleaned(rows, isolated=isolated)
    assert data.isolated_rows.tolist() == list(range(119, 99, -1))
    assert data.train[100:].all()
    assert not cleaned(rows).train[100:].all()


@pytest.mark.parametrize(("name", "count"), [("unknown", 0), ("p1", 3)])
def test_an_isolated_person_without_exactly_one_record_is_refused(cleaned, name, count):
    rows = [*rows_of(100), "alone,1,1,no"]
    with pytest.raises(UserError, match=f"isolated person '{name}' has {count} records"):
        cleaned(rows, isolated=["alone", name])
    data = cleaned(rows, isolated=[name, "alone"], overridden=True)
    assert data.isolated_rows.tolist() == [100]
    data = cleaned(rows, isolated=[name, "alone"], privacy=ADD_REMOVE, expected={"rows": 100})
    assert data.isolated_rows.tolist() == [100]  # an error would reveal that a person is missing


def test_dropping_repeats_is_refused_if_the_number_of_rows_is_public(entry):
    """If A replaces C among the rows A, B, C, two rows are left: the number would reveal it."""
    with pytest.raises(ValidationError, match=r"add_remove or privacy\.unit: person"):
        entry(reader={"format": "csv", "drop_duplicates": True})


def test_the_split_uses_the_public_number_of_rows(cleaned):
    """If the share depended on the true number, an added record would move other persons."""
    changes = {"privacy": ADD_REMOVE, "expected": {"rows": 2000}}
    whole, less = (cleaned(rows_of(number), **changes) for number in (900, 600))
    assert np.array_equal(whole.train[:600], less.train)


def test_the_public_number_of_records_is_the_training_part_under_replace_one(cleaned):
    data = cleaned(rows_of(200), expected={"rows": 200})
    assert data.info.domain.rows == data.info.counts.train


def test_the_public_number_of_records_ignores_the_data_under_add_remove(cleaned):
    privacy = {"person_column": "who", "relation": "add_remove"}
    data = cleaned(rows_of(200), privacy=privacy, expected={"rows": 4000}, overridden=True)
    assert data.info.domain.rows == 3500
    assert data.info.domain.relation == "add_remove"


def test_the_public_number_of_records_respects_the_limit_per_person(cleaned):
    """Replacing a person changes N, so neither the public number nor a check may depend on the file."""
    privacy = {"unit": "person", "person_column": "who", "max_records_per_person": 4}
    for rows in (rows_of(300, people=20), rows_of(280, people=20)):
        data = cleaned(rows, privacy=privacy, expected={"rows": 4000, "persons": 20})
        assert data.info.domain.rows == 70  # 20 persons, 4 records each, an eighth held out


def test_a_failure_keeps_the_earlier_file(cleaned, tmp_path):
    cleaned(rows_of(50))
    before = (tmp_path / "clean" / "places.parquet").read_bytes()
    with pytest.raises(UserError):
        cleaned(["p1,x,x,no"] * 50)
    assert (tmp_path / "clean" / "places.parquet").read_bytes() == before


@pytest.mark.parametrize("pass_", ["_spool", "_write"])
def test_a_job_that_is_killed_leaves_no_clean_file(tmp_path, entry, pass_):
    raw, output = tmp_path / "places.raw", tmp_path / "clean" / "places.parquet"
    raw.write_text("\n".join(["who,lat,lon,night", *rows_of(20_000)]))
    (tmp_path / "entry.json").write_text(entry().model_dump_json())
    code = f"""
import sys, time
from pathlib import Path
from privmix.catalog.entry import Entry
from privmix.clean import pipeline
real = pipeline.{pass_}
def slow(*arguments):
    real(*arguments)
    print("working", flush=True)
    time.sleep(60)
pipeline.{pass_} = slow
entry = Entry.model_validate_json(Path(sys.argv[1]).read_text())
pipeline.clean(entry, Path(sys.argv[2]), Path(sys.argv[3]), master_seed=1, key=b"k" * 32)
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "entry.json"), str(raw), str(output)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout.readline() == "working\n"
        os.kill(job.pid, signal.SIGKILL)
    assert not output.exists()
    clean(entry(), raw, output, master_seed=1, key=KEY)
    assert read_clean(output).info.counts.kept == 20_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's peak memory of a process")
def test_memory_does_not_grow_with_the_size_of_the_file(tmp_path, entry):
    (tmp_path / "entry.json").write_text(entry().model_dump_json())
    code = """
import sys
from pathlib import Path
from privmix.catalog.entry import Entry
from privmix.clean.pipeline import clean
entry = Entry.model_validate_json(Path(sys.argv[1]).read_text())
clean(entry, Path(sys.argv[2]), Path(sys.argv[3]), master_seed=1, key=b"k" * 32)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
    block = "".join(f"{row},{'x' * 1000}\n" for row in rows_of(1000))
    kilobytes = {}
    for times in (15, 75):
        raw = tmp_path / f"{times}.raw"
        raw.write_text("who,lat,lon,night,note\n" + block * times)
        arguments = [str(tmp_path / "entry.json"), str(raw), str(tmp_path / "out")]
        job = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
        kilobytes[times] = int(job.stdout)
    assert raw.stat().st_size > 75e6
    assert kilobytes[75] - kilobytes[15] < 30_000
