"""Attributes of central mechanisms: one noisy table of components by values, measured after the mixture.

Privacy. The mixture is measured first, so its responsibilities γ_k(x) are a public function of the coordinates. The
table is N_kav = Σ_i γ_k(x_i) [c_ia = v]. A record adds γ_k to one value of each of the A attributes. So its
contribution has L1 norm A, and L2 norm √(A Σ γ_k²) ≤ √A. All numbers are non-negative, so no two contributions are
opposed in L2: replacing a record moves the table by at most 2A in L1 and √(2A) in L2, and a person of at most m records
by m times as much (`privacy.sensitivity.attribute_counts`). One measurement of the whole table has

* Gaussian noise of multiplier 1/(√s μ) if all measurements of the mechanism are Gaussian and (ε, δ) stands for μ-GDP.
  The mechanism then has √(1 - s) μ, and all together are μ-GDP (Dong, Roth, Su 2022, Corollary 2);
* otherwise Laplace noise for sε, or Gaussian noise for (sε, δ/2), whichever has the smaller deviation; the mechanism
  has the rest, and the costs add up (basic composition, adaptive).

s is the mechanism's `attribute_share`. Only public values decide, so they decide before any noise is drawn.

A record that lacks coordinates has the responsibilities that its other coordinates imply, so every record is counted.

Everything after it is post-processing. The shares of a component are shrunk towards the shares of all records, by as
much as the noise demands (James and Stein 1961, positive part), and projected to a distribution.
"""

import base64
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.mechanisms.base import Mechanism, Records, Spec
from privmix.mixture.model import BLOCK, Mixture, split_patterns
from privmix.mixture.standardised_moments import standardise_records
from privmix.privacy import noise, sensitivity
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget, Claim, account, gaussian_epsilon, gaussian_mu
from privmix.privacy.exact import dequantise, quantise
from privmix.privacy.ledger import Event, Gaussian, Laplace, Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours
from privmix.privacy.vector_noise import VectorNoise

SMALLEST = 1e-100  # keeps divisors away from zero


@dataclass(frozen=True)
class AttributePlan:
    """What the attributes cost: the event of their measurement, and the budget that is left for the mechanism."""

    event: Event
    left: Budget
    joint: bool = False  # whether the measurement is one of the Gaussian measurements that compose exactly

    def add_to(self, claim: Claim, budget: Budget) -> Claim:
        """Return the claim of a mechanism and of this measurement together (`accounting.compose_run`)."""
        if self.joint and isinstance(self.event, Gaussian):
            mu = math.hypot(gaussian_mu(claim.epsilon, claim.delta), 1 / self.event.noise_multiplier)
            return Claim(gaussian_epsilon(mu, budget.delta), budget.delta)
        own = account([self.event], budget.delta / 2, "split")
        return Claim(claim.epsilon + own.epsilon, claim.delta + own.delta)

    def deviation(self, spec: Spec, neighbours: Neighbours) -> float:
        """Return the standard deviation of the noise in one number."""
        reach, _ = self.reach(spec, neighbours)
        if isinstance(self.event, Laplace):
            return math.sqrt(2) * reach / self.event.epsilon
        assert isinstance(self.event, Gaussian)
        return reach * self.event.noise_multiplier

    def law(self, spec: Spec, neighbours: Neighbours) -> VectorNoise:
        """Return the law of the noise in each number."""
        law: Literal["laplace", "gaussian"] = "laplace" if isinstance(self.event, Laplace) else "gaussian"
        return VectorNoise(law, self.deviation(spec, neighbours))

    def reach(self, spec: Spec, neighbours: Neighbours) -> tuple[float, Any]:
        """Return the sensitivity of the table, in the norm of its noise, and this norm: 1 or 2."""
        both = sensitivity.attribute_counts(neighbours, attributes=len(spec.domain.attributes))
        return (both.l1, 1) if isinstance(self.event, Laplace) else (both.l2, 2)


def make_plan(mechanism: Mechanism, spec: Spec, budget: Budget) -> AttributePlan | None:
    """Return how a mechanism measures the attributes of a dataset; None if it does not, or has none."""
    share, number = mechanism.table_share(spec), len(spec.domain.attributes)
    if not share or not number:
        return None
    if mechanism.only_gaussian(spec) and budget.delta:
        mu = gaussian_mu(budget.epsilon, budget.delta)
        left = gaussian_epsilon(math.sqrt(1 - share) * mu, budget.delta)
        return AttributePlan(
            Gaussian(ATTRIBUTE_COUNTS, 1 / (math.sqrt(share) * mu)), replace(budget, epsilon=left), joint=True
        )
    own = share * budget.epsilon
    rest = replace(budget, epsilon=budget.epsilon - own)
    pure = AttributePlan(Laplace(ATTRIBUTE_COUNTS, own), rest)
    if not budget.delta:
        return pure
    multiplier = 1 / gaussian_mu(own, budget.delta / 2)
    other = AttributePlan(Gaussian(ATTRIBUTE_COUNTS, multiplier), replace(rest, delta=budget.delta / 2))
    neighbours = mechanism.relation(spec)
    return min(pure, other, key=lambda each: each.deviation(spec, neighbours))


