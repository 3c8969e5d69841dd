"""Randomized response on a public grid: each record reports a cell, true or not, and answers its attributes.

Privacy. The grid is fixed by public values (N, ε, the box). Each record answers through GRR over the cells with
its share of ε, and through GRR over each attribute's public values with the rest; the answers of one record add
up to ε by basic composition, and no other record's answers depend on it: ε-LDP. Debiasing, projection on the
simplex and the fit are post-processing. A yes/no attribute is Warner's response, the survey with a biased coin.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.artefacts import Proportion
from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec, parameters
from privmix.mechanisms.grid import Grid, nearly_cubic
from privmix.mixture import em
from privmix.mixture.observations import observe_boxes
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Ledger
from privmix.privacy.response import GeneralizedResponse, intervals, project_to_simplex

NOISE_PER_CELL = 4.0  # a cell's noise in units of the average cell's share


@parameters
class RandomizedResponse(Mechanism):
    """`attribute_share`: the part of ε that goes to the attributes together, where the dataset has any."""

    trust: ClassVar[Literal["central", "local"]] = "local"
    chooses_components: ClassVar[bool] = True

    attribute_share: Annotated[float, Field(ge=0, lt=1)] = 0.2

    def grid(self, spec: Spec, epsilon: float) -> Grid:
        """As many cells k as public values allow: the noise of a cell is at most NOISE_PER_CELL / k."""
        cells = 2
        while cells < spec.domain.rows:
            finer = 2 * cells
            if finer * GeneralizedResponse(finer, epsilon).cell_deviation(spec.domain.rows) > NOISE_PER_CELL:
                break
            cells = finer
        return nearly_cubic(spec.domain.lower, spec.domain.upper, cells)

    def split(self, spec: Spec, epsilon: float) -> tuple[float, float]:
        """ε of the cell, and ε of each attribute."""
        asked = len(spec.domain.attributes) if self.attribute_share else 0
        if not asked:
            return epsilon, 0.0
        return epsilon * (1 - self.attribute_share), epsilon * self.attribute_share / asked

    def channels(self, spec: Spec, epsilon: float) -> tuple[Grid, dict[str, GeneralizedResponse]]:
        """The grid, and the channel of each report column."""
        for_cell, for_attribute = self.split(spec, epsilon)
        grid = self.grid(spec, for_cell)
        channels = {"cell": GeneralizedResponse(grid.cells, for_cell)}
        if for_attribute:
            for attribute in spec.domain.attributes:
                channel = GeneralizedResponse(len(attribute.values), for_attribute)
                channels[f"a_{attribute.name}"] = channel
        return grid, channels

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """One answer per record and column."""
        self.relation(spec)
        ledger = Ledger()
        grid, channels = self.channels(spec, budget.epsilon)
        columns = {}
        for name, channel in channels.items():
            truth = grid.locate(records.points) if name == "cell" else records.codes[name.removeprefix("a_")]
            columns[name] = channel.perturb(truth, source=rng.noise, ledger=ledger, label=name)
        return Reports(columns, ledger.events, claim(ledger.events, budget, "linear"))

    def fit(self, view: Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Debiased cell shares, made non-negative, as uniform boxes; and the attributes' proportions."""
        grid, channels = self.channels(spec, budget.epsilon)
        support, answers = channels["cell"].support(view.columns["cell"]), len(view.columns["cell"])
        shares = project_to_simplex(channels["cell"].estimate(support, answers))
        kept = shares > 0
        lower, upper = grid.boxes()
        # Whole boxes: `boxes.fit` had the lower held-out likelihood here for most ε up to 3.
        observations = observe_boxes(lower[kept], upper[kept], shares[kept])
        # As many records as would leave the shares this uncertain without the response.
        variance = np.square(channels["cell"].standard_error(support, answers)).sum()
        records = answers / max(1.0, answers * variance)
        fitted = component_choice.freely(
            spec,
            lambda number: em.fit(
                observations, min(number, len(observations)), floor=spec.floor, rng=rng.search
            ),
            records,
        )
        notes = list(fitted.notes)
        if len(observations) < spec.n_components and not spec.candidates:
            notes.append(
                f"only {len(observations)} of the {grid.cells} public cells hold a positive estimated share, "
                f"so {len(observations)} of {spec.n_components} Gaussians were fitted"
            )
        proportions = [
            estimate
            for attribute in spec.domain.attributes
            if f"a_{attribute.name}" in channels
            for estimate in _proportions(
                attribute.name, attribute.values, view.columns[f"a_{attribute.name}"], channels
            )
        ]
        return Release(fitted.mixture, view.events, view.claim, proportions=proportions, notes=notes)


def _proportions(
    name: str, values: tuple[str, ...], answers: np.ndarray, channels: dict[str, GeneralizedResponse]
) -> list[Proportion]:
    """The unbiased share of each value with its intervals."""
    channel = channels[f"a_{name}"]
    support, n = channel.support(answers), len(answers)
    result = []
    for value, estimate, error in zip(
        values, channel.estimate(support, n), channel.standard_error(support, n), strict=True
    ):
        normal, chebyshev = intervals(float(estimate), float(error))
        result.append(
            Proportion(
                attribute=name,
                value=value,
                estimate=float(estimate),
                standard_error=float(error),
                normal=normal,
                chebyshev=chebyshev,
            )
        )
    return result
