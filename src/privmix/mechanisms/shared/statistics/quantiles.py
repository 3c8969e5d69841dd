"""Private quantiles: the exponential mechanism over public cells (Smith 2011), and paid brackets for the interval.

Let L(c) be the number of values in cells before c, R(c) the number up to c, and n = R(last) the number of values, all
of which may be private. The data's own quantile is the smallest value x with at least qn values ≤ x. Its cell c* is the
first with R ≥ qn. A cell is scored by the distance of qn + w from its ranks [L, R]:

    u_w(c) = -max(0, L - qn - w, qn + w - R),    Δ = m max(q, 1 - q), or m when replacing (`sensitivity.rank_distance`)

The quantile is drawn with w = 0, and the ends of its interval with -w and +w. Each end has one more option, which
stands for its public bound and moves by no more: before the first cell with ranks (-∞, 0] for the lower end, and after
the last with ranks [n, ∞) for the upper. Since -w leads below n and +w above 0, the ranks of the options of an end hold
its target, so some option has the score 0.

Coverage, for every dataset: a cell after c* has L ≥ R(c*) ≥ qn, so u_-w ≤ -w. The exponential mechanism draws one of
at most C such cells with probability at most C exp(-εw/2Δ). With w = (2Δ/ε) ln(C / 0.025) this is at most 0.025. A cell
before c* has R < qn, so u_+w ≤ -w, and the same holds at the other end. Both ends are right with probability 0.95 at
least; more for most data, because few cells have a score near -w.

Parts of ε. An end is off by about w, that is ln(C / 0.025) = 12 times 2Δ/ε for 4096 cells, and the quantile by about 3
times 2Δ/ε, where its error exceeds it with probability 0.05 if few cells are near. With b for each end and 1 - 2b for
the quantile, 12/b + 3/(1 - 2b) is least at b = 0.37.

q and w are whole multiples of 2^-20, so scores are exact in double precision for fewer than 2^32 records.
"""

import math

import numpy as np

from privmix.privacy.exact import STEP
from privmix.privacy.sensitivity import Neighbours, rank_distance

FAILURE = 0.05  # of both ends together
PARTS = (0.25, 0.375, 0.375)  # of ε: for the quantile, and for the lower and the upper end of its interval
ENDS = ("", ", lower end", ", upper end")


def rounded(q: float) -> float:
    """Return q in whole steps of 2^-20."""
    return round(q / STEP) * STEP


def reach(neighbours: Neighbours, q: float) -> float:
    """Return the sensitivity of the scores."""
    return rank_distance(neighbours, rounded(q))


def bracket_width(neighbours: Neighbours, q: float, epsilon: float, cells: int) -> float:
    """Return w, the distance in ranks at which an end of the interval aims. `epsilon`: of one end."""
    w = 2 * reach(neighbours, q) / epsilon * math.log(cells / (FAILURE / 2))
    return math.ceil(w / STEP) * STEP


def scores(counts: np.ndarray, q: float, offset: float) -> np.ndarray:
    """Return the score of each option, (C + 2,): the public lower bound, the cells, and the public upper bound.

    `offset`: w for the upper end, -w for the lower, 0 for the quantile itself, which is drawn among the cells only.
    Each end can be a cell or its own bound, never the other bound: `measurement.option_ranges`.
    """
    upto = np.cumsum(counts).astype(np.float64)
    before = upto - counts
    target = rounded(q) * upto[-1] + offset
    inner = -np.maximum(0.0, np.maximum(before - target, target - upto))
    lowest = -max(0.0, target) if offset < 0 else -np.inf
    highest = -max(0.0, upto[-1] - target) if offset > 0 else -np.inf
    return np.array([lowest, *inner, highest])
