"""Private selection: the exact probabilities keep epsilon on every neighbour, and both samplers draw from them.

Goodness-of-fit tests are seeded and fail by chance with probability 1e-6 over seeds; each has a twin that must
reject 2/3 and 3/2 of the epsilon.
"""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privmix.errors import UserError
from privmix.privacy import exact
from privmix.privacy.accounting import account
from privmix.privacy.exact import STEP, ExactNoise
from privmix.privacy.ledger import Ledger, NoisyMaximum, Selection, from_rows, to_rows
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.noise_distributions import LaplaceMaximum
from privmix.privacy.selection import exponential, laplace_noisy_max, probabilities, report_noisy_max

ALPHA, DRAWS, FEWER = 1e-6, 20_000, 6000
SCORES = np.array([3.0, 0.0, 2.5, -np.inf, -1.0, 1.0])
CHOICES = [exponential, report_noisy_max]


class Fixed:
    """A source that always returns the same number."""

    def __init__(self, value):
        self.value = value

    def uniform(self, shape):
        return np.full(shape, self.value)

    def rounding(self, size, norm):
        return 0.0


def _largest_loss(epsilon, sensitivity, moves, monotonic):
    """Return the largest |log ratio| of any option, over base scores and all combinations of moves of single scores."""
    found = 0.0
    for base in itertools.product([0.0, 2.0, 60.0 * sensitivity / epsilon, 1e5], repeat=3):
        before = probabilities(base, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic)
        for move in itertools.product(moves, repeat=3):
            scores = np.add(base, move)
            after = probabilities(scores, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic)
            found = max(found, float(np.abs(np.log(after) - np.log(before)).max()))
    return found


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("sensitivity", [0.5, 1.0])
def test_no_neighbour_changes_a_probability_by_more_than_epsilon(epsilon, sensitivity):
    moves = (-sensitivity, 0.0, sensitivity)
    loss = _largest_loss(epsilon, sensitivity, moves, monotonic=False)
    assert 0.99 * epsilon <= loss <= epsilon * (1 + 1e-9)


def test_no_possible_option_becomes_impossible():
    """For every score: a probability of 0 on only one of two datasets would break every epsilon."""
    for scores in ([0.0, -75.0], [0.0, -1e6], [-1e300, 1e300]):
        assert probabilities(np.array(scores), sensitivity=1.0, epsilon=1.0).min() >= np.exp(-70.0) / 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_monotonic_scores_get_twice_the_exponent_and_others_must_not(epsilon):
    assert 0.99 * epsilon <= _largest_loss(epsilon, 1.0, (0.0, 1.0), monotonic=True) <= epsilon * (1 + 1e-9)
    assert _largest_loss(epsilon, 1.0, (-1.0, 0.0, 1.0), monotonic=True) > 1.9 * epsilon


@pytest.mark.parametrize(("relation", "monotonic"), [("add_remove", True), ("replace_one", False)])
def test_choosing_the_fullest_cell_keeps_epsilon_on_every_small_dataset(relation, monotonic):
    """All datasets of up to four records in three cells, with all their neighbours; a count moves by one."""
    epsilon, worst = 1.3, 0.0
    for counts in itertools.product(range(5), repeat=3):
        before = probabilities(counts, sensitivity=1.0, epsilon=epsilon, monotonic=monotonic)
        for gain, loss in itertools.permutations(range(3), 2):
            change = np.zeros(3)
            change[gain] += 1
            if relation == "replace_one":
                change[loss] -= 1
            after = probabilities(counts + change, sensitivity=1.0, epsilon=epsilon, monotonic=monotonic)
            worst = max(worst, float(np.abs(np.log(after / before)).max()))
    assert 0.8 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("choose", CHOICES)
