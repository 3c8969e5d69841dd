"""Subset selection: report a set of answers, which contains the own answer more often than by chance."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import (
    Oracle,
    blocks,
    count_marks,
    has_mark,
    lies,
    pack,
    packed_bytes,
    smallest_uint,
)

BLOCK = 1 << 22  # marks held at a time


@dataclass(frozen=True)
class SubsetSelection(Oracle):
    """A uniform set of ω answers: with probability p one that contains the own answer, otherwise one that does not.

    p = ω e^ε / (ω e^ε + k - ω). There are (k - ω)/ω times as many sets without an answer as with it. A given set is
    therefore e^ε times as likely for the answers in it as for the others: ε-LDP. For many people no channel estimates
    shares better in the worst case (Ye and Barg 2018; also the k-subset mechanism of Wang, Huang et al. 2016).
    ω is k/(e^ε + 1), rounded up or down to the smaller variance, and at least 1. With ω = 1 the oracle is GRR. A given
    other answer is in the set with q = (ω - p)/(k - 1).
    """

    @property
    def size(self) -> int:
        """ω: the number of answers in a report."""
        ideal = self.categories * math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        return min({max(1, math.floor(ideal)), max(1, math.ceil(ideal))}, key=self._empty_variance)

    def _empty_variance(self, size: int) -> float:
        """Return n times the variance of the share of an empty answer with sets of this size: q(1-q) / (p-q)²."""
        p = size / (size + (self.categories - size) * math.exp(-self.epsilon))
        q = (size - p) / (self.categories - 1)
        return q * (1 - q) / (p - q) ** 2

    @property
    def lie(self) -> float:
        """1 - p: the probability of a set without the own answer."""
        others = (self.categories - self.size) * math.exp(-self.epsilon)
        return others / (self.size + others)

    @property
    def truth(self) -> float:
        """p: the probability of a set with the own answer."""
        return self.size / (self.size + (self.categories - self.size) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """q: the probability that the set contains one given other answer."""
        # (ω - p)/(k - 1) without the cancellation for ω = 1.
        return (self.size - 1 + self.lie) / (self.categories - 1)

    @property
    def is_list(self) -> bool:
        """Whether a report is a sorted list of answers instead of marks, eight to a byte: the smaller one in a file.

        Compression reduces a byte with few marks to about a bit, but hardly reduces a list.
        """
        return self.size == 1 or 8 * self.size * smallest_uint(self.categories).itemsize < packed_bytes(
            self.categories
        )

    @property
    def report(self) -> np.dtype:
        """Type of one report: a sorted list of ω answers, or marks in ceil(k/8) bytes."""
        if self.is_list:
            return np.dtype((smallest_uint(self.categories), (self.size,)))
        return np.dtype((np.uint8, (packed_bytes(self.categories),)))

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw the set of each record."""
        reports = np.empty(len(codes), dtype=self.report)
        for block in blocks(len(codes), self.size if self.is_list else self.categories, BLOCK):
            own = codes[block].astype(np.int64)
            lying = lies(self.lie, own.shape, source)
            named = self._list(own, lying, source) if self.is_list else pack(self._marks(own, lying, source))
            reports[block] = named
        return reports

    def _list(self, own: np.ndarray, lying: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw the answers in each set, (n, ω)."""
        named = np.empty((len(own), self.size), dtype=np.int64)
        named[lying] = _others(own[lying], self.size, self.categories, source)
        named[~lying, 1:] = _others(own[~lying], self.size - 1, self.categories, source)
        named[~lying, 0] = own[~lying]
        # Sorted, because the order of the draws would reveal the own answer.
        return np.sort(named, axis=1)

    def _marks(self, own: np.ndarray, lying: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw whether each answer is in the set, (n, k)."""
        marks = np.zeros((len(own), self.categories), dtype=bool)
        for rows, drawn in ((np.flatnonzero(lying), self.size), (np.flatnonzero(~lying), self.size - 1)):
            if len(rows):
                _mark_others(marks, rows, own[rows], drawn, source)
        marks[~lying, own[~lying]] = True
        return marks

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether each set contains the code."""
        if self.is_list:
            return (np.asarray(reports) == np.asarray(codes)[:, None]).any(axis=1)
        return has_mark(reports, codes)

    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count the sets that contain each answer."""
        reports = np.asarray(reports)
        if not self.is_list:
            self._refuse(reports, reports.dtype == np.uint8 and reports.ndim == 2)
            self._refuse(reports, reports.shape[1] == packed_bytes(self.categories))
            return count_marks(reports, self.categories)
        self._refuse(reports, reports.dtype.kind in "iu" and reports.shape[1:] == (self.size,))
        self._refuse(reports, not len(reports) or (reports.min() >= 0 and reports.max() < self.categories))
        support = np.zeros(self.categories, dtype=np.int64)
        for block in blocks(len(reports), self.size, max(1 << 20, self.categories)):
            support += np.bincount(reports[block].ravel(), minlength=self.categories)
        return support

    def probability_table(self) -> np.ndarray:
        """Return P(set | truth) for a small k: a column for each set, in the order of `itertools.combinations`."""
        sets = list(itertools.combinations(range(self.categories), self.size))
        holding = math.comb(self.categories - 1, self.size - 1)
        return np.array(
            [
                [
                    self.truth / holding if truth in named else self.lie / (len(sets) - holding)
                    for named in sets
                ]
                for truth in range(self.categories)
            ]
        )


def _others(own: np.ndarray, drawn: int, categories: int, source: NoiseSource) -> np.ndarray:
    """Draw a uniform set of `drawn` answers other than the own for each record, (n, drawn) (Bentley and Floyd 1987).

    Step j draws one of the first j + 1 others. If that one is already taken, the step takes the last of them.
    """
    taken = np.empty((len(own), drawn), dtype=np.int64)
    for step, last in enumerate(range(categories - 1 - drawn, categories - 1)):
        pick = source.integers(last + 1, own.shape)
        again = (taken[:, :step] == pick[:, None]).any(axis=1)
        taken[:, step] = np.where(again, last, pick)
    return taken + (taken >= own[:, None])


def _mark_others(
    marks: np.ndarray, rows: np.ndarray, own: np.ndarray, drawn: int, source: NoiseSource
) -> None:
    """Do the same as `_others`, with marks: look up the taken answers in the row instead of in a list."""
    flat, others = marks.reshape(-1), marks.shape[1] - 1
    start = rows * marks.shape[1]
    for last in range(others - drawn, others):
        pick = source.integers(last + 1, rows.shape)
        place = start + pick + (pick >= own)
        newest = start + last + (last >= own)
        flat[np.where(flat[place], newest, place)] = True
