"""The conjugate posterior: formulas compared with brute force, draws compared with scipy."""

import numpy as np
import pytest
from scipy import stats

from privmix.mixture.posterior import ConjugatePrior, posterior, sample_inverse_wishart

PRIOR = ConjugatePrior(alpha=1.0, kappa=1.0, freedom=5.0, scale=0.3)


def _generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def _statistics(points):
    return np.array([float(len(points))]), points.sum(axis=0)[None], (points.T @ points)[None]


def test_the_posterior_is_prior_times_likelihood():
    """The log posterior density is log prior plus log likelihood up to one constant, at random parameters."""
    points = _generator(1).normal(0.2, 0.5, (30, 2))
    found = posterior(*_statistics(points), PRIOR)
    differences = []
    for seed in range(20):
        generator = _generator(100 + seed)
        covariance = stats.invwishart(6, np.eye(2)).rvs(random_state=generator)
        mean = generator.normal(0, 0.5, 2)
        normal = stats.multivariate_normal
        before = stats.invwishart(PRIOR.freedom, PRIOR.scale * np.eye(2)).logpdf(covariance)
        before += normal(np.zeros(2), covariance / PRIOR.kappa).logpdf(mean)
        after = stats.invwishart(found.freedoms[0], found.scales[0]).logpdf(covariance)
        after += normal(found.means[0], covariance / found.kappas[0]).logpdf(mean)
        differences.append(after - before - normal(mean, covariance).logpdf(points).sum())
    assert np.ptp(differences) < 1e-8


def test_weights_follow_the_dirichlet():
    counts = np.array([3.0, 10.0, -2.0])
    found = posterior(counts, np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1)), PRIOR)
    assert found.concentration == pytest.approx([4.0, 11.0, 1.0])
    assert found.mean_weights == pytest.approx([0.25, 0.6875, 0.0625])


@pytest.mark.parametrize("d", [1, 2, 4])
def test_draws_of_the_inverse_wishart_have_its_moments(d):
    """The mean is S/(ν - d - 1); a diagonal entry is inverse gamma (Kolmogorov-Smirnov, false alarm 1e-6)."""
    freedom, root = d + 6.0, np.tril(_generator(2).normal(size=(d, d))) + 2 * np.eye(d)
    scale = root @ root.T
    draws = sample_inverse_wishart(
        np.full(20_000, freedom), np.broadcast_to(scale, (20_000, d, d)), _generator(3)
    )
    assert draws.mean(axis=0) == pytest.approx(scale / (freedom - d - 1), abs=0.05 * np.trace(scale))
    law = stats.invgamma((freedom - d + 1) / 2, scale=scale[0, 0] / 2)
    assert stats.kstest(draws[:, 0, 0], law.cdf).pvalue > 1e-6
    assert (
        stats.kstest(draws[:, 0, 0], stats.invgamma((freedom - d + 2) / 2, scale=scale[0, 0] / 2).cdf).pvalue
        < 1e-6
    )


def test_draws_have_the_means_of_the_posterior():
    points = _generator(4).normal(0.2, 0.5, (50, 2))
    one = posterior(*_statistics(points), PRIOR)
    many = posterior(*(np.repeat(part[None], 4000, axis=0) for part in _statistics(points)), PRIOR)
    weights, means, covariances = many.draw(_generator(5))
    assert weights == pytest.approx(1.0)
    assert means.mean(axis=0) == pytest.approx(one.means, abs=0.01)
    assert covariances.mean(axis=0) == pytest.approx(one.mean_covariances, abs=0.01)


def test_noisy_statistics_always_give_a_posterior():
    found = posterior(np.array([-5.0]), np.array([[3.0, 1.0]]), np.array([[[-1.0, 4.0], [4.0, 2.0]]]), PRIOR)
    assert np.linalg.eigvalsh(found.scales).min() >= PRIOR.scale * (1 - 1e-9)
    assert all(np.isfinite(part).all() for part in found.draw(_generator(6)))
