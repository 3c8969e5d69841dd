"""Censored labels: what a label tells about an attribute never exceeds its limit more often than stated."""

import math

import numpy as np
import pytest
from making import make_domain

from privmix.evaluate.censored_labels import information, joint_shares
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.shared import censored_labels
from privmix.mechanisms.shared.censored_labels import (
    InformationBounds,
    base_weights,
    bound_information,
    choose,
    label_probabilities,
)
from privmix.privacy.accounting import Budget
from privmix.privacy.vector_noise import VectorNoise

SHAPES = [(1, 2), (2, 2), (4, 3), (10, 7), (16, 40)]


def exact_bounds(table, base, rows):
    """Return the bounds of a table without noise."""
    sizes = table.sum(axis=0)
    squares = (np.square(table - base[:, None] * sizes) / base[:, None]).sum(axis=0)
    return InformationBounds(squares, sizes, sizes, rows, base.min())


def random_records(rng, labels, values, rows):
    """Make responsibilities that depend on the value of the attribute, more or less."""
    codes = rng.choice(values, size=rows, p=rng.dirichlet(np.full(values, 0.7)))
    centres = rng.dirichlet(np.full(labels, 0.8), size=values)
    pull = rng.choice([0.0, 0.3, 3.0, 30.0])
    shares = np.array([rng.dirichlet(0.2 + pull * centre) for centre in centres[codes]])
    return shares, codes


@pytest.mark.parametrize(("labels", "values"), SHAPES)
def test_the_bound_without_noise_is_above_the_information_of_labels(labels, values):
    rng = np.random.default_rng(labels * 100 + values)
    for _ in range(40):
        shares, codes = random_records(rng, labels, values, 60)
        weights = rng.dirichlet(np.full(labels, 0.5))
        base = base_weights(weights)
        bounds = exact_bounds(joint_shares(shares, codes, values) * 60, base, 60)
        for kept in (0.0, 1e-4, 0.01, 0.3, 0.9, 1.0):
            told = information(joint_shares(label_probabilities(shares, weights, kept), codes, values))
            assert told <= bounds.limit(kept) + 1e-12