def test_choices_have_the_exact_probabilities_and_no_others(choose, monotonic):
    ledger, source = Ledger(), SeededNoise(stream(3, choose.__name__, monotonic))
    arguments = {"sensitivity": 2.0, "epsilon": 1.5, "monotonic": monotonic}
    chosen = [choose(SCORES, source=source, ledger=ledger, label="k", **arguments) for _ in range(DRAWS)]
    frequencies = np.bincount(chosen, minlength=len(SCORES))
    possible = np.isfinite(SCORES)
    assert frequencies[~possible].sum() == 0

    def p_value(factor):
        law = probabilities(SCORES, **{**arguments, "epsilon": 1.5 * factor})[possible]
        return stats.chisquare(frequencies[possible], DRAWS * law).pvalue

    assert p_value(1.0) > ALPHA
    assert p_value(2 / 3) < ALPHA
    assert p_value(3 / 2) < ALPHA
    assert ledger.events == [Selection("k", 1.5)] * DRAWS


class NoUniform(ExactNoise):
    """The source of a release. A choice in it must not compare floating-point numbers."""

    def uniform(self, shape):
        raise AssertionError("a choice of a release is drawn in floating point")


@pytest.mark.parametrize("monotonic", [False, True])
def test_choices_of_a_release_have_the_exact_probabilities_and_no_others(monotonic):
    """Not seeded: it fails by chance with probability 1e-6, and its twins too."""
    ledger, source = Ledger(), NoUniform()
    arguments = {"sensitivity": 2.0, "epsilon": 1.5, "monotonic": monotonic}
    chosen = [exponential(SCORES, source=source, ledger=ledger, label="k", **arguments) for _ in range(FEWER)]
    frequencies, possible = np.bincount(chosen, minlength=len(SCORES)), np.isfinite(SCORES)
    assert frequencies[~possible].sum() == 0
    law = probabilities(SCORES, **arguments)[possible]
    assert stats.chisquare(frequencies[possible], FEWER * law).pvalue > ALPHA
    for factor in (2 / 3, 3 / 2):
        law = probabilities(SCORES, **{**arguments, "epsilon": 1.5 * factor})[possible]
        assert stats.chisquare(frequencies[possible], FEWER * law).pvalue < ALPHA
    assert ledger.events == [Selection("k", 1.5)] * FEWER


@pytest.mark.parametrize("lowest", [-70.0, -2.0])
def test_unlikely_options_of_a_release_have_the_probability_of_the_floor(lowest):
    """6,000 draws: a floor of -2 is drawn as such, and one of -70 never (chance: 1e-27)."""
    drawn = [exact.choose(np.array([-1e9, 0.0, -3.0]), 1.0, lowest) for _ in range(FEWER)]
    weights = np.exp(np.maximum([-1e9, 0.0, -3.0], lowest))
    frequencies = np.bincount(drawn, minlength=3) / FEWER
    law = weights / weights.sum()
    assert (np.abs(frequencies - law) <= 6 * np.sqrt(law * (1 - law) / FEWER)).all()


def test_a_release_pays_for_the_rounding_of_its_scores():
    """The scale is that of Δ plus one step of the lattice, at least; the law is what an audit sees."""
    seen = []

    class Watching(ExactNoise):
        def watch(self, event, law, statistic, draw):
            seen.append(statistic)
            return draw()

    scores = np.array([4.0, 0.0])
    exponential(scores, sensitivity=2 * STEP, epsilon=1e-6, source=Watching(), ledger=Ledger(), label="k")
    assert seen[0] == pytest.approx([0.0, -4.0 * 1e-6 / (2 * 3 * STEP)])


