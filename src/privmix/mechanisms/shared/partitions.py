"""Partitions of the public box: a uniform grid, repeated halving, and the leaves of a tree of halvings.

A node of the tree of halvings is a code and a depth. On the line of the codes of the deepest level it is an interval.
Two nodes are disjoint, or one contains the other. Nothing here depends on a record.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privmix.privacy.privtree import DEEPEST, TreeShape


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
        """Return the cell number of each point."""
        share = (points - self.lower) / (self.upper - self.lower)
        index = np.clip((share * self.shape).astype(np.int64), 0, np.array(self.shape) - 1)
        return np.ravel_multi_index(tuple(index.T), self.shape)

    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of all cells, in the order of their numbers."""
        index = np.stack(np.unravel_index(np.arange(self.cells), self.shape), axis=1)
        side = (self.upper - self.lower) / self.shape
        return self.lower + index * side, self.lower + (index + 1) * side


def cubic_grid(lower: np.ndarray, upper: np.ndarray, cells: float) -> Grid:
    """Return the grid of at most `cells` cells (at least two) whose cells are as cubic as whole numbers allow."""
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


MOST_BITS = 30  # halvings of one axis; more would make parts smaller than any resolution in use


@dataclass(frozen=True, eq=False)
class Bisection:
    """A box, and the axis that each further level halves. All nodes of one depth have the same size."""

    lower: np.ndarray
    upper: np.ndarray
    axes: tuple[int, ...]

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.axes)

    def codes(self, points: np.ndarray) -> np.ndarray:
        """Return the node of the last level that holds each point, as the bits of the turns that lead to it.

        A point on a cut belongs to the upper part. A point on the upper edge of the box belongs to the last part.
        """
        bits = np.bincount(self.axes, minlength=len(self.lower))
        share = (points - self.lower) / (self.upper - self.lower)
        place = np.clip((share * 2.0**bits).astype(np.int64), 0, (1 << bits) - 1)
        codes = np.zeros(len(points), dtype=np.int64)
        for axis in self.axes:
            bits[axis] -= 1
            codes = 2 * codes + ((place[:, axis] >> bits[axis]) & 1)
        return codes

    def boxes(self, codes: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of nodes."""
        place = np.zeros((len(codes), len(self.lower)))
        parts = np.ones_like(place)
        for level, axis in enumerate(self.axes):
            rows = np.flatnonzero(depths > level)
            place[rows, axis] = 2 * place[rows, axis] + ((codes[rows] >> (depths[rows] - 1 - level)) & 1)
            parts[rows, axis] *= 2
        side = (self.upper - self.lower) / parts
        return self.lower + place * side, self.lower + (place + 1) * side


def bisect_to_resolution(lower: np.ndarray, upper: np.ndarray, resolution: np.ndarray) -> Bisection:
    """Halve the longest side, in units of the resolution, until no side is longer than the resolution."""
    sides = (upper - lower) / resolution
    bits = np.minimum(np.ceil(np.log2(np.maximum(sides, 1.0)) - 1e-9), min(MOST_BITS, DEEPEST // len(sides)))
    axes = []
    while bits.any():
        axis = int(np.argmax(np.where(bits > 0, sides, 0.0)))
        axes.append(axis)
        sides[axis] /= 2
        bits[axis] -= 1
    return Bisection(lower, upper, tuple(axes))


@dataclass(frozen=True, eq=False)
class Partition:
    """The leaves of a shape, in the order of their intervals."""

    shape: TreeShape
    deepest: int

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Code and depth of each part."""
        codes, depths = self.shape.leaves()
        order = np.argsort(codes << (self.deepest - depths), kind="stable")
        return codes[order], depths[order]

    def __len__(self) -> int:
        return len(self.nodes[0])

    def locate(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of the part that holds each code of the deepest level."""
        own, depths = self.nodes
        return np.searchsorted(own << (self.deepest - depths), codes, side="right") - 1

    @classmethod
    def even(cls, depth: int, deepest: int) -> "Partition":
        """Return the partition into all nodes of one depth."""
        splits = [np.full(1 << level, level < depth) for level in range(depth + 1)]
        return cls(TreeShape(0, tuple(splits)), deepest)
