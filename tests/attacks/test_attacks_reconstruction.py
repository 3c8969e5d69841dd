"""Reconstruction from subset counts, from published tables, and of the block of seven people."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import lsq_linear

from privmix.attacks import reconstruction, seven_person_block
from privmix.attacks.finding import NotMeasured
from privmix.attacks.reconstruction import (
    attack_by_subsets,
    attack_by_table,
    count_secrets,
    fill_by_subtraction,
    random_subsets,
    solve,
)
from privmix.attacks.seven_person_block import Person, agrees, solve_block
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger


def world(people: int = 100, number: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    secrets = (rng.random(people) < 0.29).astype(int)
    queries = random_subsets(people, number, rng)
    return secrets, queries, count_secrets(secrets, queries), rng


def test_exact_counts_disclose_every_secret():
    secrets, queries, counts, _ = world()
    found = attack_by_subsets(secrets, queries, counts)
    assert found.rate == 1
    assert found.baseline == max(secrets.mean(), 1 - secrets.mean())
    assert found.beats_population


def test_a_little_noise_does_not_help():
    secrets, queries, counts, rng = world()
    found = attack_by_subsets(secrets, queries, counts + rng.laplace(0, 2, len(counts)))
    assert found.rate > 0.95
    assert found.beats_population


@pytest.mark.parametrize("seed", range(3))
def test_private_counts_at_a_total_epsilon_of_1_disclose_nothing(seed: int):
    secrets, queries, counts, rng = world(seed=seed)
    noisy = noise.laplace(
        counts,
        sensitivity=len(counts),
        epsilon=1,
        source=noise.SeededNoise(rng),
        ledger=Ledger(),
        label="counts",
    )
    found = attack_by_subsets(secrets, queries, noisy)
    assert found.rate < found.baseline
    assert not found.beats_population


def test_least_squares_takes_over_and_is_as_good_on_exact_counts(monkeypatch: pytest.MonkeyPatch):
    secrets, queries, counts, rng = world()
    monkeypatch.setattr(reconstruction, "MOST_UNKNOWNS", 50)
    monkeypatch.setattr(reconstruction, "_linear_program", None)
    assert attack_by_subsets(secrets, queries, counts).rate == 1
    noisy = counts + rng.laplace(0, 5, len(counts))
    expected = lsq_linear(queries, noisy, (0, 1)).x
    assert solve(queries, noisy) == pytest.approx(expected, abs=0.01)


def test_the_linear_program_is_the_least_absolute_deviation():
    rng = np.random.default_rng(0)
    queries = rng.integers(0, 2, (12, 3))
    answers = queries @ [1, 0, 1] + rng.laplace(0, 1, 12)
    found = solve(queries, answers)
    steps = np.linspace(0, 1, 41)
    best = min(np.abs(queries @ point - answers).sum() for point in itertools.product(steps, repeat=3))
    assert np.abs(queries @ found - answers).sum() <= best + 1e-9
    assert ((found >= 0) & (found <= 1)).all()


def test_one_secret_or_few_people_are_a_sentence():
    assert "same secret" in attack_by_subsets(np.ones(30), np.ones((2, 30)), np.ones(2)).reason
    assert "at least 20 people" in attack_by_subsets(np.arange(5) % 2, np.ones((2, 5)), np.ones(2)).reason


def table_of(known: pd.DataFrame, secrets: np.ndarray) -> pd.DataFrame:
    """Count the secret by one and by two columns, with a plain loop."""
    rows = []
    for number in range(3):
        for names in itertools.combinations(known.columns, number):
            for values in set(known[list(names)].itertuples(index=False, name=None)):
                inside = (known[list(names)] == list(values)).all(axis=1).to_numpy()
                labels = dict.fromkeys(known.columns, "all") | dict(zip(names, values, strict=True))
                rows.append(
                    {**labels, "column": "sick", "value": "yes", "count": float(secrets[inside].sum())}
                )
    return pd.DataFrame(rows)


def clinic(people: int = 300, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    known = pd.DataFrame({name: [f"{name}{i}" for i in rng.integers(0, 12, people)] for name in "abc"})
    return known, (rng.random(people) < 0.3).astype(int)


def test_a_published_table_discloses_secrets_of_the_people_in_it():
    known, secrets = clinic()
    table = table_of(known, secrets)
    other_known, other_secrets = clinic(seed=9)
    found = attack_by_table(
        known, table, "sick", "yes", secrets, (other_known, table_of(other_known, other_secrets))
    )
    assert found.rate > 0.9
    assert found.baseline < 0.75
    assert found.beats_population
    assert attack_by_table(known, table, "sick", "yes", secrets).baseline == pytest.approx(1 - secrets.mean())


def test_a_private_table_discloses_nothing_beyond_the_population():
    """The table counts each person in 7 rows, so Laplace noise of scale 7/ε makes it ε-DP (add or remove)."""
    known, secrets = clinic()
    table, rng = table_of(known, secrets), np.random.default_rng(1)
    counts = noise.laplace(
        table["count"].to_numpy(),
        sensitivity=7,
        epsilon=0.1,
        source=noise.SeededNoise(rng),
        ledger=Ledger(),
        label="t",
    )
    found = attack_by_table(known, table.assign(count=counts), "sick", "yes", secrets)
    assert not found.beats_population


def test_a_secret_that_depends_on_the_place_is_no_disclosure_if_other_people_show_it_too():
    """Noise of scale 5 hides people, but not that the secret is common in some places: only the others tell."""
    rng = np.random.default_rng(2)

    def sample() -> tuple[pd.DataFrame, np.ndarray]:
        place = rng.integers(0, 4, 2000)
        known = pd.DataFrame(
            {"place": [f"p{i}" for i in place], "day": [f"d{i}" for i in rng.integers(0, 5, 2000)]}
        )
        return known, (rng.random(2000) < np.array([0.1, 0.9, 0.2, 0.8])[place]).astype(int)

    known, secrets = sample()
    other_known, other_secrets = sample()
    table = table_of(known, secrets)
    noisy = table.assign(count=table["count"] + rng.laplace(0, 5, len(table)))
    alone = attack_by_table(known, noisy, "sick", "yes", secrets)
    beside = attack_by_table(
        known, noisy, "sick", "yes", secrets, (other_known, table_of(other_known, other_secrets))
    )
    assert alone.beats_population, "the most common secret of all is a weak baseline"
    assert not beside.beats_population


def test_counts_that_were_left_out_are_no_constraint():
    known, secrets = clinic()
    table = table_of(known, secrets)
    system = reconstruction.table_system(known, table)
    in_groups = np.bincount(system.of_person, secrets)
    assert system.queries @ in_groups == pytest.approx(table["count"].to_numpy())
    gaps = table.assign(count=table["count"].where(table["count"] >= 3))
    assert attack_by_table(known, gaps, "sick", "yes", secrets).rate < 0.9
    empty = table.assign(count=np.nan)
    assert isinstance(attack_by_table(known, empty, "sick", "yes", secrets), NotMeasured)


ANSWER = ((8, "F", "B", False), (18, "M", "W", False), (24, "F", "W", False), (30, "M", "W", True),
          (36, "F", "B", True), (66, "F", "B", True), (84, "M", "B", True))  # fmt: skip


def test_the_block_of_seven_people_has_exactly_one_solution():
    assert solve_block() == [tuple(Person(*each) for each in ANSWER)]


def test_the_solution_agrees_and_every_small_change_does_not():
    block = tuple(Person(*each) for each in ANSWER)
    assert agrees(block)
    for place, person in enumerate(block):
        changes = [
            replace(person, age=person.age + 1),
            replace(person, sex="M" if person.sex == "F" else "F"),
            replace(person, race="B" if person.race == "W" else "W"),
            replace(person, married=not person.married),
        ]
        for changed in changes:
            assert not agrees((*block[:place], changed, *block[place + 1 :]))


def test_a_table_that_contradicts_itself_has_no_solution(monkeypatch: pytest.MonkeyPatch):
    wrong = replace(seven_person_block.TABLE["white"], mean=25.0)
    monkeypatch.setattr(seven_person_block, "TABLE", seven_person_block.TABLE | {"white": wrong})
    assert solve_block() == []


def test_without_the_rows_of_black_and_white_people_there_are_more_solutions(monkeypatch: pytest.MonkeyPatch):
    fewer = seven_person_block.TABLE | {"black": AnyAges(), "white": AnyAges()}
    monkeypatch.setattr(seven_person_block, "TABLE", fewer)
    assert len(solve_block()) > 1


class AnyAges:
    """A row that was not published."""

    def fits(self, ages: list[int]) -> bool:
        return True


def test_a_single_missing_count_follows_by_subtraction():
    table = pd.DataFrame(
        [
            ("a", "people", "people", 50), ("a", "sick", "no", 48), ("a", "sick", "yes", None),
            ("b", "people", "people", 9), ("b", "sick", "no", None), ("b", "sick", "yes", None),
            ("c", "people", "people", None), ("c", "sick", "no", 7), ("c", "sick", "yes", None),
        ],
        columns=["ward", "column", "value", "count"],
    )  # fmt: skip
    found = fill_by_subtraction(table)["count"]
    assert found[2] == 2
    assert found.drop(2).equals(table["count"].drop(2)), "two missing counts, or no total, say nothing"
