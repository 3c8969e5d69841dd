"""Optimised unary encoding (OUE): a yes/no mark for every answer, each mark randomised independently."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import Oracle, blocks, count_marks, has_mark, lies, pack, packed_bytes


@dataclass(frozen=True)
class UnaryEncoding(Oracle):
    """The own mark is set with p = 1/2, every other mark with q = 1 / (e^ε + 1), all independent.

    Two truths differ in two marks only, so the likelihood ratio is at most p (1-q) / ((1-p) q) = e^ε: ε-LDP.
    p = 1/2 gives an empty answer the least variance, 4 e^ε / (n (e^ε - 1)²), for every k. OUE in Wang, Blocki, Li, Jha
    2017. A report takes k bits.
    """

    @property
    def truth(self) -> float:
        """p: the probability that the own mark is set."""
        return 0.5

    @property
    def other(self) -> float:
        """q: the probability that a given other mark is set."""
        return math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))

    @property
    def report(self) -> np.dtype:
        """Type of one report: the marks of one record, eight to a byte, in ceil(k/8) bytes."""
        return np.dtype((np.uint8, (packed_bytes(self.categories),)))

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw the marks of each record."""
        reports = np.empty(len(codes), dtype=self.report)
        for block in blocks(len(codes), self.categories):
            own = codes[block]
            marks = lies(self.other, (len(own), self.categories), source)
            marks[np.arange(len(own)), own] = source.integers(2, own.shape)
            reports[block] = pack(marks)
        return reports

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether the mark of each code is set."""
        return has_mark(reports, codes)

    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count the reports that set each mark."""
        reports = np.asarray(reports)
        self._refuse(reports, reports.dtype == np.uint8 and reports.ndim == 2)
        self._refuse(reports, reports.shape[1] == packed_bytes(self.categories))
        return count_marks(reports, self.categories)

    def probability_table(self) -> np.ndarray:
        """Return P(marks | truth) for a small k: column m is the report whose mark v is bit v of the number m."""
        marks = np.array(list(itertools.product((0, 1), repeat=self.categories)))[:, ::-1]
        chance = np.where(marks == 1, self.other, 1 - self.other)
        return 0.5 * np.array(
            [np.delete(chance, truth, axis=1).prod(axis=1) for truth in range(self.categories)]
        )
