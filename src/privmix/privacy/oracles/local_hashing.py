"""Optimised local hashing (OLH): hash the answer to a few values with a random hash, and randomise the value.

The hash is Carter and Wegman's (1979): h(v) = floor(g ((a v + b) mod P) / P) with a prime P >= k and a, b uniform
in 0 ... P - 1. The positions (a v + b) mod P of two different answers are then independent and uniform, exactly.
No share relies on a hash that only looks random: the probability q of supporting another answer is exact, and each
estimate is unbiased with its stated variance. Three answers are not independent, since a and b determine all: the
estimates of several answers, most of all of neighbouring ones, are correlated. Privacy does not depend on the hash.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import MOST_CATEGORIES, Oracle, blocks, respond, smallest_uint
from privmix.privacy.oracles.generalized import GeneralizedResponse

# The largest primes below half the range of a word: the sum of two positions never overflows.
PRIMES = {np.dtype(np.uint16): 32_749, np.dtype(np.uint32): 2_147_483_647}
BLOCK = 1 << 16


@dataclass(frozen=True)
class LocalHashing(Oracle):
    """A report is a hash of the person's own choice, (a, b), and a GRR answer over its g values.

    (a, b) is drawn without looking at the record, and given (a, b) the answer is GRR over g values: whatever the
    hash, the likelihood ratio of two truths is at most e^ε: ε-LDP. A report supports the answers that hash to
    what it says. g = e^ε + 1, rounded, gives an empty answer the least variance,
    (e^ε + g - 1)² / (n (g - 1) (e^ε - 1)²), about 4 e^ε / (n (e^ε - 1)²) whatever k (OLH in Wang, Blocki, Li,
    Jha 2017). A report takes 5 bytes up to k = 32,749 and ε = 5.5. There may be more answers than counters fit in
    memory: `support_of_runs` counts chosen ones alone.
    """

    most_categories: ClassVar[int] = 1 << 30

    @property
    def buckets(self) -> int:
        """g: how many values the hash has."""
        return min(round(math.exp(min(self.epsilon, 20.0))) + 1, MOST_CATEGORIES)

    @property
    def word(self) -> np.dtype:
        """The type of a and b."""
        return next(word for word, prime in PRIMES.items() if prime >= max(self.categories, self.buckets))

    @property
    def prime(self) -> int:
        """P: how many positions the hash distinguishes."""
        return PRIMES[self.word]

    @property
    def channel(self) -> GeneralizedResponse:
        """What randomises the hashed answer."""
        return GeneralizedResponse(self.buckets, self.epsilon)

    @property
    def report(self) -> np.dtype:
        """One report: the hash (a, b), and what the person says of the own hash value."""
        return np.dtype([("a", self.word), ("b", self.word), ("answer", smallest_uint(self.buckets))])

    @property
    def truth(self) -> float:
        """p: the probability that the report names the own hash value."""
        return self.channel.truth

    @property
    def other(self) -> float:
        """q: the probability that another answer hashes to what the report says.

        The two hash values are independent and equal with probability c = Σ (n_i / P)², where n_i, the number of
        positions with value i, is P/g rounded up or down: q = c p + (1 - c)(1 - p) / (g - 1), nearly 1/g.
        """
        each, more = divmod(self.prime, self.buckets)
        squares = more * (each + 1) ** 2 + (self.buckets - more) * each**2
        collision = squares / self.prime**2
        return collision * self.channel.truth + (1 - collision) * self.channel.other

    def hash_codes(self, a: np.ndarray, b: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """h(v) of each code under each hash, broadcast."""
        position = (
            np.asarray(a, np.uint64) * np.asarray(codes, np.uint64) + np.asarray(b, np.uint64)
        ) % np.uint64(self.prime)
        return (position * np.uint64(self.buckets) // np.uint64(self.prime)).astype(np.int64)

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """A hash and an answer per record."""
        reports = np.empty(len(codes), dtype=self.report)
        lie = (self.buckets - 1) * self.channel.other
        for block in blocks(len(codes), 1):
            a, b = source.integers(self.prime, (2, len(codes[block]))).astype(np.uint64)
            reports["a"][block], reports["b"][block] = a, b
            reports["answer"][block] = respond(self.hash_codes(a, b, codes[block]), self.buckets, lie, source)
        return reports

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Whether the report names the code's hash value."""
        return self.hash_codes(reports["a"], reports["b"], codes) == reports["answer"]

    def support(self, reports: np.ndarray) -> np.ndarray:
        """How many reports name the hash value of each answer."""
        return self.support_of_runs(reports, np.zeros(1, dtype=np.int64), self.categories)[0]

    def support_of_runs(self, reports: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
        """How many reports name the hash value of each answer of some runs: starts x length consecutive answers.

        From one answer to the next a position moves by a, modulo P; hash value i is the positions from
        ceil(i P / g) on, before those of i + 1.
        """
        self._refuse(reports, reports.dtype == self.report and reports.ndim == 1)
        self._refuse(reports, all((reports[field] < self.prime).all() for field in ("a", "b")))
        self._refuse(reports, bool((reports["answer"] < self.buckets).all()))
        prime = self.word.type(self.prime)
        support = np.zeros((len(starts), length), dtype=np.int64)
        for block in blocks(len(reports), 1, BLOCK):
            a, b, answer = (reports[field][block].copy() for field in ("a", "b", "answer"))
            start = self._first(answer)
            width = self._first(answer.astype(np.int64) + 1) - start
            moved, named = np.empty_like(b), np.empty(len(b), dtype=bool)
            for run, first in enumerate(starts):
                position = ((a.astype(np.uint64) * np.uint64(first) + b) % np.uint64(prime)).astype(self.word)
                for step in range(length):
                    # Below the start, the difference wraps round to more than any width.
                    np.less(np.subtract(position, start, out=moved), width, out=named)
                    support[run, step] += np.count_nonzero(named)
                    np.add(position, a, out=position)
                    # Modulo P: below P, the difference wraps round to more than the position.
                    np.minimum(position, np.subtract(position, prime, out=moved), out=position)
        return support

    def _first(self, values: np.ndarray) -> np.ndarray:
        """The first position of each hash value, ceil(value P / g)."""
        return (-(-values.astype(np.int64) * self.prime // self.buckets)).astype(self.word)

    def probability_table(self, a: int, b: int) -> np.ndarray:
        """P(answer | truth) of those who chose this hash: a row for each truth, a column for each answer."""
        return self.channel.probability_table()[self.hash_codes(a, b, np.arange(self.categories))]
