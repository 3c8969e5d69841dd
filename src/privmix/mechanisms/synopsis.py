"""A private synopsis: boxes that fill the public box, each with a noisy count. All that is done with it is free.

The counts are made non-negative by norm-sub, and a mixture is fitted to them as to records that lie somewhere in
their boxes (`mixture.boxes`). Searches, restarts and the choice of K see the synopsis alone: post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mixture import boxes
from privmix.mixture.em import Fit
from privmix.privacy.response import project_to_simplex

SEARCHES_PER_CANDIDATE = 3  # to compare numbers of components


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

    def fitted(
        self, n_components: int, *, floor: np.ndarray, rng: np.random.Generator, searches: int = 1
    ) -> tuple[Fit, list[str]]:
        """The mixture of at most so many Gaussians, and what a reader should know about it."""
        weights = self.weights()
        kept = weights > 0
        components = min(n_components, int(kept.sum()))
        notes = []
        if self.mostly_noise:
            notes.append(
                f"the noise in the {len(self.counts)} counts is as large as the counts: the mixture is mostly noise"
            )
        if components < n_components:
            notes.append(
                f"only {components} of {len(kept)} boxes hold a positive count, "
                f"so {components} of {n_components} Gaussians were fitted"
            )
        fit = boxes.fit(
            self.lower[kept],
            self.upper[kept],
            weights[kept],
            components,
            floor=floor,
            rng=rng,
            searches=searches,
        )
        return fit, notes

    def choose_components(
        self, candidates: Sequence[int], *, floor: np.ndarray, rng: np.random.Generator
    ) -> int:
        """The number of Gaussians with the largest penalised likelihood n ℓ - (p/2) max(ln n, 2).

        That is BIC (Schwarz 1978), and AIC (Akaike 1974) below its ln n = 2. n is the number of records that would
        leave as much uncertainty: noise of variance σ² in each of L counts adds L σ² to the variance N that counts
        have together, and the records of one person say hardly more than one. A rough guide, as BIC is; K is never
        larger than the number of boxes with a positive count.
        """
        supported = int((self.weights() > 0).sum())
        usable = sorted({min(int(candidate), supported) for candidate in candidates})
        if not usable or usable[0] < 1:
            raise UserError(f"numbers of components to choose from: {list(candidates)!r} must be 1 or more.")
        size = max(self.size, 0.0)
        inflation = 1 + len(self.counts) * self.deviation**2 / max(size, 1.0)
        n = size / inflation / self.records_per_unit
        penalty = max(np.log(max(n, 1.0)), 2.0) / 2
        d = self.lower.shape[1]
        scores = []
        for k in usable:
            fit, _ = self.fitted(k, floor=floor, rng=rng, searches=SEARCHES_PER_CANDIDATE)
            parameters = k * (1 + d + d * (d + 1) // 2) - 1
            scores.append(n * fit.log_likelihood - penalty * parameters)
        return usable[int(np.argmax(scores))]
