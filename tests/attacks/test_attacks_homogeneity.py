"""Homogeneity and intersection, with what the population says anyway."""

import numpy as np
import pandas as pd

from privmix.attacks.finding import NotMeasured
from privmix.attacks.homogeneity import attack_by_homogeneity, attack_by_intersection
from privmix.naive.k_anonymity import anonymise, measure

KNOWN = ["age", "day"]


def people(sick: str, number: int = 600) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age, day = draw.integers(0, 60, number), draw.integers(0, 60, number)
    secret = {
        "by age": age // 20 % 2,
        "at random": draw.integers(0, 2, number),
        "rarely": (draw.random(number) < 0.02).astype(int),
        "by both": (age < 30) & (day < 30),
    }[sick]
    return pd.DataFrame({"age": age, "day": day, "sick": np.where(secret, "yes", "no")})


def test_a_5_anonymous_table_discloses_a_secret_that_its_classes_share():
    table = anonymise(people("by age"), KNOWN, ["sick"], 5)
    assert measure(table, ["age_from", "age_to", "day_from", "day_to"], ["sick"]).k >= 5
    found = attack_by_homogeneity(table, KNOWN, "sick").certain
    assert found.rate > 0.7
    assert found.disclosed > 100
    assert found.beats_population


def test_a_secret_at_random_stays_hidden_in_a_diverse_table():
    table = anonymise(people("at random"), KNOWN, ["sick"], 5, l=2)
    found = attack_by_homogeneity(table, KNOWN, "sick")
    assert found.certain.rate == 0
    assert not found.certain.beats_population


def test_classes_of_the_common_value_disclose_nothing_new():
    """Nearly all classes are homogeneous, and all of them have the value that everyone would guess."""
    table = anonymise(people("rarely"), KNOWN, ["sick"], 5)
    found = attack_by_homogeneity(table, KNOWN, "sick").certain
    assert found.rate > 0.7
    assert found.gain == 0
    assert found.lift == 1
    assert not found.beats_population


def test_exact_rows_disclose_everything():
    frame = people("at random")
    frame["day"] = np.arange(len(frame))
    found = attack_by_homogeneity(frame, KNOWN, "sick").certain
    assert found.rate == 1
    assert abs(found.gain - (frame["sick"] != frame["sick"].mode()[0]).mean()) < 1e-12


def test_two_tables_disclose_what_neither_of_them_does():
    """Nobody of town 0 has the first disease, and nobody of job 0: who has town 0 and job 1 has the third."""
    draw = np.random.default_rng(0)
    town, job = draw.integers(0, 3, (2, 900))
    first, second = draw.permuted(np.tile(np.arange(3), (900, 1)), axis=1)[:, :2].T
    possible = np.where(town != job, 3 - town - job, np.where(first != town, first, second))
    frame = pd.DataFrame({"town": town, "job": job, "sick": np.array(["a", "b", "c"])[possible]})
    tables = [anonymise(frame, [name], ["sick"], 5, l=2) for name in ("town", "job")]
    alone = [attack_by_intersection([table], frame, "sick", draw).rate for table in tables]
    both = attack_by_intersection(tables, frame, "sick", draw)
    assert alone == [0, 0]
    assert both.rate == (town != job).mean()
    assert both.beats_population


def test_two_tables_disclose_nothing_if_every_class_has_all_values():
    frame = people("at random")
    tables = [anonymise(frame, [name], ["sick"], 30, l=2) for name in KNOWN]
    found = attack_by_intersection(tables, frame, "sick", np.random.default_rng(0))
    assert found.rate == 0
    assert not found.beats_population


def test_an_intersection_of_one_table_is_homogeneity():
    frame = people("by both")
    table = anonymise(frame, KNOWN, ["sick"], 5)
    one = attack_by_intersection([table], frame, "sick", np.random.default_rng(0))
    other = attack_by_homogeneity(table, KNOWN, "sick").certain
    assert (one.rate, one.baseline) == (other.rate, other.baseline)


def test_too_few_people_are_a_sentence():
    frame = people("at random", 12)
    assert isinstance(attack_by_homogeneity(frame, KNOWN, "sick").certain, NotMeasured)


def test_a_column_with_one_value_is_a_sentence():
    frame = people("at random").assign(sick="no")
    found = attack_by_homogeneity(frame, KNOWN, "sick")
    assert "same value" in found.certain.reason
    assert "same value" in attack_by_intersection([frame], frame, "sick", np.random.default_rng(0)).reason
