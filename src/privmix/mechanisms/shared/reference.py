"""A cheap private reference: the rough position of the components, for mechanisms that refine a mixture.

Privacy. In up to three dimensions it is one Gaussian measurement of a histogram on a grid that public values fix
(`sensitivity.counts`). Everything after it is post-processing: merging cells that do not stand out from the noise, and
the fit to them as boxes. In more dimensions most cells of a grid are empty. There the reference is ROUNDS joint
measurements of standardised moments from a public start, each at an equal part of the same μ² (`joint_moments.refine`).
Together they are one Gaussian measurement of the given noise multiplier (Dong, Roth, Su 2022, Corollary 2).
"""

import math
from typing import Any

import numpy as np

from privmix.mechanisms.base import Randomness, Spec, project_to_box
from privmix.mechanisms.shared.joint_moments import refine
from privmix.mechanisms.shared.partitions import Grid, cubic_grid
from privmix.mixture import em
from privmix.mixture.model import Mixture
from privmix.mixture.moments import observe_boxes
from privmix.privacy import noise, sensitivity
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

GRID_DIMENSIONS = 3
MOST_CELLS = 2**18
FINENESS = 64.0  # the deviation of a cell's noise, in average cells
ROUNDS = 10


def fit_reference(
    points: np.ndarray,
    spec: Spec,
    neighbours: Neighbours,
    *,
    noise_multiplier: float,
    rng: Randomness,
    ledger: Ledger,
) -> Mixture:
    """Fit a mixture of the requested number of components, at the cost of one Gaussian measurement."""
    if len(spec.domain.axes) <= GRID_DIMENSIONS:
        return _from_grid(points, spec, neighbours, noise_multiplier, rng, ledger)
    return refine(
        spec.observations(points),
        spec,
        em.public_start(spec.domain.lower, spec.domain.upper, spec.n_components, rng.search),
        iterations=ROUNDS,
        noise_multiplier=noise_multiplier * math.sqrt(ROUNDS),
        neighbours=neighbours,
        source=rng.noise,
        ledger=ledger,
        label="reference moments",
    ).mixture


def _from_grid(
    points: np.ndarray,
    spec: Spec,
    neighbours: Neighbours,
    noise_multiplier: float,
    rng: Randomness,
    ledger: Ledger,
) -> Mixture:
    """Fit the cells whose noisy counts stand out; return the public start if there are too few."""
    reach = sensitivity.counts(neighbours).l2
    deviation = noise_multiplier * reach
    grid = cubic_grid(
        spec.domain.lower,
        spec.domain.upper,
        min(max(FINENESS * spec.domain.rows / deviation, 2.0), MOST_CELLS),
    )
    counts = noise.gaussian(
        np.bincount(grid.locate(points), minlength=grid.cells).astype(float),
        sensitivity=reach,
        noise_multiplier=noise_multiplier,
        source=rng.noise,
        ledger=ledger,
        label="reference histogram",
    )
    lower, upper, weights = significant_boxes(grid, counts, deviation)
    if len(weights) < spec.n_components:
        return em.public_start(spec.domain.lower, spec.domain.upper, spec.n_components, rng.search)
    # The rest of the records is too thin to stand out: it may be anywhere in the box. Their number is public, but for
    # complete records only that of all records is.
    rows = float(spec.domain.rows)
    if not neighbours.all_counted:
        rows = min(rows, float(counts.sum()))
    boxes = observe_boxes(
        np.vstack([lower, spec.domain.lower]),
        np.vstack([upper, spec.domain.upper]),
        np.append(weights, max(rows - weights.sum(), 0.0)),
    )
    fit = em.fit(boxes, spec.n_components, floor=spec.floor, rng=rng.search)
    return project_to_box(fit.mixture.weights, fit.mixture.means, fit.mixture.covariances, spec)


def significant_boxes(
    grid: Grid, counts: np.ndarray, deviation: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the boxes whose noisy counts stand out from the noise, and these counts.

    Single cells come first, then the rest in cells twice as wide, and so on up to the whole grid. Of n boxes of pure
    noise, the largest stays below √(2 ln n) deviations more often than not.
    """
    shape, side = np.array(grid.shape), (grid.upper - grid.lower) / grid.shape
    place = np.stack(np.unravel_index(np.arange(grid.cells), grid.shape), axis=1)
    free, width = np.arange(grid.cells), 1
    lower, upper, weights = [], [], []
    while len(free):
        boxes = tuple(-(-shape // width))
        box = np.ravel_multi_index(tuple((place[free] // width).T), boxes)
        total = np.bincount(box, counts[free], minlength=math.prod(boxes))
        noises = deviation * np.sqrt(np.bincount(box, minlength=math.prod(boxes)))
        found = total > noises * math.sqrt(2 * math.log(max(len(total), 2)))
        corner = np.stack(np.unravel_index(np.flatnonzero(found), boxes), axis=1) * width
        lower.append(grid.lower + corner * side)
        upper.append(grid.lower + np.minimum(corner + width, shape) * side)
        weights.append(total[found])
        free = free[~found[box]]
        if max(boxes) == 1:
            break
        width *= 2
    return np.concatenate(lower), np.concatenate(upper), np.concatenate(weights)


def mixture_values(mixture: Mixture) -> dict[str, Any]:
    """Return a mixture as plain values, for a transcript."""
    return {
        "weights": mixture.weights.tolist(),
        "means": mixture.means.tolist(),
        "covariances": mixture.covariances.tolist(),
    }
