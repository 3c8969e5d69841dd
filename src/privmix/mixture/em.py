"""EM for Gaussian mixtures: the iteration itself, and the complete fit with its search for a good optimum.

`climb` runs EM from given starts to the optimum above each. Many climbs run in lockstep to share the overhead of
small fits: their E-steps run one after the other, their M-steps together. No climb depends on the others. `fit`
searches on a sample first (`search`), then climbs on all the data.

All choices depend on the likelihood. On a private synopsis they cost no privacy; on raw data nothing here is private.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

import numpy as np

from privmix.errors import UserError
from privmix.mixture import search
from privmix.mixture.kernel import em_passes
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import (
    Covariance,
    Data,
    IncompleteObservations,
    Moments,
    Observations,
    Parameters,
    Prior,
    complete_moments,
    compress,
    distinct_records,
    estimates,
    observe,
    observe_incomplete,
    systematic_sample,
)
from privmix.mixture.search import Climb, ClimbResult, plant_on_worst
from privmix.mixture.stream import Stream

Expectation = Callable[[Sequence[Data], Parameters], Moments]

GROWTH = 4.0  # factor by which the longest step grows after a success and the step shrinks after a failure
LEAST_COUNT = 0.1  # an extrapolation may not shrink the count of a component below this share


def climb(
    data: Sequence[Data],
    starts: Parameters,
    *,
    floor: np.ndarray,
    prior: Prior | None = None,
    covariance: Covariance = "full",
    tol: float,
    max_iter: int,
    accelerate: bool = False,
    expectation: Expectation = em_passes,
) -> ClimbResult:
    """Run EM from each start until the objective per unit of weight gains less than `tol` in an iteration.

    The objective never decreases, except from a start below the floor, which may score higher than anything the
    floor allows. With `accelerate`, a step along the direction of the last two iterations follows every two
    iterations, and is kept only if the objective does not decrease (SQUAREM, Varadhan & Roland 2008, step length S3,
    here applied to the moments, because all values of the moments have parameters).
    """
    m = len(starts)
    parameters = Parameters(*(part.copy() for part in (starts.weights, starts.means, starts.covariances)))
    moments = expectation(data, starts)
    reached = _objective(moments, starts, prior)
    log_likelihood = np.asarray(moments.log_likelihood / moments.total_weight)
    iterations, converged = np.zeros(m, dtype=int), np.zeros(m, dtype=bool)
    going, history, longest = np.arange(m), [moments], np.full(m, GROWTH)

    def step(target: Moments) -> tuple[Parameters, Moments, np.ndarray]:
        moved = estimates(target, floor=floor, prior=prior, covariance=covariance)
        seen = expectation([data[i] for i in going.tolist()], moved)
        iterations[going] += 1
        return moved, seen, _objective(seen, moved, prior)

    def keep(rows: np.ndarray, moved: Parameters, seen: Moments, objective: np.ndarray) -> None:
        where = going[rows]
        parameters.weights[where] = moved.weights[rows]
        parameters.means[where] = moved.means[rows]
        parameters.covariances[where] = moved.covariances[rows]
        log_likelihood[where] = np.asarray(seen.log_likelihood / seen.total_weight)[rows]
        reached[where] = objective[rows]

    while len(going) and iterations[going[0]] < max_iter:
        moved, seen, objective = step(history[-1])
        still = ~(np.abs(objective - reached[going]) < tol)
        keep(np.ones(len(going), dtype=bool), moved, seen, objective)
        converged[going[~still]] = True
        history = [each[still] for each in (*history, seen)]
        going = going[still]
        if accelerate and len(history) == 3 and len(going) and iterations[going[0]] < max_iter:
            first, second, third = history
            far, length = _extrapolate(first, second, third, most=longest[going])
            moved, seen, objective = step(far)
            better = objective >= reached[going]
            keep(better, moved, seen, objective)
            grown = np.where(length < longest[going], longest[going], GROWTH * longest[going])
            longest[going] = np.where(better, grown, np.maximum(length / GROWTH, 1.0))
            history = [_select(better, seen, third)]
        elif not accelerate:
            history = history[-1:]
    return ClimbResult(parameters, log_likelihood, reached, iterations, converged)


def _extrapolate(
    first: Moments, second: Moments, third: Moments, most: np.ndarray
) -> tuple[Moments, np.ndarray]:
    """Extrapolate three successive moments. Return the result and the step length."""
    m = len(first.counts)
    points = [
        np.concatenate([each.counts, each.sums.reshape(m, -1), each.squares.reshape(m, -1)], axis=1)
        for each in (first, second, third)
    ]
    k = first.counts.shape[1]
    far, length = extrapolate(points, k, most)
    d = first.sums.shape[2]
    return Moments(
        far[:, :k],
        far[:, k : k + k * d].reshape(m, k, d),
        far[:, k + k * d :].reshape(m, k, d, d),
        third.log_likelihood,
        third.total_weight,
    ), length


def extrapolate(points: Sequence[np.ndarray], k: int, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Extrapolate three successive points (m, p), each with k counts first. Return the result and the step length.

    The result is x + 2αr + α²v, where r and v are the first and second difference of the points and α = |r|/|v|,
    limited to `most`. It is the third point, with length 1, if a count would become too small.
    """
    m = len(points[0])
    change = points[1] - points[0]
    bend = points[2] - points[1] - change
    sizes = np.linalg.norm(change, axis=1), np.linalg.norm(bend, axis=1)
    length = np.clip(np.divide(*sizes, out=np.ones(m), where=sizes[1] > 0), 1.0, most)[:, None]
    far = points[0] + 2 * length * change + length**2 * bend
    sound = (far[:, :k] >= LEAST_COUNT * points[2][:, :k]).all(axis=1, keepdims=True)
    far, length = np.where(sound, far, points[2]), np.where(sound, length, 1.0)
    return far, length[:, 0]


