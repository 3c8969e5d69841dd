"""Noise that artefacts share is found at any scale and offset, and in coins; fresh noise never is."""

import numpy as np

from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.audit.shared_noise import agreement_probability, shared_noise_findings


def _rng(*seed):
    return np.random.Generator(np.random.PCG64(seed))


def _verdict(noise):
    return ReplayVerdict(runs=1, releases=1, used=0.5, noise=[float(number) for number in noise])


def test_the_same_numbers_at_any_scale_and_offset_are_found():
    noise = _rng(1).normal(size=32)
    found = shared_noise_findings(
        {"a": _verdict(noise), "b": _verdict(-2 * noise[5:]), "c": _verdict(_rng(2).normal(size=32))}
    )
    assert set(found) == {"a", "b"}
    assert "it shares its noise with b" in found["a"]


def test_the_same_coins_are_found_at_two_budgets():
    coins = _rng(3).random(256)
    found = shared_noise_findings(
        {"a": _verdict(coins < 0.4), "b": _verdict(coins < 0.6), "c": _verdict(_rng(4).random(256) < 0.5)}
    )
    assert set(found) == {"a", "b"}


def test_fresh_noise_is_not_shared():
    """10,000 pairs of numbers and as many of coins, most of which are true."""
    numbers = {f"n{seed}": _verdict(_rng(5, seed).normal(size=32)) for seed in range(140)}
    coins = {f"c{seed}": _verdict(_rng(6, seed).random(256) < 0.95) for seed in range(140)}
    assert shared_noise_findings({**numbers, **coins}) == {}


def test_a_release_keeps_no_noise_and_shares_none():
    assert shared_noise_findings({"a": _verdict([]), "b": _verdict([])}) == {}


def test_many_partners_are_counted():
    noise = _rng(7).normal(size=32)
    found = shared_noise_findings({name: _verdict(noise) for name in "abcdef"})
    assert "with b, c, d and 2 more" in found["a"]


def test_agreement_is_the_hypergeometric_tail():
    """Two of three true among four, twice: 2 or 3 in common, which is certain; 3 in common has a chance of 1 in 4."""
    three = np.array([True, True, True, False])
    assert agreement_probability(three, three) == 1 / 4
    assert agreement_probability(three, three[::-1]) == 1.0
