"""Releases without a guarantee: each publishes what its description says, and nothing of them is random by accident."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic_records import ENTRY, make_records

import privmix.naive
from privmix.catalog.entry import Entry
from privmix.errors import UserError
from privmix.naive import registry
from privmix.naive.k_anonymity import measure
from privmix.naive.pseudonymised import Pseudonymised
from privmix.naive.records import bin_edges, read_records
from privmix.naive.statistics import ExactStatistics, NoisyAnswers, Rounded, Suppressed, count_table

RECORDS = make_records()


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_bins_are_public_and_hold_every_value():
    raw, binned = RECORDS.frame, RECORDS.binned
    assert binned["age"].cat.categories[:2].tolist() == ["0 to 9", "10 to 19"]
    assert (binned["age"].cat.codes == raw["age"] // 10).all()
    assert binned["income"].cat.categories.tolist() == [
        "0 to 2",
        "2 to 4",
        "4 to 6",
        "6 to 8",
        "8 to 10",
        "blank",
    ]
    expected = np.clip(raw["income"] // 2, 0, 4).fillna(5)
    assert (binned["income"].cat.codes == expected).all()
    assert binned["town"].equals(raw["town"])
    assert not binned["town"].cat.ordered
    few = RECORDS.bin(raw.head(3))
    assert few.equals(binned.head(3)), "bins do not depend on the records"


def test_as_many_bins_as_whole_numbers_keep_them_apart():
    column = Entry.model_validate(ENTRY).column("age")
    assert np.diff(bin_edges(column, 100)) == pytest.approx(1)
    assert RECORDS.persons.max() + 1 == RECORDS.frame["who"].nunique()


def test_an_entry_without_roles_is_one_sentence():
    bare = copy.deepcopy(ENTRY)
    del bare["roles"]
    with pytest.raises(UserError, match=r"catalog entry visits: .* need roles; add `roles:"):
        read_records([], Entry.model_validate(bare))


def test_pseudonyms_hide_names_and_keep_the_rows_of_a_person_together():
    table = Pseudonymised().make_table(RECORDS, rng())
    assert not set(table["who"]) & set(RECORDS.frame["who"])
    keys = ["age", "income", "town", "sick"]
    joined = table.merge(RECORDS.frame, on=keys)
    assert (joined.groupby("who_x")["who_y"].nunique() == 1).mean() > 0.95  # a few rows are equal by chance
    assert table["who"].nunique() == RECORDS.frame["who"].nunique()
    assert not table["age"].equals(RECORDS.frame["age"]), "the order is random"


def test_a_k_anonymous_table_is_k_anonymous():
    table = registry.build("k_anonymous", {"k": 7}, "here").make_table(RECORDS, rng())
    ranges = [name for name in table if name.endswith(("_from", "_to"))]
    assert measure(table, ranges, ["sick"]).k >= 7
    assert "who" not in table
    with pytest.raises(UserError, match="k = 301 is more than the 300 rows"):
        registry.build("k_anonymous", {"k": 301}, "here").make_table(RECORDS, rng())


def test_exact_counts_are_those_of_the_records():
    table = ExactStatistics().make_table(RECORDS, rng())
    for row in table.sample(200, random_state=0).itertuples():
        mask = np.ones(len(RECORDS), dtype=bool)
        for name in RECORDS.roles.quasi_identifiers:
            value = getattr(row, name)
            mask &= (value == "all") | (RECORDS.binned[name].astype(str) == value).to_numpy()
        if row.column != "people":
            mask &= (RECORDS.binned[row.column].astype(str) == row.value).to_numpy()
        assert mask.sum() == row.count
    assert table.loc[0].tolist() == ["all", "all", "all", "people", "people", 300]


def test_every_pair_is_counted_and_no_triple():
    known = count_table(RECORDS)[["age", "income", "town"]].ne("all").sum(axis=1)
    assert set(known) == {0, 1, 2}
    alone = count_table(RECORDS, together=0)
    assert alone["column"].tolist() == ["people", "sick", "sick"]


def test_a_value_named_all_is_one_sentence():
    binned = RECORDS.binned.assign(town=RECORDS.binned["town"].cat.rename_categories({"a": "all"}))
    with pytest.raises(
        UserError, match="column 'town' has the value 'all', which means any value here; rename it"
    ):
        count_table(replace(RECORDS, binned=binned))


def test_rounded_and_suppressed_counts():
    exact = count_table(RECORDS)["count"]
    rounded = Rounded(to=5).make_table(RECORDS, rng())["count"]
    assert (rounded % 5 == 0).all()
    assert (np.abs(rounded - exact) <= 2.5).all()
    assert Rounded(to=4).round(np.array([1, 2, 3, 6])).tolist() == [0, 4, 4, 8]
    kept = Suppressed(below=4).make_table(RECORDS, rng())["count"]
    assert (kept.isna() == (exact < 4)).all()
    assert (kept.dropna() == exact[exact >= 4]).all()


def test_noise_has_its_scale_and_a_cache_knows_the_wording_only():
    release = NoisyAnswers(scale=3)
    noise = release.add_noise(np.zeros(40_000), rng())
    assert np.abs(noise).mean() == pytest.approx(3, rel=0.03)  # sd 3/√40,000 = 0.015: six of them
    assert np.abs(noise).mean() != pytest.approx(2, rel=0.03)
    rows = np.ones(50, dtype=bool)
    cached, fresh = release.open_server(rng(), cached=True), release.open_server(rng(), cached=False)
    assert cached.ask("all", rows) == cached.ask("all", rows) != cached.ask("everyone", rows)
    assert fresh.ask("all", rows) != fresh.ask("all", rows)


@pytest.mark.parametrize("name", registry.RELEASES)
def test_a_release_has_a_name_a_description_and_a_repeatable_table(name: str):
    release = registry.build(name, {}, "here")
    assert release.name == name
    assert release.description.endswith(".")
    pd.testing.assert_frame_equal(release.make_table(RECORDS, rng()), release.make_table(RECORDS, rng()))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rouned", {}, "config: 'rouned' is not a release; did you mean 'rounded'"),
        ("rounded", {"too": 5}, "rounded has no parameter 'too'; did you mean 'to'"),
        ("pseudonymised", {"k": 5}, "pseudonymised has no parameter 'k'; remove it"),
        ("rounded", {"to": 2.5}, "rounded.to = 2.5 must be a whole number"),
        ("rounded", {"to": "5"}, "rounded.to = '5' must be a number"),
        ("rounded", {"to": 1}, "config: rounded: to = 1 must be at least 2"),
        ("suppressed", {"below": 0}, "below = 0 must be at least 2"),
        ("noisy_answers", {"scale": -1}, "scale = -1 must be a positive number"),
    ],
)
def test_bad_parameters_are_one_sentence(name: str, parameters: dict, message: str):
    with pytest.raises(UserError) as caught:
        registry.build(name, parameters, "config")
    assert message in str(caught.value)


def test_selected_records_keep_their_bins():
    some = RECORDS.select(np.array([5, 2]))
    assert some.frame["who"].tolist() == RECORDS.frame["who"].iloc[[5, 2]].tolist()
    assert some.bin(some.frame).equals(some.binned)
    assert len(some) == 2


def test_no_release_without_a_guarantee_uses_the_privacy_package():
    """Its noise is no measurement: a ledger with it would claim a guarantee that nobody has."""
    for path in Path(privmix.naive.__file__).parent.glob("*.py"):
        assert "privmix.privacy" not in path.read_text("utf-8"), path.name
