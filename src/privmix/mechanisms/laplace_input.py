"""Laplace input perturbation: each record adds Laplace noise to itself before anyone stores it.

Privacy. A record lies in the public box, so replacing it moves its row by at most the box's L1 diameter
Δ = Σ_j (upper_j - lower_j) and no other row at all. Laplace noise of scale Δ/ε on every coordinate makes the row
ε-LDP (Dwork et al. 2006, Theorem 1). The fit sees the rows alone.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from privmix.mechanisms import input_noise
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec, parameters
from privmix.mixture.deconvolve import laplace_scales
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Ledger


def diameter(spec: Spec) -> float:
    """L1 diameter of the public box."""
    return float((spec.domain.upper - spec.domain.lower).sum())


@parameters
class LaplaceInput(Mechanism):
    """`fit`: naive (a mixture of the noisy rows) or aware (likelihood through the noise)."""

    trust: ClassVar[Literal["central", "local"]] = "local"
    chooses_components: ClassVar[bool] = True

    reading: Annotated[input_noise.Reading, Field(validation_alias="fit")] = "aware"

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """Rows plus Laplace noise."""
        self.relation(spec)
        ledger = Ledger()
        rows = noise.laplace(
            spec.inside(records.points),
            sensitivity=diameter(spec),
            epsilon=budget.epsilon,
            source=rng.noise,
            ledger=ledger,
            label="record",
            coordinates=len(spec.domain.axes),
        )
        return Reports(
            input_noise.report_columns(rows), ledger.events, claim(ledger.events, budget, "linear")
        )

    def fit(self, view: Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """A mixture from the reports."""
        scales = laplace_scales(diameter(spec) / budget.epsilon, len(spec.domain.axes))
        fitted = input_noise.fit_rows(view, spec, scales, self.reading, rng)
        return Release(fitted.mixture, view.events, view.claim, notes=list(fitted.notes))
