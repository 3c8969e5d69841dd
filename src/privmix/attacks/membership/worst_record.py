"""The worst record: the mechanism runs many times with one isolated person, and with this person moved elsewhere.

Averages hide such people. The attacker knows all records except theirs and sees one model: its density at their
place. The two runs of one number share their noise, and runs of different numbers are compared. This removes the
effect of the noise itself from the comparison, so that a few runs come near to the truth
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

NO_ISOLATED_PERSON = "the catalog names no isolated person, so nobody was followed by name"
EARTH_RADIUS_KM = 6371.0088


@dataclass(frozen=True)
class WorstRecordScores:
    """How well the attacker tells the two worlds apart."""

    auc: float
    low: float
    high: float

    def metrics(self) -> dict[str, float]:
        """The numbers by name."""
        return {
            "mia_worst_record_auc": self.auc,
            "mia_worst_record_auc_low": self.low,
            "mia_worst_record_auc_high": self.high,
        }


def game_records(clean: CleanData, most: int, rng: np.random.Generator) -> tuple[Records, int, Domain]:
    """Training records to play on, the row of the first isolated person among them, and what is public of them.

    A claim holds on any data, so the game may be played on fewer records than the model was fitted to; one person
    among fewer is exposed more.
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
    """The game on the first isolated person, who is moved to a held-out record's place, on at most so many records."""
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

    The interval is that of independent runs: with shared noise it is too wide rather than too narrow.
    """
    both = records.with_twin(row, other)
    numbers = np.arange(len(both))
    worlds = [numbers != len(records)] * runs + [numbers != row] * runs
    rngs = [randomness("run", number) for _ in ("in", "out") for number in range(runs)]
    releases = run_many(mechanism, both, worlds, spec, budget, rngs)
    scores = np.array([release.mixture.log_density(records.points[row : row + 1])[0] for release in releases])
    estimate, _ = paired_auc(PairedScores(scores[:runs], scores[runs:]))
    return WorstRecordScores(estimate, *newcombe_interval(estimate, runs, runs))


def distance_metrics(mixture: Mixture, clean: CleanData) -> dict[str, float]:
    """How near the model comes to the first isolated person's place, by metric; nothing for sensitive data.

    Distances from the centres of a few models are a place: three circles meet there.
    """
    place, domain = clean.points[clean.isolated_rows[0]], clean.info.domain
    if domain.visibility == "sensitive":
        return {}
    away = distance_km(mixture, place, domain)
    if away is None:
        return {"worst_record_distance_resolutions": distance_in_resolutions(mixture, place, domain)}
    return {"worst_record_distance_km": away}


def distance_in_resolutions(mixture: Mixture, place: np.ndarray, domain: Domain) -> float:
    """Distance from a place to the nearest component mean, in public resolutions: the root mean square of the axes."""
    away = (mixture.means - place) / domain.resolution
    return float(np.sqrt((away**2).mean(axis=1)).min())


def distance_km(mixture: Mixture, place: np.ndarray, domain: Domain) -> float | None:
    """Great-circle distance from a place to the nearest component mean; None off the globe."""
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
