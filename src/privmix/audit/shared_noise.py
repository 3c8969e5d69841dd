"""Noise shared by two artefacts: anyone who has both can remove it, because s + a·z and s + b·z give s back exactly.

A verdict keeps the first numbers of its noise, divided by its scale. So one seed at two budgets shows as equal numbers,
and a copy at another scale shows as numbers of equal directions (`noise_tests`). For local mechanisms it keeps which of
the first reports were true. If two randomizers are independent, the number of reports that are true in both is
hypergeometric, given the numbers that are true in each (Fisher's exact test). If they draw the same coins it is larger,
also at two budgets.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.audit.noise_tests import window_hashes

CHANCE = 1e-12  # false alarm probability per pair; a sweep has 10^5 pairs


def shared_noise_findings(verdicts: Mapping[str, ReplayVerdict]) -> dict[str, str]:
    """Return a sentence for each artefact that shares noise, by its name. It names the other artefacts."""
    partners: dict[str, list[str]] = {}
    for first, second in [*_pairs_by_numbers(verdicts), *_pairs_by_coins(verdicts)]:
        partners.setdefault(first, []).append(second)
        partners.setdefault(second, []).append(first)
    return {name: _sentence(others) for name, others in partners.items()}


def _pairs_by_numbers(verdicts: Mapping[str, ReplayVerdict]) -> list[tuple[str, str]]:
    holders: dict[int, list[str]] = {}
    for name, verdict in verdicts.items():
        noise = np.array(verdict.noise)
        if not _are_coins(noise):
            for window in set(window_hashes(noise).tolist()):
                holders.setdefault(window, []).append(name)
    return list(
        dict.fromkeys(pair for names in holders.values() for pair in itertools.combinations(names, 2))
    )


def _pairs_by_coins(verdicts: Mapping[str, ReplayVerdict]) -> list[tuple[str, str]]:
    noise = {name: np.array(verdict.noise) for name, verdict in verdicts.items()}
    coins = {name: each > 0 for name, each in noise.items() if _are_coins(each)}
    return [
        (first, second)
        for first, second in itertools.combinations(coins, 2)
        if agreement_probability(coins[first], coins[second]) < CHANCE
    ]


def agreement_probability(first: np.ndarray, second: np.ndarray) -> float:
    """Return the chance of at least this agreement, given the true reports of each: the hypergeometric tail."""
    n = min(len(first), len(second))
    first, second = first[:n], second[:n]
    mine, other, both = (int(np.count_nonzero(each)) for each in (first, second, first & second))
    ways = sum(
        math.comb(mine, common) * math.comb(n - mine, other - common)
        for common in range(both, min(mine, other) + 1)
    )
    return ways / math.comb(n, other)


def _are_coins(noise: np.ndarray) -> bool:
    return bool(np.isin(noise, (0.0, 1.0)).all())


def _sentence(others: Sequence[str]) -> str:
    names = list(dict.fromkeys(others))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"it shares its noise with {', '.join(names[:3])}{more}: anyone who has both can remove the noise; "
        "draw the noise of each from its own stream."
    )