def test_a_release_chooses_among_thousands_of_options_in_little_time():
    scores = -np.abs(np.arange(4098.0) - 2000)
    started = time.process_time()
    drawn = [
        exponential(scores, sensitivity=1.0, epsilon=0.1, source=NoUniform(), ledger=Ledger(), label="k")
        for _ in range(20)
    ]
    assert (time.process_time() - started) / 20 < 0.5
    assert max(abs(each - 2000) for each in drawn) < 20 / 0.1 * 5


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("uniform", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
def test_extreme_random_numbers_choose_a_possible_option(choose, uniform):
    scores = np.array([-np.inf, 1.0, 0.0, -np.inf])
    found = choose(scores, sensitivity=1.0, epsilon=1.0, source=Fixed(uniform), ledger=Ledger(), label="k")
    assert found in (1, 2)


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("scores", [[1e308, -1e308, 0.0], [1e300, 0.0, -np.inf], [0.0, -1e-320, -5.0]])
@pytest.mark.parametrize("sensitivity", [1e-300, 1e300])
@pytest.mark.parametrize("epsilon", [1e-300, 1e300])
def test_huge_and_tiny_scores_stay_numbers(choose, scores, sensitivity, epsilon):
    law = probabilities(scores, sensitivity=sensitivity, epsilon=epsilon)
    assert np.isfinite(law).all()
    assert law.sum() == pytest.approx(1.0)
    source = SeededNoise(stream(1, "huge"))
    arguments = {"sensitivity": sensitivity, "epsilon": epsilon, "ledger": Ledger(), "label": "k"}
    assert law[choose(scores, source=source, **arguments)] > 0


@given(
    scores=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
    shift=st.integers(-(2**40), 2**40),
    scale=st.sampled_from([2.0**-20, 1.0, 2.0**20]),
    seed=st.integers(0, 2**30),
)
def test_a_common_shift_or_unit_of_the_scores_changes_nothing(scores, shift, scale, seed):
    """Shifts of integers and powers of two are exact, so the results are equal."""
    moved = (np.array(scores, dtype=float) + shift) * scale
    assert np.array_equal(
        probabilities(scores, sensitivity=1.0, epsilon=0.5),
        probabilities(moved, sensitivity=scale, epsilon=0.5),
    )
    for choose in CHOICES:
        first, second = (
            choose(
                values, sensitivity=unit, epsilon=0.5,
                source=SeededNoise(stream(seed, "shift")), ledger=Ledger(), label="k",
            )
            for values, unit in ((scores, 1.0), (moved, scale))
        )  # fmt: skip
        assert first == second


@given(scores=st.lists(st.floats(-50, 50), min_size=2, max_size=8), seed=st.integers(0, 2**30))
def test_the_order_of_the_options_does_not_matter(scores, seed):
    order = stream(seed, "order").permutation(len(scores))
    law = probabilities(scores, sensitivity=1.0, epsilon=1.0)
    assert probabilities(np.array(scores)[order], sensitivity=1.0, epsilon=1.0) == pytest.approx(law[order])


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0, math.nan]}, "1 of 2 scores"),
        ({"scores": [math.inf, 1.0]}, "1 of 2 scores"),
        ({"scores": [-math.inf, -math.inf]}, "all 2 options are impossible"),
        ({"scores": []}, r"shape \(0,\)"),
        ({"scores": [[1.0], [2.0]]}, r"shape \(2, 1\)"),
        ({"sensitivity": 0.0}, "sensitivity = 0.0 must be"),
        ({"sensitivity": math.inf}, "sensitivity = inf must be"),
        ({"epsilon": -1.0}, "epsilon = -1.0 must be"),
        ({"epsilon": math.nan}, "epsilon = nan must be"),
    ],
    ids=str,
)
def test_impossible_choices_are_refused_with_the_value_and_cost_nothing(choose, change, message):
    ledger = Ledger()
    arguments = {"scores": [1.0, 2.0], "sensitivity": 1.0, "epsilon": 1.0, **change}
    with pytest.raises(UserError, match=message):
        choose(arguments.pop("scores"), source=Fixed(0.5), ledger=ledger, label="k", **arguments)
    assert ledger.events == []


