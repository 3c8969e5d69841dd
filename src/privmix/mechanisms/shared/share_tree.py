"""Noisy shares of the nodes of a tree, made consistent, and the mixture fitted to them. All of it is post-processing.

Every node has an unbiased estimate of its share with a known variance. The best linear estimates under which children
add up to their parent take two passes. Upwards, the estimate of a node is averaged with the sum of the estimates of its
children by inverse variances. Downwards, the difference between a parent and the sum of its children is distributed
over the children in proportion to their variances (Hay, Rastogi, Miklau, Suciu 2010, §4.1, with unequal variances as in
Cormode, Kulkarni, Srivastava 2019). On the way down the shares of siblings are made non-negative by norm-sub: the
nearest non-negative shares with the same sum. The nodes of several partitions also form one tree (`NodeEstimates`),
because two nodes are disjoint or one contains the other.

Approximations. Siblings are treated as independent, but they are not. GRR makes all answers to a question sum to one. A
linear hash is independent for two answers, not for three. So the variance of a sum of children is close but not exact,
and so are the weights and the combined variances. Single estimates and their variances are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privmix.mechanisms.base import Spec, best_fit
from privmix.mechanisms.shared.partitions import Partition
from privmix.mechanisms.shared.synopsis import project_to_simplex
from privmix.mixture import boxes
from privmix.mixture.model import FitResult
from privmix.privacy.oracles import Oracle
from privmix.privacy.privtree import TreeShape, halves

FINER = 3  # further halvings of a part that holds enough
SIZES = 6  # numbers of components to try
PENALTY = 1.5  # per parameter: between 1 (Akaike 1974) and the 2 to 3 of Schwarz's criterion (1978) here


@dataclass(frozen=True, eq=False)
class ShareEstimates:
    """The estimated shares of some answers to one question."""

    oracle: Oracle
    estimates: np.ndarray  # of the shares
    reports: int
    per_person: int = 1

    @classmethod
    def from_support(
        cls, oracle: Oracle, support: np.ndarray, reports: int, per_person: int
    ) -> "ShareEstimates":
        """Estimate the shares from the number of reports that support each answer."""
        return cls(oracle, oracle.debias(support / max(reports, 1)), reports, per_person)

    def variances(self, shares: np.ndarray) -> np.ndarray:
        """Return the variances of the estimates if these were the shares: from noise and from sampling of persons.

        Several reports of a person carry no more information about other persons than one report. Even without noise,
        the share of n persons is not known better than to one of them.
        """
        people = max(self.reports / self.per_person, 1.0)
        noise = self.oracle.variance(self.reports, shares)
        return np.maximum(noise + shares * (1 - shares) / people, people**-2.0)


@dataclass(frozen=True, eq=False)
class ShareTree:
    """Nodes with their estimates, parents before their children. The nodes without a parent make up the whole."""

    parents: np.ndarray  # (n,) index of the parent, -1 for none
    estimates: np.ndarray  # (n,)
    variances: np.ndarray  # (n,) positive

    @classmethod
    def pool(
        cls, parents: np.ndarray, nodes: Sequence[np.ndarray], told: Sequence[ShareEstimates]
    ) -> "ShareTree":
        """Combine the estimates of several questions. `nodes` has the nodes that each question covers.

        The estimates of one node are averaged by inverse variances. The variance of a single estimate is not computed
        from this estimate: a low estimate would have a low variance and too much weight. The variance is first that of
        equal shares of all answers, and then that of the resulting consistent shares.
        """
        node = np.concatenate(nodes)
        estimates = np.concatenate([each.estimates for each in told])

        def averaged(shares: Sequence[np.ndarray]) -> ShareTree:
            variances = [each.variances(share) for each, share in zip(told, shares, strict=True)]
            precision = 1 / np.concatenate(variances)
            weight = np.bincount(node, precision)
            return cls(parents, np.bincount(node, precision * estimates) / weight, 1 / weight)

        equal = averaged([np.full(len(each.estimates), 1 / each.oracle.categories) for each in told])
        shares = equal.consistent_shares()
        return averaged([shares[own] for own in nodes])

    def generations(self) -> list[np.ndarray]:
        """Return the nodes without a parent, then their children, and so on."""
        age = np.zeros(len(self.parents), dtype=np.int64)
        found = [np.flatnonzero(self.parents < 0)]
        while len(found[-1]):
            age[found[-1]] = len(found)
            held = np.append(age, 0)[self.parents] == len(found)
            found.append(np.flatnonzero(held & (self.parents >= 0)))
        return found[:-1]

    def subtree_estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the best estimate of each node from itself and all nodes below it, and its variance."""
        estimates, variances = self.estimates.copy(), self.variances.copy()
        for children in reversed(self.generations()[1:]):
            parents, place = np.unique(self.parents[children], return_inverse=True)
            below = np.bincount(place, estimates[children])
            spread = np.bincount(place, variances[children])
            own = spread / (spread + variances[parents])
            estimates[parents] = own * estimates[parents] + (1 - own) * below
            variances[parents] *= own
        return estimates, variances

    def consistent_shares(self) -> np.ndarray:
        """Return non-negative shares: children add up to their parent, and the first generation to one."""
        estimates, variances = self.subtree_estimates()
        shares = np.zeros(len(estimates))
        for nodes in self.generations():
            nodes = nodes[np.argsort(self.parents[nodes], kind="stable")]
            first = np.flatnonzero(np.diff(self.parents[nodes], prepend=-2))
            for siblings in np.split(nodes, first[1:]):
                parent = self.parents[siblings[0]]
                whole = 1.0 if parent < 0 else shares[parent]
                if whole <= 0:
                    continue
                own, spread = estimates[siblings], variances[siblings]
                dealt = own + (whole - own.sum()) * spread / spread.sum()
                shares[siblings] = whole * project_to_simplex(dealt / whole)
        return shares

    @property
    def leaves(self) -> np.ndarray:
        """The nodes without children."""
        leaf = np.ones(len(self.parents), dtype=bool)
        leaf[self.parents[self.parents >= 0]] = False
        return np.flatnonzero(leaf)


