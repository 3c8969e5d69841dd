import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privmix.artefacts.domain import Axis, Domain
from privmix.artefacts.scores import RESULT_COLUMNS, RESULT_SCHEMA
from privmix.report.results import Results, best_non_private, collect, estimate, to_table, uniform_loglik


def scored(mechanism: str, epsilon: float, values: dict[str, list[float]], dataset: str = "d") -> pa.Table:
    """Return a scores table; `values` maps a metric to one value per replicate."""
    common = {
        "dataset": dataset, "mechanism": mechanism, "method": "m", "trust": "central", "epsilon": epsilon,
        "delta": 0.0, "unit": "record", "relation": "replace_one",
    }  # fmt: skip
    rows = [
        {**common, "replicate": number, "metric": metric, "value": value}
        for metric, series in values.items()
        for number, value in enumerate(series)
    ]
    return pa.Table.from_pylist(rows, RESULT_SCHEMA)


def gap(results: pd.DataFrame, mechanism: str) -> list[float]:
    chosen = (results["mechanism"] == mechanism) & (results["metric"] == "holdout_gap")
    return results.loc[chosen, "value"].tolist()


def test_the_best_non_private_model_is_chosen_by_training_likelihood_not_by_held_out_records():
    results = collect(
        [
            scored("a", math.inf, {"train_loglik": [1.0, 3.0], "holdout_loglik": [9.0, 2.0]}),
            scored("b", math.inf, {"train_loglik": [2.0], "holdout_loglik": [8.0]}),
            scored("p", 1.0, {"train_loglik": [7.0], "holdout_loglik": [1.5]}),
        ]
    )
    baseline = best_non_private(results, "d")
    assert (baseline.mechanism, baseline.replicate, baseline.holdout_loglik) == ("a", 1, 2.0)
    assert gap(results, "p") == [-0.5]
    assert gap(results, "a") == [7.0, 0.0]


def test_gaps_are_measured_within_a_dataset():
    results = collect(
        [
            scored("n", math.inf, {"train_loglik": [1.0], "holdout_loglik": [1.0]}, dataset="x"),
            scored("n", math.inf, {"train_loglik": [5.0], "holdout_loglik": [5.0]}, dataset="y"),
            scored("p", 1.0, {"holdout_loglik": [0.0]}, dataset="x"),
            scored("p", 1.0, {"holdout_loglik": [0.0]}, dataset="y"),
        ]
    )
    assert gap(results, "p") == [-1.0, -5.0]


def test_without_a_non_private_model_there_is_no_gap():
    results = collect([scored("p", 1.0, {"train_loglik": [1.0], "holdout_loglik": [1.0]})])
    assert "holdout_gap" not in set(results["metric"])
    assert Results(results).baseline("d") is None


def test_results_have_the_promised_columns_in_an_order_that_does_not_depend_on_the_input():
    tables = [
        scored("p", 10.0, {"train_loglik": [0.1, 0.2], "holdout_loglik": [0.3, 0.4]}),
        scored("p", 0.1, {"train_loglik": [0.1, 0.2], "holdout_loglik": [0.3, 0.4]}),
        scored("n", math.inf, {"train_loglik": [1.0], "holdout_loglik": [1.0]}),
    ]
    one, two = collect(tables), collect(reversed(tables))
    assert tuple(one.columns) == RESULT_COLUMNS
    pd.testing.assert_frame_equal(one, two)
    assert one["epsilon"].tolist()[0] == math.inf
    assert one.loc[one["mechanism"] == "p", "epsilon"].is_monotonic_increasing


def test_csv_and_parquet_round_trip_every_number(tmp_path):
    values = [math.pi * 1e-7, -1 / 3, 5e-324, 1e300]
    results = collect([scored("n", math.inf, {"train_loglik": values, "holdout_loglik": values})])
    results.to_csv(tmp_path / "r.csv", index=False)
    pq.write_table(to_table(results), tmp_path / "r.parquet")
    again = pd.read_csv(tmp_path / "r.csv")
    assert again["value"].tolist() == results["value"].tolist()
    assert again["epsilon"].tolist() == [math.inf] * len(results)
    stored = pq.read_table(tmp_path / "r.parquet")
    assert stored.schema.equals(RESULT_SCHEMA, check_metadata=True)
    assert stored["value"].to_pylist() == results["value"].tolist()


def test_no_scores_give_an_empty_table_with_all_columns():
    results = collect([])
    assert results.empty
    assert tuple(results.columns) == RESULT_COLUMNS
    assert to_table(results).num_rows == 0


def test_interval_is_students_over_replicates():
    three = estimate([1.0, 2.0, 3.0])
    assert three.mean == 2.0
    assert three.half_width == pytest.approx(4.302652729911275 / math.sqrt(3), rel=1e-9)  # t table, 2 d.o.f.
    one = estimate([4.0])
    assert (one.mean, one.low, one.high, one.count) == (4.0, None, None, 1)


def test_an_infinite_loss_has_no_interval():
    lost = estimate([-math.inf, -1.0])
    assert lost.mean == -math.inf
    assert lost.low is None


def test_uniform_box_has_minus_log_volume():
    axes = tuple(
        Axis(
            name=name, description="", unit="", geographic=None, lower=low, upper=high, resolution=0.1,
            centre=0.0, scale=0.5,
        )
        for name, low, high in (("a", -1.0, 1.0), ("b", -3.0, 1.0))
    )  # fmt: skip
    domain = Domain(
        dataset="d", title="", axes=axes, attributes=(), unit="record", relation="replace_one",
        max_records_per_person=1, visibility="public", rows=1,
    )  # fmt: skip
    assert uniform_loglik(domain) == pytest.approx(-np.log(1.0 * 2.0))
