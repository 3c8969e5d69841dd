"""Many fits to subsets in one call equal single fits to each subset."""

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.mixture.em import fit, fit_many
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import observe, observe_boxes

FLOOR = np.full(2, 1e-6)


def records(n: int = 400, d: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-0.6, 0.6, (4, d))
    return centres[rng.integers(4, size=n)] + rng.normal(0, 0.06, (n, d))


def masks(number: int, n: int = 400, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.random(n) < 0.5 for _ in range(number)]


def assert_identical(one: FitResult, other: FitResult) -> None:
    for name in ("weights", "means", "covariances"):
        np.testing.assert_array_equal(getattr(one.mixture, name), getattr(other.mixture, name))
    assert one.log_likelihood == other.log_likelihood
    assert (one.iterations, one.converged, one.notes) == (other.iterations, other.converged, other.notes)


def test_a_fit_does_not_depend_on_the_other_subsets():
    points, subsets = records(), masks(4)
    together = fit_many(points, 3, subsets, rng=np.random.default_rng(0), relocations=6)
    others = [points[:, 0] > 0, subsets[1], ~subsets[2]]
    changed = fit_many(points, 3, others, rng=np.random.default_rng(0), relocations=6)
    assert_identical(together[1], changed[1])
    for number in (0, 2):
        assert not np.array_equal(together[number].mixture.means, changed[number].mixture.means)


def test_each_fit_has_its_own_random_numbers():
    same = [np.ones(400, dtype=bool)] * 6
    fits = fit_many(
        records(), 3, same, rng=np.random.default_rng(0), floor=FLOOR, starts=1, relocations=0, max_iter=1
    )
    assert len({each.log_likelihood for each in fits}) > 1


def test_the_fit_of_all_records_is_the_single_fit_with_the_spawned_stream():
    points = records()
    everybody = [np.ones(400, dtype=bool)] * 3
    many = fit_many(points, 3, everybody, rng=np.random.default_rng(5), relocations=0, starts=1, max_iter=1)
    for each, stream in zip(many, np.random.default_rng(5).spawn(3), strict=True):
        alone = fit(points, 3, rng=stream, relocations=0, starts=1, max_iter=1)
        np.testing.assert_allclose(each.mixture.means, alone.mixture.means, atol=1e-9)
        assert each.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_the_fit_of_a_subset_is_the_fit_of_its_records(covariance):
    points, subsets = records(d=4), masks(3)
    centres = np.random.default_rng(0).uniform(-0.6, 0.6, (4, 4))  # as in the records
    options = {
        "floor": np.full(4, 1e-6), "start": Mixture(np.full(4, 0.25), centres, [0.01 * np.eye(4)] * 4),
        "relocations": 0, "tol": 1e-13, "covariance": covariance,
    }  # fmt: skip
    together = fit_many(points, 4, subsets, rng=np.random.default_rng(0), **options)
    for mask, many in zip(subsets, together, strict=True):
        alone = fit(points[mask], 4, rng=np.random.default_rng(9), **options)
        np.testing.assert_allclose(many.mixture.means, alone.mixture.means, atol=1e-6)
        np.testing.assert_allclose(many.mixture.covariances, alone.mixture.covariances, atol=1e-7)
        assert many.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-9)
        assert many.log_likelihood == pytest.approx(many.mixture.log_density(points[mask]).mean(), abs=1e-9)


def test_the_search_of_a_subset_equals_a_single_search():
    points, subsets = records(), masks(4)
    together = fit_many(points, 4, subsets, rng=np.random.default_rng(0), floor=FLOOR)
    for mask, many in zip(subsets, together, strict=True):
        alone = fit(points[mask], 4, rng=np.random.default_rng(9), floor=FLOOR)
        assert many.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-3)


def test_records_at_repeated_places_each_count():
    rng = np.random.default_rng(0)
    points = rng.integers(-4, 5, (400, 2)) / 10
    subsets = masks(3)
    many = fit_many(points, 2, subsets, rng=np.random.default_rng(0), floor=np.full(2, 1e-3), relocations=0)
    for mask, each in zip(subsets, many, strict=True):
        mean = each.mixture.weights @ each.mixture.means
        np.testing.assert_allclose(mean, points[mask].mean(axis=0), atol=1e-9)
        assert each.log_likelihood == pytest.approx(each.mixture.log_density(points[mask]).mean(), abs=1e-9)


def test_subsets_keep_weights_and_boxes():
    rng = np.random.default_rng(0)
    lower = rng.integers(-4, 4, (400, 2)) / 10
    boxes = observe_boxes(lower, lower + 0.1, rng.integers(0, 4, 400).astype(float))
    (mask,) = masks(1)
    (many,) = fit_many(boxes, 1, [mask], rng=np.random.default_rng(0), floor=FLOOR)
    centre, covariance = observe_boxes(lower[mask], lower[mask] + 0.1, boxes.weights[mask]).covariance()
    np.testing.assert_allclose(many.mixture.means[0], centre, atol=1e-12)
    np.testing.assert_allclose(many.mixture.covariances[0], covariance, atol=1e-12)


@pytest.mark.parametrize(
    "mask",
    [np.ones(399, dtype=bool), np.ones((400, 1), dtype=bool), np.ones(400, dtype=int), np.arange(50), "all"],
    ids=["too short", "a column", "integers", "row numbers", "text"],
)
def test_a_subset_must_be_a_boolean_mask_over_the_records(mask):
    with pytest.raises(UserError, match="subset 1 must be a boolean mask over the 400 records"):
        fit_many(records(), 2, [np.ones(400, dtype=bool), mask], rng=np.random.default_rng(0))


def test_a_mask_may_be_a_list_of_booleans():
    points = records(40)
    (listed,) = fit_many(points, 1, [[True] * 40], rng=np.random.default_rng(0))
    np.testing.assert_allclose(listed.mixture.means[0], points.mean(axis=0))


def test_a_subset_smaller_than_the_number_of_components_is_refused():
    few = np.arange(400) < 2
    with pytest.raises(UserError, match="cannot fit 3 components to 2 records"):
        fit_many(records(), 3, [np.ones(400, dtype=bool), few], rng=np.random.default_rng(0))
    with pytest.raises(UserError):
        fit_many(records(), 1, [np.zeros(400, dtype=bool)], rng=np.random.default_rng(0))


def test_a_subset_with_one_place_is_at_the_floor_with_a_note():
    points = records()
    fits = fit_many(points, 1, [np.arange(400) == 7, np.ones(400, dtype=bool)], rng=np.random.default_rng(0))
    assert fits[0].mixture.means[0] == pytest.approx(points[7])
    assert fits[0].notes == ("1 of 1 components are as narrow as the floor allows.",)
    assert fits[1].notes == ()


def test_the_result_does_not_depend_on_the_number_of_threads():
    points, subsets = records(), masks(3)
    one, two = (
        fit_many(points, 3, subsets, rng=np.random.default_rng(0), relocations=4, threads=threads)
        for threads in (1, 2)
    )
    for alone, shared in zip(one, two, strict=True):
        assert_identical(alone, shared)


def test_records_given_as_observations_or_points_are_the_same():
    points, (mask,) = records(), masks(1)
    (plain,) = fit_many(points, 2, [mask], rng=np.random.default_rng(0))
    (observed,) = fit_many(observe(points), 2, [mask], rng=np.random.default_rng(0))
    assert_identical(plain, observed)