def _select(rows: np.ndarray, one: Moments, other: Moments) -> Moments:
    """Return `one` in these rows and `other` in all other rows."""
    return Moments(
        np.where(rows[:, None], one.counts, other.counts),
        np.where(rows[:, None, None], one.sums, other.sums),
        np.where(rows[:, None, None, None], one.squares, other.squares),
        np.where(rows, one.log_likelihood, other.log_likelihood),
        np.where(rows, one.total_weight, other.total_weight),
    )


def _objective(moments: Moments, parameters: Parameters, prior: Prior | None) -> np.ndarray:
    addition = 0.0 if prior is None else prior.log_density(parameters)
    return np.asarray((moments.log_likelihood + addition) / moments.total_weight)


SAMPLE_SHARE = 16  # the search runs on one of this many records,
SAMPLE_LEAST, SAMPLE_MOST = 2**12, 2**16  # within these limits
RELOCATIONS = 8  # default number of relocations per component
LAST_LOOK_ITERATIONS = (
    10  # a component planted on the worst explained record must raise the objective within these
)
FLOOR_SHARE = 1e-8  # default floor, as a share of the variance of the data on each axis
ROUNDING = 1e-15
AT_FLOOR = 1 + 1e-6


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Options of the search and of EM. The functions that fit a mixture take these fields as keyword arguments."""

    # least variance on each axis; None: a share of the variance of the data, which is not private
    floor: np.ndarray | None = None
    start: Mixture | None = None  # replaces the seeded starts
    starts: int = 8  # number of seeded starts
    relocations: int | None = None  # attempts to move a component; None: a fixed number per component
    tol: float = 1e-5  # EM stops when an iteration gains less, in nats per unit of weight
    max_iter: int = 500  # EM iterations on all the data
    prior: Prior | None = None  # None: maximum likelihood
    covariance: Covariance = "full"
    threads: int | None = None  # threads of a pass over the data; None: `kernel.default_threads`

    def __post_init__(self) -> None:
        if self.starts < 1 or self.max_iter < 0 or not self.tol >= 0:
            raise UserError(
                "a fit needs starts >= 1, max_iter >= 0 and tol >= 0, "
                f"not {self.starts}, {self.max_iter} and {self.tol}."
            )

    def moves(self, n_components: int, each: int = RELOCATIONS) -> int:
        """Return the number of relocations: `each` per component if the options do not set it."""
        return each * n_components if self.relocations is None else self.relocations

    def climb(self, floor: np.ndarray) -> Climb:
        """Return the function `climb` with these options. The floor is in the units of the data passed to it."""
        return partial(
            climb,
            floor=floor,
            prior=self.prior,
            covariance=self.covariance,
            expectation=partial(em_passes, threads=self.threads),
        )


def public_start(
    lower: np.ndarray, upper: np.ndarray, n_components: int, rng: np.random.Generator
) -> Mixture:
    """Return a start from the public box alone: means spread over the box, equal weights, overlapping components.

    The means are the R-sequence of Roberts (2018, "The unreasonable effectiveness of quasirandom sequences"),
    whose generator is the root of x^(d+1) = x + 1, with a random shift. The standard deviation of a component is half
    of its share side/K^(1/d) of each axis.
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    side = upper - lower
    if n_components < 1 or not (side > 0).all():
        raise UserError("a public start needs n_components >= 1 and lower < upper on every axis.")
    d = len(side)
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (d + 1))
    steps = np.arange(1, n_components + 1)[:, None] * root ** -np.arange(1.0, d + 1)
    means = lower + side * ((steps + rng.random(d)) % 1.0)
    covariance = np.diag((side / n_components ** (1 / d) / 2) ** 2)
    return Mixture(np.full(n_components, 1 / n_components), means, np.tile(covariance, (n_components, 1, 1)))


