"""Tests of mixtures over coordinates and attributes, against sums over all components and values."""

import numpy as np
import pytest
from scipy import stats

from privmix.errors import UserError
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture

GAUSSIANS = Mixture(
    np.array([0.3, 0.7]),
    np.array([[-1.0, 0.0], [2.0, 1.0]]),
    np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.4, 0.0], [0.0, 0.9]]]),
)
SHARES = {"sex": np.array([[0.2, 0.8], [0.9, 0.1]]), "place": np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])}
MIXED = MixedMixture(GAUSSIANS, SHARES)


def density_by_hand(point, sex, place):
    return sum(
        GAUSSIANS.weights[k]
        * stats.multivariate_normal(GAUSSIANS.means[k], GAUSSIANS.covariances[k]).pdf(point)
        * SHARES["sex"][k, sex]
        * SHARES["place"][k, place]
        for k in range(2)
    )


def test_the_density_is_the_sum_over_components():
    points = np.array([[0.0, 0.0], [1.5, 1.0], [-1.0, 0.4]])
    codes = {"sex": np.array([0, 1, 1]), "place": np.array([0, 2, 1])}
    by_hand = [density_by_hand(p, s, q) for p, s, q in zip(points, *codes.values(), strict=True)]
    np.testing.assert_allclose(np.exp(MIXED.log_density(points, codes)), by_hand, rtol=1e-12)
    one = {"sex": codes["sex"]}
    summed = [
        sum(density_by_hand(p, s, q) for q in range(3)) for p, s in zip(points, codes["sex"], strict=True)
    ]
    np.testing.assert_allclose(np.exp(MIXED.log_density(points, one)), summed, rtol=1e-12)


def test_a_conditional_is_a_ratio_of_densities():
    points, codes = np.array([[0.4, 0.2], [1.0, 1.0]]), {"sex": np.array([0, 1]), "place": np.array([0, 2])}
    found = MIXED.conditional("sex", points, codes)
    by_hand = [
        [density_by_hand(point, value, place) for value in range(2)]
        for point, place in zip(points, codes["place"], strict=True)
    ]
    np.testing.assert_allclose(found, np.array(by_hand) / np.sum(by_hand, axis=1, keepdims=True), rtol=1e-10)


def test_samples_have_the_marginals_and_the_dependence_of_the_mixture():
    points, codes = MIXED.sample(200_000, np.random.default_rng(5))
    for name in SHARES:
        shares = np.bincount(codes[name], minlength=SHARES[name].shape[1]) / len(points)
        np.testing.assert_allclose(shares, MIXED.marginal(name), atol=0.005)
    right = codes["sex"] == 0
    by_mixture = GAUSSIANS.weights * SHARES["sex"][:, 0] / MIXED.marginal("sex")[0] @ GAUSSIANS.means
    np.testing.assert_allclose(points[right].mean(axis=0), by_mixture, atol=0.02)


def test_a_record_of_zero_density_is_no_failure():
    point = np.array([[1e6, 1e6]])
    codes = {"sex": np.array([0])}
    assert MIXED.log_density(point, codes)[0] == -np.inf or np.isfinite(MIXED.log_density(point, codes)[0])
    np.testing.assert_allclose(MIXED.responsibilities(point, codes).sum(), 1)


@pytest.mark.parametrize(
    "shares",
    [np.array([[0.5, 0.5]]), np.array([[0.5, 0.6], [0.5, 0.5]]), np.array([[-0.1, 1.1], [0.5, 0.5]])],
)
def test_bad_shares_are_explained(shares):
    with pytest.raises(UserError, match="shares of attribute 'a'"):
        MixedMixture(GAUSSIANS, {"a": shares})


def test_an_unknown_attribute_is_explained():
    with pytest.raises(UserError, match="no attribute 'z'"):
        MIXED.log_density(np.zeros((1, 2)), {"z": np.zeros(1, dtype=int)})
