"""Randomized response: each record reports its cell of a public grid with noise, and the cell counts are estimated.

Privacy. Public values fix the grid and the oracle: the box, the resolution, ε and the expected number of reports. A
record's cell goes through one channel whose likelihood ratio for any two cells is at most e^ε, for any report (the
classes of `privacy.oracles` have the proof for each). No other report depends on that record. So the report is ε-LDP, δ
= 0. The draws that decide the hash, the row or the set see no record. Estimating the shares, making them non-negative
and fitting a mixture to them use only the reports and public values: post-processing.

Oracle. `grr`, `oue`, `olh`, `subset` and `hadamard` are those of `privacy.oracles`. `auto` takes the least variance
among those whose reports are small for any number of cells (`choice.small_for`): the best of all up to 96 cells, and
above that a few per cent more variance than the best. Reports stay within 12 bytes, and answering takes no longer for
more cells. You can choose `oue` and `subset` by name; their reports take up to a bit for each cell.

Number of cells. The estimated share of a cell has a standard deviation s that hardly depends on the number k of cells,
while the average share is 1/k. More cells help only if records are clustered, and more cells show more clustering. The
rule is k^(3/4) s = NOISE. The power and the constant are empirical (held-out likelihood at ε = 0.1, 1, 3 on the
Gowalla, check-in and Minneapolis data): clustered data would prefer twice as many cells, evenly spread data a quarter
of them. No cell is smaller than the resolution.

Number of components. Noise hides structure, and too many components fit the noise. So 1, 2, 4, ... up to the requested
number are fitted, and Akaike's criterion chooses. It sees only the reports, so it is free.

When to use it: as a simple local mechanism for comparison, for places in the plane. `tree_response` is better for
clustered records. Above three coordinates a grid has hardly more than one cell per side, and above four it is refused:
on six coordinates it was worse than the uniform density at ε = 1.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Spec, mechanism_dataclass
from privmix.mechanisms.local.base import (
    CoordinateReports,
    LocalMechanism,
    Plan,
    decode_reports,
    responses_per_person,
)
from privmix.mechanisms.shared.partitions import Grid, cubic_grid
from privmix.mechanisms.shared.report_likelihoods import (
    cell_shares,
    oracle_responsibilities,
    spread_points,
)
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import BY_NAME, Oracle, small_for

NOISE = 0.8
MOST_CELLS = 2**16
MOST_DIMENSIONS = 4


@dataclass(frozen=True, eq=False)
class OracleSynopsis(Synopsis):
    """Counts that are estimated from reports. In all cells together, their noise always exceeds the records."""

    @property
    def mostly_noise(self) -> bool:
        """Whether no count stands out: the largest of k normal numbers is about √(2 ln k), rarely one more."""
        return float(self.counts.max()) < self.deviation * (math.sqrt(2 * math.log(len(self.counts))) + 1)

    @property
    def effective_records(self) -> float:
        """The number of records that would leave the same uncertainty; only the noise of cells with a count enters."""
        kept = np.count_nonzero(self.weights())
        return self.size / (1 + kept * self.deviation**2 / self.size) / self.records_per_unit

    def criterion(self, fit: FitResult) -> float:
        """Return Akaike's criterion (1974) for the effective number of records."""
        return self.effective_records * fit.log_likelihood - fit.mixture.n_parameters()


def component_numbers(most: int) -> list[int]:
    """Return the numbers of components to try: 1, 2, 4, ... and `most`."""
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


@functools.cache
def _cells(mechanism: "RandomizedResponse", most: int, plan: Plan) -> int:
    """Return the number of cells.

    With twice as many cells an oracle has twice the variance (GRR) or the same, so there is one solution.
    """
    low, high = 2, most
    while low < high:
        cells = (low + high + 1) // 2
        noise = mechanism.oracle_of(cells, plan).cell_deviation(plan.reports)
        low, high = (cells, high) if cells**0.75 * noise <= NOISE else (low, cells - 1)
    return low


@mechanism_dataclass
class RandomizedResponse(LocalMechanism):
    """`oracle`: how a record reports its cell; `searches`: restarts of the fit, which cost no privacy."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS

    oracle: Literal["auto", "grr", "oue", "olh", "subset", "hadamard"] = "auto"
    searches: Annotated[int, Field(ge=1, le=1000)] = 2

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """Return the number of reports that tells most."""
        return responses_per_person(epsilon, limit)

    def channel(self, spec: Spec, plan: Plan) -> tuple[Grid, Oracle]:
        """Return the public grid and the oracle that asks for its cells."""
        domain = spec.domain
        if len(domain.axes) > MOST_DIMENSIONS:
            raise MechanismFailure(
                f"randomized_response works for up to {MOST_DIMENSIONS} coordinates, but {domain.dataset} has "
                f"{len(domain.axes)}, and its grid would have too few cells per side; use `laplace_input` instead."
            )
        sides = np.ceil((domain.upper - domain.lower) / domain.resolution)
        finest = min(float(np.prod(np.maximum(sides, 2))), MOST_CELLS)
        grid = cubic_grid(domain.lower, domain.upper, _cells(self, max(2, int(finest)), plan))
        return grid, self.oracle_of(grid.cells, plan)

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """Return one report for each record."""
        grid, oracle = self.channel(spec, plan)
        return CoordinateReports(
            {"cell": oracle.perturb(grid.locate(points), source=source, ledger=ledger, label="cell")}
        )

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Fit a mixture to the estimated shares of the cells, with no more components than they support."""
        synopsis = self.synopsis(answers, spec, plan)
        if spec.candidates:
            fit, notes = synopsis.fit(spec, rng=rng, searches=self.searches)
            return replace(fit, notes=tuple(notes))
        found = [
            synopsis.fit(spec.with_components(number), rng=rng, searches=self.searches)
            for number in component_numbers(spec.n_components)
        ]
        fit, notes = max(found, key=lambda each: synopsis.criterion(each[0]))
        used = fit.mixture.n_components
        if used < spec.n_components:
            notes.append(
                f"Because of the noise, the reports support {used} of the {spec.n_components} requested components."
            )
        return replace(fit, notes=tuple(notes))

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | report) through the oracle."""
        grid, oracle = self.channel(spec, plan)
        known = cell_shares(grid.locate(spread_points(mixture, spec)), mixture, oracle)
        reports = decode_reports(answers.columns["cell"], oracle.report)
        yield from oracle_responsibilities(oracle, reports, known, mixture.weights)

    def synopsis(self, answers: CoordinateReports, spec: Spec, plan: Plan) -> "OracleSynopsis":
        """Return the cells with their unbiased counts of reports."""
        grid, oracle = self.channel(spec, plan)
        lower, upper = grid.boxes()
        n = len(answers)
        support = oracle.support(decode_reports(answers.columns["cell"], oracle.report))
        return OracleSynopsis(
            lower,
            upper,
            n * oracle.estimate(support, n),
            deviation=n * oracle.cell_deviation(n),
            rows=n,
            rows_are_exact=True,
            records_per_unit=plan.per_person,
        )

    def oracle_of(self, cells: int, plan: Plan) -> Oracle:
        """Return the oracle that asks for one of `cells` cells."""
        epsilon = plan.budget.epsilon
        return small_for(cells, epsilon) if self.oracle == "auto" else BY_NAME[self.oracle](cells, epsilon)
