"""The rows of a scores file state the budget; the model file states the claim."""

import json
import sys

import numpy as np
import pytest
from making import clusters, make_domain, write_clean

from privmix.artefacts.io import parse_metadata, read_json, read_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.scores import ScoresInfo
from privmix.pipeline.stages import evaluate, fit

SHARED = ["--mechanism", "m", "--parameters", json.dumps({"method": "noisy_tree"}), "--components", "3",
          "--epsilon", "1", "--delta", "1e-6", "--seed", "1"]  # fmt: skip


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The model and the scores of a mechanism that spends no δ."""
    clean, model, scores = (tmp_path / name for name in ("clean.parquet", "model.json", "scores.parquet"))
    write_clean(clean, make_domain(rows=400), clusters(600), train=np.arange(600) % 3 > 0)
    for stage, *more in (
        (fit, "--output", str(model)),
        (evaluate, "--model", str(model), "--false-positive-rates", "0.1", "--worst-record-runs", "2",
         "--groups", "v0:2", "--output", str(scores)),
    ):  # fmt: skip
        monkeypatch.setattr(sys, "argv", [stage.__name__, *SHARED, "--clean", str(clean), *more])
        stage.main()
    return read_json(model, ModelFile), read_table(scores)


def test_epsilon_and_delta_of_a_row_are_those_of_the_budget(made):
    model, scores = made
    assert (model.privacy.budget_epsilon, model.privacy.budget_delta) == (1.0, 1e-6)
    assert model.privacy.delta == 0.0
    assert set(zip(scores["epsilon"].to_pylist(), scores["delta"].to_pylist(), strict=True)) == {(1.0, 1e-6)}


def test_likelihood_and_attacks_stand_in_one_file(made):
    metrics = set(made[1]["metric"].to_pylist())
    assert {"seconds_fit", "holdout_loglik", "train_loglik", "mia_loss_auc", "attribute_advantage"} <= metrics


def test_synthetic_rows_of_each_replicate_are_compared_with_held_out_records(made):
    model, scores = made
    info = parse_metadata(scores, ScoresInfo, "scores.parquet")
    rows = list(
        zip(
            scores["replicate"].to_pylist(),
            scores["metric"].to_pylist(),
            scores["value"].to_pylist(),
            strict=True,
        )
    )
    worst = {number: value for number, metric, value in rows if metric == "table_worst_pair_tv"}
    assert set(worst) == {fitted.replicate for fitted in model.models}
    assert worst[0] == info.usefulness.synthetic.worst_pair.distance
    assert (
        info.usefulness.real_sample.worst_pair.distance == info.usefulness.real_metrics["table_worst_pair_tv"]
    )
    assert {"table_worst_excess", "table_nicv", "table_sliced_wasserstein"} <= {
        metric for _, metric, _ in rows
    }


def test_declared_groups_are_scored(made):
    info = parse_metadata(made[1], ScoresInfo, "scores.parquet")
    [grouping] = info.groups.groupings
    assert grouping.name == "v0"
    names = {f"group_mia_loss_auc[v0={group}]" for group in grouping.groups}
    assert names <= set(made[1]["metric"].to_pylist())
    held_out = [
        value
        for metric, value in zip(made[1]["metric"].to_pylist(), made[1]["value"].to_pylist(), strict=True)
        if metric == "holdout_loglik"
    ]
    assert info.groups.log_densities().mean(axis=1) == pytest.approx(np.array(held_out), abs=1e-5)
