"""Synthetic rows against held-out records: only the columns of the model, and each person once."""

from dataclasses import replace

import numpy as np
import pytest
from making import clean_data, clusters

from privmix.artefacts.domain import Attribute
from privmix.pipeline.usefulness import (
    FEWEST_ROWS,
    Panel,
    draw_rows,
    score_usefulness,
    synthetic_table,
    table_columns,
)

NIGHT = Attribute(name="at_night", description="", values=("no", "yes"))


def streams(number):
    return np.random.default_rng([7, number])


@pytest.fixture
def clean():
    """Records with an attribute that depends on the place."""
    made = clean_data(clusters(2000))
    domain = made.info.domain.model_copy(update={"attributes": (NIGHT,)})
    codes = {"at_night": (made.points[:, 0] > 0).astype(np.int16)}
    return replace(made, info=made.info.model_copy(update={"domain": domain}), codes=codes)


def score(model, clean, outcome=None):
    return score_usefulness(model, clean, Panel(3, outcome), np.random.default_rng(1), streams)


def two_sided(model, clean, shares):
    """The model of the records left and right of 0, with these shares of `at_night` on each side."""
    sides = [clean.points[clean.points[:, 0] <= 0], clean.points[clean.points[:, 0] > 0]]
    changes = {
        "weights": [len(side) / len(clean.points) for side in sides],
        "means": [side.mean(axis=0).tolist() for side in sides],
        "covariances": [np.cov(side.T).tolist() for side in sides],
        "shares": {"at_night": shares},
    }
    return model.model_copy(update={"models": (model.models[0].model_copy(update=changes),)})


def test_an_attribute_that_the_model_does_not_describe_is_left_out_and_named(clean, made_model):
    found = score(made_model(clean), clean, "at_night")
    assert [column.name for column in found.info.synthetic.columns] == ["v0", "v1"]
    assert found.info.left_out == ("at_night",)
    assert "table_outcome_auc" not in found.metrics[0]


def test_shares_of_components_are_compared_and_predict_the_outcome(clean, made_model):
    model = made_model(clean)
    by_place = score(two_sided(model, clean, [[1.0, 0.0], [0.0, 1.0]]), clean, "at_night")
    independent = score(two_sided(model, clean, [[0.5, 0.5], [0.5, 0.5]]), clean, "at_night")
    assert by_place.info.left_out == ()
    assert [pair.columns for pair in by_place.info.synthetic.pairs][1:] == [
        ("v0", "at_night"),
        ("v1", "at_night"),
    ]
    assert by_place.metrics[0]["table_outcome_auc"] > 0.9
    assert by_place.metrics[0]["table_worst_association_error"] < 0.2
    assert independent.metrics[0]["table_worst_association_error"] > 0.5


def test_synthetic_rows_stay_inside_the_public_bounds(clean, made_model):
    [fitted, *_] = made_model(clean).models
    wide = fitted.model_copy(update={"covariances": [(9 * np.eye(2)).tolist() for _ in fitted.weights]})
    domain = clean.info.domain
    rows = synthetic_table(domain, wide, 500, table_columns(domain, set()), np.random.default_rng(1))
    assert rows.values["v0"].min() == pytest.approx(domain.axes[0].lower)
    assert rows.values["v0"].max() == pytest.approx(domain.axes[0].upper)


def test_each_person_counts_once_if_the_unit_is_a_person():
    owners = np.repeat(np.arange(40), np.arange(1, 41))
    clean = clean_data(clusters(len(owners)), persons=owners, train=owners % 2 == 0, unit="person")
    drawn = draw_rows(clean, ~clean.train, np.random.default_rng(1))
    assert sorted(clean.person[drawn].tolist()) == list(range(1, 40, 2))


def test_the_drawn_records_do_not_depend_on_pseudonyms():
    owners = np.repeat(np.arange(40), 5)
    clean = clean_data(clusters(200), persons=owners, train=owners % 2 == 0, unit="person")
    keyed = replace(
        clean, person=np.random.default_rng(2).permutation(2**40 + np.arange(40)).astype(np.uint64)[owners]
    )
    drawn = [draw_rows(each, each.train, np.random.default_rng(1)).tolist() for each in (clean, keyed)]
    assert drawn[0] == drawn[1]


def test_few_held_out_records_are_not_compared(made_model):
    clean = clean_data(clusters(200), train=np.arange(200) >= FEWEST_ROWS - 1)
    assert score(made_model(clean), clean) is None
