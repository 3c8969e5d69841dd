"""The synthetic check-ins: reproducible, heavy-tailed, with one isolated person and a known truth."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from privmix.catalog import synthetic

SEED, ROWS = 20100, 24_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return synthetic.checkins(SEED, ROWS)


@pytest.fixture(scope="module")
def places(table: pa.Table) -> np.ndarray:
    return np.column_stack([table["latitude"].to_numpy(), table["longitude"].to_numpy()])


def distance_km(places: np.ndarray, place: tuple[float, float]) -> np.ndarray:
    """Return the great-circle distance of each (latitude, longitude) row to `place` (haversine formula)."""
    latitude, longitude = np.radians(places).T
    there = np.radians(place)
    half = np.sin((latitude - there[0]) / 2) ** 2
    half = half + np.cos(latitude) * np.cos(there[0]) * np.sin((longitude - there[1]) / 2) ** 2
    return 2 * 6_371.0 * np.arcsin(np.sqrt(half))


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes()


def test_the_same_seed_gives_the_same_bytes_everywhere(table: pa.Table):
    digest = hashlib.sha256(packed(table)).hexdigest()
    assert digest == "c31331f49bf342474d09c9784f308477ae9f67fbb31b867c3a1ee2bc48924f92"


def test_another_seed_gives_other_records(table: pa.Table):
    assert packed(synthetic.checkins(SEED + 1, ROWS)) != packed(table)


@pytest.mark.parametrize("rows", [1, 2, 3, 500])
def test_the_number_of_rows_is_exact_and_the_isolated_person_is_always_included(rows: int):
    people = synthetic.checkins(7, rows)["person"].to_pylist()
    assert len(people) == rows
    assert people.count("isolated-1") == 1


def test_the_isolated_person_is_far_from_all_others(table: pa.Table, places: np.ndarray):
    alone = np.array(table["person"].to_pylist()) == "isolated-1"
    assert alone.sum() == 1
    assert tuple(places[alone][0]) == synthetic.ISOLATED_PLACE
    assert distance_km(places[~alone], synthetic.ISOLATED_PLACE).min() > 4_000


def test_distances_are_those_of_the_globe():
    paris_and_pole = np.array([[48.8566, 2.3522], [90.0, 0.0]])
    london = (51.5074, -0.1278)
    assert distance_km(paris_and_pole, london) == pytest.approx([343.6, 4280.1], abs=1)


def test_places_are_on_the_globe_with_six_decimals(places: np.ndarray):
    assert np.abs(places[:, 0]).max() <= 90
    assert np.abs(places[:, 1]).max() <= 180
    assert np.array_equal(places, np.round(places, 6))


def test_venues_repeat(places: np.ndarray):
    visits = np.sort(np.unique(places, axis=0, return_counts=True)[1])[::-1]
    assert np.count_nonzero(visits > 1) > 2_000
    assert visits[0] >= 10


def test_persons_have_several_checkins_with_a_heavy_tail(table: pa.Table):
    counts = np.array(sorted(Counter(table["person"].to_pylist()).values(), reverse=True))
    assert np.mean(counts > 1) > 0.3
    assert counts[0] == synthetic.MOST_CHECKINS
    assert counts[: len(counts) // 10].sum() > 0.4 * ROWS


def test_persons_stay_mostly_in_one_city(table: pa.Table, places: np.ndarray):
    means = synthetic.truth().means
    near = np.argmin(((places[:, None, :] - means[None]) ** 2).sum(2), axis=1)
    cities: dict[str, Counter[int]] = {}
    for person, city in zip(table["person"].to_pylist(), near, strict=True):
        cities.setdefault(person, Counter())[int(city)] += 1
    at_home = [max(c.values()) / c.total() for c in cities.values() if c.total() >= 20]
    assert 0.75 < np.mean(at_home) < 0.95


def test_the_rows_are_shuffled(table: pa.Table):
    people = table["person"].to_pylist()
    assert np.mean([a == b for a, b in itertools.pairwise(people)]) < 0.02
    assert "isolated-1" not in (people[0], people[-1])


def test_the_attribute_has_its_known_probability(table: pa.Table):
    share = np.mean([value == "yes" for value in table["at_night"].to_pylist()])
    five_sigma = 5 * np.sqrt(synthetic.AT_NIGHT * (1 - synthetic.AT_NIGHT) / ROWS)
    assert share == pytest.approx(synthetic.AT_NIGHT, abs=five_sigma)


def test_the_background_is_uniform_by_area(table: pa.Table):
    far = synthetic._background(np.random.default_rng(1), 4_000)
    assert far.shape == (4_000, 2)
    inside = np.sin(np.radians(far[:, 0]))
    low, high = np.sin(np.radians(synthetic.BACKGROUND_LATITUDES))
    assert np.mean(inside < (low + high) / 2) == pytest.approx(0.5, abs=0.05)


def test_the_truth_describes_the_records(places: np.ndarray):
    truth = synthetic.truth()
    assert truth.weights.sum() + truth.background == pytest.approx(1)
    assert truth.weights == pytest.approx(truth.weights[0] / np.arange(1, 11))
    for weight, mean, covariance in zip(truth.weights, truth.means, truth.covariances, strict=True):
        white = np.linalg.solve(np.linalg.cholesky(covariance), (places - mean).T).T
        here = white[(white**2).sum(1) < 9]
        assert len(here) / ROWS == pytest.approx(weight, rel=0.35)
        assert np.abs(here.mean(0)).max() < 0.4
        assert np.linalg.eigvalsh(np.cov(here.T)) == pytest.approx([1, 1], abs=0.6)


def test_covariances_have_the_stated_axes_in_kilometres():
    truth = synthetic.truth()
    for (latitude, _, long_axis, short_axis, angle), covariance in zip(
        synthetic.CITIES.values(), truth.covariances, strict=True
    ):
        to_km = synthetic.KM_PER_DEGREE * np.diag([1, np.cos(np.radians(latitude))])
        spread, axes = np.linalg.eigh(to_km @ covariance @ to_km)
        assert np.sqrt(spread) == pytest.approx([short_axis, long_axis])
        north, east = axes[:, 1]
        assert np.sin(np.arctan2(north, east) - np.radians(angle)) == pytest.approx(0, abs=1e-6)
