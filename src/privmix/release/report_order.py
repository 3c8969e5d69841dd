"""The order of reports: reports come out in a uniformly random order, so neighbours are no more alike than others.

In a random order of n reports of which m have a mark, the runs of neighbours with the mark have an exact law. There are
C(n, m) places of the marks, and C(m - 1, k - 1) C(n - m + 1, k) of these have k runs (Wald and Wolfowitz 1940): the
hypergeometric law of m draws from n, of which n - m + 1 count. It holds for every set of reports, so nothing is assumed
about the records. The marks are the bits of whole numbers, and the quartiles of others. Sorted reports have few runs.

An order can hide much that no test finds, such as encrypted records: n reports have n! orders.
"""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from privmix.release.noise_evidence import RARE

MOST_MARKS = 256  # of one column
QUARTILES = (0.25, 0.5, 0.75)


def is_random_order(column: np.ndarray) -> bool:
    """Return whether each mark of a column, (n,) or (n, bytes), has a number of runs that a random order can give."""
    return all(has_random_runs(marks) for marks in _marks(column))


def has_random_runs(marks: np.ndarray) -> bool:
    """Return whether the marks, (n,), have neither fewer nor more runs than a random order gives up to chance RARE."""
    size, marked = len(marks), int(np.count_nonzero(marks))
    if not 0 < marked < size:
        return True
    runs = int(marks[0]) + int(np.count_nonzero(marks[1:] > marks[:-1]))
    law = stats.hypergeom(size, size - marked + 1, marked)
    return bool(law.cdf(runs) >= RARE and law.sf(runs - 1) >= RARE)


def _marks(column: np.ndarray) -> Iterator[np.ndarray]:
    if column.dtype.kind == "f":
        for share in QUARTILES:
            middle = int(share * (len(column) - 1))
            yield column > np.partition(column, middle)[middle]
        return
    parts = column.reshape(len(column), -1)
    bits = 8 * parts.dtype.itemsize
    number = parts.shape[1] * bits
    for place in np.unique(np.linspace(0, number - 1, min(number, MOST_MARKS)).astype(np.int64)):
        part, bit = divmod(int(place), bits)
        yield (parts[:, part] >> parts.dtype.type(bit) & parts.dtype.type(1)).astype(bool)
