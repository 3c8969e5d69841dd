"""Train and holdout: by person, the same on every clone, never empty."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from privmix.clean.persons import holdout_rows, holdout_share, person_draws
from privmix.errors import UserError

NO_PERSONS = np.empty(0, dtype=np.uint64)


def people(number: int, records: int = 1, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return pseudonyms and draws of persons with some records each."""
    ids = pa.array([f"p{index}" for index in range(number) for _ in range(records)])
    return np.repeat(np.arange(number, dtype=np.uint64), records), person_draws(ids, seed, "places")


@pytest.mark.parametrize(
    ("rows", "expected"), [(1, 0.5), (800, 0.5), (2000, 0.25), (10_000, 0.05), (10**6, 0.05)]
)
def test_five_percent_or_500_records_but_at_most_half_are_held_out(rows, expected):
    assert holdout_share(rows) == expected


def test_a_draw_is_the_hash_of_seed_dataset_and_person():
    expected = hashlib.blake2b(b"7\0places\0anna", digest_size=8).digest()
    assert int(person_draws(pa.array(["anna"]), 7, "places")[0]) == int.from_bytes(expected, "little")


def test_seed_and_dataset_change_the_split():
    ids = pa.array([f"p{index}" for index in range(200)])
    first = person_draws(ids, 1, "places") < np.uint64(2**63)
    for other in (person_draws(ids, 2, "places"), person_draws(ids, 1, "others")):
        assert 50 < np.count_nonzero(first != (other < np.uint64(2**63))) < 150


def test_the_held_out_share_of_persons_is_correct():
    person, draw = people(20_000)
    held = holdout_rows(person, draw, NO_PERSONS, len(person), "places").mean()
    assert held == pytest.approx(0.05, abs=4.9 * (0.05 * 0.95 / 20_000) ** 0.5)  # two-sided 1e-6


def test_no_person_is_on_both_sides():
    person, draw = people(300, records=3)
    holdout = holdout_rows(person, draw, NO_PERSONS, len(person), "places")
    assert not set(person[holdout]) & set(person[~holdout])
    assert 0 < holdout.sum() < len(person)


def test_isolated_persons_are_always_in_train():
    person, draw = people(400)
    isolated = person[holdout_rows(person, draw, NO_PERSONS, len(person), "places")][:20]
    holdout = holdout_rows(person, draw, isolated, len(person), "places")
    assert not np.isin(person[holdout], isolated).any()
    assert holdout.any()


@pytest.mark.parametrize("seed", range(20))
def test_two_persons_are_enough_for_any_draw(seed):
    person, draw = people(2, records=3, seed=seed)
    holdout = holdout_rows(person, draw, NO_PERSONS, len(person), "places")
    assert holdout.sum() == 3
    assert not set(person[holdout]) & set(person[~holdout])


@pytest.mark.parametrize("seed", range(6))
def test_one_person_is_an_error(seed):
    person, draw = people(1, records=4, seed=seed)
    with pytest.raises(UserError, match=r"places: 4 usable row\(s\) of 1 person; .* at least two persons"):
        holdout_rows(person, draw, NO_PERSONS, len(person), "places")


def test_only_isolated_persons_are_an_error():
    person, draw = people(2)
    with pytest.raises(UserError, match="one is not isolated"):
        holdout_rows(person, draw, person, len(person), "places")


def test_an_added_record_moves_no_other_person_if_the_number_of_rows_is_public():
    """Under add_remove the two training sets differ only in this record, for every number of rows."""
    ids = [f"p{number}" for number in range(3000)]
    for rows in (1_200, 2_000, 2_999):
        draw = person_draws(pa.array(ids[: rows + 1]), 1, "places")
        person = np.arange(rows + 1, dtype=np.uint64)
        before = holdout_rows(person[:-1], draw[:-1], NO_PERSONS, 2_000, "places")
        after = holdout_rows(person, draw, NO_PERSONS, 2_000, "places")
        assert np.array_equal(before, after[:-1])
