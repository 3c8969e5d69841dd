"""A stage refuses a file of another dataset, mechanism, parameters or budget, and names both."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from making import clusters, make_domain, write_clean

from privmix.artefacts.io import parse_metadata, read_table
from privmix.artefacts.scores import ScoresInfo
from privmix.errors import UserError
from privmix.pipeline.stages import evaluate, fit, privatise


def _domain(dataset="made", rows=200):
    return make_domain(rows=rows).model_copy(update={"dataset": dataset})


class Folder:
    """A folder in which stages run. Each option of a job has a default."""

    def __init__(self, patch):
        self.patch = patch

    def run(
        self,
        stage,
        *files,
        mechanism="m",
        method="laplace_input",
        epsilon="1",
        delta="1e-6",
        dataset=None,
        **own,
    ):
        """Run a stage with these file arguments."""
        job = ["--mechanism", mechanism, "--parameters", json.dumps({"method": method, **own})]
        job += ["--epsilon", epsilon, "--delta", delta, "--components", "2", "--seed", "1"]
        job += ["--dataset", dataset] if dataset else []
        self.patch.setattr(sys, "argv", [stage.__name__, *job, *files])
        stage.main()

    def privatise(self, clean="made.parquet", **job):
        self.run(privatise, "--clean", clean, "--output", "private.parquet", **job)

    def fit(self, **job):
        self.run(fit, "--private", "private.parquet", "--output", "model.json", **job)

    def evaluate(self, clean="made.parquet", **job):
        more = ["--false-positive-rates", "0.1", "--worst-record-runs", "2", "--output", "scores.parquet"]
        self.run(evaluate, "--clean", clean, "--model", "model.json", *more, **job)

    def refusal(self, stage, **job):
        """Return the sentence with which the stage refuses its input. It must write nothing."""
        before = {path: path.read_bytes() for path in Path().iterdir()}
        with pytest.raises(UserError) as refused:
            stage(**job)
        assert {path: path.read_bytes() for path in Path().iterdir()} == before
        return str(refused.value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two datasets and another version of the first."""
    monkeypatch.chdir(tmp_path)
    for name, domain in (
        ("made", _domain()),
        ("other", _domain("other")),
        ("newer", _domain(rows=201)),
    ):
        write_clean(Path(f"{name}.parquet"), domain, clusters(300), train=np.arange(300) % 3 > 0)
    return Folder(monkeypatch)


def test_clean_records_of_another_dataset_are_refused(folder):
    said = "other.parquet holds the records of other, not those of made"
    assert said in folder.refusal(folder.privatise, clean="other.parquet", dataset="made")

    def fit_records(clean):
        folder.run(fit, "--clean", clean, "--output", "model.json", method="noisy_tree", dataset="made")

    assert said in folder.refusal(fit_records, clean="other.parquet")
    fit_records("made.parquet")
    assert said in folder.refusal(folder.evaluate, clean="other.parquet", method="noisy_tree", dataset="made")


DIFFERENT = {
    "mechanism": ({"mechanism": "n"}, "m on made (laplace_input {})", "n on made (laplace_input {})"),
    "method": ({"method": "gaussian_input"}, "(laplace_input {})", "(gaussian_input {})"),
    "parameters": ({"searches": 1}, "(laplace_input {})", '(laplace_input {"searches":1})'),
    "epsilon": ({"epsilon": "2"}, "at ε = 1, δ = 1e-06", "at ε = 2, δ = 1e-06"),
    "delta": ({"delta": "1e-5"}, "at ε = 1, δ = 1e-06", "at ε = 1, δ = 1e-05"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_reports_and_models_of_another_job_are_refused(folder, what):
    other, found, wanted = DIFFERENT[what]
    folder.privatise()
    folder.fit()
    for stage, path in ((folder.fit, "private.parquet"), (folder.evaluate, "model.json")):
        said = folder.refusal(stage, **other)
        assert said.startswith(f"{path} holds the results of m on made ")
        assert found in said.split(", not those of ")[0]
        assert wanted in said.split(", not those of ")[1]


def test_reports_and_models_of_another_dataset_are_refused(folder):
    folder.privatise(clean="other.parquet")
    assert "m on other" in folder.refusal(folder.fit, dataset="made")
    folder.fit()
    said = folder.refusal(folder.evaluate)  # the dataset of the clean file decides
    assert "model.json holds the results of m on other" in said
    assert "not those of m on made" in said


def test_a_model_of_another_version_of_the_dataset_is_refused(folder):
    folder.privatise()
    folder.fit()
    said = folder.refusal(folder.evaluate, clean="newer.parquet")
    assert "model.json was made from another version of newer.parquet" in said


def test_scores_state_the_job(folder):
    job = {"mechanism": "here", "epsilon": "0.5", "searches": 1}
    folder.privatise(**job)
    folder.fit(**job)
    folder.evaluate(**job)
    info = parse_metadata(read_table(Path("scores.parquet")), ScoresInfo)
    assert (info.dataset, info.mechanism, info.method) == ("made", "here", "laplace_input")
    assert (info.parameters, info.epsilon, info.delta) == ({"searches": 1}, 0.5, 1e-6)
