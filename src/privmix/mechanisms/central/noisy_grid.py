"""Noisy grid: a uniform grid over the public box, a noisy count for each cell, and a mixture fitted to the counts.

Privacy. Public values fix the grid: box, resolution, the catalog's number of records, ε, the unit and the relation. The
counts of all cells, including empty ones, are a histogram of L1 sensitivity `privacy.sensitivity.counts`: 1 for a
record added or removed, 2 for one replaced, m times that for a person with at most m records. They are measured once
with Laplace noise of that sensitivity over ε: ε-DP, δ = 0 (Dwork, McSherry, Nissim, Smith 2006, Theorem 1). Norm-sub,
the fit to boxes and its searches are post-processing. If all records contribute and replace-one makes N public, the
counts are made to add up to it. Otherwise nothing uses N but the catalog's number.

Number of cells. Qardaji, Yang, Li 2013 ("Differentially private grids for geospatial data", Guideline 1) balance the
noise of a query, which grows with the root of the number of cells in it, against the records at its border: N ε / c
cells in the plane, with c = 10. With m cells per side in d dimensions the noise is ∝ m^(d/2)/ε and the border ∝ N/m, so
m^(d/2 + 1) ∝ N ε, which is (N ε / c)^(2d / (d + 2)) cells. A fit tolerates more noise than a query: c = 3 had the
higher held-out likelihood on the Gowalla data, and about the same on the Minneapolis data. ε is taken relative to the
sensitivity. No cell is smaller than the resolution, and there are at most MOST_CELLS.

Without coordinates. The cells are then the combinations of values of the attributes, all of which are public. A record
is in one cell, so the table is a histogram too: the same sensitivity, the same measurement and the same proof. All of ε
pays for it, and no table of attributes follows. Latent classes are fitted to the counts (`shared.latent_classes`): this
is post-processing. With more than MOST_CELLS combinations the mechanism refuses: most cells would hold noise only.

When to use it: as a simple synopsis for comparison, or for records that are spread evenly over the box. `noisy_tree` is
far better for clustered records. Above four coordinates a grid has too few cells per side: use `noisy_moments`.
"""

import math
from typing import Any, ClassVar

import numpy as np

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Randomness, Records, Release, Spec, mechanism_dataclass
from privmix.mechanisms.shared import worst_group
from privmix.mechanisms.shared.latent_classes import find_cells, table_shape
from privmix.mechanisms.shared.partitions import Grid, cubic_grid
from privmix.mechanisms.shared.synopsis_mechanism import SynopsisMechanism
from privmix.privacy import noise, sensitivity
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours

MOST_DIMENSIONS = 4
MOST_CELLS = 2**17
RECORDS_PER_CELL = 3.0  # c, at ε = 1


@mechanism_dataclass
class NoisyGrid(SynopsisMechanism):
    """The parameters are those of `SynopsisMechanism`."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS
    min_coordinates: ClassVar[int] = 0

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for a table of attributes; without coordinates, the cells are that table."""
        return super().table_share(spec) if spec.domain.axes else 0.0

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Measure the counts of the cells, then fit a mixture, or latent classes without coordinates."""
        if spec.domain.axes:
            return super().fit(view, spec, budget, rng)
        if self.worst_of is not None:
            worst_group.group_size(self.worst_of, spec.domain, type(self).__name__)
        ledger = Ledger()
        synopsis = self.measure(view, spec, budget, rng.noise, ledger)
        fit, notes = synopsis.fit_classes(spec, rng=rng.search, searches=self.searches)
        return Release(
            fit.mixture.gaussians,
            ledger.events,
            claim(ledger.events, budget, "linear"),
            [synopsis.released],
            notes=notes,
            shares=fit.mixture.shares,
        )

    def measure_counts(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Return the public grid, and the noisy count of each cell."""
        shape = self.cell_shape(spec, budget.epsilon)
        cells, released = math.prod(shape), {"shape": list(shape)}
        if spec.domain.axes:
            located = self.locate(released, spec, view.points)
        else:
            located = find_cells(view.codes, spec.domain)
        counts = np.bincount(located, minlength=cells)
        reach = sensitivity.counts(self.relation(spec)).l1
        noisy = noise.laplace(
            counts,
            sensitivity=reach,
            epsilon=budget.epsilon,
            source=source,
            ledger=ledger,
            label="cell counts",
            coordinates=min(cells, round(reach)),
        )
        return released, noisy

    def cell_shape(self, spec: Spec, epsilon: float) -> tuple[int, ...]:
        """Return the public shape of the table of counts: cells per side, or values per attribute."""
        if spec.domain.axes:
            return self.grid(spec, epsilon).shape
        return table_shape(spec.domain, MOST_CELLS)

    def boxes(self, released: dict[str, Any], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of the cells; without coordinates, they have none."""
        if not spec.domain.axes:
            return np.empty((math.prod(released["shape"]), 0)), np.empty((math.prod(released["shape"]), 0))
        return Grid(spec.domain.lower, spec.domain.upper, tuple(released["shape"])).boxes()

    def locate(self, released: dict[str, Any], spec: Spec, points: np.ndarray) -> np.ndarray:
        """Return the cell of each point."""
        grid = Grid(spec.domain.lower, spec.domain.upper, tuple(released["shape"]))
        return grid.locate(spec.inside(points))

    def deviation(self, neighbours: Neighbours, budget: Budget) -> float:
        """Return the standard deviation of the noise in one count."""
        return math.sqrt(2) * sensitivity.counts(neighbours).l1 / budget.epsilon

    def grid(self, spec: Spec, epsilon: float) -> Grid:
        """Return the public grid that the guideline gives."""
        dimensions = len(spec.domain.axes)
        if dimensions > MOST_DIMENSIONS:
            raise MechanismFailure(
                f"noisy_grid works for up to {MOST_DIMENSIONS} coordinates, but {spec.domain.dataset} has "
                f"{dimensions}; use `noisy_moments` instead."
            )
        reach = sensitivity.counts(self.relation(spec)).l1
        guideline = (spec.domain.rows * epsilon / reach / RECORDS_PER_CELL) ** (
            2 * dimensions / (dimensions + 2)
        )
        sides = (spec.domain.upper - spec.domain.lower) / spec.domain.resolution
        finest = float(np.prod(np.maximum(np.ceil(sides), 2)))
        return cubic_grid(spec.domain.lower, spec.domain.upper, min(guideline, finest, MOST_CELLS))