def test_the_bound_is_tight_for_weak_relations():
    """(1) is the information to second order if the weights are those of the labels."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=30_000)
    shares = np.where(codes[:, None] == np.arange(3), 0.4, 0.3)
    bounds = exact_bounds(joint_shares(shares, codes, 3) * len(codes), shares.mean(axis=0), len(codes))
    told = information(joint_shares(label_probabilities(shares, shares.mean(axis=0), 0.2), codes, 3))
    assert told <= bounds.limit(0.2) <= 1.2 * told


def test_the_limit_increases_with_the_share_of_own_labels():
    bounds = bound_information(
        np.random.default_rng(1).uniform(0, 400, (5, 4)), np.full(5, 0.2), VectorNoise("laplace", 30.0), None
    )
    limits = [bounds.limit(kept) for kept in np.linspace(0, 1, 101)]
    assert limits[0] == 0
    assert (np.diff(limits) >= 0).all()
    assert limits[-1] <= math.log(5) + 1e-12


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("known", [True, False], ids=["N public", "N private"])
@pytest.mark.parametrize(
    ("labels", "values", "deviation"), [(2, 2, 40.0), (6, 5, 3.0), (6, 5, 40.0), (6, 5, 2000.0)]
)
def test_labels_tell_more_than_the_limit_in_at_most_one_of_twenty_runs(law, known, labels, values, deviation):
    """600 runs: more than 60 failures have a probability below 1e-6 if each has a probability of 0.05.

    With two labels and two values that are hardly related, noise makes them look less related in many runs.
    """
    rng, failures, wanted = np.random.default_rng(7), 0, 0.02 if labels > 2 else 0.002
    shares, codes = random_records(rng, labels, values, 3000)
    if values == 2:
        codes = np.arange(3000) % 2
        shares = np.where((codes[:, None] == 0) == (np.arange(2) == 0), 0.55, 0.45)
    weights, exact = shares.mean(axis=0), joint_shares(shares, codes, values) * 3000
    for _ in range(600):
        noise = (
            rng.laplace(0, deviation / math.sqrt(2), exact.shape)
            if law == "laplace"
            else rng.normal(0, deviation, exact.shape)
        )
        bounds = bound_information(
            exact + noise, weights, VectorNoise(law, deviation), 3000 if known else None
        )
        kept = choose({"it": bounds}, {"it": wanted}).kept
        told = information(joint_shares(label_probabilities(shares, weights, kept), codes, values))
        failures += told > wanted
    assert failures <= 60


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_limits_of_noise_lie_just_above_its_quantiles(law):
    """A limit fails as often as it may, or less: a limit 10 % lower fails too often."""
    rng, parts = np.random.default_rng(11), np.array([0.05, 0.15, 0.3, 0.5])
    draw = rng.laplace if law == "laplace" else rng.normal
    noise = draw(0, 1 / math.sqrt(2) if law == "laplace" else 1.0, (200_000, 4))
    lengths = np.sqrt((noise**2 / parts).sum(axis=1) - noise.sum(axis=1) ** 2)
    limits = VectorNoise(law, 1.0)
    for probability in (0.9, 0.99, 0.999):
        allowed = 1 - probability
        longest, largest = limits.largest_length(parts, probability), limits.largest_sum(4, probability)
        assert (lengths > longest).mean() <= 1.1 * allowed
        assert (np.abs(noise.sum(axis=1)) > largest).mean() <= 1.1 * allowed
        assert (lengths > 0.9 * longest).mean() > allowed


@pytest.mark.parametrize(("entries", "values"), [(2, 5000), (300, 300)])
def test_limits_of_noise_hold_for_many_values(entries, values):
    """The confidence is divided among the values. Draws that cannot show such a quantile give no limit."""
    probability, limits = 1 - 0.025 / values, VectorNoise("laplace", 1.0)
    parts = np.full(entries, 1 / entries)
    noise = np.random.default_rng(13).laplace(0, math.sqrt(0.5), (200_000, entries))
    lengths = np.sqrt(np.maximum((noise**2 / parts).sum(axis=1) - noise.sum(axis=1) ** 2, 0))
    for limit, drawn in (
        (limits.largest_length(parts, probability), lengths),
        (limits.largest_sum(entries, probability), np.abs(noise.sum(axis=1))),
    ):
        assert (drawn > limit).sum() <= 200_000 * (1 - probability) + 12
    assert limits.largest_length(np.full(20_000, 1 / 20_000), probability) == math.inf
    hopeless = bound_information(np.ones((4000, 3)), np.full(4000, 1 / 4000), limits, 12_000)
    assert 0 < hopeless.limit(0.5) <= math.log(0.5 + 0.5 * 4000)


def test_a_table_of_noise_censors_all():
    """Where the noise exceeds the table, a label is hardly ever the component of its record."""
    noisy = np.random.default_rng(3).laplace(0, 1e6, (10, 8))
    bounds = bound_information(noisy, np.full(10, 0.1), VectorNoise("laplace", math.sqrt(2) * 1e6), 50_000)
    assert choose({"it": bounds}, {"it": 0.01}).kept < 0.01


def make_records(rows=4000):
    domain = make_domain(rows=rows, attributes=[("side", ("left", "right")), ("coin", ("a", "b"))])
    rng = np.random.default_rng(5)
    side = rng.integers(2, size=rows)
    points = np.clip(rng.normal(0, 0.1, (rows, 2)) + np.where(side, 0.3, -0.3)[:, None], -0.7, 0.7)
    return domain, Records(points, {"side": side, "coin": rng.integers(2, size=rows)})


@pytest.mark.parametrize("method", ["noisy_tree", "noisy_grid", "dp_em"])
def test_labels_of_a_fit_tell_at_most_what_was_asked(method):
    domain, records = make_records()
    spec = Spec(domain, 4, censored={"side": 0.05, "coin": 0.3})
    rng = seeded_randomness(1, method)
    release = mechanism_run.fit(registry.build(method, {}), records, spec, Budget(2.0, 1e-6), rng)
    assert release.labels is not None
    assert [each.attribute for each in release.labels.limits] == ["side", "coin"]
    shares = release.mixture.responsibilities(records.points)
    chances = label_probabilities(shares, release.mixture.weights, release.labels.kept)
    for each in release.labels.limits:
        told = information(joint_shares(chances, records.codes[each.attribute], 2))
        assert told <= each.limit <= each.at_most
    own = information(joint_shares(shares, records.codes["side"], 2))
    assert own > 0.05, "the components themselves tell more"
    assert release.labels.kept > 0.1, "and the labels still tell something"


def test_censored_labels_change_no_other_number():
    domain, records = make_records()
    found = [
        mechanism_run.fit(
            registry.build("noisy_tree", {}),
            records,
            Spec(domain, 3, censored=censored),
            Budget(1.0, 1e-6),
            seeded_randomness(1, "same"),
        )
        for censored in ({}, {"side": 0.01})
    ]
    assert found[0].events == found[1].events
    assert found[0].transcript == found[1].transcript
    assert (found[0].mixture.means == found[1].mixture.means).all()
    assert found[0].labels is None


def test_a_mechanism_without_the_table_says_why_it_has_no_labels():
    domain, records = make_records()
    spec = Spec(domain, 3, censored={"side": 0.01})
    together = registry.build("noisy_moments", {"attributes": "together"})
    release = mechanism_run.fit(together, records, spec, Budget(1.0, 1e-6), exact_randomness())
    assert release.labels is None
    assert mechanism_run.NO_LABELS in release.notes


def test_the_stated_limit_is_rounded_up():
    bounds = InformationBounds(np.array([3.3]), np.array([100.0]), np.array([100.0]), 100.0, 0.1)
    for kept in (0.1, 0.37, 1.0):
        assert 0 <= censored_labels.state_limit(bounds, kept) - bounds.limit(kept) <= 1e-6
