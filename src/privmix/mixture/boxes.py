"""Fit a mixture to boxes with counts: the cells of a grid, or the leaves of a tree.

A fit has three cheap steps. The search runs on whole boxes, one row and one set of responsibilities per box
(`moments.observe_boxes`). EM then continues on boxes cut into parts: the objective of whole boxes is a lower bound
of the mean log-density over them, and every cut tightens it (Jensen), so that components can share a box. Last,
the variance that comes from spreading a count over its box is subtracted from the covariances.

Records of variance σ² counted in cells of side h have centres of variance σ² + h²/12 (Sheppard 1898, Proc. London
Math. Soc. 29), and spreading each count adds another h²/12. Both are biases only where the density is smooth
within a box. Places are clumped and components abut; there the first term is useful, so the fit keeps it and ends
with the variance of the centres. A component keeps at least h²/12: of a component narrower than its boxes the
counts only say that it is inside. The likelihood of the counts themselves (McLachlan & Jones 1988, Biometrics 44)
has no such bias, but turns that component into a spike.
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

MOST_PARTS = 4  # of a side: twice as many gain under 0.003 nats a record
MOST_ROWS = 1_000_000  # parts in all
MOVES = 5  # relocations a component in each of several searches; a search alone has more
N_FINISHED = 3  # of several searches: cutting the boxes rarely brings a lower one to the top


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
    """The mixture of records of which `weights` lie in boxes with corners `lower` and `upper`, (n, d).

    The objective and the log-likelihood are those of the cut boxes at the corrected mixture. Of several `searches`,
    each with a random stream of its own, the best few on whole boxes are finished, and the best of these is given.
    `options` are the fields of `em.FitOptions`.
    """
    if searches < 1:
        raise UserError(f"a fit to boxes needs searches >= 1, not {searches}.")
    floor = np.asarray(floor, dtype=np.float64)
    options["floor"] = floor
    chosen = FitOptions(**options)
    if chosen.covariance == "tied":
        raise UserError(
            "boxes correct each covariance by its own boxes, so tied covariances would not stay tied; "
            "choose full or diagonal ones."
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
    """Boxes cut into `parts` along each side, of equal share; and the variances side²/12 of the box a row is of."""
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


def sharpen(
    observations: Observations, variances: np.ndarray, mixture: Mixture, floor: np.ndarray
) -> Mixture:
    """The mixture less the mean variance (n, d) of the boxes each component answers for, which also floors it.

    Where the boxes have no size this is the mixture as it was.
    """
    counts = em_pass(observations, mixture).counts
    within = np.zeros(mixture.means.shape)
    for axis, variance in enumerate(variances.T):
        # Responsibilities do not depend on weights, so a pass with other weights sums something else by them.
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
    """As many parts of a side as are useful and affordable."""
    affordable = [parts for parts in range(1, MOST_PARTS + 1) if boxes * parts**dimensions <= MOST_ROWS]
    return max(affordable, default=1)
