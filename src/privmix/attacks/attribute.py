"""Attribute inference: the attacker knows all coordinates of a record except one, and guesses the most likely value.

The attacker tries every value of the missing coordinate and takes the one with the highest density (Fredrikson et al.
2015; Yeom et al. 2018). The values are a public grid: cells of twice the resolution over the public bounds, or
`MOST_CELLS` wider ones. The score of a cell is its probability given the known coordinates, which a mixture has in
closed form. A guess is a hit if it is the true cell. The hit rate on members is compared with two others: that on
held-out records, which knowledge of the population is enough to reach, and that of a baseline that always guesses the
most common cell among held-out records.
"""

from dataclasses import dataclass

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.artefacts.domain import Domain
from privmix.mixture.model import Mixture

MOST_CELLS = 100
MOST_RECORDS = 400  # members, and as many others
LEAST_RECORDS = 20
ONE_COORDINATE = (
    "attribute inference needs at least two coordinates: one to guess, and another to guess it from"
)
TOO_FEW = f"attribute inference needs at least {LEAST_RECORDS} members and {LEAST_RECORDS} held-out records"


@dataclass(frozen=True)
class AttributeScores:
    """Shares of correct guesses, averaged over the coordinates."""

    members: float
    others: float
    baseline: float
    low: float  # 95 % interval of members minus others
    high: float

    def metrics(self) -> dict[str, float]:
        """Return the scores by metric."""
        return {
            "attribute_members_hit_rate": self.members,
            "attribute_others_hit_rate": self.others,
            "attribute_baseline_hit_rate": self.baseline,
            "attribute_advantage": self.members - self.others,
            "attribute_advantage_low": self.low,
            "attribute_advantage_high": self.high,
        }


def reason_not_measured(clean: CleanData) -> str | None:
    """Return a sentence that says why attribute inference cannot be measured on this data, or None if it can."""
    if clean.points.shape[1] < 2:
        return ONE_COORDINATE
    if min(clean.train.sum(), (~clean.train).sum()) < LEAST_RECORDS:
        return TOO_FEW
    return None


def infer_attributes(mixture: Mixture, clean: CleanData, rng: np.random.Generator) -> AttributeScores:
    """Guess each coordinate in turn for some members and some held-out records."""
    domain, population = clean.info.domain, clean.points[~clean.train]
    members, others = (
        rng.permutation(np.flatnonzero(side))[:MOST_RECORDS] for side in (clean.train, ~clean.train)
    )
    right = [correct_guesses(mixture, clean.points[rows], domain) for rows in (members, others)]
    common = [np.bincount(column).argmax() for column in cell_numbers(population, domain).T]
    baseline = (cell_numbers(clean.points[members], domain) == common).mean()
    (mine, my_variance), (theirs, their_variance) = (
        _clustered_mean(hits.mean(axis=1), clean.person[rows])
        for hits, rows in zip(right, (members, others), strict=True)
    )
    half = 1.96 * (my_variance + their_variance) ** 0.5
    return AttributeScores(mine, theirs, float(baseline), mine - theirs - half, mine - theirs + half)


def correct_guesses(mixture: Mixture, points: np.ndarray, domain: Domain) -> np.ndarray:
    """Return whether the most probable cell of each coordinate, given the others, is the true cell, (n, d)."""
    truth = cell_numbers(points, domain)
    precision = np.linalg.inv(mixture.covariances)
    away = points[:, None, :] - mixture.means
    pull = np.einsum("nki,kij->nkj", away, precision)
    distance = (away * pull).sum(axis=2)
    right = np.empty(points.shape, dtype=bool)
    with np.errstate(divide="ignore"):
        fixed = np.log(mixture.weights) + np.linalg.slogdet(precision)[1] / 2
    for axis, edges in enumerate(_edges(domain)):
        own = precision[:, axis, axis]
        # For each component: the density of the other coordinates, and the conditional mean and width of this one.
        rest = fixed - np.log(own) / 2 - (distance - pull[:, :, axis] ** 2 / own) / 2
        share = np.exp(rest - rest.max(axis=1, keepdims=True))
        middle = points[:, axis, None] - pull[:, :, axis] / own
        below = _normal_cdf((edges - middle[:, :, None]) * np.sqrt(own)[:, None])
        likely = np.einsum("nk,nkc->nc", share, np.diff(below, axis=2))
        right[:, axis] = likely.argmax(axis=1) == truth[:, axis]
    return right


def cell_numbers(points: np.ndarray, domain: Domain) -> np.ndarray:
    """Return the number of the cell of each coordinate, (n, d)."""
    columns = [
        np.clip(np.searchsorted(edges, points[:, axis], side="right") - 1, 0, len(edges) - 2)
        for axis, edges in enumerate(_edges(domain))
    ]
    return np.column_stack(columns)


def _edges(domain: Domain) -> list[np.ndarray]:
    numbers = (domain.upper - domain.lower) / (2 * domain.resolution)
    return [
        np.linspace(low, high, int(np.clip(number, 2, MOST_CELLS)) + 1)
        for low, high, number in zip(domain.lower, domain.upper, numbers, strict=True)
    ]


def _clustered_mean(values: np.ndarray, person: np.ndarray) -> tuple[float, float]:
    """Return the mean and its variance when the records of a person form a cluster (linearised)."""
    whose = number_persons(person)
    parts = np.bincount(whose, (values - values.mean()) / len(values))
    people = len(parts)
    return float(values.mean()), float((parts**2).sum() * people / max(people - 1, 1))


def _normal_cdf(z: np.ndarray) -> np.ndarray:
    """Compute Φ(z) with an error below 8e-8 (Abramowitz and Stegun 1964, 26.2.17).

    Importing scipy for this would take half a second.
    """
    t = 1 / (1 + 0.2316419 * np.abs(z))
    series = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    tail = np.zeros_like(t)
    for coefficient in reversed(series):
        tail = (tail + coefficient) * t
    tail *= np.exp(-np.minimum(z * z, 1400.0) / 2) / np.sqrt(2 * np.pi)
    return np.where(z < 0, tail, 1 - tail)
