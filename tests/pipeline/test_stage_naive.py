"""The stage `naive`: it makes a release without a guarantee, attacks it, and says so in every file."""

import json
import stat
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from privmix import cli
from privmix.artefacts.io import METADATA_KEY, read_json
from privmix.artefacts.naive import NaiveFile
from privmix.errors import UserError
from privmix.naive.base import NOTICE
from privmix.naive.registry import RELEASES
from privmix.pipeline import plan, results
from privmix.pipeline.stages import naive

ROWS = 1500
ENTRY = {
    "name": "ward", "title": "Ward", "description": "Patients of a ward.", "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "ward.csv"}, "reader": {"format": "csv"},
    "columns": [
        {"name": "age", "type": "integer", "description": "d", "lower": 0, "upper": 99, "bound_reason": "r"},
        {"name": "town", "type": "category", "description": "d", "values": ["a", "b", "c", "d"]},
        {"name": "day", "type": "integer", "description": "d", "lower": 0, "upper": 29, "bound_reason": "r"},
        {"name": "sick", "type": "boolean", "description": "d"},
    ],
    "coordinates": ["age"], "attributes": ["sick"], "expected": {"rows": ROWS},
    "roles": {"quasi_identifiers": ["age", "town", "day"], "sensitive": ["sick"], "bins": {"age": 100, "day": 30}},
    "visibility": "sensitive",
}  # fmt: skip


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a raw file and its entry. Whether a person is sick depends on nothing that is known."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, ROWS), "town": rng.choice(list("abcd"), ROWS),
            "day": rng.integers(0, 30, ROWS), "sick": rng.choice(["yes", "no"], ROWS, p=[0.4, 0.6]),
        }
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    frame.to_csv("ward.csv", index=False)
    Path("data/catalog").mkdir(parents=True)
    Path("data/catalog/ward.yaml").write_text(yaml.safe_dump(ENTRY))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, method: str, **parameters: object) -> NaiveFile:
    paths = [pattern.format(dataset="ward", release="own") for pattern in (plan.NAIVE_TABLE, plan.NAIVE)]
    given = ["--entry", "data/catalog/ward.yaml", "--raw", "ward.csv", "--release", "own", "--seed", "1"]
    given += ["--parameters", json.dumps({"method": method, **parameters})]
    monkeypatch.setattr(sys, "argv", ["naive", *given, "--table", paths[0], "--attacks", paths[1]])
    naive.main()
    return read_json(Path(paths[1]), NaiveFile)


def measured(file: NaiveFile, kind: str) -> dict[str, object]:
    return {each.attack: each for each in file.attacks if each.kind == kind and each.measured}


@pytest.mark.parametrize("method", list(RELEASES))
def test_every_file_says_that_it_must_not_be_published(ward, monkeypatch, method):
    file = run(monkeypatch, method)
    table = Path(plan.NAIVE_TABLE.format(dataset="ward", release="own"))
    assert file.notice == NOTICE
    assert NOTICE in pq.read_schema(table).metadata[METADATA_KEY].decode()
    assert file.failure is None
    assert file.rows == file.people == ROWS
    assert any(each.measured for each in file.attacks)
    assert (
        stat.S_IMODE(table.stat().st_mode)
        == stat.S_IMODE(Path(plan.NAIVE.format(dataset="ward", release="own")).stat().st_mode)
        == 0o600
    )
    for each in file.attacks:
        assert (each.rate is None) == (each.reason is not None)


def test_rows_without_names_single_people_out(ward, monkeypatch):
    file = run(monkeypatch, "pseudonymised")
    by = measured(file, "linkage")
    assert by["linkage by 2 known facts"].rate > by["linkage by 1 known fact"].rate
    unique = [each.share for each in file.anonymity.uniqueness]
    assert unique == sorted(unique)
    assert unique[-1] > 0.8
    assert measured(file, "homogeneity")["homogeneity: sick is certain"].beats_population


def test_a_k_anonymous_table_singles_nobody_out_and_discloses_all_the_same(ward, monkeypatch):
    file = run(monkeypatch, "k_anonymous", k=3)
    assert file.anonymity.k >= 3
    assert all(each.rate == 0 for each in measured(file, "linkage").values())
    certain = measured(file, "homogeneity")["homogeneity: sick is certain"]
    assert certain.beats_population
    assert certain.disclosed > 20
    assert measured(file, "intersection")


def test_a_diverse_table_leaves_no_class_with_one_value(ward, monkeypatch):
    file = run(monkeypatch, "k_anonymous", k=5, l=2)
    assert measured(file, "homogeneity")["homogeneity: sick is certain"].rate == 0
    assert file.anonymity.distinct_l == 2


def test_exact_statistics_give_single_answers_away_and_rounded_ones_do_not(ward, monkeypatch):
    exact = measured(run(monkeypatch, "exact_statistics"), "differencing")["differencing"]
    rounded = measured(run(monkeypatch, "rounded", to=50), "differencing")["differencing"]
    assert exact.rate == 1
    assert not rounded.beats_population
    assert measured(run(monkeypatch, "exact_statistics"), "membership")


