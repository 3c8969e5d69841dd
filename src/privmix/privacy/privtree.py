"""PrivTree: private decomposition of a public box. Hidden counts decide which parts are halved.

The algorithm is PrivTree (Zhang, Xiao, Xie 2016, "PrivTree: A differentially private algorithm for hierarchical
decompositions"), on a forest. A node v of level i (0 for a root) with c(v) records is halved if

    max(-δ, c(v) - θ - iδ) + Laplace(λ) > 0,        δ = λ ln β.

The measurement consists of these decisions only, without counts or scores. Depth, roots, θ and λ are public.

Guarantee. Let D' have one record more than D. The record lies in one node of each level. For a given shape the
probabilities on D and D' therefore differ only along one path v_0 ... v_k. The last node of the path is a leaf (or has
no decision, at the last level), and all others are split. Write f(b) = P(b + Laplace(λ) > 0). (ln f)'(b) is 1/λ for
b < 0, and (1/λ) / (2e^(b/λ) - 1) for b > 0. The score of v_i before clamping is y_i on D and y_i + 1 on D', and
y_i ≥ y_(i+1) + δ, since counts never grow downwards. So the split nodes change the log-probability by

    Σ_i ∫_0^1 (ln f)'(y_i + s) [y_i + s > -δ] ds.

For each s the numbers y_i + s are at least δ apart. At most one lies in (-δ, 0] and gives 1/λ. Those above 0, in
rising order, are at least 0, δ, 2δ, ... and give at most (1/λ) Σ_j 1/(2β^j - 1). So the sum lies in [0, C/λ] with
C = 1 + Σ_(j≥0) 1/(2β^j - 1). (The paper's Theorem 3.1 bounds 1/(2β^j - 1) by β^-j, which gives (2β - 1)/(β - 1): for
β = 2 this is 3, and C = 2.607.) The ratio of the leaf is that of 1 - f, whose logarithm has slopes in [-1/λ, 0].
Together: ln P_D'(shape) - ln P_D(shape) lies in [-1/λ, C/λ].

* A record added or removed: C/λ.
* A record replaced is one removed (at most 1/λ) and one added (at most C/λ): (C + 1)/λ, not 2C/λ.
* A person with at most m records: the records change one after the other, each within the bounds above: m times.

Discrete noise on whole steps h keeps these bounds. With P(k steps) ∝ q^|k| and q = e^(-h/λ), a score of k steps is
above 0 after noise with probability q^(1-k)/(1 + q) for k ≤ 0 and 1 - q^k/(1 + q) for k ≥ 1. Up to k = 1 each step
multiplies it by 1/q = e^(h/λ), as above. For k ≥ 1 it is f((k - η) h) with q^-η = 2/(1 + q), and 0 ≤ η ≤ ½ since
(1 + q)/2 ≥ √q. So the integrals become sums of steps. The steps of the j-th number above 0 start at jδ - h/2 or higher.
This is at least jλ ln β, because `decay` rounds δ up and adds some steps: for this half step, and for the step or two
by which exact samplers enlarge λ. δ and counts are whole steps, so no score is rounded.
"""

import base64
import math
from dataclasses import dataclass

import numpy as np

from privmix.errors import UserError
from privmix.privacy.exact import STEP
from privmix.privacy.ledger import Decomposition, Ledger, check_positive
from privmix.privacy.noise import NoiseSource, measure
from privmix.privacy.noise_distributions import PrivTreeDecisions
from privmix.privacy.sensitivity import Neighbours

BASE = 2.0  # β: a child of an empty node is split with probability 1/(2β), so noise alone soon stops
TERMS = 200  # of the series C; the remainder is less than 2 β^-TERMS
DEEPEST = 60  # levels that fit in a code


