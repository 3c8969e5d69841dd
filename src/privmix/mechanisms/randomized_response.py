"""Randomized response on a public grid: each record reports a cell, true or not.

Privacy. The grid is fixed by public values (N, ε, the box). Each record answers through GRR over the cells: ε-LDP.
Debiasing, projection on the simplex and the fit are post-processing.
"""

from dataclasses import replace

import numpy as np

from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Spec, parameters
from privmix.mechanisms.grid import Grid, nearly_cubic
from privmix.mechanisms.local import Answers, LocalMechanism, Plan, responses_per_person
from privmix.mixture import em
from privmix.mixture.observations import observe_boxes
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.response import GeneralizedResponse, project_to_simplex

NOISE_PER_CELL = 4.0  # a cell's noise in units of the average cell's share


@parameters
class RandomizedResponse(LocalMechanism):
    """Each record answers with a cell of a public grid."""

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """As many as tell most."""
        return responses_per_person(epsilon, limit)

    def channel(self, spec: Spec, plan: Plan) -> tuple[Grid, GeneralizedResponse]:
        """As many cells k as public values allow: the noise of a cell is at most NOISE_PER_CELL / k."""
        epsilon, cells = plan.budget.epsilon, 2
        while cells < plan.reports:
            finer = 2 * cells
            if finer * GeneralizedResponse(finer, epsilon).cell_deviation(plan.reports) > NOISE_PER_CELL:
                break
            cells = finer
        grid = nearly_cubic(spec.domain.lower, spec.domain.upper, cells)
        return grid, GeneralizedResponse(grid.cells, epsilon)

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> Answers:
        """One answer per record."""
        grid, channel = self.channel(spec, plan)
        answers = channel.perturb(grid.locate(points), source=source, ledger=ledger, label="cell")
        return Answers({"cell": answers})

    def model(self, answers: Answers, spec: Spec, plan: Plan, rng: np.random.Generator) -> em.Fit:
        """Debiased cell shares, made non-negative, as uniform boxes."""
        grid, channel = self.channel(spec, plan)
        support = channel.support(answers.columns["cell"])
        shares = project_to_simplex(channel.estimate(support, len(answers)))
        kept = shares > 0
        lower, upper = grid.boxes()
        # Whole boxes: `boxes.fit` had the lower held-out likelihood here for most ε up to 3.
        observations = observe_boxes(lower[kept], upper[kept], shares[kept])
        # As many records as would leave the shares this uncertain without the response.
        variance = np.square(channel.standard_error(support, len(answers))).sum()
        records = len(answers) / max(1.0, len(answers) * variance)
        fitted = component_choice.freely(
            spec,
            lambda number: em.fit(observations, min(number, len(observations)), floor=spec.floor, rng=rng),
            records,
        )
        if len(observations) >= spec.n_components or spec.candidates:
            return fitted
        note = (
            f"only {len(observations)} of the {grid.cells} public cells hold a positive estimated share, "
            f"so {len(observations)} of {spec.n_components} Gaussians were fitted"
        )
        return replace(fitted, notes=(*fitted.notes, note))
