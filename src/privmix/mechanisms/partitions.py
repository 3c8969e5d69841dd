"""Partitions of the public box into nodes of its tree of halvings. Nothing here sees a record.

A node is a code and a depth; on the line of the codes of the deepest level it is an interval, and two nodes are
disjoint or one holds the other.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privmix.privacy.tree import Shape


@dataclass(frozen=True, eq=False)
class Partition:
    """The leaves of a shape, in the order of their intervals."""

    shape: Shape
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
        """The number of the part that holds each code of the deepest level."""
        own, depths = self.nodes
        return np.searchsorted(own << (self.deepest - depths), codes, side="right") - 1

    @classmethod
    def even(cls, depth: int, deepest: int) -> "Partition":
        """All nodes of one depth."""
        splits = [np.full(1 << level, level < depth) for level in range(depth + 1)]
        return cls(Shape(0, tuple(splits)), deepest)
