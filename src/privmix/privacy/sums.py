"""Sums over records for releases: the same whatever the order, and moved by one record by no more than is accounted.

Noise on a lattice hides a number only if neighbours' numbers are as close as the theorem says. A sum in floating point
is not: another record in one place changes where all later ones are rounded, by up to n² 2^-53 for n records, and n may
be private, so that no public figure bounds it. Therefore, where a source puts noise on a lattice,

* each record's contribution is computed by operations that do not know where the record stands (`mixture.rowwise`),
* it is rounded to whole steps of the lattice, merged records once with their number, and
* the steps are added as integers, which is exact in any order.

So two neighbouring sums differ by the rounded contributions of the unit that differs, and by nothing else. With at most
m records on a side, each coordinate of each of them rounded by half a step, that is the sensitivity plus m times
`NoiseSource.rounding` of one vector. The sensitivity is that of contributions as they were computed: of bounds such as
Σ γ_k <= 1 and ‖z‖ <= c each holds up to a relative error of a few units of 2^-53 per component and axis, which COMPUTED
covers for up to 2^15 of them. Counts of records are whole numbers and need none of this.
"""

from collections.abc import Iterable

import numpy as np

from privmix.privacy.exact import dequantise, quantised_sum
from privmix.privacy.noise import NoiseSource
from privmix.privacy.relation import Neighbours

COMPUTED = 2.0**-32


def must_be_exact(source: NoiseSource) -> bool:
    """Whether the source puts its noise on a lattice, so that sums must be exact too."""
    return source.rounding(1, 1) > 0


def total(parts: Iterable[tuple[np.ndarray, np.ndarray | None]], size: int) -> np.ndarray:
    """The exact sum (size,) of contributions (n, size), each rounded, as often as its record is there."""
    steps = np.zeros(size, dtype=np.int64)
    for contributions, times in parts:
        steps += quantised_sum(contributions, times)
    return dequantise(steps)


def reach(sensitivity: float, size: int, norm: int, *, neighbours: Neighbours, source: NoiseSource) -> float:
    """The sensitivity of a sum over records: as proven, or as the rounded contributions have it.

    The noise functions add the rounding of what they are given once more; here that is not needed, and costs nothing.
    """
    if not must_be_exact(source):
        return sensitivity
    return sensitivity * (1 + COMPUTED) + neighbours.records * source.rounding(size, norm)