def loop(
    data: Data,
    mixture: Mixture,
    *,
    floor: np.ndarray,
    accelerate: bool = False,
    expectation: Expectation | None = None,
    **options: Any,
) -> FitResult:
    """Run EM from one start. `options` are the fields of `FitOptions` for EM.

    `expectation` replaces the ordinary pass over the data, for example by one that takes noise into account.
    """
    chosen = FitOptions(floor=floor, **options)
    rise = (
        chosen.climb(floor) if expectation is None else partial(chosen.climb(floor), expectation=expectation)
    )
    climbed = rise(
        [data], Parameters.of([mixture]), tol=chosen.tol, max_iter=chosen.max_iter, accelerate=accelerate
    )
    return fit_result(climbed, 0)


def fit_result(climbed: ClimbResult, number: int) -> FitResult:
    """Return one of the climbs as a fit result."""
    return FitResult(
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
    **options: Any,
) -> FitResult:
    """Fit a mixture and return the best one that the search finds. `options` are the fields of `FitOptions`.

    The search tries several starts and relocations on a sample. EM then runs on all the data. At the end, the fit
    tries a component on the record with the lowest density. Equal records are merged first, which only saves time. A
    `stream.Stream` is instead read again in every pass and never held in memory.
    """
    chosen = FitOptions(**options)
    data = points if isinstance(points, Stream) else observe(points, weights)
    if isinstance(data, Stream) and weights is not None:
        raise UserError("the records of a stream have weight 1 each; do not pass weights.")
    if isinstance(data, Observations):
        if not data.total_weight > 0:
            raise UserError("there is nothing to fit: no record has a positive weight; check the weights.")
        data = compress(data)
    return _fit_parts(data, [data], n_components, [rng], chosen)[0]


def fit_incomplete(points: np.ndarray, absent: np.ndarray, start: Mixture, **options: Any) -> FitResult:
    """Run EM from one start on points that lack the coordinates `absent`, (n, d), whose values are not read.

    The likelihood is that of the coordinates that are there. A record that lacks coordinates counts with its expected
    moments given the others. `options` are the fields of `FitOptions` for EM.
    """
    chosen = FitOptions(**options)
    data = cast(Data, observe_incomplete(points, absent))  # only `incomplete_passes` reads it
    units = Units.of(data, chosen.floor, None)
    fitted = loop(
        data.normalise(units.centre, units.scale),
        start.normalise(units.centre, units.scale),
        accelerate=True,
        expectation=partial(incomplete_passes, threads=chosen.threads),
        **{**options, "floor": units.floor},
    )
    return units.restore(fitted, chosen.max_iter, absent)


