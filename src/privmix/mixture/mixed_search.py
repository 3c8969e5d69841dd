"""Splits and merges of components that also have shares of the values of attributes.

A component is cut along its longest axis (`search.split_components`), and both halves keep its shares. Or it is cut by
an attribute: both parts keep its place and shape, and each has more of one half of the values. EM on coordinates alone
would never separate two groups of records at one place, and joint EM does so only from shares that differ.

Two components z with distributions p of x and q_a of the attributes are merged into one, as in Runnalls 2007. Given z
all are independent, so the KL divergence from the pair to the merged component is exactly B + Σ_a I(z; c_a) -
I(z; x, c), where B is the bound of `search.merge_costs`. The last term is at least that of Kolchinsky and Tracey 2017
(eq. 10) with the Bhattacharyya distance of the two, to which x and each attribute add their own distance.
"""

from collections.abc import Mapping

import numpy as np

from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.search import merge_components, merge_costs, split_components

TILT = 0.9  # part of a component's records that a cut by an attribute assigns by their value alone
TINY = float(np.finfo(float).tiny)
LEAST_PART = 0.1  # of a component's weight on each side of a cut by an attribute


def split_axes(mixture: MixedMixture, n_splits: int, floor: np.ndarray) -> MixedMixture:
    """Cut the components of most variance along their longest axis. Both halves keep the shares."""
    gaussians = mixture.gaussians
    widest = np.linalg.eigvalsh(gaussians.covariances)[:, -1]
    order = np.argsort(-gaussians.weights * widest, kind="stable")  # as in `split_components`
    parents = np.concatenate([np.sort(order[n_splits:]), order[:n_splits], order[:n_splits]])
    return MixedMixture(split_components(gaussians, n_splits, floor), _rows(mixture.shares, parents))


def split_attribute(mixture: MixedMixture, n_splits: int, floor: np.ndarray, name: str) -> MixedMixture:
    """Cut the heaviest components in two by one attribute: at the same place, with shares of different values.

    The overall mean, covariance and shares stay the same. A component with too few records on one side is not cut;
    others are then cut along their longest axis.
    """
    gaussians, shares = mixture.gaussians, mixture.shares[name]
    halves = np.array([_balanced_half(row) for row in shares])
    part = (shares * halves).sum(axis=1)
    order = np.argsort(-gaussians.weights, kind="stable")
    chosen = order[np.minimum(part, 1 - part)[order] >= LEAST_PART][:n_splits]
    if len(chosen):
        kept = np.setdiff1d(np.arange(gaussians.n_components), chosen)
        parents = np.concatenate([kept, chosen, chosen])
        weights, new = gaussians.weights[parents], _rows(mixture.shares, parents)
        for first, side in ((len(kept), halves), (len(kept) + len(chosen), ~halves)):
            rows = slice(first, first + len(chosen))
            own = (shares * side)[chosen]
            size = own.sum(axis=1)
            weights[rows] *= size
            new[name][rows] = TILT * own / size[:, None] + (1 - TILT) * shares[chosen]
        mixture = MixedMixture(
            Mixture(weights, gaussians.means[parents], gaussians.covariances[parents]), new
        )
    return split_axes(mixture, n_splits - len(chosen), floor) if len(chosen) < n_splits else mixture


def balance(mixture: MixedMixture, name: str) -> float:
    """Return the part of the weight on the lighter side of a cut of all components by this attribute."""
    shares = mixture.shares[name]
    part = np.array([row[_balanced_half(row)].sum() for row in shares])
    return float(mixture.gaussians.weights @ np.minimum(part, 1 - part))


def distance(mixture: MixedMixture, first: int, second: int) -> float:
    """Return the Bhattacharyya distance of two components in the coordinates."""
    return float(_gaussian_distances(mixture.gaussians, np.array([first]), np.array([second]))[0])


