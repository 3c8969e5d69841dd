"""Gaussian measurements on a random sample: their loss by an independent method, noise, sample and ledger."""

import math

import numpy as np
import pytest
from making import RecordingNoise
from scipy import special, stats

from privmix.errors import UserError
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, account, claim, compose_ledgers, gaussian_delta, to_replace_one
from privmix.privacy.calibration import noise_multipliers_by_share, sampled_noise_multiplier
from privmix.privacy.ledger import Gaussian, Laplace, Ledger, SampledGaussian, from_rows, to_rows
from privmix.privacy.noise import SeededNoise, stream


def _renyi_epsilon(noise_multiplier, rate, steps, delta):
    """The moments accountant at whole orders: Mironov, Talwar, Zhang 2019, §3.3; conversion of Canonne et al. 2020."""
    best = math.inf
    for order in range(2, 200):
        k = np.arange(order + 1)
        terms = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        terms += (
            k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * noise_multiplier**2)
        )
        divergence = steps * special.logsumexp(terms) / (order - 1)
        slack = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        best = min(best, divergence + slack)
    return best


@pytest.mark.parametrize(
    ("noise_multiplier", "rate", "steps"),
    [(1.0, 0.02, 200), (4.0, 0.01, 10_000), (2.0, 0.2, 50), (1.0, 0.1, 30)],
)
def test_exact_composition_is_below_the_moments_accountant_and_not_by_much(noise_multiplier, rate, steps):
    exact = account([SampledGaussian("g", noise_multiplier, rate)] * steps, 1e-5, "exact").epsilon
    bound = _renyi_epsilon(noise_multiplier, rate, steps, 1e-5)
    assert 0.75 * bound < exact < bound


def test_abadis_example_costs_what_is_known():
    """q = 0.01, σ = 4, 10,000 steps, δ = 1e-5: 1.26 by the moments accountant (Abadi et al. 2016, §3.2)."""
    exact = account([SampledGaussian("g", 4.0, 0.01)] * 10_000, 1e-5, "exact").epsilon
    assert 0.9 < exact < 1.26


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("noise_multiplier", [0.8, 3.0])
def test_one_step_is_amplified_as_the_closed_form_says(rate, noise_multiplier):
    """A unit removed: δ at ln(1 + q (e^ε - 1)) is q times the Gaussian's at ε (Balle, Barthe, Gaboardi 2018)."""
    epsilon = 1.2 / noise_multiplier
    delta = rate * gaussian_delta(epsilon, 1 / noise_multiplier)
    amplified = math.log1p(rate * math.expm1(epsilon))
    found = account([SampledGaussian("g", noise_multiplier, rate)], delta, "exact").epsilon
    assert found == pytest.approx(amplified, rel=2e-3)
    assert found >= amplified * (1 - 1e-9)


