"""The distance between two mixtures, for any order and number of their components.

This is the mixture-Wasserstein distance MW2 (Delon & Desolneux 2020, "A Wasserstein-type distance in the space of
Gaussian mixture models", SIAM Journal on Imaging Sciences 13(2)): components are moved onto components, where
moving mass from one Gaussian to another costs their squared 2-Wasserstein distance, and the cheapest plan counts.
It is a metric on the distributions: two mixtures have distance 0 exactly if they have the same density.
"""

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture

SPAN = 1e4  # largest cost and total mass given to the solver, whose tolerances are absolute
TOLERANCE = 1e-10  # the smallest that the solver allows


def distance(one: Mixture, other: Mixture) -> float:
    """MW2, in the units of the points.

    The solver's tolerance leaves an error of about 1e-7 of the distance between the farthest components where the
    answer is small beside it; so far apart may equal mixtures seem.
    """
    if one.dimensions != other.dimensions:
        raise UserError(
            f"a mixture of {one.dimensions} and one of {other.dimensions} dimensions have no distance; "
            "compare mixtures of the same coordinates."
        )
    # In units where every number is at most 1, squares neither overflow nor vanish.
    unit = max(np.abs(part).max() for each in (one, other) for part in (each.means, each.cholesky))
    sent, received = one.weights > 0, other.weights > 0
    costs = _costs(one, other, unit)[sent][:, received]
    largest = costs.max()
    if largest == 0:
        return 0.0
    least = _cheapest(costs / largest, one.weights[sent], other.weights[received])
    return float(unit * np.sqrt(largest * least))


def _costs(one: Mixture, other: Mixture, unit: float) -> np.ndarray:
    """Squared 2-Wasserstein distance of each component to each, (K, K'), in squares of `unit`.

    |m - m'|² + tr(S + S' - 2(S^½ S' S^½)^½), the second part written as the least ‖L - L'U‖² over orthogonal U
    for any factors S = LLᵀ, S' = L'L'ᵀ (Bhatia, Jain & Lim 2019, Expositiones Mathematicae 37, theorem 1): U = PQᵀ
    from the singular values L'ᵀL = PDQᵀ. A sum of squares keeps the digits that the trace loses when S ≈ S'.
    """
    targets, factors = other.means / unit, other.cholesky / unit
    costs = np.empty((one.n_components, other.n_components))
    for k in range(one.n_components):
        factor = one.cholesky[k] / unit
        left, _, right = np.linalg.svd(np.swapaxes(factors, 1, 2) @ factor)
        turned = factors @ (left @ right)
        moved = np.square(one.means[k] / unit - targets).sum(axis=1)
        costs[k] = moved + np.square(factor - turned).sum(axis=(1, 2))
    return costs


def _cheapest(costs: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> float:
    """The least Σ cost · plan over plans ≥ 0 whose rows sum to `supply` and whose columns to `demand`."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    rows, columns = costs.shape
    by_row = kron(eye_array(rows), np.ones((1, columns)))
    by_column = kron(np.ones((1, rows)), eye_array(columns))
    # The last column follows from the others; without it rounding cannot make the sums contradict each other.
    sums = vstack([by_row, by_column]).tocsr()[:-1]
    # Presolve is off: at tolerances this tight it has called such plans, which always exist, infeasible.
    found = linprog(
        SPAN * costs.ravel(),
        A_eq=sums,
        b_eq=SPAN * np.concatenate([supply, demand])[:-1],
        method="highs-ds",
        options={
            "presolve": False,
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if found.x is None:
        raise UserError(
            f"no distance was found between {rows} and {columns} components ({found.message}); "
            "report these mixtures as a defect."
        )
    return float(np.maximum(found.x, 0.0) @ costs.ravel()) / SPAN
