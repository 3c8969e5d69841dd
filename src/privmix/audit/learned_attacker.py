"""An attacker that knows no noise distribution: it learns from training runs which numbers differ between two worlds.

It sees numbers: the noisy statistics and, of a complete run, the numbers in its output and its text. The two training
runs with the same number share their noise. So a number that the changed unit does not influence is the same in both,
and the few that differ stand out. The training runs are not used to prove anything.
"""

import dataclasses
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

MOST_FEATURES = 20  # numbers that differ most
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
RunNumbers = Sequence[np.ndarray]  # the numbers of each item that is visible in a run


def flatten_numbers(value: Any) -> np.ndarray:
    """Return all numbers in a value; for text also its length and a hash."""
    if isinstance(value, np.ndarray):
        if value.dtype.names:
            return _concatenate(value[name] for name in value.dtype.names)
        return np.ravel(value).astype(float)
    if isinstance(value, str):
        return np.array([*map(float, NUMBER.findall(value)), len(value), zlib.crc32(value.encode()) / 2**32])
    if isinstance(value, dict):
        return _concatenate(value.values())
    if isinstance(value, (list, tuple)):
        return _concatenate(value)
    if isinstance(value, BaseModel):
        return _concatenate(getattr(value, name) for name in type(value).model_fields)
    if dataclasses.is_dataclass(value):
        return _concatenate(getattr(value, part.name) for part in dataclasses.fields(value))
    return np.empty(0) if value is None else np.array([float(value)])


def _concatenate(values: Iterable[Any]) -> np.ndarray:
    return np.concatenate([np.empty(0), *map(flatten_numbers, values)])


@dataclass(frozen=True, eq=False)
class LearnedAttacker:
    """Scores a run by the numbers that differed most in training."""

    widths: tuple[int, ...]
    kept: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    learned: np.ndarray

    def log_odds(self, said: RunNumbers) -> float:
        """Return the log odds that the run is of my world."""
        return float(_features(self._standard(_vector(said, self.widths))) @ self.learned)

    def _standard(self, vector: np.ndarray) -> np.ndarray:
        return _standardize(vector[self.kept], self.centre, self.scale)


def train_attacker(mine: Sequence[RunNumbers], other: Sequence[RunNumbers]) -> LearnedAttacker:
    """Train an attacker on these runs. Runs with the same number share their noise."""
    longest = max(len(said) for said in (*mine, *other))
    widths = tuple(
        max((len(said[item]) for said in (*mine, *other) if item < len(said)), default=0)
        for item in range(longest)
    )
    first, second = (np.stack([_vector(said, widths) for said in side]) for side in (mine, other))
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    step = first - second
    noise = step.std(axis=0) / np.sqrt(len(step))
    size = np.abs(step).max(axis=0)
    # Numbers with the same difference in every run stand out most. Numbers that never differ are left out.
    clear = np.abs(step.mean(axis=0)) / np.maximum(noise, 1e-9 * size + 1e-300)
    kept = np.argsort(-np.where(size > 0, clear, -1.0), kind="stable")[:MOST_FEATURES]
    first, second, spread = first[:, kept], second[:, kept], spread[kept]
    centre = (first.mean(axis=0) + second.mean(axis=0)) / 2
    # A number that is constant in each world has no spread: its step is its scale.
    scale = np.maximum(spread, np.abs(step[:, kept]).mean(axis=0) / 10) + 1e-300
    standard = [_standardize(side, centre, scale) for side in (first, second)]
    labels = np.repeat([1.0, 0.0], [len(first), len(second)])
    return LearnedAttacker(
        widths,
        kept,
        centre,
        scale,
        learned=_fit_logistic(_features(np.concatenate(standard)), labels),
    )


def _vector(said: RunNumbers, widths: Sequence[int]) -> np.ndarray:
    """Return the same number of features for every run: length, sum and numbers of each item, padded with zeros."""
    parts = []
    for item, width in enumerate(widths):
        own = said[item] if item < len(said) else np.empty(0)
        padded = np.zeros(width)
        padded[: min(len(own), width)] = own[:width]
        parts += [[len(own), own.sum()], padded]
    return np.nan_to_num(np.concatenate([np.empty(0), *parts]), nan=0.0, posinf=1e100, neginf=-1e100)


def _standardize(values: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip((values - centre) / scale, -20, 20)


def _features(standard: np.ndarray) -> np.ndarray:
    """Return a constant, the numbers and their squares."""
    ones = np.ones((*standard.shape[:-1], 1))
    return np.concatenate([ones, standard, np.square(standard) / 10], axis=-1)


def _fit_logistic(terms: np.ndarray, labels: np.ndarray, penalty: float = 1.0, steps: int = 25) -> np.ndarray:
    """Fit a ridge logistic regression by Newton's method."""
    weights = np.zeros(terms.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(terms @ weights, -30, 30)))
        slope = terms.T @ (labels - chance) - penalty * weights
        curvature = (terms * (chance * (1 - chance))[:, None]).T @ terms + penalty * np.eye(len(weights))
        change = np.linalg.solve(curvature, slope)
        weights = weights + change
        if np.abs(change).max() < 1e-6:
            break
    return weights
