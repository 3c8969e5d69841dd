"""Fit a mixture to boxes with counts: the cells of a grid, or the leaves of a tree.

A fit has three cheap steps. First, the search runs on whole boxes, with one row and one set of responsibilities per
box (`moments.observe_boxes`). Second, EM continues on boxes cut into parts. The objective of whole boxes is a lower
bound of the mean log-density over them, and every cut tightens it (Jensen), so that components can share a box.
Third, the fit subtracts from the covariances the variance that comes from spreading a count over its box.

If records of variance σ² are counted in cells of side h, the centres have variance σ² + h²/12 (Sheppard 1898, Proc.
London Math. Soc. 29), and spreading each count adds another h²/12. Both are biases only where the density is smooth
within a box. Places are clumped and components abut; there the first term is useful, so the fit keeps it and ends
with the variance of the centres. A component keeps at least h²/12: the counts show only that a narrow component is
inside its boxes. The likelihood of the counts themselves (McLachlan & Jones 1988, Biometrics 44) has no such bias,
but turns a narrow component into a spike.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mixture import em
from privmix.mixture.em import FitOptions
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import Observations, floor_covariances, observe_boxes

MOST_PARTS = 4  # parts of a side; twice as many gain less than 0.003 nats per record
MOST_ROWS = 1_000_000  # parts of all boxes
MOVES = 5  # relocations per component in each of several searches; a single search has more
WEIGHT_STEPS = 50  # of EM for the weights alone, whose likelihood is concave
N_FINISHED = 3  # searches that continue on cut boxes; the cuts rarely bring a lower one to the top


def fit(
    lower: np.ndarray,
    upper: np.ndarray,
    weights: np.ndarray,
    n_components: int,
    *,
    floor: np.ndarray,
    rng: np.random.Generator,
    searches: int = 1,
    **options: Any,
) -> FitResult:
    """Fit a mixture to boxes with corners `lower` and `upper`, (n, d), that hold `weights` records.

    The result has the objective and log-likelihood of the cut boxes at the corrected mixture. Each of several
    `searches` has its own random stream. The best few on whole boxes continue on cut boxes, and the fit returns the
    best of these. `options` are the fields of `em.FitOptions`.
    """
    if searches < 1:
        raise UserError(f"a fit to boxes needs searches >= 1, not {searches}.")
    floor = np.asarray(floor, dtype=np.float64)
    options["floor"] = floor
    chosen = FitOptions(**options)
    if chosen.covariance == "tied":
        raise UserError(
            "a fit to boxes corrects each covariance by its own boxes, so tied covariances would not stay tied; "
            "choose full or diagonal covariances."
        )
    whole = observe_boxes(lower, upper, weights)
    parts, variances = cut_boxes(lower, upper, weights, _parts(*whole.points.shape))

    def finished(found: FitResult) -> FitResult:
        climbed = em.loop(parts, found.mixture, accelerate=True, **options)
        mixture = sharpen(parts, variances, climbed.mixture, floor)
        reached = em.loop(parts, mixture, **options | {"max_iter": 0})
        return replace(
            climbed,
            mixture=mixture,
            log_likelihood=reached.log_likelihood,
            objective=reached.objective,
            notes=found.notes,
        )

    if searches == 1:
        return finished(em.fit(whole, n_components, rng=rng, **options))
    everything = [np.ones(len(whole), dtype=bool)] * searches
    fewer = options | {"relocations": chosen.moves(n_components, MOVES)}
    found = em.fit_many(whole, n_components, everything, rng=rng, **fewer)
    best = sorted(found, key=lambda fit: -fit.objective)[:N_FINISHED]
    return max((finished(fit) for fit in best), key=lambda fit: fit.objective)


def cut_boxes(
    lower: np.ndarray, upper: np.ndarray, weights: np.ndarray, parts: int
) -> tuple[Observations, np.ndarray]:
    """Cut boxes into `parts` along each side, with equal weights. Also return side²/12 of the box of each part."""
    lower, upper, weights = (np.asarray(each, dtype=np.float64) for each in (lower, upper, weights))
    d = lower.shape[1]
    side = (upper - lower) / parts
    steps = np.indices((parts,) * d).reshape(d, -1).T
    corners = lower[:, None] + steps * side[:, None]
    rows = observe_boxes(
        corners.reshape(-1, d),
        (corners + side[:, None]).reshape(-1, d),
        np.repeat(weights / len(steps), len(steps)),
    )
    return rows, np.repeat((upper - lower) ** 2 / 12, len(steps), axis=0)


def log_mean_density(lower: np.ndarray, upper: np.ndarray, mixture: Mixture, parts: int) -> np.ndarray:
    """Return the logarithm of the mean density over each box, (n,), from the centres of its parts."""
    rows, _ = cut_boxes(lower, upper, np.ones(len(lower)), parts)
    densities = mixture.log_density(rows.points).reshape(len(lower), -1)
    return np.asarray(np.logaddexp.reduce(densities, axis=1) - np.log(densities.shape[1]))


def estimate_weights(
    lower: np.ndarray, upper: np.ndarray, counts: np.ndarray, mixture: Mixture, parts: int
) -> Mixture:
    """Return the mixture with the weights that fit these counts best. Means and covariances stay as they are."""
    rows, _ = cut_boxes(lower, upper, counts, parts)
    for _ in range(WEIGHT_STEPS):
        found = em_pass(rows, mixture).counts
        mixture = Mixture(found / found.sum(), mixture.means, mixture.covariances)
    return mixture


def sharpen(
    observations: Observations, variances: np.ndarray, mixture: Mixture, floor: np.ndarray
) -> Mixture:
    """Subtract the mean variance (n, d) of its boxes from each component. This variance is also a floor.

    The boxes of a component are weighted by its responsibilities. Boxes of size zero leave the mixture unchanged.
    """
    counts = em_pass(observations, mixture).counts
    within = np.zeros(mixture.means.shape)
    for axis, variance in enumerate(variances.T):
        # Responsibilities do not depend on the weights, so a pass with other weights sums the variances instead.
        weights = observations.weights * variance
        if weights.any():
            within[:, axis] = em_pass(replace(observations, weights=weights), mixture).counts
    within /= np.where(counts > 0, counts, 1.0)[:, None]
    covariances = [
        floor_covariances((covariance - np.diag(box))[None], np.maximum(box, floor))[0]
        for covariance, box in zip(mixture.covariances, within, strict=True)
    ]
    return Mixture(mixture.weights, mixture.means, np.array(covariances))


def _parts(boxes: int, dimensions: int) -> int:
    """Return the largest useful number of parts per side that stays within `MOST_ROWS`."""
    affordable = [parts for parts in range(1, MOST_PARTS + 1) if boxes * parts**dimensions <= MOST_ROWS]
    return max(affordable, default=1)
