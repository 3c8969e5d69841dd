"""A uniform grid over the public box: its cells depend on nothing private."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """Cells of equal size; a point on the upper edge belongs to the last cell."""

    lower: np.ndarray
    upper: np.ndarray
    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def locate(self, points: np.ndarray) -> np.ndarray:
        """The cell number of each point."""
        share = (points - self.lower) / (self.upper - self.lower)
        index = np.clip((share * self.shape).astype(np.int64), 0, np.array(self.shape) - 1)
        return np.ravel_multi_index(tuple(index.T), self.shape)

    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corners of all cells, in the order of their numbers."""
        index = np.stack(np.unravel_index(np.arange(self.cells), self.shape), axis=1)
        side = (self.upper - self.lower) / self.shape
        return self.lower + index * side, self.lower + (index + 1) * side


def nearly_cubic(lower: np.ndarray, upper: np.ndarray, cells: float) -> Grid:
    """The grid of at most so many cells (at least two) whose cells are as cubic as whole numbers allow."""
    sides = upper - lower
    shape = np.ones(len(sides), dtype=np.int64)
    shape[np.argmax(sides)] = 2
    while True:
        widest = np.argsort(sides / shape)[::-1]
        finer = [_split(shape, axis) for axis in widest]
        affordable = [option for option in finer if math.prod(option) <= cells]
        if not affordable:
            return Grid(lower, upper, tuple(int(number) for number in shape))
        shape = affordable[0]


def _split(shape: np.ndarray, axis: int) -> np.ndarray:
    finer = shape.copy()
    finer[axis] += 1
    return finer
