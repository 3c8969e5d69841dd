"""A private synopsis: boxes that fill the public box, each with a noisy count, and the mechanisms that measure one.

The counts are made non-negative by norm-sub. A mixture is then fitted to them as to records that lie somewhere in their
boxes (`mixture.boxes`). Searches, restarts and the choice of K see only the synopsis: they are post-processing.
"""

import base64
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import (
    CentralMechanism,
    Randomness,
    Records,
    Release,
    Spec,
    best_fit,
    mechanism_dataclass,
)
from privmix.mixture import boxes
from privmix.mixture.model import FitResult
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours


@dataclass(frozen=True, eq=False)
class Synopsis:
    """Boxes with noisy counts, and the public facts about their noise."""

    lower: np.ndarray  # (n, d)
    upper: np.ndarray
    counts: np.ndarray  # (n,) noisy, some negative
    deviation: float  # standard deviation of the noise in one count
    rows: int  # number of records in the catalog
    rows_are_exact: bool = False  # whether `rows` is public and exact
    records_per_unit: int = 1  # largest number of records of one person
    released: dict[str, Any] = field(default_factory=dict)  # the synopsis in transcript form

    @property
    def size(self) -> float:
        """The number of records: public, or the sum of the counts, which noise may make zero or negative."""
        return float(self.rows) if self.rows_are_exact else float(self.counts.sum())

    @property
    def mostly_noise(self) -> bool:
        """Whether the noise in all counts together is as large as the number of records."""
        return self.deviation * len(self.counts) >= min(self.size, self.rows)

    def weights(self) -> np.ndarray:
        """Return non-negative counts with the same sum; the counts of a uniform density if the size is not positive."""
        if self.size <= 0:
            volumes = np.prod(self.upper - self.lower, axis=1)
            return volumes / volumes.sum()
        return self.size * project_to_simplex(self.counts / self.size)

    @property
    def effective_records(self) -> float:
        """The number of records that would leave the same uncertainty without noise.

        Noise of variance σ² in each of L counts adds L σ² to the variance N of all counts together. The records of one
        person carry hardly more information than one record.
        """
        size = max(self.size, 0.0)
        inflation = 1 + len(self.counts) * self.deviation**2 / max(size, 1.0)
        return size / inflation / self.records_per_unit

    def fit(self, spec: Spec, *, rng: np.random.Generator, searches: int) -> tuple[FitResult, list[str]]:
        """Fit a mixture with at most as many components as boxes with a positive count. Return it with its notes."""
        weights = self.weights()
        kept = weights > 0
        supported = int(kept.sum())
        fit = best_fit(
            spec,
            lambda number: boxes.fit(
                self.lower[kept],
                self.upper[kept],
                weights[kept],
                min(number, supported),
                floor=spec.floor,
                rng=rng,
                searches=searches,
            ),
            self.effective_records,
        )
        notes = list(fit.notes)
        if self.mostly_noise:
            notes.append(
                f"The noise in the {len(self.counts)} counts is as large as the counts: the mixture is mostly noise."
            )
        if supported < spec.n_components and not spec.candidates:
            notes.append(
                f"Only {supported} of the {len(kept)} parts of the public box have a positive noisy count, "
                f"so the mixture has {supported} of the {spec.n_components} requested components."
            )
        return fit, notes


@mechanism_dataclass
class SynopsisMechanism(CentralMechanism):
    """Measures a synopsis and nothing else. `searches`: restarts of the fit, which cost no privacy."""

    chooses_components: ClassVar[bool] = True

    searches: Annotated[int, Field(ge=1, le=1000)] = 8

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Measure one synopsis, then return the best mixture that many searches find for it."""
        ledger = Ledger()
        synopsis = self.measure(view, spec, budget, rng.noise, ledger)
        fit, notes = synopsis.fit(spec, rng=rng.search, searches=self.searches)
        spent = claim(ledger.events, budget, "linear")
        return Release(fit.mixture, ledger.events, spent, [synopsis.released], notes=notes)

    def measure(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> Synopsis:
        """Measure the synopsis alone, with all of this budget. The ledger gets every measurement."""
        partition, noisy = self.measure_counts(view, spec, budget, source, ledger)
        counts = base64.b64encode(noisy.astype("<f8").tobytes()).decode("ascii")
        return self.replay({**partition, "counts": counts}, spec, budget)

    def replay(self, released: dict[str, Any], spec: Spec, budget: Budget) -> Synopsis:
        """Compute the synopsis from the transcript and public values only."""
        neighbours = self.relation(spec)
        lower, upper = self.boxes(released, spec)
        return Synopsis(
            lower,
            upper,
            np.frombuffer(base64.b64decode(released["counts"]), dtype="<f8"),
            deviation=self.deviation(neighbours, budget),
            rows=spec.domain.rows,
            rows_are_exact=neighbours.size_is_public,
            records_per_unit=neighbours.records,
            released=released,
        )

    def measure_counts(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Return the partition of the public box in transcript form, and the noisy count of each part."""
        raise NotImplementedError

    def boxes(self, released: dict[str, Any], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of the parts of such a partition."""
        raise NotImplementedError

    def deviation(self, neighbours: Neighbours, budget: Budget) -> float:
        """Return the standard deviation of the noise in one count."""
        raise NotImplementedError


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """Norm-sub: return the nearest non-negative shares with sum one (Wang et al. 2020, §4.2). Post-processing."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    kept = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(shares - excess[kept], 0.0)