@dataclass(frozen=True, eq=False)
class NodeEstimates:
    """All nodes that were asked about, and the tree of their estimates."""

    codes: np.ndarray
    depths: np.ndarray
    deepest: int
    tree: ShareTree

    @classmethod
    def pool(cls, asked: Sequence[Partition], said: Sequence[ShareEstimates]) -> "NodeEstimates":
        """Combine all rounds. A round without reports is skipped; at least one round must have reports."""
        heard = [(each, told) for each, told in zip(asked, said, strict=True) if told.reports]
        deepest = asked[0].deepest
        codes, depths = (
            np.concatenate(parts) for parts in zip(*(each.nodes for each, _ in heard), strict=True)
        )
        # Sorted by where a node begins; a node comes before the nodes within it.
        key, node = np.unique((codes << (deepest - depths)) * 64 + depths, return_inverse=True)
        begins, depths = key >> 6, key & 63
        nodes = np.split(node, np.cumsum([len(each) for each, _ in heard])[:-1])
        holders = _holders(begins, begins + (1 << (deepest - depths)))
        tree = ShareTree.pool(holders, nodes, [told for _, told in heard])
        return cls(begins >> (deepest - depths), depths, deepest, tree)

    @cached_property
    def shares(self) -> np.ndarray:
        """Consistent shares of all nodes."""
        return self.tree.consistent_shares()

    def next_partition(self, threshold: float, finer: int = FINER) -> Partition:
        """Return a partition into parts of at most this share, as far as the estimates tell.

        Within a leaf of the tree the share is taken as uniform. From the whole box downwards, each node that holds more
        than the threshold is halved. Within a leaf that holds more than the threshold, all nodes are halved for `finer`
        more levels.
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
        return Partition(TreeShape(0, tuple(splits)), self.deepest)

    def coarsen(self, threshold: float) -> tuple[Partition, np.ndarray, np.ndarray]:
        """Merge parts below this share; parts above it stay as fine as they were asked about.

        Return the partition with the share and the variance of each part. A part that was never asked about as such has
        at most the sum of the variances within it; this sum is returned.
        """
        partition = self.next_partition(threshold, finer=0)
        leaves, (_, spread) = self.tree.leaves, self.tree.subtree_estimates()
        part = partition.locate(self.codes[leaves] << (self.deepest - self.depths[leaves]))
        shares, variances = (np.bincount(part, values[leaves]) for values in (self.shares, spread))
        codes, depths = partition.nodes
        own = partition.locate(self.codes << (self.deepest - self.depths))
        same = (codes[own] == self.codes) & (depths[own] == self.depths)
        variances[own[same]] = spread[same]
        return partition, shares, variances


def _holders(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the smallest interval that contains each, -1 for none. Intervals are nested and sorted, holders first."""
    holders = np.full(len(begins), -1)
    around: list[int] = []
    for number, begin in enumerate(begins):
        while around and ends[around[-1]] <= begin:
            around.pop()
        if around:
            holders[number] = around[-1]
        around.append(number)
    return holders


def fit_shares(
    lower: np.ndarray,
    upper: np.ndarray,
    shares: np.ndarray,
    variances: np.ndarray,
    spec: Spec,
    *,
    noise: float,
    rng: np.random.Generator,
    searches: int,
) -> FitResult:
    """Fit a mixture to boxes with noisy shares, with as many components as the shares support.

    A fit also follows shares that are only noise. So the number of components is the one with the best criterion of
    Akaike (1974), for the number of records that would leave the shares this uncertain. The variances are those before
    norm-sub, which leaves a share no more uncertain than it is large: n records without noise would leave shares s with
    variances of s (1 - s) / n. Half a standard deviation of the `noise` in one share is spread over the whole public
    box, because records could be hidden anywhere: no place is impossible.
    """
    records = (1 - np.square(shares).sum()) / np.minimum(variances, np.square(shares)).sum()
    kept = shares > 0
    anywhere = min(noise, 1.0) / 2
    boxed = {
        "lower": np.vstack([lower[kept], spec.domain.lower]),
        "upper": np.vstack([upper[kept], spec.domain.upper]),
        "weights": np.append((1 - anywhere) * shares[kept], anywhere),
    }
    supported, most = int(kept.sum()), spec.n_components

    def of(number: int) -> FitResult:
        number = min(number, supported)
        return boxes.fit(**boxed, n_components=number, floor=spec.floor, rng=rng, searches=searches)

    if spec.candidates:
        return best_fit(spec, of, records)
    sizes = sorted({min(round(most ** (part / (SIZES - 1))), supported) for part in range(SIZES)})
    best = max(
        map(of, sizes), key=lambda fit: records * fit.log_likelihood - PENALTY * fit.mixture.n_parameters()
    )
    used = best.mixture.n_components
    if used < most:
        note = (
            f"Because of the noise, the reports support {used} of the {most} requested components. "
            "More components would only fit the noise."
        )
        return replace(best, notes=(*best.notes, note))
    return best