def test_averages_become_exact_with_the_number_of_answers(ward, monkeypatch):
    file = run(monkeypatch, "noisy_answers", scale=2)
    errors = [each.error for each in file.averaging]
    assert errors[-1] < errors[0] / 8  # 256 answers: a sixteenth
    assert all(each.beats_population for each in measured(file, "reconstruction").values())


def test_a_release_that_does_not_exist_is_one_sentence(ward, monkeypatch):
    file = run(monkeypatch, "k_anonymous", k=ROWS + 1)
    assert (
        file.failure
        == f"k_anonymous: k = {ROWS + 1} is more than the {ROWS} rows of the table; choose a smaller k."
    )
    assert not file.attacks


def configuration(**changes: object) -> dict[str, object]:
    base = {
        "datasets": ["ward"],
        "mechanisms": {"non_private": {"method": "non_private"}, "tree": {"method": "noisy_tree"}},
        "epsilons": [1], "naive_releases": {"own": {"method": "k_anonymous", "k": 3}, "none": None},
    }  # fmt: skip
    return {**base, **changes}


def test_the_plan_has_a_release_for_each_dataset_with_roles(ward):
    assert plan.make_plan(configuration()).naive_pairs() == [("ward", "own")]
    Path("data/catalog/ward.yaml").write_text(yaml.safe_dump({**ENTRY, "roles": None}))
    assert plan.make_plan(configuration()).naive_pairs() == []


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"own": {"method": "k_anonymos"}}, "naive_releases.own: 'k_anonymos' is not a release"),
        ({"own": {"method": "k_anonymous", "k": 1}}, "k = 1 must be at least 2"),
        ({"own": {"method": "rounded", "too": 5}}, "rounded has no parameter 'too'"),
        ({"tree": {"method": "rounded"}}, "naive_releases.tree: a mechanism has this id too"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(ward, asked, problem):
    with pytest.raises(UserError, match=problem):
        plan.make_plan(configuration(naive_releases=asked))


def test_the_report_reads_what_was_made_for_this_configuration(ward, monkeypatch):
    planned = plan.make_plan(configuration())
    assert results.read_naive(planned) == ()
    run(monkeypatch, "k_anonymous", k=3)
    assert [file.release for file in results.read_naive(planned)] == ["own"]
    run(monkeypatch, "k_anonymous", k=4)
    with pytest.raises(UserError, match="of another dataset, release or configuration"):
        results.read_naive(planned)
    assert results.read_naive(planned, incomplete=True) == ()


def test_privmix_release_refuses_it_by_name(ward):
    Path("config").mkdir()
    Path("config/config.yaml").write_text(yaml.safe_dump(configuration()))
    problem = "own has no privacy guarantee; it is made only to be attacked.*such as tree"
    with pytest.raises((SystemExit, UserError), match=problem):
        cli.main(["release", "ward", "--mechanism", "own", "--epsilon", "1"])
    assert not Path("releases").exists()


def test_nobody_is_singled_out_by_the_secret_that_an_attacker_wants_to_learn(ward, monkeypatch):
    """All patients look alike, and each has one row: only the secret, a number, tells them apart."""
    frame = pd.DataFrame(
        {"age": np.arange(80) % 40, "town": "a", "day": 3, "sick": "no", "who": np.arange(80) // 2}
    )
    frame.to_csv("ward.csv", index=False)
    who = {"name": "who", "type": "identifier", "description": "d"}
    roles = {"quasi_identifiers": ["town", "day"], "sensitive": ["age"], "bins": {"age": 100, "day": 30}}
    entry = {
        **ENTRY,
        "columns": [*ENTRY["columns"], who],
        "privacy": {"person_column": "who"},
        "roles": roles,
    }
    Path("data/catalog/ward.yaml").write_text(yaml.safe_dump(entry))
    found = measured(run(monkeypatch, "pseudonymised"), "linkage")
    assert {attack: each.rate for attack, each in found.items()} == {
        "linkage by 1 known row": 0.0,
        "linkage by 2 known rows": 0.0,
    }


def test_the_rates_say_what_they_count(ward, monkeypatch):
    assert {each.counted for each in run(monkeypatch, "k_anonymous").attacks} == {"people"}
    frame = pd.read_csv("ward.csv").assign(who=lambda rows: np.arange(len(rows)) // 3)
    frame.to_csv("ward.csv", index=False)
    who = {"name": "who", "type": "identifier", "description": "d"}
    entry = {**ENTRY, "columns": [*ENTRY["columns"], who], "privacy": {"person_column": "who"}}
    Path("data/catalog/ward.yaml").write_text(yaml.safe_dump(entry))
    for method, linked in (("pseudonymised", "people"), ("k_anonymous", "rows")):
        file = run(monkeypatch, method)
        assert {each.counted for each in file.attacks if each.kind == "linkage"} == {linked}
        assert {each.counted for each in file.attacks if each.kind == "homogeneity"} == {"rows"}
    asked = run(monkeypatch, "noisy_answers").attacks
    assert {each.counted for each in asked if each.kind == "averaging"} == {"questions"}
    assert {each.counted for each in run(monkeypatch, "rounded").attacks if each.kind == "membership"} == {
        "people"
    }
