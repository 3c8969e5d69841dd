"""Check-ins with a known ground truth. The same seed gives the same records on every machine.

There are ten cities. Their sizes fall off as 1/rank (Zipf), and each city is a Gaussian cloud of venues. The popularity
of a venue falls off as 1/rank^0.2, so exact coordinates repeat. Persons have a heavy-tailed number of check-ins (Pareto
tail 1.2), mostly in their home city. A few check-ins lie anywhere in the north. One person, `isolated-1`, has exactly
one record, more than 4,000 km from every other record. This person is the worst case for attacks.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

AT_NIGHT = 0.3  # probability of yes in `at_night`
BACKGROUND = 0.03  # share of check-ins that lie anywhere
AT_HOME = 0.85  # share of a person's city check-ins in the home city
VENUES = 12_000
MOST_CHECKINS = 200
ISOLATED_PERSON = "isolated-1"
ISOLATED_PLACE = (-54.4208, 3.3464)  # Bouvet Island
BACKGROUND_LATITUDES = (15.0, 65.0)
KM_PER_DEGREE = 6_371.0 * np.pi / 180

# Latitude, longitude, spread in km along the longer and the shorter axis, angle of the longer axis from east.
CITIES = {
    "Austin": (30.2672, -97.7431, 224.0, 112.0, 70.0),
    "Stockholm": (59.3293, 18.0686, 240.0, 144.0, 20.0),
    "San Francisco": (37.7749, -122.4194, 320.0, 128.0, 120.0),
    "London": (51.5074, -0.1278, 192.0, 144.0, 0.0),
    "Tokyo": (35.6762, 139.6503, 280.0, 176.0, 45.0),
    "New York": (40.7128, -74.0060, 208.0, 120.0, 60.0),
    "São Paulo": (-23.5505, -46.6333, 176.0, 128.0, 15.0),
    "Sydney": (-33.8688, 151.2093, 200.0, 96.0, 100.0),
    "Nairobi": (-1.2921, 36.8219, 120.0, 80.0, 140.0),
    "Bangkok": (13.7563, 100.5018, 144.0, 96.0, 80.0),
}


@dataclass(frozen=True)
class Truth:
    """The mixture behind the check-ins, in degrees (latitude, longitude)."""

    weights: np.ndarray  # (K,) shares of the check-ins; together with the background they add up to one
    means: np.ndarray  # (K, 2)
    covariances: np.ndarray  # (K, 2, 2)
    background: float


def truth() -> Truth:
    """Return the ground truth. It does not depend on the seed."""
    sizes = 1 / np.arange(1, len(CITIES) + 1)
    means, covariances = [], []
    for latitude, longitude, long_axis, short_axis, angle in CITIES.values():
        turn = np.radians(angle)
        axes = np.array([[np.sin(turn), np.cos(turn)], [np.cos(turn), -np.sin(turn)]])  # rows: (north, east)
        kilometres = axes.T @ np.diag([long_axis**2, short_axis**2]) @ axes
        degrees = np.diag([1 / KM_PER_DEGREE, 1 / (KM_PER_DEGREE * np.cos(np.radians(latitude)))])
        means.append((latitude, longitude))
        covariances.append(degrees @ kilometres @ degrees)
    return Truth(
        weights=(1 - BACKGROUND) * sizes / sizes.sum(),
        means=np.array(means),
        covariances=np.array(covariances),
        background=BACKGROUND,
    )


def checkins(seed: int, rows: int) -> pa.Table:
    """Draw exactly `rows` check-ins in random order: person, latitude, longitude, at_night."""
    rng = np.random.default_rng(seed)
    world = truth()
    shares = world.weights / world.weights.sum()
    person = _people(rng, rows - 1)
    home = _draw(rng, shares, person.max(initial=-1) + 1)
    city = np.where(rng.random(rows - 1) < AT_HOME, home[person], _draw(rng, shares, rows - 1))
    places = np.round(_at_venues(rng, world, shares, city), 6)
    anywhere = np.flatnonzero(rng.random(rows - 1) < BACKGROUND)
    places[anywhere] = np.round(_background(rng, len(anywhere)), 6)
    night = rng.random(rows - 1) < AT_NIGHT

    order = rng.permutation(rows)
    names = [f"person-{number + 1}" for number in person] + [ISOLATED_PERSON]
    places = np.vstack([places, ISOLATED_PLACE])[order]
    answers = np.append(np.where(night, "yes", "no"), "yes")[order]
    return pa.table(
        {
            "person": [names[row] for row in order],
            "latitude": places[:, 0],
            "longitude": places[:, 1],
            "at_night": answers.tolist(),
        }
    )


def _people(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Draw the person of each check-in. Counts are floored Pareto draws; the last person gets the rest."""
    counts = np.minimum((1 - rng.random(rows)) ** (-1 / 1.2), MOST_CHECKINS).astype(np.int64)
    return np.repeat(np.arange(rows), counts)[:rows]


def _draw(rng: np.random.Generator, shares: np.ndarray, size: int) -> np.ndarray:
    return np.searchsorted(np.cumsum(shares)[:-1], rng.random(size), side="right")


def _at_venues(rng: np.random.Generator, world: Truth, shares: np.ndarray, city: np.ndarray) -> np.ndarray:
    """Draw a venue in the city of each check-in, by popularity, and return its coordinates."""
    places = np.empty((len(city), 2))
    for index, share in enumerate(shares):
        size = round(VENUES * share)
        root = np.linalg.cholesky(world.covariances[index])
        venues = world.means[index] + rng.standard_normal((size, 2)) @ root.T
        popularity = np.arange(1, size + 1) ** -0.2
        here = city == index
        places[here] = venues[_draw(rng, popularity / popularity.sum(), int(np.count_nonzero(here)))]
    return places


def _background(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw places uniformly by area between two latitudes."""
    low, high = np.sin(np.radians(BACKGROUND_LATITUDES))
    latitude = np.degrees(np.arcsin(low + (high - low) * rng.random(size)))
    return np.column_stack([latitude, 360 * rng.random(size) - 180])
