"""Laplace input perturbation: each record adds Laplace noise to itself before anyone stores it.

Privacy. A record lies in the public box, so replacing it moves its row by at most the box's L1 diameter
Δ = Σ_j (upper_j - lower_j) and no other row at all. Laplace noise of scale Δ/ε on every coordinate makes the row
ε-LDP (Dwork et al. 2006, Theorem 1). The fit sees the rows alone.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from privmix.mechanisms import input_noise
from privmix.mechanisms.base import Spec, parameters
from privmix.mechanisms.local import Answers, LocalMechanism, Plan
from privmix.mixture import em
from privmix.mixture.scale_mixture import laplace_scales
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource


def diameter(spec: Spec) -> float:
    """L1 diameter of the public box."""
    return float((spec.domain.upper - spec.domain.lower).sum())


@parameters
class LaplaceInput(LocalMechanism):
    """`fit`: naive (a mixture of the noisy rows) or aware (likelihood through the noise), with so many `searches`."""

    reading: Annotated[input_noise.Reading, Field(validation_alias="fit")] = "aware"
    searches: Annotated[int, Field(ge=1)] = 3

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> Answers:
        """Rows plus Laplace noise."""
        rows = noise.laplace(
            points,
            sensitivity=diameter(spec),
            epsilon=plan.budget.epsilon,
            source=source,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )
        return input_noise.noisy_rows(rows)

    def model(self, answers: Answers, spec: Spec, plan: Plan, rng: np.random.Generator) -> em.Fit:
        """A mixture of the rows, or of what is behind them."""
        scales = laplace_scales(diameter(spec) / plan.budget.epsilon, len(spec.domain.axes))
        return input_noise.fit_rows(answers, spec, scales, self.reading, rng, self.searches)
