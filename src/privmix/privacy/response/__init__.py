"""Frequency oracles: each record answers for itself, and the share of each answer is estimated without bias."""

from privmix.privacy.response.choice import BY_NAME, ORACLES, best_for, small_for
from privmix.privacy.response.estimates import exact_interval, intervals
from privmix.privacy.response.generalized import GeneralizedResponse
from privmix.privacy.response.hadamard import HadamardResponse
from privmix.privacy.response.local_hashing import LocalHashing
from privmix.privacy.response.oracle import Oracle
from privmix.privacy.response.subset import SubsetSelection
from privmix.privacy.response.unary import UnaryEncoding

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
