"""Optimised local hashing (OLH): hash the answer to a few values with a random hash, and randomise the value.

The hash is Carter and Wegman's (1979): h(v) = floor(g ((a v + b) mod P) / P) with a prime P >= k and a, b uniform
in 0 ... P - 1. The positions (a v + b) mod P of two different answers are then independent and uniform, exactly.
No estimate relies on a hash that only looks random: the probability q of supporting another answer is exact, and each
estimate is unbiased with its stated variance. Three answers are not independent, since a and b determine all of them.
The estimates of several answers are therefore correlated, most of all those of adjacent answers. Privacy does not
depend on the hash.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import MOST_CATEGORIES, Oracle, blocks, respond, smallest_uint
from privmix.privacy.oracles.generalized import GeneralizedResponse

# The largest primes below half the range of a word: the sum of two positions never overflows.
PRIMES: dict[np.dtype, int] = {np.dtype(np.uint16): 32_749, np.dtype(np.uint32): 2_147_483_647}
BLOCK = 1 << 16


@dataclass(frozen=True)
class LocalHashing(Oracle):
    """A report is a random hash (a, b), drawn for each person, and a GRR answer over its g values.

    (a, b) is drawn independently of the record, and given (a, b) the answer is GRR over g values. For every hash the
    likelihood ratio of two truths is at most e^ε: ε-LDP. A report supports the answers whose hash value is the reported
    one. g = e^ε + 1, rounded, gives an empty answer the least variance, (e^ε + g - 1)² / (n (g - 1) (e^ε - 1)²), about
    4 e^ε / (n (e^ε - 1)²) for every k (OLH in Wang, Blocki, Li, Jha 2017). A report takes 5 bytes up to k = 32,749 and
    ε = 5.5. If counters of all answers do not fit in memory, `support_of_runs` counts selected answers only.
    """

    most_categories: ClassVar[int] = 1 << 30

    @property
    def buckets(self) -> int:
        """g: the number of hash values."""
        return min(round(math.exp(min(self.epsilon, 20.0))) + 1, MOST_CATEGORIES)

    @property
    def word(self) -> np.dtype:
        """Type of a and b."""
        return next(word for word, prime in PRIMES.items() if prime >= max(self.categories, self.buckets))

    @property
    def prime(self) -> int:
        """P: the number of positions of the hash."""
        return PRIMES[self.word]

    @property
    def channel(self) -> GeneralizedResponse:
        """Oracle that randomises the hash value."""
        return GeneralizedResponse(self.buckets, self.epsilon)

    @property
    def report(self) -> np.dtype:
        """Type of one report: the hash (a, b), and the randomised hash value of the own answer."""
        return np.dtype([("a", self.word), ("b", self.word), ("answer", smallest_uint(self.buckets))])

    @property
    def truth(self) -> float:
        """p: the probability that the report names the own hash value."""
        return self.channel.truth

    @property
    def other(self) -> float:
        """q: the probability that another answer has the reported hash value.

        The two hash values are independent and equal with probability c = Σ (n_i / P)², where n_i, the number of
        positions with value i, is P/g rounded up or down: q = c p + (1 - c)(1 - p) / (g - 1), nearly 1/g.
        """
        each, more = divmod(self.prime, self.buckets)
        squares = more * (each + 1) ** 2 + (self.buckets - more) * each**2
        collision = squares / self.prime**2
        return collision * self.channel.truth + (1 - collision) * self.channel.other

    def hash_codes(self, a: np.ndarray | int, b: np.ndarray | int, codes: np.ndarray) -> np.ndarray:
        """Return h(v) of each code under each hash, broadcast."""
        position = (
            np.asarray(a, np.uint64) * np.asarray(codes, np.uint64) + np.asarray(b, np.uint64)
        ) % np.uint64(self.prime)
        return (position * np.uint64(self.buckets) // np.uint64(self.prime)).astype(np.int64)

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw a hash and an answer per record."""
        reports = np.empty(len(codes), dtype=self.report)
        lie = (self.buckets - 1) * self.channel.other
        for block in blocks(len(codes), 1):
            a, b = source.integers(self.prime, (2, len(codes[block]))).astype(np.uint64)
            reports["a"][block], reports["b"][block] = a, b
            reports["answer"][block] = respond(self.hash_codes(a, b, codes[block]), self.buckets, lie, source)
        return reports

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether each report names the hash value of the code."""
        return self.hash_codes(reports["a"], reports["b"], codes) == reports["answer"]

    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count the reports that name the hash value of each answer."""
        return self.support_of_runs(reports, np.zeros(1, dtype=np.int64), self.categories)[0]

    def support_of_runs(self, reports: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
        """Count the reports that name the hash value of each answer in runs of consecutive answers, (starts, length).

        From one answer to the next a position moves by a, modulo P. Hash value i consists of the positions from
        ceil(i P / g) up to those of i + 1.
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
                    # A position below the start wraps around to more than any width.
                    np.less(np.subtract(position, start, out=moved), width, out=named)
                    support[run, step] += np.count_nonzero(named)
                    np.add(position, a, out=position)
                    # Modulo P: for a position below P, the difference wraps around to more than the position.
                    np.minimum(position, np.subtract(position, prime, out=moved), out=position)
        return support

    def _first(self, values: np.ndarray) -> np.ndarray:
        """Return the first position of each hash value, ceil(value P / g)."""
        return (-(-values.astype(np.int64) * self.prime // self.buckets)).astype(self.word)

    def probability_table(self, a: int, b: int) -> np.ndarray:
        """Return P(answer | truth) given this hash: a row for each truth, a column for each answer."""
        return self.channel.probability_table()[self.hash_codes(a, b, np.arange(self.categories))]
