"""Gaussian input perturbation: Gaussian noise is added to each record before anyone stores it.

Privacy. A record lies in the public box. Replacing it moves its row by at most the L2 diameter Δ = ‖upper - lower‖ ≤ 2
of the box, and moves no other row. Noise N(0, (Δ/μ)² I) with the largest μ whose exact profile stays under (ε, δ)
(Balle and Wang 2018, Theorem 8) makes the row (ε, δ)-LDP for every ε > 0.
"""

import numpy as np

from privmix.mechanisms.base import Spec, mechanism_dataclass
from privmix.mechanisms.local.base import Plan
from privmix.mechanisms.local.input_noise import InputNoise, diameter
from privmix.mixture.deconvolution import ScaleMixture, gaussian_scales
from privmix.privacy import noise
from privmix.privacy.accounting import gaussian_mu
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource


@mechanism_dataclass
class GaussianInput(InputNoise):
    """`fit`: naive (fits the noisy rows) or aware (likelihood through the noise); `searches`: restarts of the fit."""

    def perturb(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> np.ndarray:
        """Add Gaussian noise to the rows."""
        return noise.gaussian(
            points,
            sensitivity=diameter(spec.domain),
            noise_multiplier=1 / gaussian_mu(plan.budget.epsilon, plan.budget.delta),
            source=source,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )

    def noise_scales(self, spec: Spec, plan: Plan) -> ScaleMixture:
        """Return Gaussian noise of deviation Δ/μ on every axis."""
        sigma = diameter(spec.domain) / gaussian_mu(plan.budget.epsilon, plan.budget.delta)
        return gaussian_scales(sigma, len(spec.domain.axes))
