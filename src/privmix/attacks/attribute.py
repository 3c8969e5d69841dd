"""Attribute inference: the attacker knows a record except for one value, and guesses the most likely value.

The attacker tries every value and takes the one with the highest density (Fredrikson et al. 2015; Yeom et al. 2018).
The value is a coordinate or, if the model has attributes, a category:

- The values of a coordinate are a public grid: cells of twice the resolution over the public bounds, or `MOST_CELLS`
  wider ones. The score of a cell is its probability given the other coordinates, which a mixture has in closed form. A
  single coordinate is guessed from the attributes.
- The score of a value v of a category is p(x, c, v), where x are all coordinates and c are all other attributes. It is
  proportional to P(v | x, c).

A guess is a hit if it is the true value. The hit rate on members is compared with two others: that on held-out records,
which knowledge of the population is enough to reach, and that of a baseline that always guesses the most common value
among held-out records.
"""

from dataclasses import dataclass

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.artefacts.domain import Domain
from privmix.mixture.mixed import Codes, MixedMixture

MOST_CELLS = 100
MOST_RECORDS = 400  # members, and as many others
LEAST_RECORDS = 20
ONE_COLUMN = (
    "attribute inference needs at least two coordinates, or a model with attributes: one value to guess, and another "
    "to guess it from"
)
TOO_FEW = (
    f"attribute inference needs at least {LEAST_RECORDS} members and {LEAST_RECORDS} held-out records with all "
    "coordinates"
)


@dataclass(frozen=True)
class GuessScores:
    """Shares of correct guesses, averaged over the columns that were guessed."""

    members: float
    others: float
    baseline: float
    low: float  # 95 % interval of members minus others
    high: float

    def metrics(self, guessed: str) -> dict[str, float]:
        """Return the scores by metric, with `guessed` as the first word of each name."""
        return {
            f"{guessed}_members_hit_rate": self.members,
            f"{guessed}_others_hit_rate": self.others,
            f"{guessed}_baseline_hit_rate": self.baseline,
            f"{guessed}_advantage": self.members - self.others,
            f"{guessed}_advantage_low": self.low,
            f"{guessed}_advantage_high": self.high,
        }


@dataclass(frozen=True)
class AttributeScores:
    """The guesses of coordinates and of categories. Each has its own metrics: the two averages are not comparable."""

    coordinates: GuessScores | None  # None if there are no coordinates
    categories: GuessScores | None  # None if the model has no categories to guess

    def metrics(self) -> dict[str, float]:
        """Return the scores by metric."""
        found = {} if self.coordinates is None else self.coordinates.metrics("attribute")
        return found if self.categories is None else found | self.categories.metrics("category")


def reason_not_measured(model: MixedMixture, clean: CleanData) -> str | None:
    """Return a sentence that says why attribute inference cannot be measured on this data, or None if it can."""
    if clean.points.shape[1] + len(model.shares) < 2:
        return ONE_COLUMN
    if min(map(len, _rows(clean))) < LEAST_RECORDS:
        return TOO_FEW
    return None


def infer_attributes(model: MixedMixture, clean: CleanData, rng: np.random.Generator) -> AttributeScores:
    """Guess each coordinate and each category in turn for some members and some held-out records."""
    domain = clean.info.domain
    rows = [rng.permutation(side)[:MOST_RECORDS] for side in _rows(clean)]
    points = [clean.points[side] for side in rows]
    codes: list[Codes] = [{name: clean.codes[name][side] for name in model.shares} for side in rows]
    known = codes if clean.points.shape[1] == 1 else [{}, {}]
    cells = None
    if domain.axes:
        cells = _compare(
            [correct_guesses(model, points[side], known[side], domain) for side in (0, 1)],
            cell_numbers(points[0], domain),
            cell_numbers(clean.points[_rows(clean)[1]], domain),
            [clean.person[side] for side in rows],
        )
    names = category_names(model, domain)
    if not names:
        return AttributeScores(cells, None)
    categories = _compare(
        [correct_categories(model, points[side], codes[side], names) for side in (0, 1)],
        np.column_stack([codes[0][name] for name in names]),
        np.column_stack([clean.codes[name][~clean.train] for name in names]),
        [clean.person[side] for side in rows],
    )
    return AttributeScores(cells, categories)


def _rows(clean: CleanData) -> tuple[np.ndarray, np.ndarray]:
    """Return the members and the held-out records that have all coordinates, by row."""
    complete = ~clean.info.domain.absent(clean.codes, len(clean.points)).any(axis=1)
    return np.flatnonzero(clean.train & complete), np.flatnonzero(~clean.train & complete)


def category_names(model: MixedMixture, domain: Domain) -> list[str]:
    """Return the attributes to guess. A state is none of them: an attacker who knows the coordinate knows its state."""
    return [each.name for each in domain.attributes if each.name in model.shares and not each.state_of]


def correct_categories(model: MixedMixture, points: np.ndarray, codes: Codes, names: list[str]) -> np.ndarray:
    """Return whether the most probable value of each attribute, given the rest of the record, is the true one."""
    guesses = [model.conditional(name, points, codes).argmax(axis=1) for name in names]
    return np.column_stack([guess == codes[name] for guess, name in zip(guesses, names, strict=True)])


def correct_guesses(model: MixedMixture, points: np.ndarray, codes: Codes, domain: Domain) -> np.ndarray:
    """Return whether the most probable cell of each coordinate is the true cell, (n, d).

    The attacker knows the other coordinates, and the attributes in `codes`.
    """
    mixture = model.gaussians
    truth = cell_numbers(points, domain)
    precision = np.linalg.inv(mixture.covariances)
    away = points[:, None, :] - mixture.means
    pull = np.einsum("nki,kij->nkj", away, precision)
    distance = (away * pull).sum(axis=2)
    right = np.empty(points.shape, dtype=bool)
    with np.errstate(divide="ignore"):
        fixed = np.log(mixture.weights) + np.linalg.slogdet(precision)[1] / 2
        for name, values in codes.items():
            fixed = fixed + np.log(model.shares[name]).T[values]
    for axis, edges in enumerate(_edges(domain)):
        own = precision[:, axis, axis]
        # For each component: the density of what is known, and the conditional mean and width of this coordinate.
        rest = fixed - np.log(own) / 2 - (distance - pull[:, :, axis] ** 2 / own) / 2
        share = np.exp(rest - rest.max(axis=1, keepdims=True))
        middle = points[:, axis, None] - pull[:, :, axis] / own
        below = _normal_cdf((edges - middle[:, :, None]) * np.sqrt(own)[:, None])
        likely = np.einsum("nk,nkc->nc", share, np.diff(below, axis=2))
        right[:, axis] = likely.argmax(axis=1) == truth[:, axis]
    return right


def _compare(
    right: list[np.ndarray], members: np.ndarray, population: np.ndarray, persons: list[np.ndarray]
) -> GuessScores:
    """Compare the hits on members and on others, (n, columns), with each other and with the most common values.

    `members` and `population` are the true values of the members and of all held-out records.
    """
    common = [np.bincount(column).argmax() for column in population.T]
    (mine, my_variance), (theirs, their_variance) = (
        _clustered_mean(hits.mean(axis=1), person) for hits, person in zip(right, persons, strict=True)
    )
    half = 1.96 * (my_variance + their_variance) ** 0.5
    return GuessScores(
        mine, theirs, float((members == common).mean()), mine - theirs - half, mine - theirs + half
    )


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
