"""A dataset with attributes only: clean, release, verify, and scores of its model."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from test_release_forgeries import edited, rebuilt, seal

from privmix import cli
from privmix.artefacts.clean import iterate_train_records, read_clean
from privmix.artefacts.model import ModelFile
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import training_records
from privmix.mechanisms.run import MechanismJob
from privmix.pipeline.scores import score_model, score_tables
from privmix.privacy.accounting import Budget
from privmix.release import verify
from privmix.release.folder import CARD, MODEL, PAGE, REPORTS, SYNTHETIC_CSV, SYNTHETIC_PARQUET

COLUMNS = [
    {"name": "smokes", "type": "boolean", "description": "d", "missing": "model"},
    {"name": "colour", "type": "category", "description": "d", "values": ["red", "green", "blue"]},
    {"name": "level", "type": "ordinal", "description": "d", "values": ["low", "mid", "top"]},
]
ENTRY = {
    "name": "survey", "title": "Survey", "description": "d", "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "survey.csv"}, "reader": {"format": "csv"},
    "columns": COLUMNS, "coordinates": [], "attributes": ["smokes", "colour", "level"],
}  # fmt: skip
CONFIG = {
    "catalog_dirs": ["catalog"], "datasets": ["survey"], "components": 2, "epsilons": [1],
    "mechanisms": {
        "grid": {"method": "noisy_grid", "searches": 1}, "moments": {"method": "noisy_moments"},
        "laplace": {"method": "laplace_input"},
        "response": {"method": "randomized_response", "searches": 1}, "plain": {"method": "non_private"},
    },
    "release": {"limit_epsilon": 50.0, "limit_delta": 1e-4},
}  # fmt: skip
ROWS = 3000


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A folder with a catalog, a configuration and a file of two classes; a blank in every twentieth row."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    first = rng.random(ROWS) < 0.5
    smokes = np.where(rng.random(ROWS) < np.where(first, 0.9, 0.2), "true", "false")
    smokes[::20] = ""
    colour = np.array(["red", "green", "blue"])[
        np.where(first, rng.binomial(2, 0.1, ROWS), rng.binomial(2, 0.8, ROWS))
    ]
    level = np.array(["low", "mid", "top"])[
        np.where(first, rng.binomial(2, 0.8, ROWS), rng.binomial(2, 0.2, ROWS))
    ]
    pd.DataFrame({"smokes": smokes, "colour": colour, "level": level}).to_csv("survey.csv", index=False)
    for folder, name, content in (("catalog", "survey.yaml", ENTRY), ("config", "config.yaml", CONFIG)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(yaml.safe_dump(content))
    return tmp_path


def release(folder, mechanism="grid", out="out"):
    cli.main(["release", "survey", "--mechanism", mechanism, "--epsilon", "1", "--out", out])
    return folder / out


def test_a_release_holds_all_columns_in_their_types_and_verifies(survey, capsys):
    folder = release(survey)
    assert "smokes, colour and level" in capsys.readouterr().out
    verify.verify(folder)
    rows = pd.read_csv(folder / SYNTHETIC_CSV, dtype=str, keep_default_na=False)
    assert list(rows) == ["smokes", "colour", "level"]
    assert set(rows["smokes"]) == {"true", "false", ""}
    assert set(rows["level"]) == {"low", "mid", "top"}
    assert str(pq.read_schema(folder / SYNTHETIC_PARQUET).field("smokes").type) == "bool"
    assert (rows["smokes"] == "").mean() == pytest.approx(0.05, abs=0.02)
    raw = pd.read_csv("survey.csv", dtype=str, keep_default_na=False)
    tables = [pd.crosstab(each["smokes"], each["colour"], normalize=True) for each in (raw, rows)]
    assert np.abs(tables[0] - tables[1]).to_numpy().sum() / 2 < 0.05
    model = json.loads((folder / MODEL).read_text())
    assert model["transcript"][0]["shape"] == [3, 3, 3]
    card = (folder / CARD).read_text()
    assert "combinations of values of the attributes" in card
    assert "shares of smokes, colour and level" in card
    assert "<figure" not in (folder / PAGE).read_text()


def test_reports_of_combinations_are_released_and_verify(survey):
    cli.main(["release", "survey", "--mechanism", "response", "--epsilon", "3", "--out", "out"])
    folder = survey / "out"
    found = " ".join(verify.inspect(folder).checks)
    assert "the mixture and the shares of attributes come from a random search" in found
    assert pq.read_schema(folder / REPORTS).names == ["cell"]
    raw, rows = (
        pd.read_csv(path, dtype=str, keep_default_na=False) for path in ("survey.csv", folder / SYNTHETIC_CSV)
    )
    tables = [
        pd.crosstab(each["smokes"], each["colour"], normalize=True).reindex(
            ["", "false", "true"], fill_value=0
        )
        for each in (raw, rows)
    ]
    assert np.abs(tables[0] - tables[1]).to_numpy().sum() / 2 < 0.15
    rebuilt(_without_level)(folder)
    seal(folder)
    with pytest.raises(UserError, match="do not follow from"):
        verify.verify(folder)


def _without_level(model):
    del model["shares"]["level"]
    model["synthetic"]["columns"].remove("level")


FORGERIES = [
    (edited(lambda m: m["transcript"][0].update(counts="AAAAAAAA")), "transcript"),
    (edited(lambda m: m["transcript"][0].update(shape=[9, 3])), "transcript"),
    (edited(lambda m: m["shares"].update(level=[[1.0, 1.0, 0.0]] * 2)), "no distribution"),
    (edited(lambda m: m.update(method="noisy_moments", parameters={})), "domain.axes"),
    (rebuilt(_without_level), "do not follow from"),
]


def test_forgeries_are_refused(survey):
    folder = release(survey)
    original = (folder / MODEL).read_text()
    for change, said in FORGERIES:
        (folder / MODEL).write_text(original)
        change(folder)
        seal(folder)
        with pytest.raises(UserError, match=said):
            verify.verify(folder)


@pytest.mark.parametrize(
    ("mechanism", "other"), [("moments", "noisy_grid"), ("laplace", "randomized_response")]
)
def test_a_mechanism_that_needs_coordinates_names_one_of_the_same_trust_that_does_not(
    survey, mechanism, other
):
    with pytest.raises(SystemExit) as end:
        release(survey, mechanism)
    assert f"needs coordinates, but survey has attributes only; use `{other}` instead" in str(end.value)
    assert not (survey / "out").exists()


@pytest.mark.parametrize("method", ["noisy_grid", "non_private"])
def test_a_model_is_scored_by_its_joint_likelihood(survey, method):
    release(survey)  # cleans the dataset
    clean = read_clean(survey / "data/clean/survey.parquet")
    assert clean.points.shape == (ROWS, 0)
    parts = list(iterate_train_records(survey / "data/clean/survey.parquet", 1000))
    assert sum(len(points) for points, _, _ in parts) == clean.train.sum()
    mechanism = registry.build(method, {})
    job = MechanismJob("it", method, {}, mechanism, Budget(1.0, 1e-6), (2,), 0.1, 1, 7)
    domain = clean.info.domain
    models, releases = job.fit_replicates(domain, [training_records(clean)], [job.randomness(domain)])
    header = job.header(domain, releases[0].claim, releases[0].events)
    model = ModelFile(**header, models=models)
    scores = {
        each.metric: each.value for each in score_model(model, clean, [0.01], np.random.default_rng(1)).values
    }
    alone = sum(
        np.log(np.bincount(clean.codes[name][clean.train], minlength=3) / clean.train.sum())[
            clean.codes[name][~clean.train]
        ].mean()
        for name in clean.codes
    )
    assert alone + 0.2 < scores["holdout_loglik"] < 0
    assert any(each.startswith("category") for each in scores)
    assert not any(each.startswith("attribute") or "coordinates" in each for each in scores)
    tables = {each.metric: each.value for each in score_tables(model, job, clean, "smokes").values}
    assert "table_nicv" not in tables
    assert all(np.isfinite(value) for value in tables.values())
