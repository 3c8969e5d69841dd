"""The worst record: the mechanism runs many times with one isolated person, and with this person moved elsewhere.

Averages hide isolated persons. The attacker knows all other records and sees the density of one model at the place of
this person. The two runs of the same number share their noise, and the comparison is between runs of different
numbers. This removes the effect of the noise itself from the comparison, so that a few runs give an accurate estimate
(`privacy.hypothesis_testing.paired_auc`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.attacks.membership.shadows import resize_domain, sample_units
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec, training_records
from privmix.mechanisms.run import run_many
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget
from privmix.privacy.hypothesis_testing import PairedScores, newcombe_interval, paired_auc

NO_ISOLATED_PERSON = "the catalog names no isolated person, so the worst-record attack did not run"
EARTH_RADIUS_KM = 6371.0088


@dataclass(frozen=True)
class WorstRecordScores:
    """The AUC of the attacker who tells the two worlds apart, with its interval."""

    auc: float
    low: float
    high: float

    def metrics(self) -> dict[str, float]:
        """Return the scores by metric."""
        return {
            "mia_worst_record_auc": self.auc,
            "mia_worst_record_auc_low": self.low,
            "mia_worst_record_auc_high": self.high,
        }


def game_records(clean: CleanData, most: int, rng: np.random.Generator) -> tuple[Records, int, Domain]:
    """Select training records for the game. Return them, the row of the first isolated person, and their domain.

    A claim holds on any data, so the game may use fewer records than the model was fitted to. A person among fewer
    records is more exposed.
    """
    records, domain = training_records(clean), clean.info.domain
    row = int(np.flatnonzero(np.flatnonzero(clean.train) == clean.isolated_rows[0])[0])
    if len(records) <= most:
        return records, row, domain
    units = records.units(domain.unit)
    taken = sample_units(units, most, np.array([row]), rng)
    rows = np.flatnonzero(np.isin(units, taken))
    public = resize_domain(domain, len(rows), len(taken) / (int(units.max()) + 1))
    return records.select(rows), int(np.searchsorted(rows, row)), public


def attack_worst_record(
    mechanism: Mechanism,
    clean: CleanData,
    spec: Spec,
    budget: Budget,
    runs: int,
    most: int,
    randomness: Callable[..., Randomness],
) -> WorstRecordScores:
    """Play the game on at most `most` records. The first isolated person moves to the place of a held-out record."""
    records, row, public = game_records(clean, most, randomness("records").search)
    elsewhere = clean.points[~clean.train][0]
    return play_swap_game(
        mechanism, records, row, elsewhere, replace(spec, domain=public), budget, runs, randomness
    )


def play_swap_game(
    mechanism: Mechanism,
    records: Records,
    row: int,
    other: np.ndarray,
    spec: Spec,
    budget: Budget,
    runs: int,
    randomness: Callable[[str, int], Randomness],
) -> WorstRecordScores:
    """Fit `runs` times with the record and `runs` times with the record moved to `other`.

    The interval is that of independent runs. With shared noise it is too wide rather than too narrow.
    """
    both = records.with_twin(row, other)
    numbers = np.arange(len(both))
    worlds = [numbers != len(records)] * runs + [numbers != row] * runs
    rngs = [randomness("run", number) for _ in ("in", "out") for number in range(runs)]
    releases = run_many(mechanism, both, worlds, spec, budget, rngs)
    target = records.select(np.array([row]))
    absent = spec.absent(target)
    scores = np.array([release.mixture.log_density(target.points, absent)[0] for release in releases])
    estimate, _ = paired_auc(PairedScores(scores[:runs], scores[runs:]))
    return WorstRecordScores(estimate, *newcombe_interval(estimate, runs, runs))


def distance_metrics(mixture: Mixture, clean: CleanData) -> dict[str, float]:
    """Compute how near the model is to the place of the first isolated person, by metric. Sensitive data has no metric.

    The distances to the centres of a few models reveal the place, because three circles meet there.
    """
    place, domain = clean.points[clean.isolated_rows[0]], clean.info.domain
    if domain.visibility == "sensitive":
        return {}
    away = distance_km(mixture, place, domain)
    if away is None:
        return {"worst_record_distance_resolutions": distance_in_resolutions(mixture, place, domain)}
    return {"worst_record_distance_km": away}


def distance_in_resolutions(mixture: Mixture, place: np.ndarray, domain: Domain) -> float:
    """Compute the distance to the nearest component mean in public resolutions, as the root mean square of the axes."""
    away = (mixture.means - place) / domain.resolution
    return float(np.sqrt((away**2).mean(axis=1)).min())


def distance_km(mixture: Mixture, place: np.ndarray, domain: Domain) -> float | None:
    """Compute the great-circle distance to the nearest component mean, or None if the axes are not geographic."""
    order = [axis.geographic for axis in domain.axes]
    if set(order) != {"latitude", "longitude"}:
        return None
    spots = np.radians(domain.denormalise(np.vstack([place, mixture.means])))
    latitude, longitude = spots[:, order.index("latitude")], spots[:, order.index("longitude")]
    half = (
        np.sin((latitude[1:] - latitude[0]) / 2) ** 2
        + np.cos(latitude[0]) * np.cos(latitude[1:]) * np.sin((longitude[1:] - longitude[0]) / 2) ** 2
    )
    return float(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(half, 0, 1))).min())
