"""Clipped standardised moments, compared with their definition for each record."""

import numpy as np
import pytest
from making import clusters

from privmix.errors import UserError
from privmix.mixture import kernel, standardised_moments
from privmix.mixture.em import public_start
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Observations, compress, observe
from privmix.mixture.standardised_moments import clipped_variance, standardised_pass


def _by_definition(points, mixture, radius):
    shares = mixture.responsibilities(points)
    k, d = mixture.means.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    for point, share in zip(points, shares, strict=True):
        for number in range(k):
            place = np.linalg.solve(mixture.cholesky[number], point - mixture.means[number])
            place = place * min(1.0, radius / np.linalg.norm(place))
            counts[number] += share[number]
            sums[number] += share[number] * place
            squares[number] += share[number] * np.outer(place, place)
    return counts, sums, squares


@pytest.mark.parametrize(("dimensions", "components"), [(1, 1), (2, 4), (5, 3)])
def test_the_pass_matches_its_definition(dimensions, components):
    points = clusters(300, dimensions)
    generator = np.random.Generator(np.random.PCG64(1))
    mixture = public_start(points.min(0), points.max(0), components, generator)
    passed = standardised_pass(observe(points), mixture, 1.5)
    counts, sums, squares = _by_definition(points, mixture, 1.5)
    assert passed.counts == pytest.approx(counts, abs=1e-9)
    assert passed.sums == pytest.approx(sums, abs=1e-9)
    assert passed.squares == pytest.approx(squares, abs=1e-9)


def _both_ways(monkeypatch, *arguments, **options):
    """Run the pass by numpy and by the compiled loop."""
    monkeypatch.setattr(standardised_moments, "WORTH_COMPILING", np.inf)
    plain = standardised_pass(*arguments)
    monkeypatch.setattr(standardised_moments, "WORTH_COMPILING", 0)
    return plain, standardised_pass(*arguments, **options)


def _narrow(points, components):
    """Return components around some of the records, such that each record belongs to few of them."""
    means = points[:: len(points) // components][:components]
    shape = np.eye(points.shape[1]) + 0.3
    weights = np.arange(1.0, components + 1)
    return Mixture(weights / weights.sum(), means, np.stack([1e-4 * shape] * components))


@pytest.mark.parametrize(
    ("dimensions", "components"), [(1, 1), (1, 6), (2, 4), (2, 30), (3, 5), (6, 3), (11, 4)]
)
@pytest.mark.parametrize("narrow", [True, False])
def test_the_compiled_pass_is_the_plain_one(monkeypatch, dimensions, components, narrow):
    points = clusters(700, dimensions)
    generator = np.random.Generator(np.random.PCG64(1))
    public = public_start(points.min(0), points.max(0), components, generator)
    mixture = _narrow(points, components) if narrow else public
    records = observe(points, generator.integers(0, 5, len(points)).astype(float))
    plain, fused = _both_ways(monkeypatch, records, mixture, 1.5)
    assert fused.counts == pytest.approx(plain.counts, abs=1e-9)
    assert fused.sums == pytest.approx(plain.sums, abs=1e-9)
    assert fused.squares == pytest.approx(plain.squares, abs=1e-9)


@pytest.mark.parametrize("weights", [[1.0, 0.0], [0.5, 0.5]])
def test_the_compiled_pass_accepts_empty_components_and_distant_records(monkeypatch, weights):
    mixture = Mixture(np.array(weights), np.array([[0.5], [-0.5]]), np.full((2, 1, 1), 1e-12))
    plain, fused = _both_ways(monkeypatch, observe(np.array([[0.9], [0.5], [-0.5]])), mixture, 3.0)
    assert fused.counts == pytest.approx(plain.counts, abs=1e-9)
    assert fused.squares == pytest.approx(plain.squares, abs=1e-9)


def test_the_compiled_pass_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(kernel, "PIECE", 300)
    points = clusters(1000)
    mixture = _narrow(points, 5)
    one, many = (
        _both_ways(monkeypatch, observe(points), mixture, 3.0, threads=threads)[1] for threads in (1, 3)
    )
    assert (one.counts == many.counts).all()
    assert (one.sums == many.sums).all()
    assert (one.squares == many.squares).all()


def test_merging_equal_records_and_the_block_size_do_not_matter():
    points = np.repeat(clusters(3000), 3, axis=0)
    mixture = public_start(points.min(0), points.max(0), 3, np.random.Generator(np.random.PCG64(1)))
    every = standardised_pass(observe(points), mixture, 3.0)
    merged = standardised_pass(compress(observe(points)), mixture, 3.0)
    assert every.squares == pytest.approx(merged.squares, abs=1e-8)
    assert every.counts.sum() == pytest.approx(len(points))


def test_a_component_of_zero_weight_has_zero_moments():
    mixture = Mixture(np.array([1.0, 0.0]), np.zeros((2, 2)), np.stack([np.eye(2)] * 2))
    passed = standardised_pass(observe(clusters(100)), mixture, 3.0)
    assert passed.counts == pytest.approx([100, 0])
    assert np.isfinite(passed.squares).all()


def test_a_record_very_far_from_every_component_still_counts_once():
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[0.5], [-0.5]]), np.full((2, 1, 1), 1e-12))
    passed = standardised_pass(observe(np.array([[0.9]])), mixture, 3.0)
    assert passed.counts.sum() == pytest.approx(1.0)
    assert passed.squares.sum() == pytest.approx(9.0)


def test_records_known_as_boxes_are_refused():
    boxes = Observations(np.zeros((2, 1)), np.ones(2), np.ones((2, 1)))
    mixture = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    with pytest.raises(UserError, match="known places"):
        standardised_pass(boxes, mixture, 3.0)


@pytest.mark.parametrize("dimensions", [1, 2, 10, 30])
def test_clipping_reduces_the_variance_of_a_gaussian_by_the_stated_factor(dimensions):
    from scipy.special import gammainc

    radius = np.sqrt(dimensions) + 1.0
    half = radius**2 / 2
    inside = dimensions * gammainc(dimensions / 2 + 1, half)  # E[r²; r < c]
    outside = radius**2 * (1 - gammainc(dimensions / 2, half))
    assert clipped_variance(dimensions, radius) == pytest.approx((inside + outside) / dimensions, rel=1e-5)
    assert clipped_variance(dimensions, 1e9) == pytest.approx(1.0, rel=1e-5)
