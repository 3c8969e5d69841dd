"""Hadamard response: report one binary digit of the answer's Walsh code, true or not."""

import math
from dataclasses import dataclass

import numpy as np

from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import Oracle, blocks, lies, smallest_uint


@dataclass(frozen=True)
class HadamardResponse(Oracle):
    """A random row of the Hadamard matrix, and the digit of the own answer in it through Warner's response.

    The row is drawn independently of the record. Given the row, the digit is true with p = e^ε / (e^ε + 1): ε-LDP. A
    report supports the answers with that digit in that row. Acharya, Sun, Zhang 2019, with one digit, which is their
    case of small ε. The matrix has K columns, the least power of two with K >= k. Its constant row carries no
    information and is never drawn. Two columns agree in K/2 - 1 of the other K - 1 rows, which gives q. The variance of
    an empty answer tends to (e^ε + 1)² / (n (e^ε - 1)²) for large K. This is close to the least for small ε; for large
    ε one digit carries too little information. A report takes log2(2K - 2) bits, rounded up to whole bytes, and the
    support of all answers takes K log K steps.
    """

    @property
    def columns(self) -> int:
        """K: the least power of two that holds all answers."""
        return 1 << (self.categories - 1).bit_length()

    @property
    def lie(self) -> float:
        """1 - p: the probability of the wrong digit."""
        return math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))

    @property
    def truth(self) -> float:
        """p: the probability of the own digit."""
        return 1 / (1 + math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """q: the probability that another answer has the reported digit."""
        agree = (self.columns / 2 - 1) / (self.columns - 1)
        return agree * self.truth + (1 - agree) * self.lie

    @property
    def report(self) -> np.dtype:
        """Type of one report: 2 (row - 1) + digit, in the smallest unsigned integer."""
        return smallest_uint(2 * (self.columns - 1))

    def _randomise(self, codes: np.ndarray, source: NoiseSource) -> np.ndarray:
        """Draw a row and the own digit in it for each record."""
        reports = np.empty(len(codes), dtype=self.report)
        for block in blocks(len(codes), 1):
            own = codes[block].astype(np.int64)
            row = 1 + source.integers(self.columns - 1, own.shape)
            digit = _digit(row, own) ^ lies(self.lie, own.shape, source)
            reports[block] = 2 * (row - 1) + digit
        return reports

    def supports(self, reports: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return whether each report has the digit of the code."""
        reports = np.asarray(reports).astype(np.int64)
        return _digit(1 + reports // 2, np.asarray(codes, dtype=np.int64)) == reports % 2

    def support(self, reports: np.ndarray) -> np.ndarray:
        """Count the reports that have the digit of each answer, by one fast Walsh-Hadamard transform."""
        reports = np.asarray(reports)
        self._refuse(reports, reports.ndim == 1 and reports.dtype.kind in "iu")
        outputs = 2 * (self.columns - 1)
        self._refuse(reports, not len(reports) or (reports.min() >= 0 and reports.max() < outputs))
        counts = np.bincount(reports, minlength=outputs)
        signed = np.concatenate([[0], counts[0::2] - counts[1::2]])
        half = 1
        while half < self.columns:
            even, odd = signed.reshape(-1, 2, half).transpose(1, 0, 2)
            signed = np.stack([even + odd, even - odd], axis=1).reshape(-1)
            half *= 2
        # `signed` is the number of agreeing reports minus that of disagreeing reports.
        return (len(reports) + signed[: self.categories]) // 2

    def probability_table(self) -> np.ndarray:
        """Return P(report | truth) for a small k: a row for each truth, a column for each number that is a report."""
        reports = np.arange(2 * (self.columns - 1))
        said = _digit(1 + reports // 2, np.arange(self.categories)[:, None]) == reports % 2
        return np.where(said, self.truth, self.lie) / (self.columns - 1)


def _digit(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return entries of Sylvester's Hadamard matrix as 0 for +1 and 1 for -1: the parity of the common bits."""
    return np.bitwise_count(rows & columns) & 1
