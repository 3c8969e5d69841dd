"""Merging and splitting of components keep the moments, and merging takes the cheapest pair first."""

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.mixture.model import Mixture
from privmix.mixture.search import merge_costs, reduce_components, split_components

FLOOR = np.full(2, 1e-8)


def _random(components=5, dimensions=2, seed=0):
    generator = np.random.Generator(np.random.PCG64(seed))
    factors = generator.normal(size=(components, dimensions, dimensions)) * 0.1
    covariances = factors @ factors.transpose(0, 2, 1) + 1e-3 * np.eye(dimensions)
    return Mixture(
        generator.dirichlet(np.ones(components)), generator.normal(size=(components, dimensions)), covariances
    )


def _overall(mixture):
    mean = mixture.weights @ mixture.means
    away = mixture.means - mean
    within = np.einsum("k,kij->ij", mixture.weights, mixture.covariances)
    return mean, within + np.einsum("k,ki,kj->ij", mixture.weights, away, away)


@pytest.mark.parametrize("components", [1, 2, 4])
def test_reduction_keeps_mean_and_covariance(components):
    mixture = _random()
    fewer = reduce_components(mixture, components)
    assert fewer.n_components == components
    for kept, before in zip(_overall(fewer), _overall(mixture), strict=True):
        assert kept == pytest.approx(before, abs=1e-12)


def test_merging_copies_of_a_component_costs_nothing():
    mixture = _random(3)
    twice = Mixture(
        np.concatenate([mixture.weights * 0.3, mixture.weights * 0.7]),
        np.concatenate([mixture.means] * 2),
        np.concatenate([mixture.covariances] * 2),
    )
    assert merge_costs(twice)[[0, 1, 2], [3, 4, 5]] == pytest.approx(0.0, abs=1e-12)
    points = mixture.sample(50, np.random.Generator(np.random.PCG64(1)))
    assert reduce_components(twice, 3).log_density(points) == pytest.approx(mixture.log_density(points))


def test_the_cost_bounds_the_divergence():
    """KL(mixture ‖ merged) by sampling is at most the bound (Runnalls 2007)."""
    mixture = _random(2, seed=3)
    points = mixture.sample(20000, np.random.Generator(np.random.PCG64(2)))
    divergence = (mixture.log_density(points) - reduce_components(mixture, 1).log_density(points)).mean()
    assert 0 < divergence <= merge_costs(mixture)[0, 1] * 1.05


def test_components_without_weight_can_be_merged():
    mixture = Mixture(np.array([1.0, 0.0, 0.0]), np.eye(3)[:, :2], np.stack([np.eye(2)] * 3))
    assert reduce_components(mixture, 1).weights == pytest.approx([1.0])


def test_reduction_to_zero_components_is_refused():
    with pytest.raises(UserError, match="at least 1"):
        reduce_components(_random(), 0)


def test_splitting_keeps_mean_and_covariance():
    mixture = _random()
    for n_splits in (1, 5):
        more = split_components(mixture, n_splits, FLOOR)
        assert more.n_components == 5 + n_splits
        for kept, before in zip(_overall(more), _overall(mixture), strict=True):
            assert kept == pytest.approx(before, abs=1e-12)


def test_split_components_are_merged_again():
    """The halves of one component are closer to each other than separate components."""
    means = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    mixture = Mixture(np.full(3, 1 / 3), means, np.stack([np.eye(2) * 1e-2] * 3))
    again = reduce_components(split_components(mixture, 3, FLOOR), 3)
    order = np.argsort(again.means[:, 0])
    assert again.means[order] == pytest.approx(mixture.means)
    assert again.covariances[order] == pytest.approx(mixture.covariances)


def test_halves_are_no_narrower_than_the_floor():
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), 1e-4 * np.eye(2)[None])
    halves = split_components(mixture, 1, np.full(2, 1e-4))
    assert (np.linalg.eigvalsh(halves.covariances) >= 1e-4 * (1 - 1e-9)).all()
