"""The audit game: every method is tested, correct ones raise no alarm, and broken ones do."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from making import PRIVATE, make_mechanism, spied
from toy_mechanisms import Counting, Louder, Stuck

from privmix.audit import bounds, crafted_worlds, game, learned_attacker
from privmix.audit.game import play_game
from privmix.mechanisms.base import Randomness, seeded_randomness
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, gaussian_mu
from privmix.privacy.ledger import Ledger

DELTA = 1e-6


def _played(mechanism, epsilon, runs, seed, unit="record", relation="add_remove", times=1.0, games=1):
    def randomness(number):
        drawn = seeded_randomness(seed, "game", number)
        return Randomness(Louder(drawn.noise, times), drawn.search)

    pairs = crafted_worlds.crafted_pairs(mechanism, unit, relation)
    return play_game(mechanism, pairs, Budget(epsilon, DELTA), randomness, runs, games)


def _alarmed(played):
    return any(bound.alarm > played.claim.epsilon for bound in played.bounds)


def _lower(played):
    return max(bound.lower for bound in played.bounds)


@pytest.mark.parametrize("name", PRIVATE)
def test_every_method_is_played_the_same_way(name):
    played = _played(make_mechanism(name), 1.0, 40, 1, relation="replace_one")
    assert played.claim.epsilon >= 1.0 - 1e-9
    assert not _alarmed(played)
    if played.bounds:
        assert 20 <= played.runs <= 40
        scores = {bound.score for bound in played.bounds}
        assert scores - {"output"} == {"likelihood ratio", "difference", "learned"}
        assert len(played.bounds) == 2 * len(scores)
    else:
        assert played.runs == 0
        assert "too few" in played.notes[0]


def test_persons_can_be_the_unit():
    played = _played(make_mechanism("laplace_input"), 3.0, 60, 1, unit="person")
    assert played.bounds
    assert not _alarmed(played)


def test_the_gaussian_bound_is_used_only_for_gaussian_ledgers():
    of_gaussian, of_pure = (
        {bound.theorem for bound in _played(Counting(kind), 1.0, 40, 2).bounds}
        for kind in ("gaussian", "laplace")
    )
    assert of_gaussian == {"Gaussian AUC", "Clopper-Pearson"}
    assert of_pure == {"pure AUC", "Clopper-Pearson"}
    mixed = _played(make_mechanism("gaussian_input"), 1.0, 40, 2)  # beside it an attribute's response
    assert {bound.theorem for bound in mixed.bounds} == of_pure


def test_a_claim_for_near_places_is_tested_between_all_places():
    played = _played(make_mechanism("planar_laplace", within_m=20_000), 1.0, 60, 3)
    assert played.claim.epsilon > 2
    assert not _alarmed(played)


@pytest.mark.parametrize(("epsilon", "runs", "share"), [(1.0, 1000, 0.85), (10.0, 1500, 0.9)])
def test_most_of_a_tight_gaussian_claim_is_proven(epsilon, runs, share):
    played = _played(Counting(), epsilon, runs, 4)
    assert share * epsilon < _lower(played) <= epsilon
    assert not _alarmed(played)


def test_most_of_a_tight_pure_claim_is_proven():
    assert 0.8 < _lower(_played(Counting("laplace"), 1.0, 1500, 5)) <= 1.0
    assert 0.7 < _lower(_played(Counting("response"), 1.0, 1500, 5, relation="replace_one")) <= 1.0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_halved_noise_raises_the_alarm(kind):
    assert _alarmed(_played(Counting(kind), 1.0, 400, 6, times=0.5))
    assert not _alarmed(_played(Counting(kind), 1.0, 400, 6))


@pytest.mark.parametrize(("name", "more"), [("noisy_grid", {}), ("laplace_input", {"attribute_share": 0})])
def test_halved_noise_of_a_real_mechanism_raises_the_alarm(name, more):
    assert _alarmed(_played(make_mechanism(name, **more), 1.0, 500, 7, times=0.5))


def test_an_exact_number_beside_the_measurements_raises_the_alarm():
    """The likelihood ratio does not see it; scores of complete runs do."""
    played = _played(Counting(leak=True), 1.0, 1500, 8)
    accusing = {bound.score for bound in played.bounds if bound.alarm > 1.0}
    assert accusing == {"learned", "output"}
    assert not _alarmed(_played(Counting(leak=False), 1.0, 1500, 8))


def test_repeated_noise_raises_the_alarm():
    """Two noisy counts, the second with twice the noise: with the same noise, their difference reveals the count."""

    class Twice(Counting):
        def fit(self, view, spec, budget, rng):
            ledger, count = Ledger(), np.array([float(len(view))])
            noise_multiplier = np.sqrt(1.25) / gaussian_mu(budget.epsilon, budget.delta)
            for times in (1, 2):
                noise.gaussian(
                    count,
                    sensitivity=times,
                    noise_multiplier=noise_multiplier,
                    source=rng.noise,
                    ledger=ledger,
                    label="count",
                )
            return replace(super().fit(view, spec, budget, rng), events=ledger.events)

    def alarmed(source):
        def randomness(number):
            drawn = seeded_randomness(16, "game", number)
            return Randomness(source(drawn.noise), drawn.search)

        mechanism = Twice()
        pairs = crafted_worlds.crafted_pairs(mechanism, "record", "add_remove")
        played = play_game(mechanism, pairs, Budget(1.0, DELTA), randomness, 300)
        return {bound.score for bound in played.bounds if bound.alarm > 3.0}

    assert "difference" in alarmed(Stuck)
    assert "difference" not in alarmed(lambda source: source)


def test_a_measurement_that_the_other_world_cannot_give_is_detected():
    class Forked(Counting):
        def fit(self, view, spec, budget, rng):
            first = super().fit(view, spec, budget, rng)
            return first if len(view) % 2 else super().fit(view, spec, budget, rng)

    assert _alarmed(_played(Forked(), 1.0, 200, 9))


def test_a_random_output_raises_no_alarm():
    """If the true world does not repeat it, another world need not repeat it either."""

    class Restless(Counting):
        def fit(self, view, spec, budget, rng):
            words = f"{np.random.default_rng().random():.9f}"
            return replace(super().fit(view, spec, budget, rng), notes=[words])

    assert not _alarmed(_played(Restless(), 1.0, 300, 17))


def test_a_seed_gives_the_same_game_again():
    again, first, other = (_played(Counting(), 1.0, 60, seed) for seed in (10, 10, 11))
    assert first.bounds == again.bounds
    assert first.bounds != other.bounds


def test_expensive_mechanisms_are_played_less_often(monkeypatch):
    assert _played(Counting(), 1.0, 100, 12).runs == 100
    monkeypatch.setattr(game, "EFFORT", game.EFFORT // 20)
    assert 20 <= _played(Counting(), 1.0, 100, 12).runs < 100
    few = _played(Counting(), 1.0, 20, 12)
    assert few.bounds == []
    assert "too few for a bound" in few.notes[0]


def test_several_games_share_the_error_probability():
    one, four = (_played(Counting(), 1.0, 200, 13, games=games) for games in (1, 4))
    assert _lower(four) < _lower(one)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_error_probabilities_of_all_bounds_add_up_to_the_stated_one(kind, monkeypatch):
    areas, thresholds = [], []
    spied(monkeypatch, bounds, "auc_lower_bound", areas)
    spied(monkeypatch, game, "_threshold_bound", thresholds)
    _played(Counting(kind), 1.0, 40, 14)
    chances = [arguments[-1] for arguments, _ in areas + thresholds]
    assert len(chances) == 16  # two theorems for each of four scores, at two levels
    assert sum(chances) == pytest.approx(game.REPORT_ALPHA + game.ALARM_ALPHA)


def test_learning_and_judged_runs_are_different(monkeypatch):
    given = []
    spied(monkeypatch, game, "_score_runs", given)
    played = _played(Counting(), 1.0, 40, 15)
    ((_, _, training, judged, _), _) = given[0]
    assert not set(training) & set(judged)
    assert 0 < min(training) < max(training) < min(judged)
    assert len(judged) == played.runs == 40


def test_numbers_are_found_in_any_kind_of_value():
    said = learned_attacker.flatten_numbers({"a": [1, np.array([2.0])], "b": "3 of 40", "c": None})
    assert said[:4].tolist() == [1.0, 2.0, 3.0, 40.0]
    assert learned_attacker.flatten_numbers("left")[-1] != learned_attacker.flatten_numbers("fight")[-1]
    rows = np.array([(1, 2.5)], dtype=[("turn", int), ("answer", float)])
    assert learned_attacker.flatten_numbers(rows).tolist() == [1.0, 2.5]


@functools.cache
def _repeated(kind, epsilon, runs, times=1.0):
    relation = "replace_one" if kind == "response" else "add_remove"
    return [
        _played(Counting(kind), epsilon, runs, 1000 + number, relation=relation, times=times)
        for number in range(200)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [("gaussian", 1.0), ("gaussian", 10.0), ("laplace", 1.0), ("response", 1.0), ("response", 10.0)],
)
def test_bounds_exceed_the_claim_no_more_often_than_stated(kind, epsilon):
    """Of 200 audits at 5 % and 1 % more than 23 and 9 are wrong with probability below 1e-4 each."""
    audits = _repeated(kind, epsilon, 60)
    assert sum(_lower(each) > epsilon for each in audits) <= 23
    assert sum(_alarmed(each) for each in audits) <= 9


@pytest.mark.slow
def test_bounds_do_exceed_a_claim_that_is_wrong():
    audits = _repeated("gaussian", 1.0, 60, times=1 / 3)
    assert sum(_lower(each) > 1.0 for each in audits) > 150
