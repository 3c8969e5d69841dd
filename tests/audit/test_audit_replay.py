"""The replay: every mechanism passes, and each planted error is named in three runs."""

import dataclasses
import functools

import numpy as np
import pytest
from making import PRIVATE, make_mechanism, quick_mechanism
from scipy import stats

from privmix.audit import crafted_worlds, noise_tests, replay
from privmix.audit.replay import replay_audit
from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, seeded_randomness
from privmix.mechanisms.central import dp_em
from privmix.mechanisms.local import planar_laplace
from privmix.mixture import em
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, Claim
from privmix.privacy.ledger import RandomizedResponse
from privmix.privacy.noise import SeededNoise
from privmix.privacy.oracles import base

BUDGET = Budget(1.0, 1e-6)
RUNS = 3


def _verdict(
    mechanism,
    source=lambda generator: SeededNoise(generator),
    *,
    relation="replace_one",
    seed=1,
    unit="record",
):
    def randomness(number):
        drawn = seeded_randomness(seed, type(mechanism).__name__, number)
        return Randomness(source(drawn.noise.generator), drawn.search)

    return replay_audit(
        mechanism, crafted_worlds.crafted_pairs(mechanism, unit, relation), BUDGET, randomness, RUNS
    )


def _found(verdict, words):
    assert any(words in sentence for sentence in verdict.findings), verdict.findings


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("name", PRIVATE)
def test_every_mechanism_passes_and_uses_its_claim(name, unit, relation):
    """A false alarm has a chance of 0.006 over all of these; the seeds are fixed."""
    verdict = _verdict(quick_mechanism(name), relation=relation, unit=unit)
    assert verdict.findings == []
    assert verdict.runs == RUNS
    assert verdict.releases >= RUNS
    assert 0.25 < verdict.used <= 1.001
    assert len(verdict.noise) >= 12


@pytest.mark.slow
def test_correct_mechanisms_are_suspected_as_rarely_as_stated(monkeypatch):
    """240 verdicts on six mechanisms at an alarm of 5 %: more than 27 would happen once in 20,000 times."""
    monkeypatch.setattr(
        noise_tests, "noise_findings", functools.partial(noise_tests.noise_findings, alarm=0.05)
    )
    names = [
        "dp_em",
        "noisy_moments",
        "laplace_input",
        "planar_laplace",
        "randomized_response",
        "tree_response",
    ]
    alarms = sum(
        not _verdict(quick_mechanism(name), seed=seed).passed for name in names for seed in range(2, 42)
    )
    assert stats.binom.sf(27, 240, 0.05) < 5e-5
    assert alarms <= 27


class Halved(SeededNoise):
    """Noise of half the requested scale."""

    def add_laplace(self, values, scale):
        return super().add_laplace(values, scale / 2)

    def add_gaussian(self, values, sigma):
        return super().add_gaussian(values, sigma / 2)

    def add_planar_laplace(self, values, scale):
        return super().add_planar_laplace(values, scale / 2)


@pytest.mark.parametrize("name", PRIVATE)
def test_halved_noise_is_found_in_every_mechanism(name, monkeypatch):
    """In a channel, persons lie half as often."""
    lies = base.lies
    monkeypatch.setattr(base, "lies", lambda chance, shape, source: lies(chance / 2, shape, source))
    verdict = _verdict(quick_mechanism(name), Halved)
    assert any("the noise is too" in each or "the mean of the noise" in each for each in verdict.findings)


@pytest.mark.parametrize("name", PRIVATE)
def test_halved_sensitivity_is_found_in_every_mechanism(name, monkeypatch):
    """Half the sensitivity, half the diameter of the map, and a channel that spends twice what the ledger states."""
    check, diameter = noise._check, planar_laplace.diameter
    monkeypatch.setattr(
        noise, "_check", lambda value, what: check(value, what) / (2 if what == "sensitivity" else 1)
    )
    monkeypatch.setattr(planar_laplace, "diameter", lambda domain: diameter(domain) / 2)
    monkeypatch.setattr(
        base, "RandomizedResponse", lambda label, epsilon: RandomizedResponse(label, epsilon / 2)
    )
    verdict = _verdict(quick_mechanism(name))
    _found(verdict, "but the ledger allows")


