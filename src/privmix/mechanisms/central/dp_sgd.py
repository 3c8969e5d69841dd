"""DP-SGD: gradient ascent on the log-likelihood with clipped gradients and Gaussian noise (Abadi et al. 2016).

Privacy. The contribution of a unit (a record, or a person with all their records) to step t is the sum of the gradients
of its records' log-densities at the mixture of step t - 1 (`mixture.gradient`), clipped to L2 norm C. That mixture is
already measured, and C depends on d only. So the sum over the units of a batch changes by at most C when a unit is
added or removed, for any records. Under add_remove each batch is a Poisson sample: every unit is in it with a public
probability q, by a secret draw of its own, and the sum has noise N(0, (σC)²). Such a step is dominated by the pair N(0,
σ²), (1 - q) N(0, σ²) + q N(1, σ²), in the order of the direction (Zhu, Dong, Wang 2022, Theorem 11), and adaptive steps
by the composition of their pairs (ibid., Theorem 10). The composition is computed by privacy-loss distributions for a
unit added and for one removed. σ is the smallest value for which the larger of the two, together with the Gaussian
measurements of the start, is (ε, δ). Under replace_one that theorem does not apply and nothing is sampled: every step
takes the sum over all units, which changes by at most 2C, and all measurements compose exactly as Gaussians (Dong,
Roth, Su 2022, Corollary 2). The start is the private reference (`mechanisms.shared.reference`), or with
`reference_share: 0` a draw from the public box. Batches are never published. The number of steps, their lengths and the
divisor q · rows are public. The processing of a noisy gradient (division by the Fisher information, projection on the
public box, the floor) is post-processing.

Attributes. With `attributes: together`, components also have shares of the values of each attribute, equal at first.
The gradient is that of the joint log-density of coordinates and attributes, and has a part for the logits of the
shares. The whole vector of a unit, with this part, is clipped to C. So the bounds C and 2C, the sample, the noise and
the ledger are those of the proof above, for any records and any values. C then also depends on the public numbers of
values (`mixture.gradient.typical_norm`). With `after`, one table is measured given the result
(`shared.attribute_counts`). If `attributes` is not set, they take part if their distribution has no more free numbers
than a Gaussian (`shared.joint_attributes`). On the records of `benchmarks/cases.nafld` (ε = 1, five seeds, a tenth held
out), synthetic rows then keep 0.50 ± 0.11 of the correlation ratio of sex and height if a record is replaced and 0.71 ±
0.08 if it is added or removed, instead of 0.06 ± 0.02 and 0.04 ± 0.01. The joint log-density of held-out records rises
by 0.16 and 0.26 nats. That of the coordinates changes by -0.017 and +0.008 (± 0.02 and 0.01).

When to use it: as the standard method of private machine learning, to compare with mechanisms made for mixtures. It
climbs to the optimum next to its start. From a public start on clustered data, that optimum is poor at any ε. It works
in every dimension, and at person level costs nothing more than the clipping of a person's sum.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from privmix.artefacts.domain import Domain
from privmix.mechanisms.base import (
    Randomness,
    Records,
    Release,
    Spec,
    mechanism_dataclass,
    project_to_box,
)
from privmix.mechanisms.shared.joint_attributes import JointAttributes
from privmix.mechanisms.shared.joint_moments import EitherModel
from privmix.mechanisms.shared.reference import fit_reference, mixture_values
from privmix.mixture import em, gradient
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, Theorem, claim
from privmix.privacy.calibration import noise_multipliers_by_share, sampled_noise_multiplier
from privmix.privacy.ledger import Gaussian, Ledger

LEAST_RATE, LARGEST_RATE = 1e-4, 0.5
FIRST_STEP, LAST_STEP = 0.7, 0.05  # step lengths, falling geometrically; length 1 is about one EM step
CLIP = 3.0  # C, in typical norms of a record; a smaller value biases the covariances
NUMBERS = 2**17  # size of the largest array of gradients, which stays in the cache
MOSTLY_NOISE = 1.0  # noise of a mean gradient, relative to an average weight


@mechanism_dataclass
class DpSgd(JointAttributes):
    """`batch`: average records per step; `clip`: C, or from the dimensions; `reference_share`: of μ², for the start."""

    steps: Annotated[int, Field(ge=1, le=100_000)] = 60
    batch: Annotated[int, Field(ge=1)] = 8192
    clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    reference_share: Annotated[float, Field(ge=0, lt=1)] = 0.3

    @property
    def accountant(self) -> Theorem:
        """Privacy-loss distributions, or one Gaussian."""
        return "exact"

    def rate(self, spec: Spec) -> float:
        """Return the probability that a unit is in a batch, from public values; 1 if units are replaced."""
        if self.relation(spec).relation == "replace_one":
            return 1.0
        return min(max(self.batch / spec.domain.rows, LEAST_RATE), LARGEST_RATE)

    def only_gaussian(self, spec: Spec) -> bool:
        """Without sampling, steps and reference are Gaussian measurements."""
        return self.rate(spec) == 1.0

    def norm(self, spec: Spec) -> float:
        """Return C, the largest norm of the contribution of a unit, from public values."""
        sizes = [len(each.values) for each in spec.domain.attributes] if self.takes_part(spec) else []
        return self.clip or CLIP * gradient.typical_norm(len(spec.domain.axes), sizes)

    def reach(self, spec: Spec) -> float:
        """Return how far one unit moves the sum of a step: C, or 2C if units are replaced."""
        norm = self.norm(spec)
        return norm if self.relation(spec).relation == "add_remove" else 2 * norm

    def size(self, spec: Spec) -> int:
        """Return the length of a gradient."""
        values = sum(len(each.values) for each in spec.domain.attributes) if self.takes_part(spec) else 0
        return gradient.size(spec.n_components, len(spec.domain.axes), values)

    def deviation(self, spec: Spec, budget: Budget) -> float:
        """Return the standard deviation of the noise of a mean gradient."""
        return (
            self.noise_multipliers(spec, budget)[1] * self.reach(spec) / (self.rate(spec) * spec.domain.rows)
        )

    def noise_multipliers(self, spec: Spec, budget: Budget) -> tuple[float | None, float]:
        """Return σ/Δ of the reference (None without a reference) and of each step."""
        share, rate = self.reference_share, self.rate(spec)
        shares = [share] * (share > 0) + [(1 - share) / self.steps] * self.steps
        whole = noise_multipliers_by_share(shares, budget)
        for_reference = whole[0] if share else None
        if rate == 1.0:
            return for_reference, whole[-1]
        beside = () if for_reference is None else (Gaussian("", for_reference),)
        return for_reference, sampled_noise_multiplier(rate, self.steps, budget, beside)

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Take T noisy steps from the private reference, or from a public start."""
        neighbours, ledger, rate = self.relation(spec), Ledger(), self.rate(spec)
        for_reference, noise_multiplier = self.noise_multipliers(spec, budget)
        alone = replace(neighbours, unit="record")  # each unit contributes one vector, whatever its records
        reach = noise.with_rounding(
            self.reach(spec),
            self.size(spec),
            2,
            neighbours=alone,
            source=rng.noise,
        )
        points = spec.inside(view.points)
        values = value_columns(view.codes, spec.domain) if self.takes_part(spec) else None
        units = _Units(points, view.units(neighbours.unit), values, exact=noise.needs_exact_sums(rng.noise))
        if for_reference is None:
            mixture = em.public_start(spec.domain.lower, spec.domain.upper, spec.n_components, rng.search)
        else:
            mixture = fit_reference(
                points, spec, neighbours, noise_multiplier=for_reference, rng=rng, ledger=ledger
            )
        size = rate * spec.domain.rows
        deviation = noise_multiplier * self.reach(spec) / size
        transcript: list[dict[str, Any]] = [{"start": mixture_values(mixture)}]
        model = self.with_shares(mixture, spec)
        for step in range(self.steps):
            released = _measure_gradient(
                functools.partial(units.total, model, self.norm(spec)),
                len(units),
                rate=rate,
                sensitivity=reach,
                noise_multiplier=noise_multiplier,
                source=rng.noise,
                ledger=ledger,
            )
            model = self.climb(model, released / size, step, deviation, spec)
            transcript.append({"step": step, "gradient": released.tolist()})
        spent = claim(ledger.events, budget, "exact")
        mixed = model if isinstance(model, MixedMixture) else MixedMixture(model)
        return Release(
            mixed.gaussians,
            ledger.events,
            spent,
            transcript,
            notes=_notes(deviation, spec),
            shares=mixed.shares,
        )

    def climb(
        self, model: EitherModel, mean_gradient: np.ndarray, step: int, deviation: float, spec: Spec
    ) -> EitherModel:
        """Return the mixture after step number `step` along a measured gradient, whose noise has this deviation."""
        length = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (step / max(self.steps - 1, 1))
        if isinstance(model, MixedMixture):
            end = gradient.size(*model.gaussians.means.shape)
            shares = gradient.step_shares(model, mean_gradient[end:], rate=length, noise=deviation)
            moved = gradient.take_step(model.gaussians, mean_gradient[:end], rate=length, noise=deviation)
            return MixedMixture(project_to_box(*moved, spec), shares)
        moved = gradient.take_step(model, mean_gradient, rate=length, noise=deviation)
        return project_to_box(*moved, spec)


