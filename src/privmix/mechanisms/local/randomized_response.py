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

Without coordinates. The cells are then the combinations of values of the attributes, all of which are public, and a
record reports its combination through the same channel with all of ε: the same proof. No attribute is reported on its
own. Latent classes are fitted to the estimated counts (`shared.latent_classes`): this is post-processing. With more
than MOST_CELLS combinations the mechanism refuses.

When to use it: as a simple local mechanism for comparison, for places in the plane. `tree_response` is better for
clustered records. Above three coordinates a grid has hardly more than one cell per side, and above four it is refused:
on six coordinates it was worse than the uniform density at ε = 1.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Randomness, Records, Release, Reports, Spec, mechanism_dataclass
from privmix.mechanisms.local.base import (
    CoordinateReports,
    LocalMechanism,
    Plan,
    check_not_empty,
    decode_reports,
    responses_per_person,
)
from privmix.mechanisms.shared.latent_classes import find_cells, parameters, table_shape
from privmix.mechanisms.shared.partitions import Grid, cubic_grid
from privmix.mechanisms.shared.report_likelihoods import (
    cell_shares,
    oracle_responsibilities,
    spread_points,
)
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture.mixed_em import MixedFit
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import BY_NAME, Oracle, small_for

AnyFit = TypeVar("AnyFit", FitResult, MixedFit)
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

    def class_criterion(self, fit: MixedFit, spec: Spec) -> float:
        """Return the same criterion for latent classes."""
        number = parameters(fit.mixture.n_components, spec.domain)
        return self.effective_records * fit.log_likelihood - number


def component_numbers(most: int) -> list[int]:
    """Return the numbers of components to try: 1, 2, 4, ... and `most`."""
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _best_number(
    fit: Callable[[Spec], tuple[AnyFit, list[str]]], criterion: Callable[[AnyFit], float], spec: Spec
) -> tuple[AnyFit, list[str]]:
    """Return the fit with the number of components that the reports support, and its notes."""
    if spec.candidates:
        return fit(spec)
    found = [fit(spec.with_components(number)) for number in component_numbers(spec.n_components)]
    best, notes = max(found, key=lambda each: criterion(each[0]))
    used = best.mixture.n_components
    if used < spec.n_components:
        notes.append(
            f"Because of the noise, the reports support {used} of the {spec.n_components} requested components."
        )
    return best, notes


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
    min_coordinates: ClassVar[int] = 0

    oracle: Literal["auto", "grr", "oue", "olh", "subset", "hadamard"] = "auto"
    searches: Annotated[int, Field(ge=1, le=1000)] = 2

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """Return the number of reports that tells most."""
        return responses_per_person(epsilon, limit)

    def plan(self, spec: Spec, budget: Budget) -> Plan:
        """Return the budget of each report. Without coordinates, all of it is for the combination of values."""
        plan = super().plan(spec, budget)
        if spec.domain.axes:
            return plan
        each = Budget(budget.epsilon / plan.per_person, budget.delta / plan.per_person)
        return replace(plan, budget=each, attribute_epsilon=0.0)

    def channel(self, spec: Spec, plan: Plan) -> tuple[Grid | None, Oracle]:
        """Return the public grid, or None without coordinates, and the oracle that asks for its cells."""
        domain = spec.domain
        if not domain.axes:
            return None, self.oracle_of(math.prod(table_shape(domain, MOST_CELLS)), plan)
        if len(domain.axes) > MOST_DIMENSIONS:
            raise MechanismFailure(
                f"randomized_response works for up to {MOST_DIMENSIONS} coordinates, but {domain.dataset} has "
                f"{len(domain.axes)}, and its grid would have too few cells per side; use `laplace_input` instead."
            )
        sides = np.ceil((domain.upper - domain.lower) / domain.resolution)
        finest = min(float(np.prod(np.maximum(sides, 2))), MOST_CELLS)
        grid = cubic_grid(domain.lower, domain.upper, _cells(self, max(2, int(finest)), plan))
        return grid, self.oracle_of(grid.cells, plan)

    def answer_parts(
        self, parts: Iterable[Records], spec: Spec, plan: Plan, source: NoiseSource, folder: Path | None
    ) -> Iterator[tuple[CoordinateReports, Ledger]]:
        """Yield the answers of all records, part by part."""
        if spec.domain.axes:
            yield from super().answer_parts(parts, spec, plan, source, folder)
            return
        _, oracle = self.channel(spec, plan)
        for records in parts:
            ledger, cells = Ledger(), find_cells(records.codes, spec.domain)
            reports = oracle.perturb(cells, source=source, ledger=ledger, label="cell")
            yield CoordinateReports({"cell": reports}), ledger

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """Return one report for each record."""
        grid, oracle = self.channel(spec, plan)
        assert grid is not None
        return CoordinateReports(
            {"cell": oracle.perturb(grid.locate(points), source=source, ledger=ledger, label="cell")}
        )

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Fit a mixture to the estimated shares of the cells, with no more components than they support."""
        synopsis = self.synopsis(answers, spec, plan)
        fit, notes = _best_number(
            lambda own: synopsis.fit(own, rng=rng, searches=self.searches), synopsis.criterion, spec
        )
        return replace(fit, notes=tuple(notes))

    def fit(self, view: Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Fit a mixture to the answers, or latent classes without coordinates."""
        if spec.domain.axes:
            return super().fit(view, spec, budget, rng)
        check_not_empty(view, spec)
        plan = self.plan(spec, budget)
        synopsis = self.synopsis(CoordinateReports(view.columns, view.asked), spec, plan)
        fit, notes = _best_number(
            lambda own: synopsis.fit_classes(own, rng=rng.search, searches=self.searches),
            lambda fit: synopsis.class_criterion(fit, spec),
            spec,
        )
        notes += self.remarks(view.events, spec, plan)
        return Release(fit.mixture.gaussians, view.events, view.claim, notes=notes, shares=fit.mixture.shares)

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | report) through the oracle."""
        grid, oracle = self.channel(spec, plan)
        assert grid is not None
        known = cell_shares(grid.locate(spread_points(mixture, spec)), mixture, oracle)
        reports = decode_reports(answers.columns["cell"], oracle.report)
        yield from oracle_responsibilities(oracle, reports, known, mixture.weights)

    def synopsis(self, answers: CoordinateReports, spec: Spec, plan: Plan) -> "OracleSynopsis":
        """Return the cells with their unbiased counts of reports."""
        grid, oracle = self.channel(spec, plan)
        nowhere = np.empty((oracle.categories, 0))  # combinations of values have no place
        lower, upper = (nowhere, nowhere) if grid is None else grid.boxes()
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
