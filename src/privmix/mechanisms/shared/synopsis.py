"""A private synopsis: boxes that fill the public box, each with a noisy count, and the mechanisms that measure one.

The counts are made non-negative by norm-sub, and a mixture is fitted to them as to records that lie somewhere in
their boxes (`mixture.boxes`). Searches, restarts and the choice of K see the synopsis only: post-processing.
"""

import base64
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import (
    Mechanism,
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
    """Boxes with released counts, and what is public about their noise."""

    lower: np.ndarray  # (n, d)
    upper: np.ndarray
    counts: np.ndarray  # (n,) as released: noisy, some negative
    deviation: float  # standard deviation of the noise in one count
    rows: int  # the catalog's number of records,
    rows_are_exact: bool = False  # which the records have where it is public
    records_per_unit: int = 1  # how many records may be one person's
    released: dict[str, Any] = field(default_factory=dict)  # the same as the transcript holds it

    @property
    def size(self) -> float:
        """The number of records: public, or as the counts have it. Not positive where noise has swallowed it."""
        return float(self.rows) if self.rows_are_exact else float(self.counts.sum())

    @property
    def mostly_noise(self) -> bool:
        """Whether the noise in all counts together is as large as the number of records."""
        return self.deviation * len(self.counts) >= min(self.size, self.rows)

    def weights(self) -> np.ndarray:
        """Non-negative counts of the same sum. Without any record left, what a uniform density would have."""
        if self.size <= 0:
            volumes = np.prod(self.upper - self.lower, axis=1)
            return volumes / volumes.sum()
        return self.size * project_to_simplex(self.counts / self.size)

    @property
    def effective_records(self) -> float:
        """How many records would leave as much uncertainty without noise.

        Noise of variance σ² in each of L counts adds L σ² to the variance N that counts have together, and the
        records of one person say hardly more than one.
        """
        size = max(self.size, 0.0)
        inflation = 1 + len(self.counts) * self.deviation**2 / max(size, 1.0)
        return size / inflation / self.records_per_unit

    def fit(self, spec: Spec, *, rng: np.random.Generator, searches: int) -> tuple[FitResult, list[str]]:
        """The mixture, of no more Gaussians than boxes hold a count, and what a reader should know about it."""
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
                f"the noise in the {len(self.counts)} counts is as large as the counts: the mixture is mostly noise"
            )
        if supported < spec.n_components and not spec.candidates:
            notes.append(
                f"only {supported} of {len(kept)} boxes hold a positive count, "
                f"so {supported} of {spec.n_components} Gaussians were fitted"
            )
        return fit, notes


@mechanism_dataclass
class SynopsisMechanism(Mechanism):
    """Measures a synopsis, and nothing else. `searches`: restarts of the fit, which cost no privacy."""

    chooses_components: ClassVar[bool] = True

    searches: Annotated[int, Field(ge=1)] = 8

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """One synopsis, then the best mixture that many searches find for it."""
        ledger = Ledger()
        synopsis = self.measure(view, spec, budget, rng.noise, ledger)
        fit, notes = synopsis.fit(spec, rng=rng.search, searches=self.searches)
        spent = claim(ledger.events, budget, "linear")
        return Release(fit.mixture, ledger.events, spent, [synopsis.released], notes=notes)

    def measure(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> Synopsis:
        """The synopsis alone, with all of this budget; every measurement is written into the ledger."""
        partition, noisy = self.measure_counts(view, spec, budget, source, ledger)
        counts = base64.b64encode(noisy.astype("<f8").tobytes()).decode("ascii")
        return self.replay({**partition, "counts": counts}, spec, budget)

    def replay(self, released: dict[str, Any], spec: Spec, budget: Budget) -> Synopsis:
        """The synopsis, computed from the transcript and public values only."""
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
        """The partition of the public box as the transcript holds it, and the noisy count of each part."""
        raise NotImplementedError

    def boxes(self, released: dict[str, Any], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corners of the parts of such a partition."""
        raise NotImplementedError

    def deviation(self, neighbours: Neighbours, budget: Budget) -> float:
        """Standard deviation of the noise in one count."""
        raise NotImplementedError


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """Norm-sub: the nearest non-negative shares that sum to one (Wang et al. 2020, §4.2). Post-processing."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    kept = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(shares - excess[kept], 0.0)
