"""Gaussian input perturbation: each record adds Gaussian noise to itself before anyone stores it.

Privacy. A record lies in the public box, so replacing it moves its row by at most the box's L2 diameter
Δ = ‖upper - lower‖ ≤ 2 and no other row at all. Noise N(0, (Δ/μ)² I) with the largest μ whose exact profile
stays under (ε, δ) (Balle and Wang 2018, Theorem 8) makes the row (ε, δ)-LDP for every ε > 0.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from privmix.mechanisms import input_noise
from privmix.mechanisms.base import Spec, parameters
from privmix.mechanisms.local import Answers, LocalMechanism, Plan
from privmix.mixture import em
from privmix.mixture.scale_mixture import gaussian_scales
from privmix.privacy import noise
from privmix.privacy.accounting import gaussian_mu
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource


def diameter(spec: Spec) -> float:
    """L2 diameter of the public box."""
    return float(np.linalg.norm(spec.domain.upper - spec.domain.lower))


@parameters
class GaussianInput(LocalMechanism):
    """`fit`: naive (a mixture of the noisy rows) or aware (likelihood through the noise), with so many `searches`."""

    reading: Annotated[input_noise.Reading, Field(validation_alias="fit")] = "aware"
    searches: Annotated[int, Field(ge=1)] = 3

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> Answers:
        """Rows plus Gaussian noise."""
        rows = noise.gaussian(
            points,
            sensitivity=diameter(spec),
            multiplier=1 / gaussian_mu(plan.budget.epsilon, plan.budget.delta),
            source=source,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )
        return input_noise.noisy_rows(rows)

    def model(self, answers: Answers, spec: Spec, plan: Plan, rng: np.random.Generator) -> em.Fit:
        """A mixture of the rows, or of what is behind them."""
        sigma = diameter(spec) / gaussian_mu(plan.budget.epsilon, plan.budget.delta)
        return input_noise.fit_rows(
            answers, spec, gaussian_scales(sigma, len(spec.domain.axes)), self.reading, rng, self.searches
        )
