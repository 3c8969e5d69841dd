"""k, l and t of a table against pycanon and by hand, and Mondrian's tables against their requirements."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privmix.errors import UserError
from privmix.naive import k_anonymity
from privmix.naive.k_anonymity import KAnonymous, anonymise, measure, uniqueness

TABLES = json.loads(Path(__file__).with_name("pycanon_tables.json").read_text())


@pytest.mark.parametrize("golden", TABLES, ids=range(len(TABLES)))
def test_measures_equal_those_of_pycanon(golden: dict):
    frame = pd.DataFrame(golden["table"])
    found = measure(frame, [name for name in frame if name != "s"], ["s"])
    assert found.k == golden["k"]
    assert found.distinct_l == golden["distinct_l"]
    assert math.floor(found.entropy_l + 1e-9) == golden["entropy_l"]
    assert found.t == pytest.approx(golden["t"], abs=1e-12)


def test_there_are_twenty_tables_of_both_kinds():
    assert len(TABLES) == 20
    assert {type(each["table"]["s"][0]) for each in TABLES} == {int, str}
    assert len({each["k"] for each in TABLES}) > 5


def test_the_order_of_a_category_includes_values_that_do_not_occur():
    values = pd.Categorical(["a", "b"], ["a", "b", "c"], ordered=True)
    found = measure(pd.DataFrame({"q": [1, 2], "s": values}), ["q"], ["s"]).sensitive["s"]
    assert (found.t_equal, found.t_ordered) == (0.5, 0.25)  # |±1/2| moved by one of two steps


def test_the_worst_sensitive_column_counts():
    frame = pd.DataFrame({"q": [1, 1, 2, 2], "s": ["a", "b", "a", "b"], "u": ["a", "a", "b", "b"]})
    found = measure(frame, ["q"], ["s", "u"])
    assert (found.distinct_l, found.entropy_l, found.t) == (1, 1.0, 0.5)
    assert found.sensitive["s"].entropy_l == pytest.approx(2)


def test_more_known_columns_single_out_more_rows():
    frame = pd.DataFrame({"a": [1, 1, 2, 2], "b": [1, 2, 3, 3], "c": [1, 1, 1, 2]})
    found = uniqueness(frame, ["a", "b", "c"])
    assert found["unique_rows"].tolist() == [0, 2, 4]
    assert found["unique_share"].tolist() == [0, 0.5, 1]
    assert found["columns"].tolist() == ["a", "a, b", "a, b, c"]


def random_frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "town": pd.Categorical.from_codes(rng.integers(0, 5, rows), list("abcde")),
            "sick": np.where(rng.random(rows) < age / 100, "yes", "no"),
        }
    )


@pytest.mark.parametrize(
    ("k", "l", "t"), [(2, None, None), (5, None, None), (5, 2, None), (4, None, 0.2), (3, 2, 0.3)]
)
def test_mondrian_keeps_what_it_promises_and_every_value_inside_its_range(k, l, t):  # noqa: E741
    frame = random_frame()
    made = anonymise(frame, ["age", "town"], ["sick"], k, l, t)
    found = measure(made, ["age_from", "age_to", "town_from", "town_to"], ["sick"])
    assert found.k >= k
    assert l is None or found.distinct_l >= l
    assert t is None or found.t <= t + 1e-12
    assert found.classes > 2, "the table is cut at all"
    assert ((made["age_from"] <= frame["age"]) & (frame["age"] <= made["age_to"])).all()
    assert (
        (made["town_from"] <= frame["town"].astype(str)) & (frame["town"].astype(str) <= made["town_to"])
    ).all()
    assert (made["sick"] == frame["sick"]).all()


def test_mondrian_cuts_until_no_part_can_be_cut():
    frame = pd.DataFrame({"age": np.arange(16), "sick": ["no", "yes"] * 8})
    made = anonymise(frame, ["age"], ["sick"], 4)
    assert made["age_from"].tolist() == np.repeat([0, 4, 8, 12], 4).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: anonymise(f, ["age"], ["sick"], 401), "k = 401 must lie in 1 ... 400, the number of rows"),
        (lambda f: anonymise(f, ["age"], ["sick"], 2, l=3), "even all rows together fail"),
        (lambda f: measure(f, ["sick"], ["sick"]), "'sick' is a quasi-identifier and sensitive"),
        (lambda f: measure(f, ["height"], ["sick"]), "the table has no column 'height'"),
        (lambda f: measure(f, "age", ["sick"]), "give lists of column names"),
        (lambda f: measure(f, [], ["sick"]), "at least one quasi-identifier"),
        (lambda f: measure(f.head(0), ["age"], ["sick"]), "the table has no rows"),
        (lambda f: KAnonymous(k=1), "k = 1 must be at least 2"),
        (lambda f: KAnonymous(l=1), "l = 1 must be at least 2"),
        (lambda f: KAnonymous(t=0.0), "t = 0 must lie in"),
    ],
)
def test_bad_input_is_one_sentence(call, message: str):
    with pytest.raises(UserError, match=message.replace("(", r"\(")) as caught:
        call(random_frame())
    assert "\n" not in str(caught.value)


def test_a_single_sensitive_value_has_no_distance():
    found = measure(pd.DataFrame({"q": [1, 2], "s": [3, 3]}), ["q"], ["s"])
    assert (found.distinct_l, found.t) == (1, 0)


def test_a_missing_value_is_a_value_of_its_own():
    frame = pd.DataFrame({"q": [1.0, np.nan, np.nan], "s": ["a", "b", None]})
    assert k_anonymity.measure(frame, ["q"], ["s"]).classes == 2
