"""Clusters of a synthetic table: k-means centres from synthetic rows, and their cost on real records."""

import numpy as np

STARTS = 4
STEPS = 30
MOST_ROWS = 2000  # of the synthetic rows that k-means uses


def cluster_cost(real: np.ndarray, synthetic: np.ndarray, clusters: int, rng: np.random.Generator) -> float:
    """Compute the normalised intra-cluster variance, NICV, of real records, (n, d), for synthetic centres.

    NICV = 1/n Σ_i min_k ‖x_i - o_k‖² (Su, Cao, Li, Bertino, Jin 2016).
    """
    centres = fit_centres(synthetic[:MOST_ROWS], clusters, rng)
    return float(_squared_distances(real, centres).min(axis=1).mean())


def fit_centres(points: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Fit centres by Lloyd's iterations from k-means++ starts, and return those with the least cost."""
    found = [_lloyd(points, _spread_centres(points, clusters, rng)) for _ in range(STARTS)]
    return min(found, key=lambda centres: _squared_distances(points, centres).min(axis=1).sum())


def _spread_centres(points: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Draw k-means++ centres: each with probability proportional to its squared distance to the earlier ones.

    (Arthur and Vassilvitskii 2007.)
    """
    centres = [points[rng.integers(len(points))]]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    for _ in range(clusters - 1):
        total = np.cumsum(nearest)
        row = min(int(np.searchsorted(total, rng.random() * total[-1], "right")), len(points) - 1)
        centres.append(points[row])
        nearest = np.minimum(nearest, ((points - points[row]) ** 2).sum(axis=1))
    return np.array(centres)


def _lloyd(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Move each centre to the mean of its points until nothing changes. A centre without points stays."""
    labels = np.full(len(points), -1)
    for _ in range(STEPS):
        closest = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        if (closest == labels).all():
            break
        labels = closest
        counts = np.bincount(labels, minlength=len(centres))
        sums = np.stack([np.bincount(labels, axis, minlength=len(centres)) for axis in points.T], axis=1)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres


def _squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    cross = points @ centres.T
    lengths = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * cross, 0.0))
