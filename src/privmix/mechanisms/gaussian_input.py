"""Gaussian input perturbation: each record adds Gaussian noise to itself before anyone stores it.

Privacy. A record lies in the public box, so replacing it moves its row by at most the box's L2 diameter
Δ = ‖upper - lower‖ ≤ 2 and no other row at all. Noise N(0, (Δ/μ)² I) with the largest μ whose exact profile
stays under (ε, δ) (Balle and Wang 2018, Theorem 8) makes the row (ε, δ)-LDP for every ε > 0.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.mechanisms import input_noise
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec, parameters
from privmix.mixture.scale_mixture import gaussian_scales
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, claim, gaussian_mu
from privmix.privacy.ledger import Ledger


def diameter(spec: Spec) -> float:
    """L2 diameter of the public box."""
    return float(np.linalg.norm(spec.domain.upper - spec.domain.lower))


@parameters
class GaussianInput(Mechanism):
    """`fit`: naive (a mixture of the noisy rows) or aware (likelihood through the noise)."""

    trust: ClassVar[Literal["central", "local"]] = "local"
    chooses_components: ClassVar[bool] = True

    reading: Annotated[input_noise.Reading, Field(validation_alias="fit")] = "aware"

    @property
    def accountant(self) -> str:
        """One Gaussian release, accounted exactly."""
        return "exact"

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """Rows plus Gaussian noise."""
        self.relation(spec)
        ledger = Ledger()
        rows = noise.gaussian(
            spec.inside(records.points),
            sensitivity=diameter(spec),
            multiplier=1 / gaussian_mu(budget.epsilon, budget.delta),
            source=rng.noise,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )
        return Reports(input_noise.report_columns(rows), ledger.events, claim(ledger.events, budget, "exact"))

    def fit(self, view: Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """A mixture from the reports."""
        sigma = diameter(spec) / gaussian_mu(budget.epsilon, budget.delta)
        scales = gaussian_scales(sigma, len(spec.domain.axes))
        fitted = input_noise.fit_rows(view, spec, scales, self.reading, rng)
        return Release(fitted.mixture, view.events, view.claim, notes=list(fitted.notes))
