"""A survey in turns: everybody answers once, through one channel, and the ledger says so."""

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import SeededNoise
from privmix.privacy.response import GeneralizedResponse, LocalHashing
from privmix.privacy.response.survey import Survey, packed, questioner, row_type, unpacked


def _source(seed=1):
    return SeededNoise(np.random.Generator(np.random.PCG64(seed)))


def _survey(people, weights=(1.0, 1.0), ledger=None):
    return Survey(weights, people, epsilon=1.0, source=_source(), ledger=ledger or Ledger(), label="question")


def test_turns_follow_the_public_weights():
    survey, codes = _survey(40_000, (3.0, 0.0, 1.0)), np.zeros(40_000, dtype=int)
    counts = [len(survey.ask(turn, questioner(4, 1.0), codes)) for turn in range(3)]
    assert np.array_equal(np.bincount(survey.rows()["turn"], minlength=3), counts)
    assert counts[1] == 0
    assert sum(counts) == 40_000
    assert abs(counts[0] - 30_000) < 5 * np.sqrt(40_000 * 0.75 * 0.25)


def test_however_many_turns_a_report_costs_one_channel():
    ledger = Ledger()
    survey = _survey(100, np.ones(7), ledger)
    for turn in range(7):
        survey.ask(turn, questioner(4, 1.0), np.zeros(100, dtype=int))
    assert ledger.events == [RandomizedResponse("question", 1.0)]


def test_nobody_answers_twice_or_for_another_or_for_more():
    survey = _survey(100)
    codes = np.zeros(100, dtype=int)
    with pytest.raises(UserError, match="99 answers are not those of 100 people"):
        survey.ask(0, questioner(4, 1.0), codes[1:])
    with pytest.raises(UserError, match="more than ε = 1"):
        survey.ask(0, questioner(4, 1.1), codes)
    survey.ask(0, questioner(4, 1.0), codes)
    with pytest.raises(UserError, match="asked before"):
        survey.ask(0, questioner(4, 1.0), codes)


def test_rows_are_those_of_the_people_whose_turn_it_was():
    """At a budget that hides nothing: everybody's own answer to their own question, and no hash where there is none."""
    survey = Survey((1.0, 1.0), 1000, epsilon=25.0, source=_source(), ledger=Ledger(), label="question")
    few, many, codes = GeneralizedResponse(8, 25.0), LocalHashing(1 << 20, 25.0), np.arange(1000)
    survey.ask(0, few, codes % 8)
    survey.ask(1, many, codes)
    rows = survey.rows()
    plain, hashed = rows["turn"] == 0, rows["turn"] == 1
    assert np.array_equal(rows["answer"][plain], codes[plain] % 8)
    assert not rows["a"][plain].any()
    assert not rows["b"][plain].any()
    true = many.hashed(rows["a"][hashed], rows["b"][hashed], codes[hashed])
    assert np.array_equal(rows["answer"][hashed], true)


def test_the_questioner_is_the_one_of_least_variance():
    """GRR exactly where k < 3 e^ε + 2 (Wang et al. 2017), which is 10.2 for ε = 1; hashing however many parts."""
    assert isinstance(questioner(10, 1.0), GeneralizedResponse)
    assert isinstance(questioner(11, 1.0), LocalHashing)
    assert questioner(1 << 29, 1.0).categories == 1 << 29


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_one_layout_holds_the_reports_of_every_turn(epsilon):
    oracles = [questioner(k, epsilon) for k in (4, 1000, 1 << 20)]
    layout = row_type(oracles)
    made = [
        oracle.perturb(np.arange(4).repeat(50), source=_source(turn), ledger=Ledger(), label="")
        for turn, oracle in enumerate(oracles)
    ]
    rows = np.concatenate([packed(reports, turn, layout) for turn, reports in enumerate(made)])
    for turn, (reports, oracle) in enumerate(zip(made, oracles, strict=True)):
        assert np.array_equal(unpacked(rows, turn, oracle), reports)
    assert layout.itemsize <= 1 + 8 + (1 if epsilon < 5.5 else 4)


@pytest.mark.parametrize("categories", [50, 40_000])
def test_the_support_of_runs_is_a_part_of_all_support(categories):
    oracle = LocalHashing(categories, 1.0)
    reports = oracle.perturb(np.arange(40) % 7, source=_source(), ledger=Ledger(), label="")
    starts = np.array([0, 13, categories - 5])
    every = oracle.support(reports)
    assert np.array_equal(oracle.support_of_runs(reports, starts, 5), every[starts[:, None] + np.arange(5)])
    named = oracle.hashed(reports["a"], reports["b"], np.full(40, 17)) == reports["answer"]
    assert every[17] == np.count_nonzero(named)
