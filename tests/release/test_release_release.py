"""A release holds what it promises, works without Privmix, and reveals nothing else."""

import base64
import json
import os
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from walks_park import ROWS, Park, people, points

from privmix.artefacts.private import read_private
from privmix.mechanisms import registry
from privmix.release import account, card, summary, synthetic
from privmix.release import folder as release_folder
from privmix.release.folder import read_release

ALL = ("grid", "moments", "response")


def _numbers(folder):
    """Every number that stands in any file, as text, as a column or inside base64."""
    found = []
    for path in folder.iterdir():
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            found += [column.to_numpy() for _, column in frame.select_dtypes("number").items()]
        else:
            text = path.read_text(encoding="utf-8")
            found.append(np.array(re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text), dtype=float))
            for coded in re.findall(r'"([A-Za-z0-9+/]{64,}={0,2})"', text):
                content = base64.b64decode(coded)
                found.append(np.frombuffer(content[: len(content) // 8 * 8], dtype="<f8"))
    return np.concatenate([part.astype(float).ravel() for part in found])


@pytest.mark.parametrize("mechanism", ALL)
def test_no_person_and_no_record_is_in_any_byte(released, mechanism):
    """Ids as text; coordinates as text, as doubles and as numbers. Chance: 2^-20 of a match per pair of numbers."""
    content = b"".join(path.read_bytes() for path in released[mechanism].iterdir())
    assert not [who for who in people(ROWS) if who.encode() in content]
    numbers = _numbers(released[mechanism])
    assert len(numbers) > 1000
    for column in points(ROWS).T:
        assert not np.isin(column, numbers).any()
        assert not [value for value in column if np.float64(value).tobytes() in content]
    texts = [f"{value:.6f}".encode() for value in points(ROWS).ravel()]
    assert not [text for text in texts if re.search(rb"(?<![\d.])" + re.escape(text) + rb"(?!\d)", content)]


def test_the_search_for_records_finds_one_that_is_there(released, tmp_path):
    """The power twin of the test above."""
    (tmp_path / "a.json").write_text(json.dumps({"mean": points(ROWS)[7].tolist()}))
    assert np.isin(points(ROWS)[7], _numbers(tmp_path)).all()


@pytest.mark.parametrize("mechanism", ALL)
def test_the_model_is_in_original_units_and_works_in_scikit_learn(released, mechanism):
    model = read_release(released[mechanism])
    sklearn = model.original.mixture.to_sklearn()
    inside = points(1000, seed=9)
    density = sklearn.score_samples(inside)
    scale = np.log([axis.scale for axis in model.domain.axes]).sum()
    normalised = model.normalised.mixture.log_density(model.domain.normalise(inside))
    assert density == pytest.approx(normalised + scale, abs=1e-6)


@pytest.mark.parametrize("mechanism", ALL)
def test_synthetic_data_have_the_columns_and_bounds_of_the_source(released, mechanism):
    folder = released[mechanism]
    frames = [pd.read_parquet(folder / "synthetic.parquet"), pd.read_csv(folder / "synthetic.csv")]
    for frame in frames:
        assert list(frame.columns) == ["east", "north", "dog"]
        assert len(frame) == 500
        assert frame[["east", "north"]].abs().to_numpy().max() <= 5
    pd.testing.assert_frame_equal(*frames)
    told = (folder / "MODEL_CARD.md").read_text()
    assert "`who`: left out, because the release holds nothing about" in told
    assert all(limit in told for limit in account.LIMITS)


def test_the_terminal_says_what_is_left_out_and_warns_of_few_records(released):
    model = read_release(released["grid"])
    facts = dict(summary.describe_release(model, released["grid"]))
    assert facts["Synthetic"].endswith("rows of east, north and dog")
    assert facts["Left out"] == "who: the release holds nothing about this"
    assert "Warning" not in facts
    few = model.model_copy(update={"domain": model.domain.model_copy(update={"rows": 10})})
    assert dict(summary.describe_release(few, released["grid"]))["Warning"].startswith(
        "10 records are too few"
    )


def test_the_terminal_says_which_rows_are_not_in_the_release(park, capsys):
    """With `missing: drop`, the rows with a blank are gone, and N is the number of the others."""
    park.write()
    lines = (park.folder / "walks.csv").read_text().splitlines()
    lines[5:8] = [line.rsplit(",", 1)[0] + "," for line in lines[5:8]]
    (park.folder / "walks.csv").write_text("\n".join(lines) + "\n")
    folder = park.release()
    said = " ".join(capsys.readouterr().out.split())
    assert f"Rows left out 3 of {ROWS}: 3 missing value." in said
    assert read_release(folder).domain.rows == ROWS - 3
    assert "missing value" not in "".join(
        (folder / name).read_text() for name in ("MODEL_CARD.md", "model.json")
    )


def test_attributes_are_drawn_by_their_released_shares(released):
    model = read_release(released["response"])
    made = synthetic.sample_rows(model.original, model.domain, model.shares, ("dog",), 100_000, "01" * 16)
    wanted = np.array(model.original.weights) @ np.array(model.shares["dog"])[:, 1]
    assert np.mean(made["dog"] == "yes") == pytest.approx(wanted, abs=0.01)


def test_two_releases_of_the_same_share_no_number(park):
    one, other = (park.release("grid", 1.0, out=f"out/{number}") for number in "12")
    first, second = read_release(one), read_release(other)
    assert first.privacy == second.privacy
    assert first.original != second.original
    assert first.transcript != second.transcript
    counts = [np.frombuffer(base64.b64decode(each.transcript[0]["counts"])) for each in (first, second)]
    assert np.mean(counts[0] == counts[1]) < 0.01
    rows = [pd.read_csv(folder / "synthetic.csv").to_numpy() for folder in (one, other)]
    assert not (set(rows[0].ravel()) & set(rows[1].ravel())) - {-5.0, 5.0, "no", "yes"}


def test_a_local_release_is_the_private_file_and_its_model(released):
    folder = released["response"]
    info, [columns] = read_private(folder / "reports.parquet")
    model = read_release(folder)
    assert info.privacy == model.privacy
    assert info.privacy.mode == "release"
    assert info.seconds == []
    assert len(columns["cell"]) == ROWS
    assert {*columns} == {"cell", "a_dog"}
    assert model.transcript == []


def test_all_records_are_used_and_their_number_is_the_public_one(released):
    model = read_release(released["grid"])
    assert model.domain.rows == ROWS
    counts = np.frombuffer(base64.b64decode(model.transcript[0]["counts"]))
    assert counts.sum() == pytest.approx(ROWS, abs=6 * 2 * np.sqrt(2 * len(counts)))


def test_a_private_number_of_records_is_nowhere(park):
    """Under add-or-remove the catalog's figure stands for it, and the true one is in no file."""
    entry = {"privacy": {"unit": "record", "relation": "add_remove", "person_column": "who"},
             "expected": {"rows": 250}}  # fmt: skip
    park.write(entry=entry)
    folder = park.release("grid", 1.0)
    model = read_release(folder)
    assert model.domain.rows == 250
    assert model.privacy.relation == "add_remove"
    for path in folder.iterdir():
        if path.suffix not in (".parquet", ".html"):  # a page's style sheet has numbers of its own
            text = re.sub(r"\b[0-9a-f]{32,}\b", "", path.read_text())  # so have keys and checksums
            assert not re.search(rf"(?<![\d.]){ROWS}(?![\d.])", text), path.name


def test_a_person_is_protected_where_the_catalog_says_so(park):
    entry = {
        "privacy": {"unit": "person", "relation": "add_remove", "person_column": "who",
                    "max_records_per_person": 2},
        "expected": {"rows": 300, "persons": 200},
    }  # fmt: skip
    park.write(entry=entry)
    for mechanism in ("moments", "response"):
        model = read_release(park.release(mechanism, 2.0, out=f"out/{mechanism}"))
        assert model.privacy.unit == "person"
        assert model.domain.persons == 200
    assert {json.loads(line)["unit"] for line in park.lines[::2]} == {"person"}


def test_a_private_choice_of_components_is_in_the_ledger(park):
    park.write(config={"components": "auto", "component_choice": {"candidates": [1, 2]}})
    model = read_release(park.release("moments", 2.0))
    assert model.privacy.ledger[0]["kind"] == "selection"
    assert len(model.original.weights) <= model.transcript[0]["components"]


def test_the_card_and_the_page_state_the_guarantee_and_its_reasons(released):
    for mechanism, folder in released.items():
        model = read_release(folder)
        for name in (release_folder.CARD, release_folder.PAGE):
            text = (folder / name).read_text(encoding="utf-8")
            assert card.guarantee(model) in text
            for words in (
                "CC0-1.0",
                "What it does not protect",
                "Intended use",
                "Why it is private",
                "Ledger",
            ):
                assert words in text, (mechanism, name, words)
        page = (folder / release_folder.PAGE).read_text()
        assert not re.search(r"(?:src|href)=[\"']https?:", page)
        assert "<svg" in page


READABLE = "Whether a row was readable."


@pytest.mark.parametrize(
    ("relation", "mechanism", "said"),
    [("replace_one", "grid", True), ("add_remove", "grid", False), ("add_remove", "response", True)],
)
def test_the_card_says_where_the_readability_of_a_row_is_not_protected(park, relation, mechanism, said):
    """An unreadable row changes the public number of records, or the number of reports; a private number hides it."""
    entry = {
        "privacy": {"relation": relation, "person_column": "who"},
        "expected": {"rows": ROWS if relation == "replace_one" else 290},
    }
    numbers = []
    for number, cell in enumerate(("1.0", "")):
        park.write(entry=entry)
        text = (park.folder / "walks.csv").read_text().splitlines()
        who, _, north, dog = text[1].split(",")
        text[1] = ",".join((who, cell, north, dog))
        (park.folder / "walks.csv").write_text("\n".join(text) + "\n")
        (park.folder / "data/clean/walks.parquet").unlink(missing_ok=True)
        (park.folder / "data/raw/walks.raw").unlink(missing_ok=True)
        out = park.release(mechanism, out=f"out{number}")
        model = read_release(out)
        numbers.append(
            read_private(out / "reports.parquet")[0].reports[0] if model.local else model.domain.rows
        )
        assert (READABLE in (out / "MODEL_CARD.md").read_text(encoding="utf-8")) == said
    assert (numbers[0] != numbers[1]) == said


def test_every_private_method_has_an_argument_for_the_card():
    for method in registry.METHODS:
        assert bool(card.proof_paragraphs(method)) == registry.method_class(method).private, method


def test_checksums_are_those_of_sha256sum(released):
    result = subprocess.run(
        ["sha256sum", "--check", "checksums"], cwd=released["grid"], capture_output=True, check=False
    )
    assert result.returncode == 0


@pytest.mark.parametrize(
    "out",
    [
        "releases/.spending/out",
        "releases/.signing",
        "data/.hidden/a/b",
        ".out",
        "link/out",
        "a/../.spending/out",
    ],
)
def test_no_release_is_written_into_a_hidden_folder(park, capsys, out):
    (park.folder / "releases/.signing").mkdir(parents=True)
    (park.folder / "link").symlink_to(park.folder / "releases/.signing")
    said = park.refused(capsys, "release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", out)
    assert "a hidden folder of the project" in said
    assert "--out" in said
    assert not park.lines
    assert not (park.folder / out).exists() or out == "releases/.signing"


def test_a_project_in_a_hidden_folder_can_release(park, tmp_path, monkeypatch):
    folder = tmp_path / ".projects/walks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    made = Park(folder)
    made.write()
    assert (made.release("grid") / "model.json").exists()


def test_an_older_source_replaces_a_newer_one(park):
    """The path of the source changes to a file with an older time: its records are released, not those before."""
    first = read_release(park.release("grid", out="first"))
    park.write(rows=200)
    os.utime(park.folder / "walks.csv", (1, 1))
    (park.folder / "walks.csv").rename(park.folder / "older.csv")
    park.write()
    park.write(entry={"source": {"kind": "file", "path": "older.csv"}})
    second = read_release(park.release("grid", out="second"))
    assert (first.domain.rows, second.domain.rows) == (ROWS, 200)


def test_a_few_records_at_a_large_epsilon_can_be_released(park):
    """The rehearsal has no more made-up records than there are records, or its counts would not be plausible."""
    park.write(rows=12)
    assert read_release(park.release("grid", 20.0)).domain.rows == 12
