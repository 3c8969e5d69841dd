"""Fitting a mixture by EM: the search that finds a good optimum, then the climb to it on all the data.

Every choice made here is by likelihood. On a private synopsis all of it is free; on raw data none of it is private.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from privmix.errors import UserError
from privmix.mixture import search
from privmix.mixture.climb import Climbed, Expectation, climb
from privmix.mixture.kernel import em_passes
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Covariance, Parameters, Prior
from privmix.mixture.observations import Data, Observations, compress, distinct, observe, sampled
from privmix.mixture.relocation import planted_on_worst
from privmix.mixture.starts import public_start
from privmix.mixture.stream import Stream

__all__ = ["Fit", "fit", "fit_many", "loop", "public_start"]

SAMPLE_SHARE = 16  # the search runs on one record in this many,
SAMPLE_LEAST, SAMPLE_MOST = 2**12, 2**16  # but on no fewer and no more than this
LAST_LOOK = 10  # iterations that a component planted on the worst explained record has to pay
FLOOR_SHARE = 1e-8  # of the data's variance on each axis: the floor when none is given
ROUNDING = 1e-15
AT_FLOOR = 1 + 1e-6


@dataclass(frozen=True)
class Fit:
    """A fitted mixture and how it was reached."""

    mixture: Mixture
    log_likelihood: float  # mean per unit of weight
    objective: float  # what was maximised: the log-likelihood, plus the log prior per unit of weight
    iterations: int  # passes over all the data, one an EM iteration
    converged: bool
    notes: tuple[str, ...] = ()


def loop(
    data: Data,
    mixture: Mixture,
    *,
    floor: np.ndarray,
    prior: Prior | None = None,
    tol: float = 1e-5,
    max_iter: int = 500,
    covariance: Covariance = "full",
    accelerate: bool = False,
    expectation: Expectation = em_passes,
) -> Fit:
    """EM from one start. `expectation` is the pass over the data, or one that sees through noise."""
    climbed = climb(
        [data],
        Parameters.of([mixture]),
        floor=floor,
        prior=prior,
        covariance=covariance,
        tol=tol,
        max_iter=max_iter,
        accelerate=accelerate,
        expectation=expectation,
    )
    return ended(climbed, 0)


def ended(climbed: Climbed, number: int) -> Fit:
    """One of the climbs, as a fit."""
    return Fit(
        climbed.parameters.mixture(number),
        float(climbed.log_likelihood[number]),
        float(climbed.objective[number]),
        int(climbed.iterations[number]),
        bool(climbed.converged[number]),
    )


def fit(
    points: Data | np.ndarray,
    n_components: int,
    *,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    floor: np.ndarray | None = None,
    start: Mixture | None = None,
    starts: int = 8,
    relocations: int | None = None,
    tol: float = 1e-5,
    max_iter: int = 500,
    prior: Prior | None = None,
    covariance: Covariance = "full",
    threads: int | None = None,
) -> Fit:
    """The best mixture that the search finds: several starts and relocations on a sample, then EM on everything,
    and a last look at the record that is explained worst.

    `start` replaces the several starts; `relocations` is 8 a component unless told, and 0 turns the search off.
    `floor` holds the least variance on each axis: a public number where the fit is to be private; unless told it
    is a share of the data's own. Equal records are merged first, which changes nothing but the time; a
    `stream.Stream` is read again in every pass instead, and never held.
    """
    data = points if isinstance(points, Stream) else observe(points, weights)
    if isinstance(data, Stream) and weights is not None:
        raise UserError("the records of a stream have weight 1 each; leave the weights out.")
    if isinstance(data, Observations):
        if not data.total_weight > 0:
            raise UserError("there is nothing to fit: no record has a positive weight.")
        data = compress(data)
    return _fitted(
        data,
        [data],
        n_components,
        [rng],
        floor,
        start,
        starts,
        relocations,
        tol,
        max_iter,
        prior,
        covariance,
        threads,
    )[0]


def fit_many(
    points: np.ndarray | Observations,
    n_components: int,
    subsets: Sequence[np.ndarray],
    *,
    rng: np.random.Generator,
    floor: np.ndarray | None = None,
    start: Mixture | None = None,
    starts: int = 8,
    relocations: int | None = None,
    tol: float = 1e-5,
    max_iter: int = 500,
    prior: Prior | None = None,
    covariance: Covariance = "full",
    threads: int | None = None,
) -> list[Fit]:
    """A fit to each subset of the records, given as a boolean mask: shadow models, side by side.

    Each has a random stream of its own, spawned from `rng`, so a fit does not depend on the other subsets (its
    units, and the floor unless told, are those of all the records). A subset is a count of its mask at the distinct
    places.
    """
    data = observe(points)
    masks = [np.asarray(mask) for mask in subsets]
    for number, mask in enumerate(masks):
        if mask.shape != (len(data),) or mask.dtype != bool:
            raise UserError(f"subset {number} must be a boolean mask over the {len(data)} records.")
    places, index = distinct(data)
    parts = []
    for mask in masks:
        counts = np.bincount(index[mask], data.weights[mask], minlength=len(places))
        spread = None if places.spread is None else places.spread[counts > 0]
        parts.append(Observations(places.points[counts > 0], counts[counts > 0], spread))
    if not parts:
        return []
    rngs = rng.spawn(len(parts))
    return _fitted(
        data,
        parts,
        n_components,
        rngs,
        floor,
        start,
        starts,
        relocations,
        tol,
        max_iter,
        prior,
        covariance,
        threads,
    )


def _fitted(
    whole: Data,
    data: Sequence[Data],
    n_components: int,
    rngs: Sequence[np.random.Generator],
    floor: np.ndarray | None,
    start: Mixture | None,
    starts: int,
    relocations: int | None,
    tol: float,
    max_iter: int,
    prior: Prior | None,
    covariance: Covariance,
    threads: int | None,
) -> list[Fit]:
    """Fits to several parts of the whole, in lockstep."""
    if not isinstance(n_components, int | np.integer):
        raise UserError(f"the number of components must be an integer, not {n_components!r}.")
    for each in data:
        records = max(len(each), each.total_weight)
        if not 1 <= n_components <= records:
            raise UserError(
                f"cannot fit {n_components} components to {records:g} records; "
                "set the number of components between 1 and the number of records."
            )
    wanted = (n_components, whole.dimensions)
    if start is not None and (start.n_components, start.dimensions) != wanted:
        raise UserError(
            f"the start has {start.n_components} components in {start.dimensions} dimensions, "
            f"but {wanted[0]} in {wanted[1]} are to be fitted."
        )
    if starts < 1 or max_iter < 0 or not tol >= 0:
        raise UserError(
            f"a fit needs starts >= 1, max_iter >= 0 and tol >= 0, not {starts}, {max_iter} and {tol}."
        )
    units = _Units.of(whole, floor, prior)
    data = [each.normalised(units.centre, units.scale) for each in data]
    rise = partial(
        climb,
        floor=units.floor,
        prior=prior,
        covariance=covariance,
        expectation=partial(em_passes, threads=threads),
    )
    samples = [_search_sample(each, rng) for each, rng in zip(data, rngs, strict=True)]
    if start is None:
        begin = search.best_starts(samples, n_components, units.floor, rngs, rise, starts, tol)
    else:
        begin = [start.normalised(units.centre, units.scale)] * len(data)
    relocations = 8 * n_components if relocations is None else relocations
    searching = n_components > 1 and relocations > 0
    if searching:
        begin = search.relocated(samples, begin, units.floor, rngs, rise, relocations, tol)
    climb_all = partial(rise, tol=tol, accelerate=True)
    fits = _ends(climb_all(data, Parameters.of(begin), max_iter=max_iter))
    if searching:
        planted = [
            planted_on_worst(each, fit.mixture, units.floor) for each, fit in zip(data, fits, strict=True)
        ]
        tried = rise(data, Parameters.of(planted), tol=tol, max_iter=LAST_LOOK)
        better = [i for i, fit in enumerate(fits) if tried.objective[i] > fit.objective]
        if better:
            again = climb_all([data[i] for i in better], tried.parameters[better], max_iter=max_iter)
            for i, fit in zip(better, _ends(again), strict=True):
                fits[i] = fit
    return [units.restored(fit, max_iter) for fit in fits]


def _search_sample(data: Data, rng: np.random.Generator) -> Observations:
    """The part of the data that the search runs on, of the same total weight, so that a prior weighs the same."""
    size = min(max(SAMPLE_LEAST, len(data) // SAMPLE_SHARE), SAMPLE_MOST)
    sample = sampled(data, size, rng)
    return replace(sample, weights=sample.weights * (data.total_weight / sample.total_weight))


def _ends(climbed: Climbed) -> list[Fit]:
    return [ended(climbed, number) for number in range(len(climbed.objective))]


@dataclass(frozen=True, eq=False)
class _Units:
    """The units in which the numbers are best kept: mean 0 and variance 1 on each axis.

    A prior speaks of the original units, so with one they stay.
    """

    centre: np.ndarray
    scale: np.ndarray
    floor: np.ndarray  # least variances, in these units

    @classmethod
    def of(cls, data: Data, floor: np.ndarray | None, prior: Prior | None) -> "_Units":
        centre, covariance = data.covariance()
        variances = np.diagonal(covariance)
        if floor is None:
            rounding = (ROUNDING * centre) ** 2  # a constant's variance, as computed
            floor = FLOOR_SHARE * np.where(variances > rounding, variances, variances.max() or 1.0)
        floor = np.asarray(floor, dtype=np.float64)
        if floor.shape != centre.shape or not (np.isfinite(floor) & (floor > 0)).all():
            raise UserError(
                f"the floor must be {len(centre)} positive variances, one a coordinate, but is {floor}."
            )
        if prior is not None:
            return cls(np.zeros_like(centre), np.ones_like(centre), floor)
        scale = 1 / np.sqrt(np.maximum(variances, floor))
        return cls(centre, scale, floor * scale**2)

    def restored(self, fit: Fit, max_iter: int) -> Fit:
        """The fit in original units, with notes of what a reader should know."""
        jacobian = float(np.log(self.scale).sum())
        root = np.sqrt(self.floor)
        least = np.linalg.eigvalsh(fit.mixture.covariances / np.outer(root, root))[:, 0]
        k = fit.mixture.n_components
        notes = []
        if not fit.converged:
            notes.append(f"EM stopped at {max_iter} iterations before it converged.")
        if empty := int((fit.mixture.weights == 0).sum()):
            notes.append(f"{empty} of {k} components are empty.")
        if narrow := int((least <= AT_FLOOR).sum()):
            notes.append(f"{narrow} of {k} components are as narrow as the floor allows.")
        return Fit(
            fit.mixture.restored(self.centre, self.scale),
            fit.log_likelihood + jacobian,
            fit.objective + jacobian,
            fit.iterations,
            fit.converged,
            tuple(notes),
        )