def incomplete_passes(data: Sequence[Data], parameters: Parameters, *, threads: int | None = None) -> Moments:
    """Compute the passes of `em_passes` for `IncompleteObservations`: each part at the marginal of its coordinates."""
    stack = []
    for number, each in enumerate(cast(Sequence[IncompleteObservations], data)):
        own, total = parameters[[number]], None
        for present, part in each.parts:
            if present.any():
                seen = em_passes([part], own.marginal(present), threads=threads)
            else:
                seen = _weights_alone(part, own)
            seen = seen if present.all() else complete_moments(seen, own, present)
            total = seen if total is None else _add(total, seen)
        assert total is not None  # there is at least one part
        stack.append(total)
    return Moments(
        *(np.concatenate([getattr(each, part.name) for each in stack]) for part in fields(Moments))
    )


def _weights_alone(part: Observations, parameters: Parameters) -> Moments:
    """Return the moments of records without any coordinate, which follow the weights."""
    counts = part.total_weight * parameters.weights
    empty = np.zeros((*counts.shape, 0))
    return Moments(counts, empty, empty[..., None][..., :0], np.zeros(1), np.array([part.total_weight]))


def _add(one: Moments, other: Moments) -> Moments:
    return Moments(*(getattr(one, part.name) + getattr(other, part.name) for part in fields(Moments)))


def fit_many(
    points: np.ndarray | Observations,
    n_components: int,
    subsets: Sequence[np.ndarray],
    *,
    rng: np.random.Generator,
    **options: Any,
) -> list[FitResult]:
    """Fit a mixture to each subset of the records, for example for shadow models. A subset is a boolean mask.

    Each fit has its own random stream, spawned from `rng`, so it does not depend on the other subsets. (All fits use
    the units and the default floor of all records.) The weights of a subset count its records at each distinct
    place. `options` are the fields of `FitOptions`.
    """
    chosen = FitOptions(**options)
    data = observe(points)
    masks = [np.asarray(mask) for mask in subsets]
    for number, mask in enumerate(masks):
        if mask.shape != (len(data),) or mask.dtype != bool:
            raise UserError(f"subset {number} must be a boolean mask over the {len(data)} records.")
    places, index = distinct_records(data)
    parts = []
    for mask in masks:
        counts = np.bincount(index[mask], data.weights[mask], minlength=len(places))
        spread = None if places.spread is None else places.spread[counts > 0]
        parts.append(Observations(places.points[counts > 0], counts[counts > 0], spread))
    if not parts:
        return []
    return _fit_parts(data, parts, n_components, rng.spawn(len(parts)), chosen)


def _fit_parts(
    whole: Data,
    data: Sequence[Data],
    n_components: int,
    rngs: Sequence[np.random.Generator],
    options: FitOptions,
) -> list[FitResult]:
    """Fit a mixture to each of several parts of the whole, in lockstep."""
    if not isinstance(n_components, int | np.integer):
        raise UserError(f"the number of components must be an integer, not {n_components!r}.")
    for each in data:
        records = max(len(each), each.total_weight)
        if not 1 <= n_components <= records:
            raise UserError(
                f"cannot fit {n_components} components to {records:g} records; "
                "set the number of components between 1 and the number of records."
            )
    start, tol, wanted = options.start, options.tol, (n_components, whole.dimensions)
    if start is not None and (start.n_components, start.dimensions) != wanted:
        raise UserError(
            f"the start has {start.n_components} components in {start.dimensions} dimensions, "
            f"but {wanted[0]} in {wanted[1]} are required; pass a start of that size."
        )
    units = Units.of(whole, options.floor, options.prior)
    data = [each.normalise(units.centre, units.scale) for each in data]
    rise = options.climb(units.floor)
    samples = [search_sample(each, rng) for each, rng in zip(data, rngs, strict=True)]
    if start is None:
        begin = search.best_starts(samples, n_components, units.floor, rngs, rise, options.starts, tol)
    else:
        begin = [start.normalise(units.centre, units.scale)] * len(data)
    relocations = options.moves(n_components)
    searching = n_components > 1 and relocations > 0
    if searching:
        begin = search.relocate(samples, begin, units.floor, rngs, rise, relocations, tol)
    climb_all = partial(rise, tol=tol, max_iter=options.max_iter, accelerate=True)
    fits = _fit_results(climb_all(data, Parameters.of(begin)))
    if searching:
        planted = [
            plant_on_worst(each, fit.mixture, units.floor) for each, fit in zip(data, fits, strict=True)
        ]
        tried = rise(data, Parameters.of(planted), tol=tol, max_iter=LAST_LOOK_ITERATIONS)
        better = [i for i, fit in enumerate(fits) if tried.objective[i] > fit.objective]
        if better:
            again = climb_all([data[i] for i in better], tried.parameters[better])
            for i, fit in zip(better, _fit_results(again), strict=True):
                fits[i] = fit
    return [units.restore(fit, options.max_iter) for fit in fits]


