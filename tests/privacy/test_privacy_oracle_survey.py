"""A survey in turns: each person answers once, through one channel, and the ledger has one event."""

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import SeededNoise
from privmix.privacy.oracles import GeneralizedResponse, LocalHashing
from privmix.privacy.oracles.survey import Survey, pack_reports, row_type, survey_oracle, unpack_reports


def _source(seed=1):
    return SeededNoise(np.random.Generator(np.random.PCG64(seed)))


def _survey(weights=(1.0, 1.0), epsilon=1.0):
    return Survey(weights, epsilon=epsilon, source=_source(), label="question")


@pytest.mark.parametrize("parts", [[40_000], [1, 0, 24_999, 15_000]])
def test_turns_follow_the_public_weights(parts):
    survey = _survey((3.0, 0.0, 1.0))
    turns = np.concatenate([survey.deal(people, Ledger()) for people in parts])
    counts = np.bincount(turns, minlength=3)
    assert counts[1] == 0
    assert counts.sum() == 40_000
    assert abs(counts[0] - 30_000) < 5 * np.sqrt(40_000 * 0.75 * 0.25)


def test_however_many_turns_a_report_costs_one_channel():
    """The same for each part of the people: the ledger has the cost of one person."""
    survey = _survey(np.ones(7))
    for people in (100, 3, 1):
        ledger = Ledger()
        turns = survey.deal(people, ledger)
        for turn in range(7):
            survey.ask(turn, survey_oracle(4, 1.0), np.zeros(np.count_nonzero(turns == turn), dtype=int))
        assert ledger.events == [RandomizedResponse("question", 1.0)]


def test_nobody_answers_twice_or_for_another_or_for_more():
    """In parts or at once: a turn gets no more answers than it has people, and all answers are to one question."""
    survey, oracle = _survey(), survey_oracle(4, 1.0)
    turns = survey.deal(100, Ledger())
    first, second = (np.zeros(np.count_nonzero(turns == turn), dtype=int) for turn in (0, 1))
    with pytest.raises(UserError, match="more than ε = 1"):
        survey.ask(0, survey_oracle(4, 1.1), first)
    with pytest.raises(UserError, match="each person answers once"):
        survey.ask(0, oracle, np.append(first, 0))
    assert len(survey.ask(0, oracle, first[:10])) == 10
    with pytest.raises(UserError, match="asked another question before"):
        survey.ask(0, survey_oracle(5, 1.0), first[10:])
    assert len(survey.ask(0, oracle, first[10:])) == len(first) - 10
    with pytest.raises(UserError, match="1 answers for turn 0, but 0 people of it"):
        survey.ask(0, oracle, first[:1])
    assert len(survey.ask(1, survey_oracle(1000, 1.0), second)) == len(second)


def test_answers_are_those_that_were_given():
    """At an ε that hides nothing, the reports are the own answers, in order, hashed or not."""
    survey, codes = _survey(epsilon=25.0), np.arange(1000)
    turns = survey.deal(1000, Ledger())
    few, many = GeneralizedResponse(8, 25.0), LocalHashing(1 << 20, 25.0)
    assert np.array_equal(survey.ask(0, few, codes[turns == 0] % 8), codes[turns == 0] % 8)
    reports = survey.ask(1, many, codes[turns == 1])
    assert np.array_equal(many.hash_codes(reports["a"], reports["b"], codes[turns == 1]), reports["answer"])


def test_the_survey_oracle_is_the_one_of_least_variance():
    """GRR exactly if k < 3 e^ε + 2 (Wang et al. 2017), which is 10.2 for ε = 1; above, hashing for any k."""
    assert isinstance(survey_oracle(10, 1.0), GeneralizedResponse)
    assert isinstance(survey_oracle(11, 1.0), LocalHashing)
    assert survey_oracle(1 << 29, 1.0).categories == 1 << 29


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_one_layout_holds_the_reports_of_every_turn(epsilon):
    oracles = [survey_oracle(k, epsilon) for k in (4, 1000, 1 << 20)]
    layout = row_type(oracles)
    made = [
        oracle.perturb(np.arange(4).repeat(50), source=_source(turn), ledger=Ledger(), label="")
        for turn, oracle in enumerate(oracles)
    ]
    rows = np.concatenate([pack_reports(reports, turn, layout) for turn, reports in enumerate(made)])
    for turn, oracle in enumerate(oracles):
        if isinstance(oracle, GeneralizedResponse) and "a" in layout.names:  # no hash where there is none
            own = rows[rows["turn"] == turn]
            assert not own["a"].any()
            assert not own["b"].any()
    for turn, (reports, oracle) in enumerate(zip(made, oracles, strict=True)):
        assert np.array_equal(unpack_reports(rows, turn, oracle), reports)
    assert layout.itemsize <= 1 + 8 + (1 if epsilon < 5.5 else 4)


@pytest.mark.parametrize("categories", [50, 40_000])
def test_the_support_of_runs_is_a_part_of_all_support(categories):
    oracle = LocalHashing(categories, 1.0)
    reports = oracle.perturb(np.arange(40) % 7, source=_source(), ledger=Ledger(), label="")
    starts = np.array([0, 13, categories - 5])
    every = oracle.support(reports)
    assert np.array_equal(oracle.support_of_runs(reports, starts, 5), every[starts[:, None] + np.arange(5)])
    named = oracle.hash_codes(reports["a"], reports["b"], np.full(40, 17)) == reports["answer"]
    assert every[17] == np.count_nonzero(named)