@dataclass(frozen=True, eq=False)
class TreeShape:
    """A forest of halvings. All nodes of the `first` levels are split; below, `splits` has the decisions of each level.

    A node is given by its depth and its code: the bits of the path that leads to it. The nodes of a level are in the
    order of their codes. The last level splits no node.
    """

    first: int
    splits: tuple[np.ndarray, ...]

    def levels(self) -> list[np.ndarray]:
        """Return the codes of all nodes of each level."""
        nodes = [np.arange(1 << self.first, dtype=np.int64)]
        for split in self.splits[:-1]:
            nodes.append(halves(nodes[-1][split]))
        return nodes

    def leaves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the code and depth of each leaf, level by level."""
        codes = [nodes[~split] for nodes, split in zip(self.levels(), self.splits, strict=True)]
        depths = [np.full(len(own), depth, dtype=np.int64) for depth, own in enumerate(codes, self.first)]
        return np.concatenate(codes), np.concatenate(depths)

    def packed(self) -> str:
        """Return all decisions as base64 of their bits, level by level."""
        return base64.b64encode(np.packbits(np.concatenate(self.splits)).tobytes()).decode("ascii")

    @classmethod
    def unpacked(cls, first: int, text: str) -> "TreeShape":
        """Return the shape from the text of `packed`."""
        bits = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8)).astype(bool)
        splits, size, start = [], 1 << first, 0
        while size:
            splits.append(bits[start : start + size])
            start += size
            size = 2 * int(splits[-1].sum())
        return cls(first, tuple(splits))


def halves(codes: np.ndarray) -> np.ndarray:
    """Return the codes of both halves of each node."""
    return (2 * codes[:, None] + np.arange(2)).ravel()


def count_within(ordered: np.ndarray, depth: int, codes: np.ndarray, depths: np.ndarray | int) -> np.ndarray:
    """Count the records in each node, from their ordered codes of this depth. The counts are exact and private."""
    rest = depth - depths
    return np.searchsorted(ordered, (codes + 1) << rest) - np.searchsorted(ordered, codes << rest)


def path_loss(neighbours: Neighbours) -> float:
    """Return λ times the ε of a shape: ε is how far one unit moves the log-probability of any shape, see above."""
    gain = 1 + sum(1 / (2 * BASE**j - 1) for j in range(TERMS)) + 2 * BASE**-TERMS
    return neighbours.records * (gain if neighbours.relation == "add_remove" else gain + 1)


def decay(scale: float) -> float:
    """Return δ: λ ln β in whole steps, rounded up, plus the steps that an exact sampler may add to λ."""
    return math.ceil((scale / STEP + 4) * math.log(BASE) + 1) * STEP


def decompose(
    ordered: np.ndarray,
    *,
    depth: int,
    first: int,
    threshold: int,
    neighbours: Neighbours,
    epsilon: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> TreeShape:
    """Draw a private shape for records given by their ordered codes of `depth` bits: ε-DP for these neighbours.

    All nodes of the `first` levels are split. Nodes at `depth` are not.
    """
    if not 0 <= first <= depth <= DEEPEST:
        raise UserError(
            f"decomposition {label!r}: a tree of depth {depth} with roots at {first} is impossible; "
            f"it needs 0 <= roots <= depth <= {DEEPEST}."
        )
    scale = path_loss(neighbours) / check_positive(epsilon, f"decomposition {label!r}: epsilon")
    step = decay(scale)
    law = PrivTreeDecisions(scale)

    def scores(nodes: np.ndarray, level: int) -> np.ndarray:
        counts = count_within(ordered, depth, nodes, first + level)
        return np.maximum(-step, counts - (threshold + level * step))

    def draw() -> TreeShape:
        nodes, splits = np.arange(1 << first, dtype=np.int64), []
        for level in range(depth - first):
            hidden = scores(nodes, level)
            noisy = source.add_laplace(hidden, scale)
            law.hidden.append((noisy - hidden) / scale)
            splits.append(noisy > 0)
            nodes = halves(nodes[splits[-1]])
            if not len(nodes):
                break
        else:
            splits.append(np.zeros(len(nodes), dtype=bool))
        return TreeShape(first, tuple(splits))

    def along(shape: TreeShape) -> list[np.ndarray]:
        return [scores(nodes, level) for level, nodes in enumerate(shape.levels()[: depth - first])]

    return measure(Decomposition(label, epsilon), law, along, draw, source=source, ledger=ledger)
