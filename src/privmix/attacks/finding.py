"""Findings: for how many people an attack succeeds, beside an attacker who knows the population only.

The interval of a rate is Wilson's at 95 %. If an attack on a person succeeds in some of several tries, the person
counts with the share of these tries. The variance of a number between 0 and 1 is at most that of a success, so the
interval is then too wide and never too narrow. The interval of the gain over the baseline is Newcombe's for paired
rates (Newcombe 1998, method 10). Intervals describe people like those of the table: if all people of a table were
attacked, the rate in this table is known exactly.
"""

import math
from dataclasses import dataclass

import numpy as np

LEAST_PEOPLE = 20
MOST_PEOPLE = 2000  # attacks that compare each person with a whole table take a random sample of this size
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Finding:
    """The success of one attack. All rates are shares of the attacked people."""

    attack: str  # a plain name, such as "linkage by 2 known facts"
    people: int  # people who were attacked
    population: int  # people in the table
    rate: float
    low: float
    high: float
    baseline: float  # the rate of an attacker who knows the population only
    gain_low: float
    gain_high: float

    @property
    def gain(self) -> float:
        """How much the attack is better than knowledge of the population."""
        return self.rate - self.baseline

    @property
    def lift(self) -> float | None:
        """How many times as often the attack succeeds; None if the baseline never does."""
        return self.rate / self.baseline if self.baseline > 0 else None

    @property
    def disclosed(self) -> int:
        """About how many people of the table the attack succeeds on, and the baseline does not."""
        return max(round(self.gain * self.population), 0)

    @property
    def beats_population(self) -> bool:
        """Whether the attack is better than the baseline beyond chance (95 %)."""
        return self.gain_low > 0


@dataclass(frozen=True)
class NotMeasured:
    """An attack without a number, and the reason as one sentence."""

    attack: str
    reason: str


Result = Finding | NotMeasured


def too_few(attack: str, people: int, least: int = LEAST_PEOPLE) -> NotMeasured | None:
    """Return the reason not to measure if there are fewer people than needed."""
    if people >= least:
        return None
    return NotMeasured(attack, f"This attack needs at least {least} people; there are {people}.")


def compare(
    attack: str, hits: np.ndarray, baseline: np.ndarray | float, population: int | None = None
) -> Result:
    """Compare the success on each person with that of the baseline: on the same people, or a known rate."""
    hits = np.asarray(hits, dtype=float)
    people = len(hits)
    problem = too_few(attack, people)
    if problem is not None:
        return problem
    rate = float(hits.mean())
    low, high = wilson_interval(rate, people)
    if isinstance(baseline, np.ndarray):
        base = float(baseline.mean())
        gain_low, gain_high = paired_interval(hits, baseline.astype(float))
    else:
        base, gain_low, gain_high = float(baseline), low - baseline, high - baseline
    return Finding(
        attack,
        people,
        people if population is None else population,
        rate,
        low,
        high,
        base,
        gain_low,
        gain_high,
    )


def wilson_interval(rate: float, people: int, z: float = Z95) -> tuple[float, float]:
    """Return the interval of a rate (Wilson 1927)."""
    centre = (rate + z * z / (2 * people)) / (1 + z * z / people)
    half = z * math.sqrt(rate * (1 - rate) / people + z * z / (4 * people**2)) / (1 + z * z / people)
    return (max(centre - half, 0.0) if rate > 0 else 0.0), (min(centre + half, 1.0) if rate < 1 else 1.0)


def paired_interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the interval of the difference of two rates on the same people (Newcombe 1998, method 10)."""
    one, other = float(first.mean()), float(second.mean())
    (low, high), (other_low, other_high) = (wilson_interval(rate, len(first)) for rate in (one, other))
    spread = first.std() * second.std()
    correlation = float(((first - one) * (second - other)).mean() / spread) if spread > 0 else 0.0

    def distance(own: float, theirs: float) -> float:
        return math.sqrt(max(own**2 - 2 * correlation * own * theirs + theirs**2, 0.0))

    gain = one - other
    return gain - distance(one - low, other_high - other), gain + distance(high - one, other - other_low)


def mean_by_person(values: np.ndarray, persons: np.ndarray) -> np.ndarray:
    """Return the mean of each person's values; persons are numbered from 0."""
    counts = np.bincount(persons)
    return (np.bincount(persons, values) / np.maximum(counts, 1))[counts > 0]
