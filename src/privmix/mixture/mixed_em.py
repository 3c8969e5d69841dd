"""EM for mixtures over coordinates and attributes: the complete fit, and the shares of a given Gaussian mixture.

The log responsibility of a component gains Σ_a log θ_ka(c_a), and the statistics gain the counts of the values. The
search has two parts. First `em.fit` searches on the coordinates. From its result, joint EM tries on a sample to move
one component onto the records of another component that share one value. So it also finds components that differ in
their attributes only. Joint EM on all the data ends the fit. Without coordinates the model is a latent class model.

Each attribute of each component has a Dirichlet prior that counts as √V records, spread evenly over its V values: a
share is (N_v + 1/√V) / (N + √V). So no share is 0, and the prior is negligible in a component with many records per
value. On simulated held-out records with 5 to 500 values, totals of 1 and 4 were at most 0.001 nats per record better
than √V, and clearly worse with 500 values. V/2 (Jeffreys) was better where 500 values were about equally frequent, and
worse where they were skewed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mixture import em
from privmix.mixture.em import LEAST_COUNT, FitOptions, Units, extrapolate, search_sample
from privmix.mixture.kernel import coefficients, mixed_pass, numba_kernel
from privmix.mixture.mixed import Codes, MixedMixture
from privmix.mixture.model import FitResult, Mixture, split_patterns
from privmix.mixture.moments import (
    Moments,
    Observations,
    Parameters,
    compress,
    estimates,
    floor_covariances,
)
from privmix.mixture.search import START_ITERATIONS

PRIOR = 1.0  # the prior of an attribute with V values counts as this times √V records in each component
RELOCATIONS = 3  # default number of relocations per component
CANDIDATES = 8  # candidates for each relocation
# nats per record, less than in `search`: a component that moves onto records of its own kind starts close to its goal
HOPEFUL_GAP = 0.01
SEED_SHARE = 0.5  # share of the values of its record in a component of a seeded start


@dataclass(frozen=True)
class MixedFit:
    """A fitted mixture over coordinates and attributes, with its likelihood and the state of EM at the end."""

    mixture: MixedMixture
    log_likelihood: float  # mean per unit of weight, of coordinates and attributes together
    objective: float  # the maximised value: the log-likelihood plus the log prior, per unit of weight
    iterations: int  # EM iterations on all the data; each is one pass
    converged: bool
    notes: tuple[str, ...] = ()


def fit(
    points: np.ndarray,
    codes: Codes,
    sizes: Mapping[str, int],
    n_components: int,
    floor: np.ndarray | None = None,
    *,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    prior: float = PRIOR,
    **options: Any,
) -> MixedFit:
    """Fit a mixture to points (n, d) and codes, where `sizes` has the number of values of each attribute.

    d may be 0. Without attributes, the result is that of `em.fit`. `prior` is in records per √V, and weights count
    records. `options` are the other fields of `FitOptions`.
    """
    chosen = FitOptions(floor=floor, **options)
    values = _Values.of(sizes, prior)
    records = _observe(points, codes, values, weights)
    d = np.shape(points)[1]
    units = _units(records, d, floor)
    if d:
        places = Observations(records.points[:, :d], records.weights)  # sorted, so that they merge faster
        found = em.fit(places, n_components, rng=rng, floor=floor, **options)
        if not sizes:
            return MixedFit(MixedMixture(found.mixture), *_state(found))
        begin = found.mixture.normalise(units.centre, units.scale)
    else:
        begin = _without_coordinates(n_components, records)
    sample = _Records.of(search_sample(records, rng), units)
    data = _Records.of(records, units)
    maximise = partial(_estimate, values=values, floor=units.floor, covariance=chosen.covariance)
    rise = partial(_climb, values=values, maximise=maximise, threads=chosen.threads)
    model = _best_start(sample, begin, values, rng, rise, chosen)
    moves = chosen.moves(n_components, RELOCATIONS)
    if n_components > 1:
        model = _relocate(sample, model, values, units.floor, rng, rise, moves, chosen.tol)
    climbed = rise(data, model, tol=chosen.tol, max_iter=chosen.max_iter, accelerate=True)
    restored = units.restore(climbed.result(), chosen.max_iter)
    return MixedFit(MixedMixture(restored.mixture, values.split(climbed.model.shares)), *_state(restored))


def fit_shares(
    points: np.ndarray,
    codes: Codes,
    sizes: Mapping[str, int],
    mixture: Mixture,
    *,
    absent: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    prior: float = PRIOR,
    **options: Any,
) -> MixedFit:
    """Fit the shares of the values in each component of a mixture, which stays as it is. This draws nothing.

    `absent` (n, d): coordinates that a record lacks. Their values are not read.
    """
    chosen = FitOptions(**options)
    values = _Values.of(sizes, prior)
    if np.shape(points)[1] != mixture.dimensions:
        raise UserError(
            f"the mixture has {mixture.dimensions} dimensions, but the points have {np.shape(points)[1]}."
        )
    if absent is None:
        records = _observe(points, codes, values, weights)
        units = _units(records, mixture.dimensions, chosen.floor)
        parts = [_Records.of(records, units)]
    else:
        everywhere = Observations(np.where(absent, 0.0, points), np.ones(len(points)))
        units = Units.of(everywhere, chosen.floor, None)
        parts = []
        for present, rows in split_patterns(absent):
            own = {name: np.asarray(code)[rows] for name, code in codes.items()}
            counted = None if weights is None else weights[rows]
            records = _observe(points[np.ix_(rows, present)], own, values, counted)
            parts.append(_Records.of(records, units.select(present), present))
    parameters = Parameters.of([mixture.normalise(units.centre, units.scale)])

    def maximise(_moments: Moments, counts: np.ndarray) -> _Model:
        return _Model(parameters, values.shares(counts))

    climbed = _climb(
        parts,
        _Model(parameters, values.even(mixture.n_components)),
        values=values,
        maximise=maximise,
        threads=chosen.threads,
        tol=chosen.tol,
        max_iter=chosen.max_iter,
        accelerate=True,
    )
    restored = units.restore(climbed.result(), chosen.max_iter, absent)
    return MixedFit(MixedMixture(mixture, values.split(climbed.model.shares)), *_state(restored))


def _units(records: Observations, d: int, floor: np.ndarray | None) -> Units:
    if d == 0:
        return Units(*np.zeros((3, 0)))
    return Units.of(Observations(records.points[:, :d], records.weights), floor, None)


def _state(fitted: FitResult) -> tuple[float, float, int, bool, tuple[str, ...]]:
    return fitted.log_likelihood, fitted.objective, fitted.iterations, fitted.converged, fitted.notes


@dataclass(frozen=True, eq=False)
class _Values:
    """The values of all attributes side by side, T in total, and the prior of their shares."""

    names: tuple[str, ...]
    ends: np.ndarray  # (A + 1,) first column of each attribute, and T
    pseudo: np.ndarray  # (T,) counts that the prior adds

    @classmethod
    def of(cls, sizes: Mapping[str, int], prior: float) -> "_Values":
        if not (np.isfinite(prior) and prior > 0) or any(size < 1 for size in sizes.values()):
            raise UserError(
                f"a mixed fit needs a prior > 0 and at least one value per attribute, not {prior} and {dict(sizes)}."
            )
        numbers = np.array([*sizes.values()], dtype=np.int64)
        return cls(
            tuple(sizes), np.append(0, np.cumsum(numbers)), np.repeat(prior / np.sqrt(numbers), numbers)
        )

    def totals(self, counts: np.ndarray) -> np.ndarray:
        """Return the total of each attribute at each of its values, (K, T)."""
        sums = np.add.reduceat(counts, self.ends[:-1], axis=1) if self.names else counts
        return np.asarray(np.repeat(sums, np.diff(self.ends), axis=1))

    def shares(self, counts: np.ndarray) -> np.ndarray:
        """Return the shares of maximum posterior density for counts (K, T)."""
        smoothed = counts + self.pseudo
        return np.asarray(smoothed / self.totals(smoothed))

    def even(self, n_components: int) -> np.ndarray:
        """Return equal shares of all values, (K, T)."""
        return self.shares(np.zeros((n_components, self.ends[-1])))

    def log_prior(self, shares: np.ndarray) -> float:
        """Compute the log density of the Dirichlet prior, up to a constant."""
        return float((np.log(shares) @ self.pseudo).sum())

    def split(self, shares: np.ndarray) -> dict[str, np.ndarray]:
        """Return the shares of each attribute, (K, V)."""
        return (
            dict(zip(self.names, np.split(shares, self.ends[1:-1], axis=1), strict=True))
            if self.names
            else {}
        )


def _observe(points: np.ndarray, codes: Codes, values: _Values, weights: np.ndarray | None) -> Observations:
    """Check the records, and merge equal ones. A code becomes a further coordinate: the column of its value."""
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or set(codes) != set(values.names) or not (points.shape[1] or values.names):
        raise UserError(
            f"a mixed fit needs points (n, d) and codes of the attributes {list(values.names)}, and d >= 1 or an "
            f"attribute, but has points of shape {points.shape} and codes of {list(codes)}."
        )
    columns = [points]
    for name, first, last in zip(values.names, values.ends[:-1], values.ends[1:], strict=True):
        code = np.asarray(codes[name])
        if code.shape != points.shape[:1] or not np.issubdtype(code.dtype, np.integer):
            raise UserError(f"attribute {name!r} needs one integer code for each of {len(points)} records.")
        if len(code) and not (code.min() >= 0 and code.max() < last - first):
            raise UserError(f"the codes of attribute {name!r} must be between 0 and {last - first - 1}.")
        columns.append((code.astype(np.float64) + first)[:, None])
    table = Observations(
        np.concatenate(columns, axis=1), np.ones(len(points)) if weights is None else weights
    )
    if not table.total_weight > 0:
        raise UserError("there is nothing to fit: no record has a positive weight; check the weights.")
    return compress(table)


@dataclass(frozen=True, eq=False)
class _Records:
    points: np.ndarray  # (n, d), normalised
    codes: np.ndarray  # (n, A) columns of the values
    weights: np.ndarray  # (n,)
    present: np.ndarray | None = None  # which coordinates of the model the records have; None for all

    @classmethod
    def of(cls, table: Observations, units: Units, present: np.ndarray | None = None) -> "_Records":
        d = len(units.centre)
        points = np.ascontiguousarray((table.points[:, :d] - units.centre) * units.scale)
        return cls(points, np.ascontiguousarray(table.points[:, d:], dtype=np.int32), table.weights, present)


@dataclass(frozen=True, eq=False)
class _Model:
    parameters: Parameters  # of one mixture
    shares: np.ndarray  # (K, T)


@dataclass(frozen=True, eq=False)
class _Climbed:
    model: _Model
    log_likelihood: float
    objective: float
    iterations: int
    converged: bool

    def result(self) -> FitResult:
        """Return the Gaussian part as a fit result."""
        return FitResult(
            self.model.parameters.mixture(0),
            self.log_likelihood,
            self.objective,
            self.iterations,
            self.converged,
        )


Maximise = Callable[[Moments, np.ndarray], _Model]


def _estimate(
    moments: Moments, counts: np.ndarray, *, values: _Values, floor: np.ndarray, covariance: Any
) -> _Model:
    return _Model(estimates(moments, floor=floor, covariance=covariance), values.shares(counts))


def _climb(
    records: _Records | Sequence[_Records],
    start: _Model,
    *,
    values: _Values,
    maximise: Maximise,
    tol: float,
    max_iter: int,
    accelerate: bool = False,
    threads: int | None = None,
) -> _Climbed:
    """Run EM from one start, as `em.climb` does. The extrapolation covers the counts of the values as well.

    Records with different coordinates come in several parts. Then the moments have no coordinates.
    """
    parts = [records] if isinstance(records, _Records) else records
    total = float(sum(part.weights.sum() for part in parts))
    k = len(start.shares)

    def look(model: _Model) -> tuple[_Model, Moments, np.ndarray, float]:
        moments, counts = _expect(parts, model, threads)
        log_likelihood = float(np.asarray(moments.log_likelihood)[0])
        return model, moments, counts, (log_likelihood + values.log_prior(model.shares)) / total

    best = look(start)
    history, iterations, converged, longest = [best], 0, False, np.array([em.GROWTH])
    while iterations < max_iter and not converged:
        seen = look(maximise(*history[-1][1:3]))
        iterations += 1
        converged = abs(seen[3] - best[3]) < tol
        best, history = seen, [*history, seen]
        if not accelerate:
            history = history[-1:]
        elif len(history) == 3 and not converged and iterations < max_iter:
            far, length = extrapolate([_flat(each[1], each[2]) for each in history], k, longest)
            tried = look(maximise(*_unflat(far, seen[1], seen[2])))
            iterations += 1
            if tried[3] >= best[3]:
                best, longest = tried, np.where(length < longest, longest, em.GROWTH * longest)
            else:
                longest = np.maximum(length / em.GROWTH, 1.0)
            history = [best]
    log_likelihood = float(np.asarray(best[1].log_likelihood)[0]) / total
    return _Climbed(best[0], log_likelihood, best[3], iterations, converged)


def _expect(parts: Sequence[_Records], model: _Model, threads: int | None) -> tuple[Moments, np.ndarray]:
    passes = [
        mixed_pass(
            part.points,
            part.codes,
            part.weights,
            model.parameters if part.present is None else model.parameters.marginal(part.present),
            model.shares,
            threads=threads,
        )
        for part in parts
    ]
    if len(passes) == 1:
        return passes[0]
    components = sum(moments.counts for moments, _ in passes)
    nothing = np.zeros((*np.shape(components), 0))
    log_likelihood = sum(np.asarray(moments.log_likelihood) for moments, _ in passes)
    total = sum(np.asarray(moments.total_weight) for moments, _ in passes)
    summed = Moments(np.asarray(components), nothing, nothing[..., None][..., :0], log_likelihood, total)
    return summed, np.asarray(sum(counts for _, counts in passes))


def _flat(moments: Moments, counts: np.ndarray) -> np.ndarray:
    parts = (moments.counts, moments.sums, moments.squares, counts)
    return np.concatenate([part.reshape(1, -1) for part in parts], axis=1)


def _unflat(flat: np.ndarray, moments: Moments, counts: np.ndarray) -> tuple[Moments, np.ndarray]:
    """Return the statistics of a flat array, in the shape of others, whose counts limit how far counts may fall."""
    parts = (moments.counts, moments.sums, moments.squares)
    ends = np.cumsum([part.size for part in parts])
    new = [piece.reshape(part.shape) for piece, part in zip(np.split(flat[0], ends), parts, strict=False)]
    found = np.maximum(flat[0, ends[-1] :].reshape(counts.shape), LEAST_COUNT * counts)
    return replace(moments, counts=new[0], sums=new[1], squares=new[2]), found


def _best_start(
    sample: _Records,
    begin: Mixture,
    values: _Values,
    rng: np.random.Generator,
    rise: Callable[..., _Climbed],
    options: FitOptions,
) -> _Model:
    """Return the start of the search: the mixture of the coordinates, or without these the best of seeded starts."""
    k = begin.n_components
    parameters = Parameters.of([begin])
    if begin.dimensions or k == 1:
        return rise(sample, _Model(parameters, values.even(k)), tol=options.tol, max_iter=1).model
    mass = sample.weights / sample.weights.sum()
    marginal = np.bincount(sample.codes.ravel(), np.repeat(mass, len(values.names)), len(values.pseudo))
    climbs = []
    for _ in range(options.starts):
        seeds = rng.choice(len(mass), k, p=mass, replace=bool(np.count_nonzero(mass) < k))
        counts = np.tile((1 - SEED_SHARE) * marginal, (k, 1))
        counts[np.arange(k)[:, None], sample.codes[seeds]] += SEED_SHARE
        shares = values.shares(counts * sample.weights.sum())
        climbs.append(
            rise(sample, _Model(parameters, shares), tol=10 * options.tol, max_iter=START_ITERATIONS)
        )
    return max(climbs, key=lambda each: each.objective).model


def _relocate(
    sample: _Records,
    model: _Model,
    values: _Values,
    floor: np.ndarray,
    rng: np.random.Generator,
    rise: Callable[..., _Climbed],
    relocations: int,
    tol: float,
) -> _Model:
    """Try to move one component `relocations` times, as `search.relocate` does, and return the best model. K ≥ 2."""
    best = rise(sample, model, tol=tol, max_iter=2 * START_ITERATIONS)
    move = _Relocation(sample, best.model, values, floor)
    for _ in range(relocations):
        tried = rise(sample, move.proposal(rng), tol=tol, max_iter=3)
        if tried.objective > best.objective - HOPEFUL_GAP:
            tried = rise(sample, tried.model, tol=10 * tol, max_iter=START_ITERATIONS // 2)
        if tried.objective > best.objective:
            best = rise(sample, tried.model, tol=tol, max_iter=START_ITERATIONS)
            move = _Relocation(sample, best.model, values, floor)
    return best.model


class _Relocation:
    """Proposals that move one component onto those records of another component that share one value."""

    def __init__(self, sample: _Records, model: _Model, values: _Values, floor: np.ndarray) -> None:
        self.sample, self.model, self.values, self.floor = sample, model, values, floor
        self.joint = _log_joint(sample, model)
        costs = np.zeros(len(self.joint))
        numba_kernel().removal_costs(self.joint, sample.weights, costs)
        order = np.argsort(costs)
        self.order = order[order != np.argmax(model.parameters.weights[0])]
        density = np.empty(len(sample.weights))
        numba_kernel().log_sums(self.joint, -1, density)
        self.responsibilities = np.exp(self.joint - density)

    def proposal(self, rng: np.random.Generator) -> _Model:
        """Return the model with one cheap component moved to the best of some random candidates.

        A candidate has the moments of the records that share one value with a random record, as far as they belong to
        one of the components of this record.
        """
        sample, old = self.sample, self.model.parameters
        dropped = int(self.order[min(rng.geometric(0.5), len(self.order)) - 1])
        mass = np.cumsum(sample.weights)
        rows = np.searchsorted(mass, rng.random(CANDIDATES) * mass[-1], side="right")
        attributes = rng.integers(sample.codes.shape[1], size=CANDIDATES)
        bounds = np.cumsum(self.responsibilities[:, rows], axis=0)
        owners = np.argmax(rng.random(CANDIDATES) * bounds[-1] < bounds, axis=0)
        alike = sample.codes.T[attributes] == sample.codes[rows, attributes][:, None]
        planted = self._planted(sample.weights * self.responsibilities[owners] * alike)
        best = int(np.argmax(self._gains(dropped, planted)))
        weights, means, covariances = (part.copy() for part in (old.weights, old.means, old.covariances))
        share = planted.parameters.weights[0, best]
        weights[0, dropped] = 0.0
        weights *= (1 - share) / weights.sum()
        weights[0, dropped] = share
        means[0, dropped] = planted.parameters.means[0, best]
        covariances[0, dropped] = planted.parameters.covariances[0, best]
        shares = self.model.shares.copy()
        shares[dropped] = planted.shares[best]
        return _Model(Parameters(weights, means, covariances), shares)

    def _planted(self, mass: np.ndarray) -> _Model:
        """Return components with the moments of the sample under these weights, (candidates, n)."""
        sample, (c, _), t = self.sample, mass.shape, len(self.values.pseudo)
        totals = np.maximum(mass.sum(axis=1), np.finfo(float).tiny)
        means = mass @ sample.points / totals[:, None]
        covariances = np.empty((*means.shape, means.shape[1]))
        for number, mean in enumerate(means):
            away = sample.points - mean
            covariances[number] = (mass[number, :, None] * away).T @ away / totals[number]
        counts = np.zeros(c * t)
        for codes in sample.codes.T:
            places = codes + t * np.arange(c)[:, None]
            counts += np.bincount(places.ravel(), mass.ravel(), c * t)
        shares = np.clip(totals / sample.weights.sum(), LEAST_COUNT / len(self.joint), 0.5)
        parameters = Parameters(shares[None], means[None], floor_covariances(covariances, self.floor)[None])
        return _Model(parameters, self.values.shares(counts.reshape(c, t)))

    def _gains(self, dropped: int, planted: _Model) -> np.ndarray:
        """Compute the log-likelihood of the sample if each of the planted components replaces the dropped one."""
        sample, others = self.sample, np.log1p(-planted.parameters.weights[0])
        rest, gains = np.empty(len(sample.weights)), np.empty(len(others))
        numba_kernel().log_sums(self.joint, dropped, rest)
        rest -= np.log1p(-self.model.parameters.weights[0, dropped])
        new = _log_joint(sample, planted) - others[:, None]
        numba_kernel().gains(rest, new, sample.weights, gains)
        return gains + sample.weights.sum() * others


def _log_joint(sample: _Records, model: _Model) -> np.ndarray:
    """Compute log(π_k N_k(x) Π_a θ_ka(c_a)), (K, n)."""
    joint = np.empty((len(model.shares), len(sample.weights)))
    numba_kernel().log_joints(sample.points, np.empty((0, 0)), coefficients(model.parameters)[0], joint)
    log_shares = np.log(model.shares)
    for codes in sample.codes.T:
        joint += log_shares[:, codes]
    return joint


def _without_coordinates(n_components: int, records: Observations) -> Mixture:
    """Return a mixture of equal weights in 0 dimensions."""
    if not 1 <= n_components <= max(len(records), records.total_weight):
        raise UserError(
            f"cannot fit {n_components} components to {max(len(records), records.total_weight):g} records; "
            "set the number of components between 1 and the number of records."
        )
    weights = np.full(n_components, 1 / n_components)
    return Mixture(weights, np.empty((n_components, 0)), np.empty((n_components, 0, 0)))