def test_a_sample_of_everyone_is_a_gaussian_release():
    sampled = account([SampledGaussian("g", 5.0, 1.0)] * 4, 1e-6, "exact").epsilon
    assert sampled == pytest.approx(account([Gaussian("g", 5.0)] * 4, 1e-6, "exact").epsilon, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("beside", [(), (Gaussian("start", 60.0),)])
@pytest.mark.parametrize("rate", [0.04, 0.5])
def test_the_calibrated_multiplier_spends_the_budget_and_no_more(epsilon, beside, rate):
    budget = Budget(epsilon, 1e-6)
    noise_multiplier = sampled_noise_multiplier(rate, 100, budget, beside)
    events = [*beside, *[SampledGaussian("g", noise_multiplier, rate)] * 100]
    assert claim(events, budget, "exact").epsilon == pytest.approx(epsilon, rel=1e-6)
    assert account(events, 1e-6, "exact").epsilon <= epsilon
    less = [*beside, *[SampledGaussian("g", noise_multiplier / 2, rate)] * 100]
    with pytest.raises(UserError, match="more than the budget"):
        claim(less, budget, "exact")


def test_nothing_left_for_the_sampled_releases_is_refused():
    with pytest.raises(UserError, match="leave nothing"):
        sampled_noise_multiplier(0.1, 10, Budget(1.0, 1e-6), (Gaussian("start", 1.0),))


@pytest.mark.parametrize("composition", ["linear", "advanced", "zcdp", "rdp"])
def test_other_theorems_refuse_sampled_releases(composition):
    with pytest.raises(UserError, match="exact"):
        account([SampledGaussian("g", 1.0, 0.1)], 1e-6, composition)


def test_totals_of_several_ledgers_with_samples_are_exact():
    found = compose_ledgers([[SampledGaussian("g", 2.0, 0.1)] * 10, [Laplace("l", 0.1)]], 1e-6)
    assert found.theorem == "exact"
    assert found.epsilon > account([SampledGaussian("g", 2.0, 0.1)] * 10, 1e-6, "exact").epsilon


def test_a_replaced_unit_has_no_amplification():
    assert to_replace_one([SampledGaussian("g", 2.0, 0.1)]) == [Gaussian("g", 1.0)]


def test_the_ledger_keeps_the_rate_in_a_file():
    events = [SampledGaussian("g", 2.0, 0.1)] * 3
    assert from_rows(to_rows(events)) == events


@pytest.mark.parametrize(("noise_multiplier", "rate"), [(1.0, 0.0), (1.0, 1.1), (0.0, 0.5), (math.nan, 0.5)])
def test_impossible_events_are_refused(noise_multiplier, rate):
    with pytest.raises(UserError):
        SampledGaussian("g", noise_multiplier, rate)


def test_the_sum_is_over_the_sample_and_the_noise_is_as_stated():
    source, ledger, seen = RecordingNoise(rounding=lambda size, norm: 0.5), Ledger(), []
    released = noise.sampled_gaussian(
        lambda sample: seen.append(sample) or np.array([float(len(sample))]),
        1000, rate=0.3, sensitivity=2.0, noise_multiplier=4.0, source=source, ledger=ledger, label="g",
    )  # fmt: skip
    assert released == [len(seen[0])]
    assert source.asked == [("gaussian", 4.0 * 2.5, (1,))]
    assert ledger.events == [SampledGaussian("g", 4.0, 0.3)]


def test_every_unit_is_sampled_at_the_rate_and_by_itself():
    """Binomial counts per unit and per step (chi square, false alarm 1e-6); another rate fails the same test."""
    source, samples, units, rate, steps = SeededNoise(stream(3, "sample")), [], 50, 0.3, 400
    for _ in range(steps):
        noise.sampled_gaussian(
            lambda sample: samples.append(sample) or np.zeros(1),
            units, rate=rate, sensitivity=1.0, noise_multiplier=1.0, source=source, ledger=Ledger(), label="g",
        )  # fmt: skip
    taken = np.zeros((steps, units))
    for step, sample in enumerate(samples):
        taken[step, sample] = 1

    def tail(counts, trials, at):
        square = ((counts - trials * at) ** 2).sum() / (trials * at * (1 - at))
        return min(stats.chi2.sf(square, len(counts)), stats.chi2.cdf(square, len(counts)))

    assert tail(taken.sum(axis=0), steps, rate) > 5e-7
    assert tail(taken.sum(axis=1), units, rate) > 5e-7
    assert tail(taken.sum(axis=0), steps, rate / 2) < 5e-7


def test_a_partition_is_uniform_and_knows_nothing_but_how_many_units_there_are():
    assigned = noise.partition(20_000, 8, source=SeededNoise(stream(4, "partition")))
    assert stats.chisquare(np.bincount(assigned, minlength=8)).pvalue > 1e-6
    again = noise.partition(20_000, 8, source=SeededNoise(stream(4, "partition")))
    assert np.array_equal(assigned, again)
    with pytest.raises(UserError, match="blocks"):
        noise.partition(5, 0, source=SeededNoise(stream(4)))


def test_divided_multipliers_compose_to_the_budget():
    multipliers = noise_multipliers_by_share([0.5, 0.25, 0.25], Budget(1.0, 1e-6))
    events = [Gaussian("g", each) for each in multipliers]
    assert account(events, 1e-6, "exact").epsilon == pytest.approx(1.0, rel=1e-9)
    assert multipliers[1] / multipliers[0] == pytest.approx(math.sqrt(2))
    with pytest.raises(UserError, match="delta"):
        noise_multipliers_by_share([1.0], Budget(1.0, 0.0))
