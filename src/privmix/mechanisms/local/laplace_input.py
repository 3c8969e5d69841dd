"""Laplace input perturbation: Laplace noise is added to each record before anyone stores it.

Privacy. A record lies in the public box. Replacing it moves its row by at most the L1 diameter Δ = Σ_j (upper_j -
lower_j) of the box, and moves no other row. Laplace noise of scale Δ/ε on every coordinate makes the row ε-LDP (Dwork
et al. 2006, Theorem 1). The fit sees only the rows.
"""

import numpy as np

from privmix.mechanisms.base import Spec, mechanism_dataclass
from privmix.mechanisms.local.base import Plan
from privmix.mechanisms.local.input_noise import InputNoise
from privmix.mixture.deconvolution import ScaleMixture, laplace_scales
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource


def diameter(spec: Spec) -> float:
    """Return the L1 diameter of the public box."""
    return float((spec.domain.upper - spec.domain.lower).sum())


@mechanism_dataclass
class LaplaceInput(InputNoise):
    """`fit`: naive (fits the noisy rows) or aware (likelihood through the noise); `searches`: restarts of the fit."""

    def perturb(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> np.ndarray:
        """Add Laplace noise to the rows."""
        return noise.laplace(
            points,
            sensitivity=diameter(spec),
            epsilon=plan.budget.epsilon,
            source=source,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )

    def noise_scales(self, spec: Spec, plan: Plan) -> ScaleMixture:
        """Return Laplace noise of scale Δ/ε on every axis."""
        return laplace_scales(diameter(spec) / plan.budget.epsilon, len(spec.domain.axes))