def _balanced_half(shares: np.ndarray) -> np.ndarray:
    """Return which values form one half, (V,): the largest first, each goes to the lighter half."""
    half, sizes = np.zeros(len(shares), dtype=bool), [0.0, 0.0]
    for value in np.argsort(-shares, kind="stable").tolist():
        lighter = sizes[1] < sizes[0]
        half[value] = not lighter
        sizes[lighter] += float(shares[value])
    return half


def heavy_components(weights: np.ndarray, least: float) -> np.ndarray:
    """Return the numbers of the components of at least this weight, or of the heaviest."""
    return np.flatnonzero(weights >= min(least, float(weights.max())))


def drop_components(mixture: MixedMixture, least: float) -> MixedMixture:
    """Drop components of a weight below `least`, except the heaviest. The others share the weight."""
    gaussians = mixture.gaussians
    kept = heavy_components(gaussians.weights, least)
    if len(kept) == gaussians.n_components:
        return mixture
    weights = gaussians.weights[kept]
    return MixedMixture(
        Mixture(weights / weights.sum(), gaussians.means[kept], gaussians.covariances[kept]),
        _rows(mixture.shares, kept),
    )


def reduce_mixed(mixture: MixedMixture, n_components: int) -> MixedMixture:
    """Merge components until at most `n_components` are left. The overall mean, covariance and shares stay the same."""
    while mixture.gaussians.n_components > n_components:
        costs = mixed_costs(mixture)
        first, second = divmod(int(np.argmin(costs)), len(costs))
        weights = mixture.gaussians.weights
        kept = np.setdiff1d(np.arange(len(weights)), [first, second])
        both = weights[[first, second]]
        both = both / both.sum() if both.sum() > 0 else np.array([0.5, 0.5])
        shares = {
            name: np.concatenate([table[kept], both[None] @ table[[first, second]]])
            for name, table in mixture.shares.items()
        }
        mixture = MixedMixture(merge_components(mixture.gaussians, first, second), shares)
    return mixture


def mixed_costs(mixture: MixedMixture) -> np.ndarray:
    """Bound the KL divergence that merging a pair costs, (K, K), infinite on and below the diagonal."""
    costs = merge_costs(mixture.gaussians)
    rows, columns = np.triu_indices(len(costs), 1)
    one, other = mixture.gaussians.weights[rows], mixture.gaussians.weights[columns]
    total = np.maximum(one + other, TINY)
    left, right = one / total, other / total
    apart = _gaussian_distances(mixture.gaussians, rows, columns)
    informed = np.zeros(len(rows))
    for table in mixture.shares.values():
        mixed = left[:, None] * table[rows] + right[:, None] * table[columns]
        informed += _entropy(mixed) - left * _entropy(table[rows]) - right * _entropy(table[columns])
        overlap = np.sqrt(table[rows] * table[columns]).sum(axis=1)
        apart -= np.log(np.maximum(overlap, TINY))
    overlap = np.exp(-apart)
    known = -left * np.log(left + right * overlap + TINY) - right * np.log(right + left * overlap + TINY)
    costs[rows, columns] += total * (informed - known)
    return costs


def _gaussian_distances(mixture: Mixture, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute the Bhattacharyya distances of pairs of components."""
    middle = (mixture.covariances[rows] + mixture.covariances[columns]) / 2
    shift = mixture.means[rows] - mixture.means[columns]
    log_volume = np.linalg.slogdet(mixture.covariances)[1]
    volumes = np.linalg.slogdet(middle)[1] - (log_volume[rows] + log_volume[columns]) / 2
    away = np.einsum("ni,ni->n", shift, np.linalg.solve(middle, shift[..., None])[..., 0])
    return np.asarray(away / 8 + volumes / 2)


def _entropy(shares: np.ndarray) -> np.ndarray:
    return np.asarray(-(shares * np.log(np.maximum(shares, TINY))).sum(axis=1))


def _rows(shares: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: table[rows] for name, table in shares.items()}
