"""The configuration: accepted values, and the error message for all others."""

import pytest

from privmix.errors import UserError
from privmix.settings import load_settings

GOOD = {
    "datasets": ["a"],
    "mechanisms": {"m": {"method": "dp_em", "noise": "ggg"}},
    "epsilons": [0.1, 1],
}


def test_components_are_numbers_or_auto():
    by_dataset = load_settings(GOOD | {"datasets": ["a", "b"], "components": {"a": 4, "b": "auto"}})
    assert by_dataset.components_for("a") == (4,)
    assert by_dataset.components_for("b") == (1, 2, 4, 8, 16)
    chosen = load_settings(GOOD | {"components": "auto", "component_choice": {"candidates": [3, 5]}})
    assert chosen.components_for("a") == (3, 5)
    for wrong in ({"candidates": [3]}, {"candidates": [3, 3]}, {"candidates": [0, 3]}, {"budget_share": 0}):
        with pytest.raises(UserError, match="component_choice"):
            load_settings(GOOD | {"components": "auto", "component_choice": wrong})
    with pytest.raises(UserError, match=r"component_choice\.candidate.*candidates"):
        load_settings(GOOD | {"component_choice": {"candidate": [1, 2]}})


def test_defaults_are_filled_in():
    settings = load_settings(GOOD)
    assert settings.delta == 1e-6
    assert settings.catalog_dirs == ("data/catalog",)
    assert settings.mechanisms["m"].parameters == {"noise": "ggg"}
    assert settings.components_for("a") == (10,)


def test_a_mechanism_set_to_null_is_left_out():
    settings = load_settings({**GOOD, "mechanisms": {**GOOD["mechanisms"], "other": None}})
    assert list(settings.mechanisms) == ["m"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epsilons": [0]}, "epsilons.0 = 0: input should be greater than 0"),
        ({"epsilons": [float("inf")]}, "epsilons.0 = inf"),
        ({"epsilons": []}, "epsilons"),
        ({"epsilons": [0.9999996]}, "six digits"),
        ({"delta": -0.1}, "delta = -0.1"),
        ({"delta": 1.0}, "delta = 1.0: input should be less than 1"),
        ({"components": {"b": 3}}, "components has no number for dataset 'a'"),
        ({"components": 0}, "components"),
        ({"sources": {"b": "x"}}, "sources names 'b'"),
        ({"datasets": []}, "datasets"),
        ({"mechanisms": {"m": None}}, "mechanisms"),
        ({"mechanisms": {"Bad Name": {"method": "dp_em"}}}, "Bad Name"),
        ({"mechanisms": {"m": {}}}, "key 'mechanisms.m.method' is missing"),
        (
            {"evaluation": {"shadow_mechanisms": ["n"]}},
            "evaluation.shadow_mechanisms names 'n', which is not in mechanisms; known: m",
        ),
        (
            {"evaluation": {"shadow_epsilons": [3]}},
            "evaluation.shadow_epsilons names 3, which is not in epsilons (0.1, 1); add it there or remove it.",
        ),
        (
            {"evaluation": {"shadows": -2}},
            "evaluation.shadows = -2: input should be greater than or equal to 0",
        ),
        ({"evaluation": {"shadow_records": 3}}, "evaluation.shadow_records = 3"),
        ({"evaluation": {"shadow": 3}}, "unknown key 'evaluation.shadow'; did you mean 'shadows'"),
        ({"master_sed": 3}, "unknown key 'master_sed'; did you mean 'master_seed'"),
    ],
)
def test_an_error_is_one_sentence(change, sentence):
    with pytest.raises(UserError) as raised:
        load_settings({**GOOD, **change})
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_shadow_models_attack_the_configured_mechanisms():
    def number(mechanism, epsilon, **evaluation):
        return load_settings(GOOD | {"evaluation": evaluation}).shadows_for(mechanism, epsilon)

    assert number("m", 1.0) == 0
    assert number("m", 1.0, shadows=64) == 64
    assert number("m", 1.0, shadows=64, shadow_mechanisms=[]) == 0
    assert number("m", 0.1, shadows=64, shadow_mechanisms=["m"], shadow_epsilons=[1]) == 0
    assert number("m", 1.0, shadows=64, shadow_mechanisms=["m"], shadow_epsilons=[1]) == 64
    assert number("m", float("inf"), shadows=64, shadow_epsilons=[1]) == 64
    assert number("m", 1.0, shadows=64, shadow_epsilons="reference") == 64
    assert number("m", 0.1, shadows=64, shadow_epsilons="reference") == 0
    assert number("m", float("inf"), shadows=64, shadow_epsilons="reference") == 64


def test_a_mechanism_set_to_null_may_still_be_a_target_of_attacks():
    mechanisms = {"m": GOOD["mechanisms"]["m"], "other": None}
    attacked = {"shadows": 12, "shadow_mechanisms": ["m", "other"]}
    assert (
        load_settings(GOOD | {"mechanisms": mechanisms, "evaluation": attacked}).shadows_for("m", 1.0) == 12
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mean": "age"}, "give a list of statistics"),
        ([{"meen": "age"}], "unknown key 'meen'; did you mean 'mean'"),
        ([{"mean": "age", "count": "all"}], "this one has count and mean"),
        ([{"q": 0.5}], "this one has none"),
        ([{"quantile": "age"}], "write `q: 0.5` for the median"),
        ([{"quantile": "age", "q": 1.0}], "statistic 1: q = 1.0: input should be less than 1"),
        ([{"mean": "age"}, {"top": "town"}], "statistic 2: `by` is missing"),
        ([{"top": "town", "by": "laplace"}], "by = 'laplace'"),
        ([{"mean": "age", "bins": 3}], "bins is a setting of histogram, not of mean"),
        ([{"count": {"a": 1, "b": 2}}], "one column and one value"),
        ([{"histogram": "age", "bins": 0}], "bins = 0"),
        ({"elsewhere": [{"mean": "age"}]}, "statistics names 'elsewhere', which is not in datasets"),
    ],
    ids=str,
)
def test_a_wrong_statistic_is_named(asked, said):
    with pytest.raises(UserError) as error:
        load_settings({**GOOD, "statistics": asked})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_statistics_are_for_all_datasets_or_for_each():
    name = GOOD["datasets"][0]
    every = load_settings({**GOOD, "statistics": [{"mean": "age"}]})
    own = load_settings({**GOOD, "statistics": {name: [{"mean": "age"}]}})
    assert every.statistics_for(name) == own.statistics_for(name)
    assert every.statistics_for(name)[0].kind == "mean"
    assert own.statistics_for("another") == ()
    assert load_settings(GOOD).statistics_for(name) == ()


@pytest.mark.parametrize(
    "sources", [{"a": "http://me:s3cret@h/x"}, "http://me:s3cret@h/x", ["ftp://me:s3cret@h/x"]]
)
def test_a_url_instead_of_a_local_file_is_refused_and_not_shown(sources):
    with pytest.raises(UserError, match="only the path of a local file is allowed") as raised:
        load_settings({**GOOD, "sources": sources})
    assert "s3cret" not in str(raised.value)
    assert "me:" not in str(raised.value)
