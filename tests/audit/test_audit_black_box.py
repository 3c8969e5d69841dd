"""The audit of any function: false claims are disproved, true ones rarely called violated, bad calls explained."""

import itertools

import numpy as np
import pandas as pd
import pytest

from privmix.audit import FunctionAudit, audit_function
from privmix.errors import UserError
from privmix.privacy.accounting import gaussian_mu

RNG = np.random.default_rng(1)
PAIR = ([1.0, 1.0, 1.0], [1.0, 1.0])


def _laplace_sum(scale, seed=0):
    rng = np.random.default_rng(seed)
    return lambda records: sum(records) + rng.laplace(scale=scale)


def _response(truth, seed=0):
    """Randomized response to "are there three records?"."""
    rng = np.random.default_rng(seed)
    return lambda records: "yes" if (rng.random() < truth) == (len(records) == 3) else "no"


@pytest.mark.parametrize(
    ("function", "delta"),
    [
        (_laplace_sum(0.5), 0.0),
        (_response(np.e**2 / (1 + np.e**2)), 0.0),
        (lambda records: sum(records), 0.0),
        (lambda records: {"mean": np.mean(records), "rows": len(records)}, 1e-6),
        (lambda records: RNG.normal(scale=len(records)), 0.0),
        (lambda records: sum(records) + RNG.normal(scale=0.3), 1e-6),
    ],
    ids=["half the noise", "honest answers", "no noise", "no noise, dict", "scale tells", "gaussian"],
)
def test_a_false_claim_is_disproved(function, delta):
    found = audit_function(function, PAIR, epsilon=1.0, delta=delta)
    assert found.violated
    assert found.lower_bound > 1.0
    assert "is false" in str(found)


@pytest.mark.parametrize("name", ["laplace", "response", "gaussian"])
def test_a_true_claim_is_rarely_called_violated(name):
    """100 audits at 95 %: more than 16 alarms have a chance below 1e-5 if each has at most 5 %."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        sigma = 1 / gaussian_mu(1.0, 1e-6)
        function = {
            "laplace": _laplace_sum(1.0, seed),
            "response": _response(np.e / (1 + np.e), seed),
            "gaussian": lambda records, rng=rng, sigma=sigma: sum(records) + rng.normal(scale=sigma),
        }[name]
        delta = 1e-6 if name == "gaussian" else 0.0
        alarms += audit_function(function, PAIR, epsilon=1.0, delta=delta, runs=200).violated
    assert alarms <= 16


def test_what_the_attacker_learned_by_heart_proves_nothing():
    """Noise of 20 numbers that ignores the data: the attacker overfits its training runs, and only those.

    20 audits at 95 %: more than 7 alarms have a chance below 1e-5.
    """
    alarms = sum(
        audit_function(lambda records: RNG.normal(size=20), PAIR, epsilon=0.01, runs=200).violated
        for _ in range(20)
    )
    assert alarms <= 7


def test_the_bound_of_a_tight_mechanism_comes_near_its_claim():
    found = audit_function(_laplace_sum(1.0), PAIR, epsilon=1.0, runs=5000, confidence=1 - 1e-6)
    assert 0.65 < found.lower_bound <= 1.0
    assert "no proof" in str(found)


def test_the_pair_that_shows_most_is_judged():
    pairs = [([1.0], [1.0]), PAIR, ([2.0], [2.0])]
    found = audit_function(lambda records: sum(records), pairs, epsilon=1.0, runs=400)
    assert found.pair == 1
    assert found.violated
    assert isinstance(found, FunctionAudit)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": -1.0}, "epsilon >= 0"),
        ({"delta": 1.0}, "delta < 1"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"runs": 10}, "at least 80"),
        ({"runs": 400.0}, "whole number"),
        ({"epsilon": "1"}, "must be a number"),
        ({"neighbours": (([1], [2]), ([3], [4]))}, "tuple of two tuples"),
        ({"neighbours": [[1.0], [2.0]]}, "pair of datasets"),
        ({"neighbours": []}, "pair of datasets"),
    ],
)
def test_a_bad_call_is_explained(arguments, words):
    given = {"neighbours": PAIR, "epsilon": 1.0} | arguments
    with pytest.raises(UserError, match=words):
        audit_function(_laplace_sum(1.0), given.pop("neighbours"), **given)


@pytest.mark.parametrize(
    "outputs",
    [
        (np.nan, 0.0),
        (np.inf, -np.inf),
        ({"a": 1}, {"b": 1}),
        ([[0, 0], [0]], [[0], [0, 0]]),
        (np.array([1 + 1j]), np.array([1 + 2j])),
        (None, 0.0),
        ("yes", "no"),
        (b"yes", b"no"),
        (np.array(["a", "b"]), np.array(["b", "a"])),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [2.0]})),
    ],
    ids=range(10),
)
def test_a_difference_of_any_kind_is_seen(outputs):
    """The output is one of two fixed values: no noise at all."""
    found = audit_function(lambda records: outputs[len(records) - 2], PAIR, epsilon=1.0, runs=200)
    assert found.violated


def test_a_huge_number_does_not_hide_an_exact_count():
    found = audit_function(lambda records: [1e308 * RNG.normal(), len(records)], PAIR, epsilon=1.0, runs=400)
    assert found.violated


def test_a_state_that_does_not_depend_on_the_data_is_no_violation():
    """A counter and a random walk: told apart by the time of the call, not by the data."""
    counter = itertools.count()
    assert not audit_function(lambda records: next(counter), PAIR, epsilon=0.5, runs=400).violated
    steps = itertools.accumulate(RNG.normal() for _ in itertools.count())
    assert not audit_function(lambda records: next(steps), PAIR, epsilon=0.5, runs=400).violated
