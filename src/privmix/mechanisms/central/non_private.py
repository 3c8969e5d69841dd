"""EM on the records themselves: the most accurate fit, without any privacy.

Records that lack coordinates take part with the likelihood of what is there. The search runs on the complete records,
and EM on all records starts from its result (`em.fit_incomplete`). Like other attributes, the states of coordinates do
not take part in the clustering, so the mixture has no bias if coordinates are missing at random given the others.

Without coordinates, latent classes are fitted to the attributes (`shared.latent_classes`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import (
    FreeChoice,
    Randomness,
    Records,
    Release,
    Spec,
    best_fit,
    mechanism_dataclass,
)
from privmix.mechanisms.shared.latent_classes import fit_classes
from privmix.mixture import em, mixed_em
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.accounting import Budget, Claim

RECORDS_PER_COMPONENT = (
    10  # complete records for the search; with fewer, it takes placeholders as coordinates
)


@mechanism_dataclass
class NonPrivate(FreeChoice):
    """The best of several `searches` by training likelihood. Nothing about it is private."""

    private: ClassVar[bool] = False
    fits_together: ClassVar[bool] = True
    completes_records: ClassVar[bool] = True
    min_coordinates: ClassVar[int] = 0

    searches: Annotated[int, Field(ge=1, le=1000)] = 1

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Run the full search on the coordinates, with covariances floored by the public resolution.

        The shares of the attributes' values in each component then follow by EM. They do not change the mixture.
        """

        if not spec.domain.axes:
            return self._fit_classes(view, spec, rng)
        absent = spec.absent(view)
        points = view.points[_complete_rows(absent, [np.ones(len(view), dtype=bool)], spec)]

        def searched(number: int) -> FitResult:
            fits = (em.fit(points, number, floor=spec.floor, rng=rng.search) for _ in range(self.searches))
            return max(fits, key=lambda fit: fit.log_likelihood)

        best = _climb(best_fit(spec, searched, records=len(points)), view.points, absent, spec)
        return replace(_to_release(best), shares=_shares(view, spec, best.mixture, absent))

    def _fit_classes(self, view: Records, spec: Spec, rng: Randomness) -> Release:
        """Fit latent classes to records without coordinates."""
        found = fit_classes(
            view.codes, np.ones(len(view)), spec, records=len(view), rng=rng.search, searches=self.searches
        )
        mixture = found.mixture
        return Release(
            mixture.gaussians, (), Claim(float("inf"), 0.0), notes=list(found.notes), shares=mixture.shares
        )

    def fit_many(
        self, records: Records, subsets: Sequence[np.ndarray], spec: Spec, rng: Randomness
    ) -> list[Release]:
        """Run the same search on all subsets together, then fit the shares of each. One stream spawns all others."""

        if not spec.domain.axes:
            return [self._fit_classes(records.select(np.flatnonzero(mask)), spec, rng) for mask in subsets]
        absent = spec.absent(records)
        rows = _complete_rows(absent, subsets, spec)

        def searched(number: int) -> list[FitResult]:
            searches = [
                em.fit_many(
                    records.points[rows],
                    number,
                    [mask[rows] for mask in subsets],
                    floor=spec.floor,
                    rng=rng.search,
                )
                for _ in range(self.searches)
            ]
            return [max(fits, key=lambda fit: fit.log_likelihood) for fits in zip(*searches, strict=True)]

        found = {number: searched(number) for number in spec.candidates or (spec.n_components,)}

        def of_subset(subset: int) -> Callable[[int], FitResult]:
            return lambda number: found[number][subset]

        def release(subset: int, mask: np.ndarray) -> Release:
            view, lacking = records.select(np.flatnonzero(mask)), None if absent is None else absent[mask]
            best = best_fit(spec, of_subset(subset), records=mask[rows].sum())
            best = _climb(best, view.points, lacking, spec)
            return replace(_to_release(best), shares=_shares(view, spec, best.mixture, lacking))

        return [release(subset, mask) for subset, mask in enumerate(subsets)]


def _complete_rows(
    absent: np.ndarray | None, subsets: Sequence[np.ndarray], spec: Spec
) -> np.ndarray | slice:
    """Return the records that a search uses: the complete ones, or all if a subset has too few of these."""
    if absent is None:
        return slice(None)
    complete, least = np.asarray(~absent.any(axis=1)), RECORDS_PER_COMPONENT * spec.n_components
    return complete if all((complete & mask).sum() >= least for mask in subsets) else slice(None)


def _climb(found: FitResult, points: np.ndarray, absent: np.ndarray | None, spec: Spec) -> FitResult:
    """Run EM on all records from the result of the search, if some of them lack coordinates."""
    if absent is None or not absent.any():
        return found
    climbed = em.fit_incomplete(points, absent, found.mixture, floor=spec.floor)
    chosen = [spec.choice_note(found.mixture.n_components)] if spec.candidates else []
    return replace(climbed, notes=(*climbed.notes, *chosen))


def _shares(
    view: Records, spec: Spec, mixture: Mixture, absent: np.ndarray | None
) -> Mapping[str, np.ndarray]:
    sizes = {each.name: len(each.values) for each in spec.domain.attributes if each.name in view.codes}
    if not sizes:
        return {}
    codes = {name: view.codes[name] for name in sizes}
    return mixed_em.fit_shares(view.points, codes, sizes, mixture, absent=absent).mixture.shares


def _to_release(best: FitResult) -> Release:
    return Release(best.mixture, events=(), claim=Claim(float("inf"), 0.0), notes=list(best.notes))