def measure(
    records: Records,
    mixture: Mixture,
    plan: AttributePlan,
    spec: Spec,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
) -> np.ndarray:
    """Measure the table, (K, ΣV): the values of all attributes side by side."""
    exact = noise.needs_exact_sums(source)
    values = count_table(records, mixture, spec, exact=exact)
    reach, norm = plan.reach(spec, neighbours)
    touched = min(
        2 * len(values) * len(spec.domain.attributes), values.size
    )  # numbers that two records change
    common: dict[str, Any] = {
        "sensitivity": noise.with_rounding(reach, touched, norm, neighbours=neighbours, source=source),
        "source": source,
        "ledger": ledger,
        "label": ATTRIBUTE_COUNTS,
        "coordinates": touched,
    }
    if isinstance(plan.event, Laplace):
        return noise.laplace(values, epsilon=plan.event.epsilon, **common)
    assert isinstance(plan.event, Gaussian)
    return noise.gaussian(values, noise_multiplier=plan.event.noise_multiplier, **common)


def count_table(records: Records, mixture: Mixture, spec: Spec, *, exact: bool) -> np.ndarray:
    """Return the table without noise.

    With `exact`, each responsibility depends on its own record alone, and is rounded to the lattice before the sum.
    """
    sizes = [len(attribute.values) for attribute in spec.domain.attributes]
    table = np.zeros((mixture.n_components, sum(sizes)))
    points, absent = spec.inside(records.points), spec.absent(records)
    width = BLOCK if exact else 16 * BLOCK
    for first in range(0, len(points), width):
        part, column = slice(first, first + width), 0
        lacking = None if absent is None else absent[part]
        if exact:  # sums of such numbers are exact below 2^33
            shares = dequantise(quantise(_rowwise_responsibilities(points[part], lacking, mixture)))
        else:
            shares = mixture.responsibilities(points[part], lacking)
        for attribute, size in zip(spec.domain.attributes, sizes, strict=True):
            codes = records.codes[attribute.name][part]
            for k, own in enumerate(shares.T):
                table[k, column : column + size] += np.bincount(codes, own, size)
            column += size
    return table


def _rowwise_responsibilities(points: np.ndarray, absent: np.ndarray | None, mixture: Mixture) -> np.ndarray:
    """Return P(component | x), (n, K), each from its own record alone, to the last bit."""
    if absent is None:
        return standardise_records(points, mixture)[0].T
    shares = np.empty((len(points), mixture.n_components))
    for present, rows in split_patterns(absent):
        own = standardise_records(points[np.ix_(rows, present)], mixture.marginal(present))
        shares[rows] = own[0].T
    return shares


def to_text(table: np.ndarray) -> str:
    """Return the table in the form of a transcript."""
    return base64.b64encode(table.astype("<f8").tobytes()).decode("ascii")


def estimate_shares(
    table: np.ndarray, weights: np.ndarray, domain: Domain, rows: float | None, deviation: float
) -> dict[str, np.ndarray]:
    """Return the shares of each attribute's values in each component, (K, V), from the noisy table.

    `rows` is the number of records, or None if it is not public: then it is the sum of the table.
    """
    total = float(table.sum()) / len(domain.attributes) if rows is None else rows
    expected = _component_sizes(table, total * weights, domain, deviation)[:, None]
    shares, column = {}, 0
    for attribute in domain.attributes:
        size = len(attribute.values)
        counts = table[:, column : column + size]
        column += size
        shares[attribute.name] = _shrink(counts, expected, deviation, total)
    return shares


def shrink_rows(counts: np.ndarray, sizes: np.ndarray, deviation: float) -> np.ndarray:
    """Return the shares of values in each row of a noisy table, from the noisy numbers of records of the rows."""
    expected = np.maximum(sizes, SMALLEST)[:, None]
    return _shrink(counts, expected, deviation, float(sizes.sum()))


def _shrink(counts: np.ndarray, expected: np.ndarray, deviation: float, total: float) -> np.ndarray:
    """Shrink the shares of each row towards those of all rows (James and Stein 1961, positive part)."""
    size = counts.shape[1]
    overall = np.full(size, 1 / size) if total <= 0 else project_rows(counts.sum(axis=0)[None] / total)[0]
    apart = counts - expected * overall
    apart = apart - apart.mean(axis=1, keepdims=True)  # the values of a row add up to its records
    energy = np.maximum(np.square(apart).sum(axis=1, keepdims=True), SMALLEST)
    kept = np.maximum(1 - (size - 1) * deviation**2 / energy, 0.0)
    return project_rows(overall + kept * apart / expected)


def _component_sizes(table: np.ndarray, expected: np.ndarray, domain: Domain, deviation: float) -> np.ndarray:
    """Return the number of records of each component: by the mixture, moved to the table where that is no noise."""
    number = len(domain.attributes)
    apart = table.sum(axis=1) / number - expected
    variance = table.shape[1] * (deviation / number) ** 2
    kept = np.maximum(1 - variance / np.maximum(np.square(apart), SMALLEST), 0.0)
    return np.maximum(expected + kept * apart, SMALLEST)


def project_rows(rows: np.ndarray) -> np.ndarray:
    """Return the nearest distribution to each row: non-negative, with sum one (norm-sub)."""
    ordered = -np.sort(-rows, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    last = (ordered > excess).sum(axis=1, keepdims=True) - 1
    held = np.maximum(rows - np.take_along_axis(excess, last, axis=1), 0.0)
    return np.asarray(held / held.sum(axis=1, keepdims=True))
