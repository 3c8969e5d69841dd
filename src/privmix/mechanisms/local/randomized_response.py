"""Randomized response on a public grid: each record says in which cell it is, through a frequency oracle.

Privacy. The grid and the oracle are fixed by public values: the box, the resolution, ε and the expected number of
reports. A record's cell goes through one channel whose likelihood ratio for any two cells is at most e^ε, whatever the
report (the classes of `privacy.oracles` have the proof for each), and no other report depends on that record: the
report is ε-LDP, δ = 0. The draws that decide the hash, the row or the set see no record. Estimating the shares, making
them non-negative and fitting a mixture to them see the reports and public values alone: post-processing.

Oracle. `grr`, `oue`, `olh`, `subset` and `hadamard` are those of `privacy.oracles`; `auto` takes the least variance
among those whose reports are small whatever the number of cells (`choice.small_for`): the best of all up to 96 cells,
and above that a few per cent more than the best, while reports stay within 12 bytes and answering takes no longer for
more cells. `oue` and `subset` may be asked for by name; their reports take up to a bit for each cell.

Number of cells. A cell's estimated share has a standard deviation s that hardly depends on their number k, where the
average share is 1/k. More cells are of use only where records are clumped, and the more there are, the more clumped
they find them: the rule is k^(3/4) s = NOISE. The power and the constant are empirical (held-out likelihood at
ε = 0.1, 1, 3 on the Gowalla, check-in and Minneapolis data): clumped data would like twice as many cells, evenly
spread data a quarter of them. No cell is smaller than the resolution.

Number of Gaussians. Noise hides structure, and Gaussians beyond it fit the noise: 1, 2, 4, ... up to the wanted number
are fitted, and Akaike's criterion chooses. It sees the reports alone, so it is free.

When to use it: as the simple local mechanism to compare with, where places are in the plane. `tree_response` is better
where records are clumped. Above three coordinates a grid has hardly a cell a side, and above four it is refused: on
six it did worse than the uniform density at ε = 1.
"""

import functools
import math
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
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture.model import FitResult
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import BY_NAME, Oracle, small_for

NOISE = 0.8
MOST_CELLS = 2**16
MOST_DIMENSIONS = 4


@dataclass(frozen=True, eq=False)
class OracleSynopsis(Synopsis):
    """Counts that are estimated from reports: in all cells together their noise is always more than the records."""

    @property
    def mostly_noise(self) -> bool:
        """Whether no count stands out: the largest of k normal numbers is about √(2 ln k), and rarely one more."""
        return float(self.counts.max()) < self.deviation * (math.sqrt(2 * math.log(len(self.counts))) + 1)

    @property
    def effective_records(self) -> float:
        """How many records would leave as much uncertainty: the noise is that of the cells that keep a count."""
        kept = np.count_nonzero(self.weights())
        return self.size / (1 + kept * self.deviation**2 / self.size) / self.records_per_unit

    def criterion(self, fit: FitResult) -> float:
        """Akaike's (1974), of so many records."""
        return self.effective_records * fit.log_likelihood - fit.mixture.n_parameters()


def component_numbers(most: int) -> list[int]:
    """Numbers of Gaussians to try: 1, 2, 4, ... and the most."""
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


@functools.cache
def _cells(mechanism: "RandomizedResponse", most: int, plan: Plan) -> int:
    """The number of cells. With twice as many an oracle has twice the variance (GRR) or the same: one solution."""
    low, high = 2, most
    while low < high:
        cells = (low + high + 1) // 2
        noise = mechanism.oracle_of(cells, plan).cell_deviation(plan.reports)
        low, high = (cells, high) if cells**0.75 * noise <= NOISE else (low, cells - 1)
    return low


@mechanism_dataclass
class RandomizedResponse(LocalMechanism):
    """`oracle`: how a record says its cell; `searches`: restarts of the fit, which cost no privacy."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS

    oracle: Literal["auto", "grr", "oue", "olh", "subset", "hadamard"] = "auto"
    searches: Annotated[int, Field(ge=1)] = 2

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """As many as tell most."""
        return responses_per_person(epsilon, limit)

    def channel(self, spec: Spec, plan: Plan) -> tuple[Grid, Oracle]:
        """The public grid and the oracle that asks for its cells."""
        domain = spec.domain
        if len(domain.axes) > MOST_DIMENSIONS:
            raise MechanismFailure(
                f"randomized_response works for up to {MOST_DIMENSIONS} coordinates, and {domain.dataset} has "
                f"{len(domain.axes)}: a grid would have hardly a cell a side; use `laplace_input` instead."
            )
        sides = np.ceil((domain.upper - domain.lower) / domain.resolution)
        finest = min(float(np.prod(np.maximum(sides, 2))), MOST_CELLS)
        grid = cubic_grid(domain.lower, domain.upper, _cells(self, max(2, int(finest)), plan))
        return grid, self.oracle_of(grid.cells, plan)

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """One report for each record."""
        grid, oracle = self.channel(spec, plan)
        return CoordinateReports(
            {"cell": oracle.perturb(grid.locate(points), source=source, ledger=ledger, label="cell")}
        )

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """The mixture behind the estimated shares of the cells, of no more Gaussians than they support."""
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
            notes.append(f"the reports support {used} of {spec.n_components} Gaussians through this noise")
        return replace(fit, notes=tuple(notes))

    def synopsis(self, answers: CoordinateReports, spec: Spec, plan: Plan) -> "OracleSynopsis":
        """The cells with their unbiased counts of reports."""
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
        """The oracle that asks for one of so many cells."""
        epsilon = plan.budget.epsilon
        return small_for(cells, epsilon) if self.oracle == "auto" else BY_NAME[self.oracle](cells, epsilon)
