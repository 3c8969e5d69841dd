"""Frequency oracles: each record gives a randomised report, and the share of each answer is estimated without bias."""

from privmix.privacy.oracles.base import Oracle, exact_interval, intervals
from privmix.privacy.oracles.choice import BY_NAME, ORACLES, best_for, small_for
from privmix.privacy.oracles.generalized import GeneralizedResponse
from privmix.privacy.oracles.hadamard import HadamardResponse
from privmix.privacy.oracles.local_hashing import LocalHashing
from privmix.privacy.oracles.subset import SubsetSelection
from privmix.privacy.oracles.unary import UnaryEncoding

__all__ = [
    "BY_NAME",
    "ORACLES",
    "GeneralizedResponse",
    "HadamardResponse",
    "LocalHashing",
    "Oracle",
    "SubsetSelection",
    "UnaryEncoding",
    "best_for",
    "exact_interval",
    "intervals",
    "small_for",
]
