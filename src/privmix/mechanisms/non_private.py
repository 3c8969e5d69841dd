"""EM on the records themselves: the ceiling of accuracy, and no privacy at all."""

from typing import Annotated, ClassVar

from pydantic import Field

from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Spec, parameters
from privmix.mixture import em
from privmix.privacy.accounting import Budget, Claim


@parameters
class NonPrivate(Mechanism):
    """The best of several searches by training likelihood; nothing about it is private."""

    private: ClassVar[bool] = False
    chooses_components: ClassVar[bool] = True

    searches: Annotated[int, Field(ge=1)] = 1

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Full search on the records, covariances floored by the public resolution like everybody's."""

        def searched(number: int) -> em.Fit:
            fits = (
                em.fit(view.points, number, floor=spec.floor, rng=rng.search) for _ in range(self.searches)
            )
            return max(fits, key=lambda fit: fit.log_likelihood)

        best = component_choice.freely(spec, searched, records=len(view))
        return Release(best.mixture, events=(), claim=Claim(float("inf"), 0.0), notes=list(best.notes))
