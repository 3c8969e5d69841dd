"""Processing of noisy counts: non-negative counts, a fit, a number of components. None of it sees records."""

import numpy as np
import pytest
from making import make_domain, make_spec

from privmix.errors import UserError
from privmix.mechanisms.base import Spec
from privmix.mechanisms.shared.partitions import cubic_grid
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture import boxes

FLOOR = np.full(2, 1e-4)


def _synopsis(counts, deviation=1.0, **more):
    cells = len(counts)
    grid = cubic_grid(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), cells)
    assert grid.cells == cells
    counts = np.asarray(counts, dtype=float)
    return Synopsis(*grid.boxes(), counts, deviation=deviation, **({"rows": 1000} | more))


def _three_clusters(rows, deviation=0.0, **more):
    generator = np.random.Generator(np.random.PCG64(1))
    centres = np.array([[-0.5, -0.5], [0.5, -0.4], [0.0, 0.6]])
    points = centres[generator.integers(3, size=rows)] + generator.normal(0, 0.1, (rows, 2))
    grid = cubic_grid(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), 1024)
    counts = np.bincount(grid.locate(np.clip(points, -1, 1)), minlength=1024)
    noisy = counts + generator.normal(0, deviation, 1024) if deviation else counts
    return _synopsis(noisy, deviation, rows=rows, **more)


def test_counts_become_non_negative_and_keep_their_sum():
    synopsis = _synopsis([5.0, -3.0, 2.0, 8.0])
    assert synopsis.weights().sum() == pytest.approx(12.0)
    assert synopsis.weights() == pytest.approx([4.0, 0.0, 1.0, 7.0])


def test_a_public_number_of_records_is_kept_instead():
    assert _synopsis([5.0, -3.0, 2.0, 8.0], rows=20, rows_are_exact=True).weights().sum() == pytest.approx(20)


@pytest.mark.parametrize("counts", [[-1.0, -2.0, -3.0, -4.0], [0.0, 0.0, 0.0, 0.0]])
def test_without_positive_counts_the_density_is_uniform(counts):
    synopsis = _synopsis(counts)
    assert synopsis.mostly_noise
    assert synopsis.weights() == pytest.approx(np.full(4, 0.25))
    fit, notes = synopsis.fit(make_spec(3), rng=np.random.default_rng(1), searches=1)
    assert np.isfinite(fit.log_likelihood)
    assert any("mostly noise" in note for note in notes)


def _chosen(synopsis, candidates):
    spec = Spec(make_domain(), max(candidates), tuple(candidates))
    fit, notes = synopsis.fit(spec, rng=np.random.default_rng(1), searches=2)
    assert any("chosen among" in note for note in notes)
    return fit.mixture.n_components


def test_the_number_of_components_is_found_when_noise_allows_it():
    assert _chosen(_three_clusters(20_000), range(1, 6)) == 3
    assert _chosen(_three_clusters(20_000, deviation=5.0), [1, 2, 3, 5, 8]) in (3, 5)


def test_few_records_or_much_noise_or_few_persons_give_fewer_components():
    """With 40 records, 40 of which may be one person's, there is evidence for only one component."""
    assert _chosen(_three_clusters(40, records_per_unit=40), [1, 3, 6]) == 1


def test_no_more_components_than_boxes_with_a_count():
    synopsis = _synopsis([1000.0, 0.0, 0.0, 900.0])
    assert _chosen(synopsis, [6, 7]) == 2
    fit, notes = synopsis.fit(make_spec(5), rng=np.random.default_rng(1), searches=1)
    assert fit.mixture.n_components == 2
    assert any("2 of the 5 requested components" in note for note in notes)


def test_more_searches_never_end_lower():
    synopsis = _three_clusters(3000)
    kept = synopsis.counts > 0
    arguments = (synopsis.lower[kept], synopsis.upper[kept], synopsis.counts[kept], 6)
    streams = np.random.default_rng(3).spawn(4)
    single = [boxes.fit(*arguments, floor=FLOOR, rng=stream).objective for stream in streams]
    many = boxes.fit(*arguments, floor=FLOOR, rng=np.random.default_rng(3), searches=4)
    assert many.objective >= sorted(single)[1]
    with pytest.raises(UserError, match="searches >= 1"):
        boxes.fit(*arguments, floor=FLOOR, rng=np.random.default_rng(3), searches=0)
