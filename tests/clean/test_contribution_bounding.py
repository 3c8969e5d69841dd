"""Repeated rows and the limit of records per person."""

import numpy as np
import pyarrow as pa

from privmix.catalog.readers.base import Batch
from privmix.clean.contribution_bounding import rows_over_limit
from privmix.clean.duplicates import duplicate_rows, row_fingerprints


def batch(number: list[float], code: list[int], text: list[str]) -> Batch:
    return Batch(
        numbers={"n": np.array(number)},
        codes={"c": np.array(code, dtype=np.int16)},
        identifiers={"i": pa.array(text, pa.string())},
        lines=np.arange(len(number)),
        bad=[],
    )


def test_rows_are_equal_if_all_columns_are():
    same = row_fingerprints(batch([1.5, 1.5, 0.0, -0.0], [1, 1, 0, 0], ["a", "a", "b", "b"]))
    assert same[0] == same[1]
    assert same[2] == same[3]
    other = row_fingerprints(batch([1.5, 2.5, 1.5, 1.5], [1, 1, 0, 1], ["a", "a", "a", "b"]))
    assert len(set(other.tolist())) == 4
    assert other[0] == same[0]


def test_only_the_first_of_equal_rows_is_kept():
    seen = np.array([5, 7, 5, 5, 2, 7], dtype=np.uint64)
    assert duplicate_rows(seen).tolist() == [False, False, True, True, False, True]
    assert duplicate_rows(seen[:0]).tolist() == []
    many = np.random.default_rng(0).integers(0, 100, 5000).astype(np.uint64)
    assert np.array_equal(
        np.flatnonzero(~duplicate_rows(many)), np.sort(np.unique(many, return_index=True)[1])
    )


def records(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    person = rng.integers(0, 50, 600).astype(np.uint64)
    return person, rng.integers(0, 2**64, 50, dtype=np.uint64)[person]


def test_each_person_keeps_as_many_records_as_the_limit_allows():
    person, draw = records(0)
    over = rows_over_limit(person, draw, 4)
    for one in np.unique(person):
        assert np.count_nonzero(~over[person == one]) == min(4, np.count_nonzero(person == one))


def test_the_kept_records_of_a_person_do_not_depend_on_other_persons_or_pseudonyms():
    person, draw = records(1)
    over = rows_over_limit(person, draw, 3)
    others = person != 7
    assert np.array_equal(rows_over_limit(person[~others], draw[~others], 3), over[~others])
    renamed = (np.uint64(10**6) - person) * np.uint64(977)
    assert np.array_equal(rows_over_limit(renamed, draw, 3), over)


def test_every_record_of_a_person_has_the_same_chance_to_be_kept():
    people, records_each, limit = 4000, 5, 2
    person = np.repeat(np.arange(people, dtype=np.uint64), records_each)
    draw = np.random.default_rng(5).integers(0, 2**64, people, dtype=np.uint64)[person]
    kept = (~rows_over_limit(person, draw, limit)).reshape(people, records_each).mean(axis=0)
    # Binomial with p = 0.4; two-sided 1e-6 over five positions.
    assert np.all(np.abs(kept - 0.4) < 5.2 * (0.4 * 0.6 / people) ** 0.5)