def search_sample(data: Data, rng: np.random.Generator) -> Observations:
    """Draw the sample for the search. Its total weight is that of the data, so that a prior has the same effect."""
    size = min(max(SAMPLE_LEAST, len(data) // SAMPLE_SHARE), SAMPLE_MOST)
    sample = systematic_sample(data, size, rng)
    return replace(sample, weights=sample.weights * (data.total_weight / sample.total_weight))


def _fit_results(climbed: ClimbResult) -> list[FitResult]:
    return [fit_result(climbed, number) for number in range(len(climbed.objective))]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a fit, chosen for accuracy: mean 0 and variance 1 on each axis.

    A prior refers to the original units, so a fit with a prior keeps them.
    """

    centre: np.ndarray
    scale: np.ndarray
    floor: np.ndarray  # least variances, in these units

    @classmethod
    def of(cls, data: Data, floor: np.ndarray | None, prior: Prior | None) -> "Units":
        centre, covariance = data.covariance()
        variances = np.diagonal(covariance)
        if floor is None:
            rounding = (ROUNDING * centre) ** 2  # the computed variance of a constant may be this large
            floor = FLOOR_SHARE * np.where(variances > rounding, variances, variances.max() or 1.0)
        floor = np.asarray(floor, dtype=np.float64)
        if floor.shape != centre.shape or not (np.isfinite(floor) & (floor > 0)).all():
            raise UserError(
                f"the floor must be {len(centre)} positive variances, one per coordinate, but is {floor}."
            )
        if prior is not None:
            return cls(np.zeros_like(centre), np.ones_like(centre), floor)
        scale = 1 / np.sqrt(np.maximum(variances, floor))
        return cls(centre, scale, floor * scale**2)

    def select(self, present: np.ndarray) -> "Units":
        """Return the units of some of the coordinates, given as a boolean mask (d,)."""
        return Units(self.centre[present], self.scale[present], self.floor[present])

    def restore(self, fit: FitResult, max_iter: int, absent: np.ndarray | None = None) -> FitResult:
        """Convert the fit to original units, and add notes for the reader.

        `absent` (n, d): coordinates that a record lacks, which are not in its density.
        """
        jacobian = float((np.log(self.scale) * (1.0 if absent is None else 1 - absent.mean(axis=0))).sum())
        root = np.sqrt(self.floor)
        least = np.linalg.eigvalsh(fit.mixture.covariances / np.outer(root, root)).min(axis=1, initial=np.inf)
        k = fit.mixture.n_components
        notes = []
        if not fit.converged:
            notes.append(f"EM stopped after {max_iter} iterations before it converged.")
        if empty := int((fit.mixture.weights == 0).sum()):
            notes.append(f"{empty} of {k} components are empty.")
        if narrow := int((least <= AT_FLOOR).sum()):
            notes.append(f"{narrow} of {k} components are as narrow as the floor allows.")
        return FitResult(
            fit.mixture.restore(self.centre, self.scale),
            fit.log_likelihood + jacobian,
            fit.objective + jacobian,
            fit.iterations,
            fit.converged,
            tuple(notes),
        )
