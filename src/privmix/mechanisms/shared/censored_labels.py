"""Censored labels: a map from a record to a random label that tells little about an attribute.

The map. Let γ(x) be the responsibilities of the released mixture for the coordinates x, and π its weights, the smallest
ones raised (`base_weights`). The label of a record is z with probability κ γ_z(x) + (1 - κ) π_z: its component with
probability κ (`kept`), otherwise a component drawn from π. Every label is drawn for itself. The map is a function of
the release, and so is κ (below). So it costs no ε and may be published, and anyone can draw labels of new records. The
release holds no label of its records.

How much it tells. Let N_sz = Σ_i γ_z(x_i) [s_i = s] be the table of values s by components z of the n records of the
release, N_s its row sums, and u_sz = P(z | s)/π_z = 1 - κ + κ N_sz/(N_s π_z). For every distribution π,

    I(Z; S) ≤ Σ_s (N_s/n) KL(P(· | s) ‖ π) = Σ_s (N_s/n) Σ_z π_z φ(u_sz),   φ(u) = u ln u - u + 1

(the difference is KL(P(·) ‖ π) ≥ 0; Csiszár and Körner 2011, the golden formula). φ(u)/(u - 1)² decreases in u, and
u ≥ 1 - κ, so φ(u) ≤ ψ(κ) (u - 1)²/κ² with ψ(κ) = κ² φ(1 - κ)/κ² = (1 - κ) ln(1 - κ) + κ. So

    (N_s/n) KL(P(· | s) ‖ π) ≤ ψ(κ) D_s²/(n N_s),   D_s² = Σ_z (N_sz - π_z N_s)²/π_z.           (1)

Also KL ≤ ln max_z u_sz ≤ ln(1 - κ + κ/π_min), which is the smaller bound for a rare value:

    (N_s/n) KL(P(· | s) ‖ π) ≤ (N_s/n) ln(1 - κ + κ/π_min).                                        (2)

The limit. The release holds a noisy table Ñ = N + e (`attribute_counts`). D_s is the length of N_s· - π N_s in the norm
Σ v²/π, so |D̃_s - D_s| is at most the length of the noise there, and N_s differs from Ñ_s by the sum of the noise.
`privacy.vector_noise` has upper limits of both. With probability CONFIDENCE all of them hold, for all values s at once:
half of the doubt is for the V lengths, half for the V sums and the sum of the table, divided equally (union bound). The
limit is the sum over s of the smaller of (1) and (2) with the worst D_s, N_s and n that they allow. It increases in κ,
and `choose` takes the largest κ, in steps of STEP, whose limits of all attributes are as requested.

What it is not. The limit is about I(Z; S) of the records of the release, one label for each record, and each attribute
on its own (each limit has its own CONFIDENCE). Several labels of one record tell more, and so do the labels of several
records of one person, and a label together with other data. Records that may lack coordinates have no censored labels:
an average over all records would say little about the complete ones. A label that tells
nothing about an attribute may still tell other things. Rounding to the lattice of a release changes an entry by at most
n 2^-21, which the limit ignores.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import CensoredLabels, LabelLimit
from privmix.privacy.vector_noise import VectorNoise

CONFIDENCE = 0.95
STEPS = 10_000  # κ is a multiple of 1 / STEPS
DECIMALS = 6  # of a stated limit, which is rounded up
LEAST_WEIGHT = 0.01  # of an equal weight: smaller ones make (1) and (2) large


@dataclass(frozen=True)
class InformationBounds:
    """What the noisy table of one attribute tells about the exact one, at the CONFIDENCE of all bounds together."""

    squares: np.ndarray  # (V,) most D_s²
    fewest: np.ndarray  # (V,) least N_s
    most: np.ndarray  # (V,) most N_s
    rows: float  # least n
    smallest: float  # smallest weight of a label

    def limit(self, kept: float) -> float:
        """Return the upper confidence limit of I(Z; S), in nats."""
        if kept == 0 or self.smallest == 1:
            return 0.0
        cap = math.log(1 - kept + kept / self.smallest)
        if self.rows <= 0:
            return cap
        spread = kept if kept == 1 else (1 - kept) * math.log(1 - kept) + kept
        by_table = np.full(len(self.squares), np.inf)
        known = self.fewest > 0
        by_table[known] = spread * self.squares[known] / (self.rows * self.fewest[known])
        return min(float(np.minimum(by_table, cap * self.most / self.rows).sum()), cap)


def base_weights(weights: np.ndarray) -> np.ndarray:
    """Return the weights of random labels: those of the mixture, each at least LEAST_WEIGHT of an equal weight."""
    raised = np.maximum(weights, LEAST_WEIGHT / len(weights))
    return np.asarray(raised / raised.sum())


def label_probabilities(responsibilities: np.ndarray, weights: np.ndarray, kept: float) -> np.ndarray:
    """Return the probability of each label for each record, (n, K)."""
    return kept * responsibilities + (1 - kept) * base_weights(weights)


def bound_information(
    counts: np.ndarray, weights: np.ndarray, noise: VectorNoise, rows: float | None
) -> InformationBounds:
    """Bound the table of one attribute, (K, V), from its noisy counts; `rows` is n if it is public."""
    base, (labels, values) = base_weights(weights), counts.shape
    doubt = (1 - CONFIDENCE) / 2
    sizes = counts.sum(axis=0)
    apart = np.square(counts - base[:, None] * sizes) / base[:, None]
    lengths = np.sqrt(apart.sum(axis=0)) + noise.largest_length(base, 1 - doubt / values)
    near = noise.largest_sum(labels, 1 - doubt / (values + 1))
    least = rows
    if least is None:
        least = float(sizes.sum()) - noise.largest_sum(labels * values, 1 - doubt / (values + 1))
    return InformationBounds(
        np.square(lengths), sizes - near, np.maximum(sizes + near, 0.0), least, float(base.min())
    )


def bound_all(
    table: np.ndarray,
    weights: np.ndarray,
    domain: Domain,
    attributes: Collection[str],
    noise: VectorNoise,
    rows: float | None,
) -> dict[str, InformationBounds]:
    """Bound the table of each of these attributes, from the noisy table of all attributes side by side."""
    bounds, column = {}, 0
    for attribute in domain.attributes:
        size = len(attribute.values)
        if attribute.name in attributes:
            counts = table[:, column : column + size]
            bounds[attribute.name] = bound_information(counts, weights, noise, rows)
        column += size
    return bounds


def choose(bounds: Mapping[str, InformationBounds], at_most: Mapping[str, float]) -> CensoredLabels:
    """Return the labels that tell most about a record within the limits: `at_most` nats about each attribute."""
    low, high = 0, STEPS  # the limits hold at `low`
    while low < high:
        middle = (low + high + 1) // 2
        holds = all(state_limit(bounds[name], middle / STEPS) <= most for name, most in at_most.items())
        low, high = (middle, high) if holds else (low, middle - 1)
    kept = low / STEPS
    limits = tuple(
        LabelLimit(attribute=name, at_most=most, limit=state_limit(bounds[name], kept))
        for name, most in at_most.items()
    )
    return CensoredLabels(kept=kept, limits=limits)


def state_limit(bounds: InformationBounds, kept: float) -> float:
    """Return the limit as it is stated: rounded up."""
    return math.ceil(bounds.limit(kept) * 10**DECIMALS) / 10**DECIMALS