def _claiming(monkeypatch):
    """Return a mechanism that claims its budget whatever it spends."""
    monkeypatch.setattr(
        dp_em, "claim", lambda events, budget, composition: Claim(budget.epsilon, budget.delta)
    )


class ForgetsT(type(make_mechanism("dp_em"))):
    """Each iteration has the whole budget."""

    def share(self, n_components, budget):
        return make_mechanism("dp_em", iterations=1).share(n_components, budget)


def test_forgotten_iterations_are_found_in_the_ledger_and_in_the_distances(monkeypatch):
    _claiming(monkeypatch)
    verdict = _verdict(ForgetsT(iterations=20), relation="add_remove")
    _found(verdict, "the ledger adds up to ε =")
    _found(verdict, "measurements together, but ε = 1 is claimed")
    assert verdict.used > 1.5


class Shortens(ForgetsT):
    """And the ledger has only the first iteration."""

    def fit(self, view, spec, budget, rng):
        release = super().fit(view, spec, budget, rng)
        return dataclasses.replace(release, events=release.events[: len(release.events) // self.iterations])


def test_a_ledger_that_lacks_measurements_is_found(monkeypatch):
    _claiming(monkeypatch)
    verdict = _verdict(Shortens(iterations=20), relation="add_remove")
    _found(verdict, "the ledger does not match the measurements")
    _found(verdict, "measurements together, but ε = 1 is claimed")


class Boasts(type(make_mechanism("dp_em"))):
    """Claims half of what it spends."""

    def fit(self, view, spec, budget, rng):
        release = super().fit(view, spec, budget, rng)
        return dataclasses.replace(release, claim=Claim(release.claim.epsilon / 2, release.claim.delta))


def test_a_claim_below_the_ledger_is_found():
    _found(_verdict(Boasts(attribute_share=0)), "the ledger adds up to ε = 1, δ = 1e-06, but ε = 0.5")


class Leaks(type(make_mechanism("dp_em"))):
    """Its notes reveal the number of records in a corner."""

    def fit(self, view, spec, budget, rng):
        release = super().fit(view, spec, budget, rng)
        return dataclasses.replace(release, notes=[str(int((view.points[:, 0] > 0.6).sum()))])


def test_a_leak_beside_the_measurements_is_found():
    verdict = _verdict(Leaks())
    _found(
        verdict, "with all measurements held fixed, changing one record (opposite corners) changes the notes"
    )
    assert len(verdict.findings) == 1


class Sorts(type(make_mechanism("laplace_input"))):
    """Reports for each record whether it was in the upper half."""

    def answer(self, points, spec, plan, source, ledger):
        answers = super().answer(points, spec, plan, source, ledger)
        return dataclasses.replace(answers, columns={**answers.columns, "half": points[:, 0] > 0})


def test_a_leak_in_reports_is_found():
    _found(_verdict(Sorts()), "changes the reports 'half'")


class Noisy(type(make_mechanism("dp_em"))):
    """Adds a count with its own noise, which is not in the ledger."""

    def fit(self, view, spec, budget, rng):
        release = super().fit(view, spec, budget, rng)
        count = rng.noise.add_laplace(np.array([float(len(view.points))]), 1.0)
        return dataclasses.replace(release, notes=[str(count)])


def test_noise_outside_of_a_measurement_is_found():
    verdict = _verdict(Noisy())
    (sentence,) = verdict.findings
    assert sentence.startswith("laplace noise is drawn outside of a measurement")


def test_a_start_on_the_data_is_found(monkeypatch):
    """The first means are those of the extreme records."""

    class Starts(type(make_mechanism("dp_em"))):
        def fit(self, view, spec, budget, rng):
            lowest, highest = view.points.min(axis=0), view.points.max(axis=0)
            monkeypatch.setattr(dp_em.em, "public_start", lambda *given: public(lowest, highest, *given[2:]))
            return super().fit(view, spec, budget, rng)

    public = em.public_start
    _found(_verdict(Starts()), "but the ledger allows")


def test_bounds_from_the_data_are_found():
    """Scaled by the largest record, one record moves all others."""

    class Scales(type(make_mechanism("dp_em"))):
        def fit(self, view, spec, budget, rng):
            scaled = view.points / np.abs(view.points).max() * np.sqrt(0.5)
            return super().fit(dataclasses.replace(view, points=scaled), spec, budget, rng)

    _found(_verdict(Scales(), relation="add_remove"), "but the ledger allows")


def test_noise_whose_scale_depends_on_the_records_is_found():
    class Exact(type(make_mechanism("noisy_grid"))):
        def fit(self, view, spec, budget, rng):
            reach = 1 / np.abs(view.points.sum())
            ledger = noise.Ledger()
            noise.laplace(
                np.zeros(30),
                sensitivity=reach,
                epsilon=budget.epsilon,
                source=rng.noise,
                ledger=ledger,
                label="zeros",
            )
            release = super().fit(view, spec, Budget(1e-3, 0.0), rng)
            return dataclasses.replace(release, events=[*ledger.events, *release.events])

    _found(_verdict(Exact()), "zeros: the noise itself depends on one record")


def test_a_number_of_measurements_that_depends_on_the_records_is_found():
    class Stops(type(make_mechanism("dp_em"))):
        def fit(self, view, spec, budget, rng):
            corner = int((view.points[:, 0] > 0.7).sum())
            return super(Stops, dataclasses.replace(self, iterations=3 + corner)).fit(view, spec, budget, rng)

    _found(_verdict(Stops(attribute_share=0)), "there are fewer measurements")


class Repeats(SeededNoise):
    """Every measurement draws from the beginning of the same stream."""

    def add_gaussian(self, values, sigma):
        again = np.random.Generator(np.random.PCG64(5))
        return values + sigma * again.normal(size=np.shape(values))


@pytest.mark.parametrize("name", ["dp_em", "noisy_moments", "gaussian_input", "output_noise"])
def test_the_same_noise_in_each_measurement_is_found(name):
    _found(_verdict(quick_mechanism(name), Repeats), "the noise is reused")


@pytest.mark.parametrize("name", PRIVATE)
def test_a_fixed_seed_is_found_in_every_mechanism(name):
    """Each run draws from the same stream."""
    fixed = np.random.Generator(np.random.PCG64(6)).bit_generator.state

    def source(_):
        generator = np.random.Generator(np.random.PCG64(6))
        generator.bit_generator.state = fixed
        return SeededNoise(generator)

    verdict = _verdict(quick_mechanism(name), source)
    assert any("noise is reused" in each or "one run is correlated" in each for each in verdict.findings)


def test_no_noise_at_all_is_found():
    class Silent(SeededNoise):
        def add_gaussian(self, values, sigma):
            return np.array(values)

    _found(_verdict(make_mechanism("dp_em"), Silent), "the noise is too small")


def test_the_choice_of_the_number_of_components_is_replayed_too():
    mechanism = quick_mechanism("dp_em")
    pairs = [
        dataclasses.replace(pair, spec=dataclasses.replace(pair.spec, n_components=3, candidates=(1, 3)))
        for pair in crafted_worlds.crafted_pairs(mechanism, "record", "replace_one")
    ]
    verdict = replay_audit(mechanism, pairs, BUDGET, lambda number: seeded_randomness(3, number), RUNS)
    assert verdict.findings == []
    assert 0 < verdict.used <= 1


def test_a_finding_does_not_quote_the_error_of_a_library():
    """The text of such an error may hold a value of a record."""
    assert replay._error_text(ValueError("could not convert 'Zoe' to float")) == "ValueError"
    assert replay._error_text(UserError("our own sentence")) == "our own sentence"
