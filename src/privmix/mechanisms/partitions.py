"""Partitions of the public box into nodes of its tree of halvings, and what rounds of answers to them say together.

A node is a code and a depth; on the line of the codes of the deepest level it is an interval, and two nodes are
disjoint or one holds the other. So the nodes of all partitions ever asked make a tree, whose estimates
`share_tree.ShareTree` makes consistent. Nothing here sees a record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privmix.mechanisms.share_tree import ShareTree, Told
from privmix.privacy.tree import Shape, halves

FINER = 3  # halvings of a part that holds enough to be looked into


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


@dataclass(frozen=True, eq=False)
class Findings:
    """All nodes that were asked about, and the tree of their estimates."""

    codes: np.ndarray
    depths: np.ndarray
    deepest: int
    tree: ShareTree

    @classmethod
    def pooled(cls, asked: Sequence[Partition], said: Sequence[Told]) -> "Findings":
        """What the rounds say together; one in which nobody answered says nothing, and not all are such."""
        heard = [(each, told) for each, told in zip(asked, said, strict=True) if told.reports]
        deepest = asked[0].deepest
        codes, depths = (
            np.concatenate(parts) for parts in zip(*(each.nodes for each, _ in heard), strict=True)
        )
        # By where a node begins, and a node before those within it.
        key, node = np.unique((codes << (deepest - depths)) * 64 + depths, return_inverse=True)
        begins, depths = key >> 6, key & 63
        nodes = np.split(node, np.cumsum([len(each) for each, _ in heard])[:-1])
        holders = _holders(begins, begins + (1 << (deepest - depths)))
        tree = ShareTree.pooled(holders, nodes, [told for _, told in heard])
        return cls(begins >> (deepest - depths), depths, deepest, tree)

    @cached_property
    def shares(self) -> np.ndarray:
        """Consistent shares of all nodes."""
        return self.tree.consistent()

    def next_partition(self, threshold: float, finer: int = FINER) -> Partition:
        """Parts of at most this share, as far as is known; a larger one that is not known any finer is opened.

        Within a leaf of the tree the share is taken as uniform. From the whole box downwards each node is halved that
        holds more than the threshold, and within a leaf that does, all are, some levels on.
        """
        leaves = self.tree.leaves
        leaves = leaves[np.argsort(self.codes[leaves] << (self.deepest - self.depths[leaves]))]
        begins = self.codes[leaves] << (self.deepest - self.depths[leaves])
        held = np.append(0.0, np.cumsum(self.shares[leaves]))
        ends = np.append(begins, 1 << self.deepest)
        nodes, splits = np.zeros(1, dtype=np.int64), []
        for depth in range(self.deepest + 1):
            first, width = nodes << (self.deepest - depth), 1 << (self.deepest - depth)
            mass = np.interp(first + width, ends, held) - np.interp(first, ends, held)
            leaf = np.searchsorted(begins, first, side="right") - 1
            known = self.depths[leaves][leaf]
            opened = (self.shares[leaves][leaf] > threshold) & (depth < known + finer)
            split = np.where(depth >= known, opened, mass > threshold) & (depth < self.deepest)
            split |= depth == 0
            splits.append(split)
            nodes = halves(nodes[split])
            if not len(nodes):
                break
        return Partition(Shape(0, tuple(splits)), self.deepest)

    def merged(self, threshold: float) -> tuple[Partition, np.ndarray, np.ndarray]:
        """Parts of more than this share as fine as they were asked about, the others as coarse as they may be.

        With the share and the variance of each part; the variance of one that was never asked about as such is at
        most the sum of those within, and is given as that.
        """
        partition = self.next_partition(threshold, finer=0)
        leaves, (_, spread) = self.tree.leaves, self.tree.combined()
        part = partition.locate(self.codes[leaves] << (self.deepest - self.depths[leaves]))
        shares, variances = (np.bincount(part, values[leaves]) for values in (self.shares, spread))
        codes, depths = partition.nodes
        own = partition.locate(self.codes << (self.deepest - self.depths))
        same = (codes[own] == self.codes) & (depths[own] == self.depths)
        variances[own[same]] = spread[same]
        return partition, shares, variances


def _holders(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The smallest interval that holds each, -1 for none; intervals are nested, and sorted with holders first."""
    holders = np.full(len(begins), -1)
    around: list[int] = []
    for number, begin in enumerate(begins):
        while around and ends[around[-1]] <= begin:
            around.pop()
        if around:
            holders[number] = around[-1]
        around.append(number)
    return holders