def test_choices_add_up_and_survive_a_file():
    events = [Selection("k", 0.25)] * 4
    assert account(events, 1e-6, "linear").epsilon == 1.0
    assert account(events, 1e-6, "linear").delta == 0.0
    assert account(events, 1e-6, "exact").epsilon <= 1.0
    assert from_rows(to_rows(events)) == events


@pytest.mark.parametrize("gap", [0.0, 0.3, 2.0, 15.0, 60.0, 1e6])
@pytest.mark.parametrize("scale", [0.5, 20.0])
def test_a_noisy_maximum_of_two_scores_has_the_probability_of_a_difference_of_laplace_numbers(gap, scale):
    """P(X - Y > g) = (1 + g/2) e^(-g) / 2 for standard Laplace numbers."""
    law = LaplaceMaximum(scale).probabilities(np.array([gap * scale, 0.0]) + 100)
    assert law[1] == pytest.approx((1 + gap / 2) * math.exp(-gap) / 2, rel=1e-9, abs=1e-18)
    assert law.sum() == pytest.approx(1)


def test_a_noisy_maximum_of_many_scores_has_the_probabilities_of_an_independent_integral():
    scores = np.array([3.0, 3.0, 1.0, 0.0, -2.5, 2.9])
    x = np.linspace(-60, 60, 2_400_001)
    below = stats.laplace.cdf(x[:, None] - scores)
    each = [
        np.trapezoid(stats.laplace.pdf(x - own) * np.delete(below, number, axis=1).prod(axis=1), x)
        for number, own in enumerate(scores)
    ]
    assert LaplaceMaximum(1.0).probabilities(scores) == pytest.approx(np.array(each), rel=1e-7)


@pytest.mark.parametrize(("relation", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_no_neighbour_changes_a_probability_of_a_noisy_maximum_by_more_than_epsilon(relation, factor):
    """All datasets of up to four records in three cells. The audit's distance covers the true loss, up to epsilon."""
    epsilon, worst = 1.3, 0.0
    law = LaplaceMaximum(factor / epsilon)
    for counts in itertools.product(range(5), repeat=3):
        before = law.probabilities(np.array(counts, dtype=float))
        for gain, loss in itertools.permutations(range(3), 2):
            change = np.zeros(3)
            change[gain] += 1
            if relation == "replace_one":
                change[loss] -= 1
            after = law.probabilities(counts + change)
            moved = float(np.abs(np.log(after / before)).max())
            distance = law.distance(0, np.array(counts, dtype=float), counts + change)
            assert moved <= distance + 1e-9
            assert distance == pytest.approx(epsilon)
            worst = max(worst, moved)
    assert 0.5 * epsilon < worst


@pytest.mark.parametrize("monotonic", [False, True])
def test_a_noisy_maximum_draws_with_the_stated_scale_and_no_other(monotonic):
    scores, ledger, source = (
        SCORES[np.isfinite(SCORES)],
        Ledger(),
        SeededNoise(stream(3, "laplace", monotonic)),
    )
    arguments = {"sensitivity": 2.0, "epsilon": 1.5, "monotonic": monotonic}
    chosen = [
        laplace_noisy_max(scores, source=source, ledger=ledger, label="k", **arguments) for _ in range(DRAWS)
    ]
    frequencies = np.bincount(chosen, minlength=len(scores))

    def p_value(factor):
        scale = factor * 2.0 * (1 if monotonic else 2) / 1.5
        return stats.chisquare(frequencies, DRAWS * LaplaceMaximum(scale).probabilities(scores)).pvalue

    assert p_value(1.0) > ALPHA
    assert p_value(2 / 3) < ALPHA
    assert p_value(3 / 2) < ALPHA
    assert ledger.events == [NoisyMaximum("k", 1.5)] * DRAWS
    assert from_rows(to_rows(ledger.events[:2])) == ledger.events[:2]
    with pytest.raises(UserError, match="one finite score"):
        laplace_noisy_max([np.nan], source=source, ledger=ledger, label="k", **arguments)
