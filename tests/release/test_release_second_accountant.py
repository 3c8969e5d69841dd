"""The second accountant: a lower bound of the privacy loss, close to the true one, by a method of its own."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
from making import clusters, make_spec
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.privacy.accounting import Budget, account, compose_run, gaussian_mu, nearby_events
from privmix.privacy.ledger import (
    Decomposition,
    Gaussian,
    Laplace,
    PlanarLaplace,
    RandomizedResponse,
    SampledGaussian,
    Selection,
)
from privmix.release import second_accountant

NUMERICAL = 3e-3  # of δ, by which the lower bound may stay below the truth at the same ε
SHIFTED = 5e-4  # of ε, by which it may come from the right


def _deltas(events, epsilon):
    """The lower bounds of δ: one, or for a unit removed and for one added."""
    return [loss.delta(epsilon) for loss in second_accountant._losses(events)]


def _is_just_below(found, truth, epsilon, numerical=NUMERICAL, tail=0.0):
    """`truth` is the closed form of δ(ε); `tail` is what a sample leaves beyond its bins."""
    assert found <= truth(epsilon) * (1 + 1e-9) + tail
    assert found >= truth(epsilon * (1 + SHIFTED)) * (1 - numerical) - tail


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0, 200.0])
@pytest.mark.parametrize("count", [1, 40])
def test_gaussian_events_have_the_closed_form(multiplier, count):
    """δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) with μ² = count / multiplier² (Balle and Wang 2018, Theorem 8)."""
    mu = math.sqrt(count) / multiplier

    def truth(epsilon):
        return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))

    for deviations in (0.5, 3.0, 6.0):
        epsilon = mu * mu / 2 + deviations * mu
        (found,) = _deltas([Gaussian("sum", multiplier)] * count, epsilon)
        _is_just_below(found, truth, epsilon)


@pytest.mark.parametrize("size", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_one_laplace_event_has_the_closed_form(size, share):
    """δ = 1 - e^((ε - ε₀)/2): all outputs below the middle count, as far as their loss exceeds ε."""
    (found,) = _deltas([Laplace("counts", size)], share * size)
    _is_just_below(found, lambda epsilon: -math.expm1((epsilon - size) / 2), share * size)


@pytest.mark.parametrize("kind", [RandomizedResponse, Selection, Decomposition])
@pytest.mark.parametrize(("size", "count"), [(1.0, 1), (0.5, 4), (0.1, 30), (0.01, 300)])
def test_pure_events_have_the_binomial_formula(kind, size, count):
    """Kairouz, Oh, Viswanath 2015: of k answers j are lies, and the loss is (k - 2j) ε₀."""
    lies = np.arange(count + 1)
    losses, probabilities = (count - 2 * lies) * size, binom.pmf(lies, count, 1 / (1 + math.exp(size)))

    def truth(epsilon):
        return (probabilities * np.maximum(-np.expm1(epsilon - losses), 0)).sum()

    for share in (0.2, 0.5, 0.8):
        epsilon = share * count * size if count < 10 else share * 7 * math.sqrt(count) * size
        (found,) = _deltas([kind("answer", size)] * count, epsilon)
        _is_just_below(found, truth, epsilon)


SAMPLED = [(1.0, 0.1), (4.0, 0.5), (0.3, 0.01), (0.04, 0.2)]


def _half_line(ratio, multiplier, rate):
    """The place where (mixture / plain) is this, and the standard normal places of the two Gaussians there."""
    place = multiplier**2 * math.log((ratio - 1 + rate) / rate) + 0.5
    return place / multiplier, (place - 1) / multiplier


@pytest.mark.parametrize(("multiplier", "rate"), SAMPLED)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_one_event_on_a_sample_has_the_closed_form_for_a_unit_removed(multiplier, rate, share):
    """All outputs above the place where the loss is ε count: P - e^ε Q of that half line."""
    epsilon = share * math.log1p(rate * math.expm1(4 / multiplier + 0.5 / multiplier**2))

    def truth(epsilon):
        plain, moved = _half_line(math.exp(epsilon), multiplier, rate)
        mass = (1 - rate) * ndtr(-plain) + rate * ndtr(-moved)
        return mass - math.exp(epsilon + log_ndtr(-plain))

    removed, _ = _deltas([SampledGaussian("g", multiplier, rate)], epsilon)
    _is_just_below(removed, truth, epsilon, numerical=1e-2)


@pytest.mark.parametrize(("multiplier", "rate"), SAMPLED)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_one_event_on_a_sample_has_the_closed_form_for_a_unit_added(multiplier, rate, share):
    """The reverse: all outputs below the place count; no loss is more than -ln(1 - q)."""
    epsilon = -share * math.log1p(-rate)

    def truth(epsilon):
        plain, moved = _half_line(math.exp(-epsilon), multiplier, rate)
        mass = (1 - rate) * ndtr(plain) + rate * ndtr(moved)
        return ndtr(plain) - math.exp(epsilon) * mass

    _, added = _deltas([SampledGaussian("g", multiplier, rate)], epsilon)
    _is_just_below(added, truth, epsilon, numerical=1e-2, tail=1e-12)


def test_a_sample_of_all_units_is_none():
    everybody = second_accountant.epsilon([SampledGaussian("g", 3.0, 1.0)] * 9, 1e-6)
    assert everybody == second_accountant.epsilon([Gaussian("g", 3.0)] * 9, 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_ledgers_of_all_kinds_agree_with_privacy_loss_distributions(seed):
    """Those are pessimistic, by less than 5e-3 of ε, and this accountant optimistic, by less than 1e-3."""
    rng = np.random.default_rng(seed)
    size, delta = 10 ** rng.uniform(-1.5, 0.5), 10 ** rng.uniform(-9, -4)
    events = []
    for kind in (Gaussian, Laplace, RandomizedResponse, Selection, Decomposition):
        if rng.random() < 0.6:
            count = int(rng.integers(1, 12))
            own = size * rng.uniform(0.5, 2) / math.sqrt(count)
            events += [kind("x", 3 / own if kind is Gaussian else own)] * count
    if seed % 3 == 0:
        events += [SampledGaussian("g", rng.uniform(0.8, 3), rng.uniform(0.01, 0.2))] * int(
            rng.integers(20, 200)
        )
    events = events or [Laplace("x", size)] * 2
    ours = account(events, delta, "exact").epsilon
    theirs = second_accountant.epsilon(events, delta)
    assert ours * (1 - 5e-3) <= theirs <= ours * (1 + second_accountant.TOLERANCE)
    assert second_accountant.exceeds(events, delta, ours) is None
    assert second_accountant.exceeds(events, delta, ours * (1 - 6e-3)) == pytest.approx(theirs)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0, 100.0])
def test_the_least_noise_of_a_budget_is_accepted_and_a_thousandth_less_is_not(epsilon, delta):
    multiplier = 1 / gaussian_mu(epsilon, delta)
    assert second_accountant.exceeds([Gaussian("x", multiplier)], delta, epsilon) is None
    assert second_accountant.exceeds([Gaussian("x", 0.998 * multiplier)], delta, epsilon) > epsilon


def test_without_delta_the_epsilons_of_pure_events_add_up_and_gaussian_noise_has_none():
    events = [Laplace("a", 0.5), PlanarLaplace("b", 9.0, 500.0, 1.0, 500.0)]
    assert second_accountant.epsilon(nearby_events(events), 0.0) == 1.5
    assert second_accountant.exceeds(nearby_events(events), 0.0, 1.5) is None
    assert second_accountant.exceeds(nearby_events(events), 0.0, 1.49) == 1.5
    assert second_accountant.exceeds([*events, Gaussian("c", 9.0)], 0.0, 100.0) == math.inf


def test_nothing_costs_nothing():
    assert second_accountant.epsilon([], 1e-6) == second_accountant.epsilon([], 0.0) == 0.0
    assert second_accountant.epsilon([Gaussian("x", 1e9)], 1e-6) == 0.0


def test_no_code_of_dp_accounting_is_used():
    code = (
        "import sys\n"
        "from privmix.privacy.ledger import Gaussian, Laplace, SampledGaussian\n"
        "from privmix.release import second_accountant\n"
        "assert 'scipy' not in sys.modules\n"
        "events = [Gaussian('a', 9.0), Laplace('b', 0.1), *[SampledGaussian('c', 2.0, 0.1)] * 9]\n"
        "assert second_accountant.epsilon(events, 1e-6) > 0.1\n"
        "assert not [name for name in sys.modules if name.startswith('dp_accounting')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


PRIVATE = [name for name in registry.METHODS if registry.method_class(name).private]


def _less_noise(event, share):
    if isinstance(event, Gaussian | SampledGaussian):
        return dataclasses.replace(event, noise_multiplier=event.noise_multiplier * share)
    return dataclasses.replace(event, epsilon=event.epsilon / share)


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_claim_of_every_mechanism_is_accepted_and_refused_with_three_percent_less_noise(method, relation):
    """Refused where the theorem of the mechanism is tight: elsewhere the claim may cover even that."""
    mechanism = registry.build(method, {"within_m": 200.0} if method == "planar_laplace" else {})
    spec, rng = make_spec(rows=300, relation=relation), seeded_randomness(1, method)
    run = mechanism.fit if mechanism.trust == "central" else mechanism.privatise
    result = run(Records(clusters(300), {}, np.arange(300)), spec, Budget(1.5, 1e-6), rng)
    events, claim = nearby_events(result.events), result.claim
    assert compose_run(events, claim.delta, mechanism.accountant) == claim
    assert second_accountant.exceeds(events, claim.delta, claim.epsilon) is None
    tight = claim.delta == 0 or account(events, claim.delta, "exact").epsilon > 0.99 * claim.epsilon
    less = [_less_noise(event, 0.97) for event in events]
    if tight:
        assert second_accountant.exceeds(less, claim.delta, claim.epsilon) > 1.01 * claim.epsilon
    else:
        assert mechanism.accountant != "exact"
