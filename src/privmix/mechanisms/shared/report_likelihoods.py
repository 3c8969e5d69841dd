"""Which component a report is about: the likelihood of a report on a cell under each component of a mixture.

In every oracle of `privacy.oracles` a report is e^ε times as likely for the answers that it supports as for the others.
So its likelihood under a component is proportional to S + (1 - S) e^-ε, where S is the probability that a record of the
component lies in a supported cell. These functions see only reports and public values: post-processing.

Approximations. The share of a cell in a component is the fraction of `POINTS` evenly spread points of the component
that lie in the cell. Records outside of the public box are moved to its edge before they answer, and so are the points.
A report of an oracle other than GRR takes time for every cell. The `MOST_CELLS` cells that differ most between
components are evaluated. The others together are supported at the average rate. All of it affects utility, never
privacy.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.mechanisms.base import Spec
from privmix.mixture.model import Mixture
from privmix.privacy.oracles import GeneralizedResponse, LocalHashing, Oracle
from privmix.privacy.oracles.base import blocks
from privmix.privacy.oracles.survey import SurveyOracle, unpack_reports

POINTS = 1 << 13  # of each component; with half as many, shares of cells of a fine grid are visibly rough
MOST_CELLS = 1024  # with all cells, reports tell 1 % more about the component in a tree, 15 % in a fine grid
ROWS = 1 << 14  # reports at a time
PAIRS = 1 << 17  # pairs of a report and a cell at a time
LARGEST_EPSILON = 500.0  # e^-ε stays positive


@dataclass(frozen=True, eq=False)
class CellShares:
    """The share of each component in some cells of a partition, and in all other cells together."""

    cells: np.ndarray  # (c,) ascending numbers of cells
    shares: np.ndarray  # (c, K)
    others: np.ndarray  # (K,)


def spread_points(mixture: Mixture, spec: Spec) -> np.ndarray:
    """Return evenly spread points of each component inside the public box, (K × POINTS, d), component by component.

    The points are normal quantiles of a Kronecker sequence in the unit cube. Its steps are powers of 1/g, where g is
    the root of g^(d+1) = g + 1 (Roberts 2018). The points are the same in every run.
    """
    from scipy.special import ndtri

    dimensions, root = mixture.dimensions, 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    uniform = (0.5 + np.arange(1, POINTS + 1)[:, None] * steps) % 1.0
    normal = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    points = mixture.means[:, None] + normal @ np.swapaxes(mixture.cholesky, 1, 2)
    return spec.inside(points.reshape(-1, dimensions))


def cell_shares(located: np.ndarray, mixture: Mixture, oracle: Oracle) -> CellShares:
    """Return the shares of the cells in which the points of `spread_points` are located, as far as they are needed."""
    count = mixture.n_components
    cells, place = np.unique(located, return_inverse=True)
    component = np.repeat(np.arange(count), POINTS)
    shares = np.bincount(place.ravel() * count + component, minlength=len(cells) * count) / POINTS
    shares = shares.reshape(-1, count)
    if isinstance(oracle, GeneralizedResponse) or len(cells) <= MOST_CELLS:
        return CellShares(cells, shares, np.zeros(count))
    spread = np.square(shares - (shares @ mixture.weights)[:, None]) @ mixture.weights
    kept = np.sort(np.argsort(-spread, kind="stable")[:MOST_CELLS])
    return CellShares(cells[kept], shares[kept], np.maximum(1 - shares[kept].sum(axis=0), 0.0))


def likelihoods(oracle: Oracle, reports: np.ndarray, known: CellShares) -> np.ndarray:
    """Return the likelihood of each report under each component, (n, K), up to a factor for each report."""
    if isinstance(oracle, GeneralizedResponse):
        place = np.minimum(np.searchsorted(known.cells, reports), len(known.cells) - 1)
        supported = np.where((known.cells[place] == reports)[:, None], known.shares[place], 0.0)
    else:
        supported = np.empty((len(reports), len(known.others)))
        for block in blocks(len(reports), len(known.cells), PAIRS):
            named = supported_cells(oracle, reports[block], known.cells)
            supported[block] = named.astype(np.float64) @ known.shares
        supported += oracle.other * known.others
    return supported + (1 - supported) * math.exp(-min(oracle.epsilon, LARGEST_EPSILON))


def supported_cells(oracle: Oracle, reports: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return whether each report supports each cell, (n, c)."""
    if isinstance(oracle, LocalHashing):
        # The formula of `hash_codes`, in the smallest words that hold a product, and with the faster division.
        word = np.dtype(np.uint32 if oracle.prime**2 + oracle.prime < 1 << 32 else np.uint64)
        a, b, answer = (reports[name].astype(word)[:, None] for name in ("a", "b", "answer"))
        prime = word.type(oracle.prime)
        position = a * cells.astype(word) + b
        position -= position // prime * prime
        return position * word.type(oracle.buckets) // prime == answer
    pairs = np.repeat(reports, len(cells), axis=0)
    return oracle.supports(pairs, np.tile(cells, len(reports))).reshape(len(reports), len(cells))


def posterior(likelihood: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return P(component | report), (n, K)."""
    joint = likelihood * weights
    return joint / joint.sum(axis=1, keepdims=True)


def oracle_responsibilities(
    oracle: Oracle, reports: np.ndarray, known: CellShares, weights: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield P(component | report) for reports of one oracle, block by block."""
    for block in blocks(len(reports), 1, ROWS):
        yield posterior(likelihoods(oracle, reports[block], known), weights)


def survey_responsibilities(
    rows: np.ndarray, oracles: Sequence[SurveyOracle], known: Sequence[CellShares], weights: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield P(component | report) for reports of a survey in turns, block by block."""
    for block in blocks(len(rows), 1, ROWS):
        some = rows[block]
        likelihood = np.ones((len(some), len(weights)))
        for turn, (oracle, cells) in enumerate(zip(oracles, known, strict=True)):
            likelihood[some["turn"] == turn] = likelihoods(oracle, unpack_reports(some, turn, oracle), cells)
        yield posterior(likelihood, weights)