def value_columns(codes: Mapping[str, np.ndarray], domain: Domain) -> np.ndarray:
    """Return the column of the value of each attribute, (n, A), if the values of all attributes stand side by side."""
    sizes = [len(each.values) for each in domain.attributes]
    firsts = np.cumsum(sizes) - sizes
    return np.column_stack(
        [
            codes[each.name].astype(np.int64) + first
            for each, first in zip(domain.attributes, firsts, strict=True)
        ]
    )


class _Units:
    """The records in the order of their units, so that the records of a unit are neighbouring rows.

    `exact`: each unit's vector is computed from its own records only, to the last bit, and rounded (`privacy.noise`).
    """

    def __init__(
        self, points: np.ndarray, units: np.ndarray, values: np.ndarray | None = None, *, exact: bool = False
    ) -> None:
        self.exact = exact
        order = np.argsort(units, kind="stable")
        self.points = np.take(points, order, axis=0)  # far faster than an index
        self.values = None if values is None else np.take(values, order, axis=0)
        self.ends = np.concatenate([[0], np.cumsum(np.bincount(units))])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def total(self, model: Mixture | MixedMixture, norm: float, chosen: np.ndarray) -> np.ndarray:
        """Return the sum of the clipped gradients of the chosen units."""
        if isinstance(model, MixedMixture):
            values = sum(table.shape[1] for table in model.shares.values())
            k, d = model.gaussians.means.shape
            size = gradient.size(k, d, values)
        else:
            size = gradient.size(*model.means.shape)
        vectors = (gradient.clip_gradients(part, norm) for part in self._vectors(model, chosen, size))
        if self.exact:
            return noise.exact_sum(((part.T, None) for part in vectors), size)
        return sum((part.sum(axis=1) for part in vectors), np.zeros(size))

    def _vectors(self, model: Mixture | MixedMixture, chosen: np.ndarray, size: int) -> Iterator[np.ndarray]:
        """Yield the gradients of the chosen units, as columns, in blocks."""
        width = max(NUMBERS // size, 1)
        for first in range(0, len(chosen), width):
            rows, begins = self._rows(chosen[first : first + width])
            points = np.take(self.points, rows, axis=0)
            values = None if self.values is None else np.take(self.values, rows, axis=0)
            of_records = gradient.gradients(points, model, values=values, rowwise=self.exact)
            yield of_records if len(rows) == len(begins) else _per_unit(of_records, begins)

    def _rows(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the chosen units, unit by unit, and where each unit begins among them."""
        if len(self.points) == len(self):  # one row per unit
            return chosen, np.arange(len(chosen))
        lengths = self.ends[chosen + 1] - self.ends[chosen]
        begins = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(self.ends[chosen] - begins, lengths), begins


def _per_unit(of_records: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Sum the columns of each unit in their order; `begins` has its first column. No other unit enters the sum."""
    lengths = np.diff(begins, append=of_records.shape[1])
    of_units = np.take(of_records, begins, axis=1)
    for turn in range(1, lengths.max()):
        more = np.flatnonzero(lengths > turn)
        of_units[:, more] += np.take(of_records, begins[more] + turn, axis=1)
    return of_units


def _measure_gradient(
    total: Callable[[np.ndarray], np.ndarray],
    units: int,
    *,
    rate: float,
    sensitivity: float,
    noise_multiplier: float,
    source: noise.NoiseSource,
    ledger: Ledger,
) -> np.ndarray:
    """Measure the sum over a sample of the units, or over all of them."""
    common: dict[str, Any] = {
        "sensitivity": sensitivity,
        "noise_multiplier": noise_multiplier,
        "source": source,
        "ledger": ledger,
        "label": "gradient",
    }
    if rate == 1.0:
        return noise.gaussian(total(np.arange(units)), **common)
    return noise.sampled_gaussian(total, units, rate=rate, **common)


def _notes(deviation: float, spec: Spec) -> list[str]:
    if deviation * spec.n_components < MOSTLY_NOISE:
        return []
    return [
        "The noise of each step is larger than the gradient of a component of average weight: the mixture is "
        "mostly its start and noise. Raise epsilon or use fewer components."
    ]
