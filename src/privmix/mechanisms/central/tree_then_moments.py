"""Tree, then moments: a private tree finds the components, and noisy moments refine them.

Privacy. `noisy_tree` measures its synopsis with `tree_share` of ε, all of it pure. Its fit, which is post-processing,
is the start of `iterations` joint Gaussian measurements (`joint_moments`), each computed from parameters that were
measured before. Together these are one Gaussian measurement of μ = √(Σ 1/multiplier²) (Dong, Roth, Su 2022, Corollary
2), calibrated to the rest of ε and all of δ (Balle, Wang 2018). The two parts add up by adaptive basic composition.
Sensitivities and their proofs are in those modules, for records and persons, added, removed or replaced. The step
towards the moments (`moment_share`) and their averaging depend only on public and measured values.

The split. The tree decides which optimum is found, and a wrong optimum costs most. Moments measured from a good start
lose `joint_moments.predicted_loss`, which falls with the square of their budget. They gain the loss from the width of
the leaves, which is small. So the tree has the larger part, and the step towards the moments is only as large as their
gain over their noise justifies: at small ε N the model is nearly the tree's.

When to use it: for up to three coordinates, if the exact place and shape of components matters more than a pure ε. On
the data here it is as good as `noisy_tree` with all of ε, within the variation of their searches.
"""

import math
from typing import Annotated, ClassVar

from pydantic import Field

from privmix.errors import UserError
from privmix.mechanisms.base import (
    CentralMechanism,
    FreeChoice,
    Randomness,
    Records,
    Release,
    Spec,
    mechanism_dataclass,
)
from privmix.mechanisms.central.noisy_tree import NoisyTree
from privmix.mechanisms.shared.joint_moments import average_mixtures, predicted_loss, refine
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget, Theorem, claim, gaussian_mu
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

EXPECTED_GAIN = 0.01  # nats that a fit to boxes loses because of their width, roughly


@mechanism_dataclass
class TreeThenMoments(FreeChoice, CentralMechanism):
    """`tree_share`: part of ε for the tree. `iterations`: joint measurements after it. `searches`: of its fit."""

    max_coordinates: ClassVar[int | None] = NoisyTree.max_coordinates

    tree_share: Annotated[float, Field(gt=0, lt=1)] = 0.8
    iterations: Annotated[int, Field(ge=1)] = 2
    searches: Annotated[int, Field(ge=1, le=1000)] = 8

    @property
    def accountant(self) -> Theorem:
        """Pure and Gaussian measurements, each kind by itself."""
        return "split"

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Fit the tree and refine the fit."""
        if budget.delta == 0:
            raise UserError("tree_then_moments needs delta > 0; set `delta`, for example to 1e-6.")
        ledger, neighbours = Ledger(), self.relation(spec)
        for_tree = self.tree_share * budget.epsilon
        synopsis = NoisyTree().measure(view, spec, Budget(for_tree, 0.0), rng.noise, ledger)
        fitted, notes = synopsis.fit(spec, rng=rng.search, searches=self.searches)
        mu = gaussian_mu(budget.epsilon - for_tree, budget.delta)
        refined = refine(
            spec.observations(view.points, merge=False),  # two passes cost less than merging equal records
            spec,
            fitted.mixture,
            iterations=self.iterations,
            noise_multiplier=math.sqrt(self.iterations) / mu,
            neighbours=neighbours,
            source=rng.noise,
            ledger=ledger,
            hold=True,
        )
        believed = moment_share(fitted.mixture, spec, mu, neighbours)
        shares = [1 - believed, *[believed / self.iterations] * self.iterations]
        return Release(
            average_mixtures([fitted.mixture, *refined.iterates], spec, shares),
            ledger.events,
            claim(ledger.events, budget, "split"),
            [synopsis.released, *refined.transcript],
            notes=notes,
        )


def moment_share(start: Mixture, spec: Spec, mu: float, neighbours: Neighbours) -> float:
    """Return the length of the step from the tree's fit to the moments: gain / (gain + noise).

    Both are losses in nats, quadratic in the step, so this share minimises their sum. The noise of moments that are
    averaged over the iterations is that of one measurement with all of their budget.
    """
    loss = predicted_loss(spec.domain.rows, start.dimensions, start.n_components, mu, neighbours)
    return EXPECTED_GAIN / (EXPECTED_GAIN + loss)
