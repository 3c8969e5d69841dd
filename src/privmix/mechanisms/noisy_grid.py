"""Noisy grid: a uniform grid over the public box, a noisy count for each cell, and a mixture fitted to that.

Privacy. The grid is fixed by public values: box, resolution, the catalog's number of records, ε, the unit and
relation. The counts of all its cells, empty ones too, are a histogram of L1 sensitivity `privacy.sensitivity.counts`:
1 for a record added or removed, 2 for one replaced, m times that for a person with at most m records. They are
released once with Laplace noise of that sensitivity over ε: ε-DP, δ = 0 (Dwork, McSherry, Nissim, Smith 2006,
Theorem 1). Norm-sub, the fit to boxes and its searches are post-processing. Under replace-one of records N is public,
and the counts are made to add up to it; otherwise nothing knows it.

Number of cells. Qardaji, Yang, Li 2013 ("Differentially private grids for geospatial data", Guideline 1) balance the
noise of a query, which grows with the root of the number of cells in it, against the records at its border: N ε / c
cells in the plane, with c = 10. With m cells a side in d dimensions the noise is ∝ m^(d/2)/ε and the border ∝ N/m, so
m^(d/2 + 1) ∝ N ε, which is (N ε / c)^(2d / (d + 2)) cells. A fit bears more noise than a query, and c = 3 had the
higher held-out likelihood on the Gowalla data, and about the same on the Minneapolis data. ε is taken relative to the
sensitivity. No cell is smaller than the resolution, and there are at most MOST_CELLS.

When to use it: as the simple synopsis to compare with; for records spread evenly over the box. `noisy_tree` is far
better where they are clustered. Above four coordinates a grid has too few cells a side: use `noisy_moments`.
"""

import base64
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Spec, parameters
from privmix.mechanisms.grid import Grid, nearly_cubic
from privmix.mechanisms.synopsis import Synopsis
from privmix.privacy import noise, sensitivity
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource

MOST_DIMENSIONS = 4
MOST_CELLS = 2**17
RECORDS_PER_CELL = 3.0  # c, at ε = 1


@parameters
class NoisyGrid(Mechanism):
    """`searches`: restarts of the fit, which cost no privacy."""

    chooses_components: ClassVar[bool] = True

    searches: Annotated[int, Field(ge=1)] = 8

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """One noisy histogram, then the best mixture that many searches find for it."""
        ledger = Ledger()
        synopsis = self.release(view, spec, budget, rng.noise, ledger)
        return synopsis.modelled(spec, budget, ledger, rng=rng.search, searches=self.searches)

    def release(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> Synopsis:
        """The synopsis alone, with all of this budget, written into the ledger."""
        grid = self.grid(spec, budget.epsilon)
        counts = np.bincount(grid.locate(spec.inside(view.points)), minlength=grid.cells)
        reach = sensitivity.counts(self.relation(spec)).l1
        noisy = noise.laplace(
            counts,
            sensitivity=reach,
            epsilon=budget.epsilon,
            source=source,
            ledger=ledger,
            label="cell counts",
            coordinates=min(grid.cells, round(reach)),
        )
        released = {
            "shape": list(grid.shape),
            "counts": base64.b64encode(noisy.astype("<f8").tobytes()).decode("ascii"),
        }
        return self.replayed(released, spec, budget)

    def replayed(self, released: dict[str, Any], spec: Spec, budget: Budget) -> Synopsis:
        """The synopsis from what the transcript holds and public values alone."""
        neighbours = self.relation(spec)
        lower, upper = Grid(spec.domain.lower, spec.domain.upper, tuple(released["shape"])).boxes()
        return Synopsis(
            lower,
            upper,
            np.frombuffer(base64.b64decode(released["counts"]), dtype="<f8"),
            deviation=math.sqrt(2) * sensitivity.counts(neighbours).l1 / budget.epsilon,
            rows=spec.domain.rows,
            rows_are_exact=neighbours.size_is_public,
            records_per_unit=neighbours.records,
            released=released,
        )

    def grid(self, spec: Spec, epsilon: float) -> Grid:
        """The public grid of the guideline."""
        dimensions = len(spec.domain.axes)
        if dimensions > MOST_DIMENSIONS:
            raise MechanismFailure(
                f"noisy_grid works for up to {MOST_DIMENSIONS} coordinates, and {spec.domain.dataset} has "
                f"{dimensions}; use `noisy_moments` instead."
            )
        reach = sensitivity.counts(self.relation(spec)).l1
        guideline = (spec.domain.rows * epsilon / reach / RECORDS_PER_CELL) ** (
            2 * dimensions / (dimensions + 2)
        )
        sides = (spec.domain.upper - spec.domain.lower) / spec.domain.resolution
        finest = float(np.prod(np.maximum(np.ceil(sides), 2)))
        return nearly_cubic(spec.domain.lower, spec.domain.upper, min(guideline, finest, MOST_CELLS))
