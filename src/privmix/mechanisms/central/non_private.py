"""EM on the records themselves: the most accurate fit, without any privacy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import (
    Mechanism,
    Randomness,
    Records,
    Release,
    Spec,
    best_fit,
    mechanism_dataclass,
)
from privmix.mixture import em, mixed_em
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.accounting import Budget, Claim


@mechanism_dataclass
class NonPrivate(Mechanism):
    """The best of several `searches` by training likelihood. Nothing about it is private."""

    private: ClassVar[bool] = False
    chooses_components: ClassVar[bool] = True
    fits_together: ClassVar[bool] = True

    searches: Annotated[int, Field(ge=1, le=1000)] = 1

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Run the full search on the coordinates, with covariances floored by the public resolution.

        The shares of the attributes' values in each component then follow by EM. They do not change the mixture.
        """

        def searched(number: int) -> FitResult:
            fits = (
                em.fit(view.points, number, floor=spec.floor, rng=rng.search) for _ in range(self.searches)
            )
            return max(fits, key=lambda fit: fit.log_likelihood)

        best = best_fit(spec, searched, records=len(view))
        return replace(_to_release(best), shares=_shares(view, spec, best.mixture))

    def fit_many(
        self, records: Records, subsets: Sequence[np.ndarray], spec: Spec, rng: Randomness
    ) -> list[Release]:
        """Run the same search on all subsets together, then fit the shares of each. One stream spawns all others."""

        def searched(number: int) -> list[FitResult]:
            searches = [
                em.fit_many(records.points, number, subsets, floor=spec.floor, rng=rng.search)
                for _ in range(self.searches)
            ]
            return [max(fits, key=lambda fit: fit.log_likelihood) for fits in zip(*searches, strict=True)]

        found = {number: searched(number) for number in spec.candidates or (spec.n_components,)}

        def of_subset(subset: int) -> Callable[[int], FitResult]:
            return lambda number: found[number][subset]

        def release(subset: int, mask: np.ndarray) -> Release:
            best = best_fit(spec, of_subset(subset), records=mask.sum())
            view = records.select(np.flatnonzero(mask))
            return replace(_to_release(best), shares=_shares(view, spec, best.mixture))

        return [release(subset, mask) for subset, mask in enumerate(subsets)]


def _shares(view: Records, spec: Spec, mixture: Mixture) -> Mapping[str, np.ndarray]:
    sizes = {each.name: len(each.values) for each in spec.domain.attributes if each.name in view.codes}
    if not sizes:
        return {}
    codes = {name: view.codes[name] for name in sizes}
    return mixed_em.fit_shares(view.points, codes, sizes, mixture).mixture.shares


def _to_release(best: FitResult) -> Release:
    return Release(best.mixture, events=(), claim=Claim(float("inf"), 0.0), notes=list(best.notes))
