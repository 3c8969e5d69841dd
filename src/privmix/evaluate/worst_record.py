"""The worst record: the mechanism is run again and again with one isolated person, and with them elsewhere.

Averages hide them. The attacker knows all records but theirs and sees one model: the density at their place.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privmix.artefacts import Domain
from privmix.evaluate.membership import auc, auc_interval
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec
from privmix.mechanisms.running import run
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget

EARTH_RADIUS_KM = 6371.0088


@dataclass(frozen=True)
class Exposure:
    """How well the attacker tells the two worlds apart."""

    auc: float
    low: float
    high: float


def play(
    mechanism: Mechanism,
    records: Records,
    row: int,
    other: np.ndarray,
    spec: Spec,
    budget: Budget,
    runs: int,
    randomness: Callable[[str, int], Randomness],
) -> Exposure:
    """Fit `runs` times with the record and `runs` times with the record moved to `other`."""
    place = records.points[row : row + 1]

    def scores(world: str, data: Records) -> np.ndarray:
        releases = (run(mechanism, data, spec, budget, randomness(world, number)) for number in range(runs))
        return np.array([release.mixture.log_density(place)[0] for release in releases])

    inside = scores("in", records)
    outside = scores("out", records.with_point(row, other))
    estimate = auc(inside, outside)
    return Exposure(estimate, *auc_interval(estimate, runs, runs))


def distance_km(mixture: Mixture, place: np.ndarray, domain: Domain) -> float | None:
    """Great-circle distance from a place to the nearest component mean; None off the globe."""
    order = [axis.geographic for axis in domain.axes]
    if set(order) != {"latitude", "longitude"}:
        return None
    spots = np.radians(domain.restore(np.vstack([place, mixture.means])))
    latitude, longitude = spots[:, order.index("latitude")], spots[:, order.index("longitude")]
    half = (
        np.sin((latitude[1:] - latitude[0]) / 2) ** 2
        + np.cos(latitude[0]) * np.cos(latitude[1:]) * np.sin((longitude[1:] - longitude[0]) / 2) ** 2
    )
    return float(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(half, 0, 1))).min())
