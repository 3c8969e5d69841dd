"""Differencing and averaging succeed on exact and on unaccounted noisy answers, and fail on private ones."""

import math

import numpy as np
import pytest

from privmix.attacks import differencing
from privmix.attacks.differencing import Question, attack_by_averaging, attack_by_differencing
from privmix.attacks.finding import NotMeasured
from privmix.naive.statistics import NoisyAnswers
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger

AGES = np.random.default_rng(0).integers(18, 91, 500).astype(float)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_two_means_give_the_value_of_the_new_person():
    assert differencing.difference(40.0, 41.0, 9) == 50  # 360 years of nine people, 410 of ten


def test_two_polls_give_the_answer_of_the_new_person():
    assert differencing.compare_polls(70, 71) is True
    assert differencing.compare_polls(70, 70) is False
    assert differencing.compare_polls(70, 73) is None


def test_exact_means_disclose_every_age():
    found = attack_by_differencing(AGES, lambda values: float(values.mean()), 0.5, rng())
    assert found.rate == 1
    assert found.baseline < 0.1
    assert found.beats_population


def test_means_with_three_decimals_disclose_ages_of_500_people_within_a_year():
    found = attack_by_differencing(AGES, lambda values: round(float(values.mean()), 3), 1.0, rng())
    assert found.rate > 0.9


def test_private_means_disclose_no_age():
    """Two means of ages from 18 to 90 at ε = 1 each, by the Laplace mechanism."""
    source, ledger = noise.SeededNoise(rng()), Ledger()

    def publish(values: np.ndarray) -> float:
        total = np.array([values.sum()])
        return float(
            noise.laplace(total, sensitivity=72, epsilon=1, source=source, ledger=ledger, label="sum")[0]
        ) / len(values)

    found = attack_by_differencing(AGES, publish, 0.5, rng())
    assert not found.beats_population
    assert found.rate < 0.05


def test_the_baseline_guesses_the_densest_place():
    values = np.array([0.0] * 30 + [1.0] * 50 + [9.0] * 20)
    found = attack_by_differencing(values, lambda some: 0.0, 0.25, rng())
    assert (found.baseline, found.people) == (0.5, 100)


def test_equal_values_or_few_people_are_a_sentence():
    assert "All values are equal" in attack_by_differencing(np.ones(50), np.mean, 0.1, rng()).reason
    assert "at least 20 people" in attack_by_differencing(AGES[:5], np.mean, 0.1, rng()).reason


def questions(number: int = 40) -> list[Question]:
    draw = np.random.default_rng(2)
    masks = draw.random((number, 400)) < draw.uniform(0.1, 0.9, (number, 1))
    return [Question(f"question {i}", mask, 200.0) for i, mask in enumerate(masks)]


class PrivateServer:
    """Answers `most` questions at a total ε of 1, by the Laplace mechanism, and then no more."""

    def __init__(self, most: int) -> None:
        self.most, self.ledger, self.source = most, Ledger(), noise.SeededNoise(rng())

    def ask(self, wording: str, rows: np.ndarray) -> float:
        assert len(self.ledger.events) < self.most
        exact = np.array([float(rows.sum())])
        share = 1 / self.most
        return float(
            noise.laplace(
                exact, sensitivity=1, epsilon=share, source=self.source, ledger=self.ledger, label="q"
            )[0]
        )


def test_the_error_of_averages_falls_with_the_root_of_the_number_of_answers():
    server = NoisyAnswers(scale=5).open_server(rng(), cached=False)
    found = attack_by_averaging(server, questions(), differencing.repeat, times=(1, 16, 256, 1024))
    for step in found.steps:  # 40 questions: the root mean square is within 40 % of its expectation
        assert step.error == pytest.approx(math.sqrt(2) * 5 / math.sqrt(step.times), rel=0.4)
    assert found.slope == pytest.approx(-0.5, abs=0.05)
    assert found.steps[-1].exact.rate > 0.9
    assert found.steps[-1].exact.beats_population
    assert found.guess_error > 10 * found.steps[-1].error


@pytest.mark.parametrize("ask", [differencing.reword, differencing.split])
def test_a_cache_is_defeated_by_other_words_or_by_parts(ask):
    server = NoisyAnswers(scale=5).open_server(rng(), cached=True)
    found = attack_by_averaging(server, questions(), ask, times=(1, 16, 256))
    assert found.slope == pytest.approx(-0.5, abs=0.06)


def test_a_cache_holds_against_the_same_words():
    server = NoisyAnswers(scale=5).open_server(rng(), cached=True)
    found = attack_by_averaging(server, questions(), differencing.repeat, times=(1, 16, 256))
    assert found.slope == pytest.approx(0, abs=1e-12)
    assert found.steps[-1].exact.rate < 0.3


@pytest.mark.parametrize("ask", [differencing.repeat, differencing.reword, differencing.split])
def test_answers_within_a_total_budget_cannot_be_averaged(ask):
    parts = 2 if ask is differencing.split else 1
    found = attack_by_averaging(PrivateServer(40 * 64 * parts), questions(), ask, times=(1, 64))
    assert found.steps[-1].error > found.guess_error
    assert not found.steps[-1].exact.beats_population


def test_few_questions_are_a_sentence():
    server = NoisyAnswers(scale=5).open_server(rng(), cached=False)
    found = attack_by_averaging(server, questions(3), differencing.repeat)
    assert found == NotMeasured("averaging", "This attack needs at least 20 questions; there are 3.")


@pytest.mark.parametrize(("people", "found"), [(13, 1.0), (12, 0.0)])
def test_a_rounded_count_next_to_a_border_gives_people_away(people, found):
    """With 13 people who have the secret, one less changes the rounded count; with 12 it does not."""
    secrets = np.repeat([1.0, 0.0], [people, 27])

    def publish(values):
        return float(np.floor(values.sum() / 5 + 0.5) * 5 / len(values))

    done = attack_by_differencing(secrets, publish, 0.25, np.random.default_rng(1))
    assert done.rate == pytest.approx((27 + found * people) / (27 + people))
