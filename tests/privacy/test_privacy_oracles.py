"""Randomized response: exact channel probabilities, unbiased estimates, valid intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privmix.errors import UserError
from privmix.mechanisms.shared.synopsis import project_to_simplex
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import GeneralizedResponse, intervals


class Scripted:
    """A source that returns prescribed numbers, to enumerate the probabilities of a channel."""

    def __init__(self, uniform, integer):
        self.given = uniform, integer

    def uniform(self, shape):
        return np.full(shape, self.given[0])

    def integers(self, high, shape):
        assert 0 <= self.given[1] < high
        return np.full(shape, self.given[1])


def channel_table(response: GeneralizedResponse) -> np.ndarray:
    """Return P(answer | truth), by walking through every outcome of the coins in the code."""
    k = response.categories
    table = np.zeros((k, k))
    for truth in range(k):
        for lie in (False, True):
            weight = (1 - response.truth) if lie else response.truth
            for shift in range(k - 1):
                coin = Scripted(0.0 if lie else np.nextafter(1, 0), shift)
                answer = response.perturb(np.array([truth]), source=coin, ledger=Ledger(), label="x")[0]
                table[truth, answer] += weight / (k - 1)
    return table


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_channel_ratio_is_exactly_e_to_the_epsilon(k, epsilon):
    table = channel_table(GeneralizedResponse(k, epsilon))
    assert table.sum(axis=1) == pytest.approx(np.ones(k))
    ratio = (table[:, None, :] / table[None, :, :]).max()
    assert ratio == pytest.approx(math.exp(epsilon), rel=1e-12)


def test_lies_happen_at_every_epsilon():
    """The probability of a lie is never rounded to 0: a coin of 53 bits rounds it up."""
    for epsilon in (10.0, 30.0, 40.0, 100.0):
        response = GeneralizedResponse(2, epsilon)
        lie = response.perturb(np.array([0]), source=Scripted(0.0, 0), ledger=Ledger(), label="x")
        assert lie[0] == 1


def test_the_two_coin_survey():
    survey = GeneralizedResponse.two_coins()
    assert survey.epsilon == pytest.approx(math.log(3))
    assert (survey.truth, survey.other) == (pytest.approx(3 / 4), pytest.approx(1 / 4))
    # 1,000 people, 400 of whom said yes: p = 2 (y - 1/4).
    assert survey.estimate(np.array([600, 400]))[1] == pytest.approx(2 * (0.4 - 0.25))


def test_gamma_response_is_the_same_channel():
    assert GeneralizedResponse.from_gamma(0.25).epsilon == pytest.approx(math.log(3))
    with pytest.raises(UserError, match="gamma"):
        GeneralizedResponse.from_gamma(0.5)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.5), (5, 1.0), (40, 3.0)])
def test_estimates_are_unbiased_with_the_stated_error(k, epsilon):
    response, n, runs = GeneralizedResponse(k, epsilon), 2_000, 400
    truth = np.arange(n) % k
    truth[: n // 4] = 0
    shares = np.bincount(truth, minlength=k) / n
    source = SeededNoise(stream(3, "unbiased", k))
    counts = np.array(
        [
            np.bincount(response.perturb(truth, source=source, ledger=Ledger(), label="x"), minlength=k)
            for _ in range(runs)
        ]
    )
    estimates = np.array([response.estimate(row) for row in counts])
    stated = np.array([response.standard_error(row) for row in counts]).mean(axis=0)
    # 5 standard errors: P(failure) < 1e-6 per category over seeds.
    assert (np.abs(estimates.mean(axis=0) - shares) < 5 * estimates.std(axis=0) / math.sqrt(runs)).all()
    # The stated error includes the sampling of people, but these records are fixed: it may be larger, never smaller.
    assert (estimates.std(axis=0) < stated * 1.2).all()
    assert stated[1] < 1.5 * estimates.std(axis=0)[1]


def test_halving_the_lies_is_noticed():
    """The twin of unbiasedness: answers that lie half as often as stated give biased shares."""
    honest = GeneralizedResponse(4, 1.0)
    truth = np.zeros(20_000, dtype=np.int64)
    lying_less = GeneralizedResponse(4, math.log(3 * honest.truth / (1 - honest.truth) * 2))
    answers = lying_less.perturb(truth, source=SeededNoise(stream(4, "twin")), ledger=Ledger(), label="x")
    estimate = honest.estimate(np.bincount(answers, minlength=4))[0]
    assert abs(estimate - 1) > 10 * honest.standard_error(np.bincount(answers, minlength=4))[0]


def test_answers_enter_the_ledger_once():
    ledger = Ledger()
    GeneralizedResponse(3, 0.8).perturb(
        np.zeros(10, dtype=np.int64), source=SeededNoise(stream(1, "x")), ledger=ledger, label="cell"
    )
    assert ledger.events == [RandomizedResponse("cell", 0.8)]


def test_normal_interval_covers_at_its_rate_and_chebyshev_at_least():
    response, n, runs = GeneralizedResponse(2, 1.0), 1_000, 1_000
    generator = stream(5, "coverage")
    covered = np.zeros(2)
    for _ in range(runs):
        truth = (generator.random(n) < 0.3).astype(np.int64)
        answers = response.perturb(truth, source=SeededNoise(generator), ledger=Ledger(), label="x")
        counts = np.bincount(answers, minlength=2)
        both = intervals(response.estimate(counts)[1], response.standard_error(counts)[1])
        covered += [low <= 0.3 <= high for low, high in both]
    # Binomial(1000, 0.95) / 1000 lies outside [0.915, 0.98] with probability 1e-6.
    assert 0.915 < covered[0] / runs < 0.98
    assert covered[1] / runs > 0.99


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
def test_projection_gives_the_nearest_shares(values):
    shares = np.array(values)
    projected = project_to_simplex(shares)
    assert (projected >= 0).all()
    assert projected.sum() == pytest.approx(1.0)
    # Optimality: all positive shares moved by the same amount, and zero shares by no more.
    moved = shares - projected
    level = moved[projected > 0].max()
    assert moved[projected > 0] == pytest.approx(np.full((projected > 0).sum(), level), abs=1e-9)
    assert (moved[projected == 0] <= level + 1e-9).all()


@pytest.mark.parametrize(("k", "epsilon"), [(1, 1.0), (2, 0.0), (2, math.inf), (2, math.nan)])
def test_impossible_channels_are_refused(k, epsilon):
    with pytest.raises(UserError):
        GeneralizedResponse(k, epsilon)


def test_codes_outside_the_domain_are_refused():
    with pytest.raises(UserError, match="codes"):
        GeneralizedResponse(2, 1.0).perturb(
            np.array([2]), source=SeededNoise(stream(1, "x")), ledger=Ledger(), label="x"
        )
