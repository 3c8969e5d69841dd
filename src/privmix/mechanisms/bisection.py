"""Repeated halving of the public box: where the nodes of a tree lie. Nothing here depends on a record."""

from dataclasses import dataclass

import numpy as np

from privmix.privacy.tree import DEEPEST

MOST_BITS = 30  # halvings of one axis: beyond, a part is smaller than any resolution in use


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
        """The node of the last level that holds each point, as the bits of the turns that lead to it.

        A point on a cut belongs to the upper part, one on the upper edge of the box to the last.
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
        """Lower and upper corners of nodes."""
        place = np.zeros((len(codes), len(self.lower)))
        parts = np.ones_like(place)
        for level, axis in enumerate(self.axes):
            rows = np.flatnonzero(depths > level)
            place[rows, axis] = 2 * place[rows, axis] + ((codes[rows] >> (depths[rows] - 1 - level)) & 1)
            parts[rows, axis] *= 2
        side = (self.upper - self.lower) / parts
        return self.lower + place * side, self.lower + (place + 1) * side


def down_to(lower: np.ndarray, upper: np.ndarray, resolution: np.ndarray) -> Bisection:
    """Halvings of the longest side, counted in units of the resolution, until no side is longer than that."""
    sides = (upper - lower) / resolution
    bits = np.minimum(np.ceil(np.log2(np.maximum(sides, 1.0)) - 1e-9), min(MOST_BITS, DEEPEST // len(sides)))
    axes = []
    while bits.any():
        axis = int(np.argmax(np.where(bits > 0, sides, 0.0)))
        axes.append(axis)
        sides[axis] /= 2
        bits[axis] -= 1
    return Bisection(lower, upper, tuple(axes))
