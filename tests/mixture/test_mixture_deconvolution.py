from functools import partial

import numpy as np
import pytest
from scipy.stats import gamma, laplace, norm

from privmix.errors import UserError
from privmix.mixture import em
from privmix.mixture.deconvolution import (
    LAPLACE_NODES,
    ScaleMixture,
    cap_covariances,
    fit,
    gaussian_scales,
    group_reports,
    laplace_scales,
    noisy_joint,
    noisy_passes,
    planar_laplace_scales,
    report_mixtures,
    resolvable_variance,
)
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters, estimate, observe

BOX = {"lower": np.full(2, -0.7), "upper": np.full(2, 0.7)}
FLOOR = np.full(2, 1e-6)
TRUTH = Mixture(
    [0.5, 0.3, 0.2],
    [[-0.4, -0.3], [0.4, 0.3], [0.3, -0.5]],
    [np.eye(2) * 0.004, np.diag([0.01, 0.003]), np.eye(2) * 0.002],
)


@pytest.mark.parametrize(
    ("nodes", "error"), [(1, 0.063), (2, 0.012), (3, 0.0031), (4, 0.00095), (5, 0.00035)]
)
def test_laplace_scales_match_the_cdf_and_the_variance(nodes, error):
    noise = laplace_scales(0.3, 1, nodes)
    x = np.linspace(0, 5, 4001)
    cdf = norm.cdf(x[:, None] / np.sqrt(noise.covariances[:, 0, 0])) @ noise.weights
    assert np.abs(cdf - laplace(scale=0.3).cdf(x)).max() < error
    assert noise.covariance[0, 0] == pytest.approx(2 * 0.3**2, rel=1e-12)


@pytest.mark.parametrize("nodes", list(LAPLACE_NODES))
def test_laplace_nodes_are_the_nearest_in_divergence(nodes):
    """At the optimum, an EM step on the Laplace density itself changes nothing."""
    weights, variances = (np.array(part) for part in LAPLACE_NODES[nodes])
    variances = 2 * variances
    t, width = np.linspace(np.log(1e-7), np.log(45), 200_001, retstep=True)
    x = np.exp(t)
    mass = width * x * np.exp(-x)  # |x| is exponential for b = 1
    joint = weights * np.exp(-np.square(x[:, None]) / (2 * variances)) / np.sqrt(variances)
    share = joint / joint.sum(axis=1, keepdims=True) * mass[:, None]
    np.testing.assert_allclose(share.sum(axis=0), weights, rtol=2e-5)
    np.testing.assert_allclose(np.square(x) @ share / share.sum(axis=0), variances, rtol=2e-5)


@pytest.mark.parametrize(
    ("nodes", "divergence", "error"),
    [(1, 0.099, 0.131), (2, 0.0085, 0.021), (3, 0.0011, 0.0045), (4, 0.00019, 0.0014), (5, 3.6e-5, 0.00046)],
)
def test_planar_scales_are_the_nearest_to_the_planar_laplace_density(nodes, divergence, error):
    """Divergence and cdf error are small, the variance is exact, and an EM step on the density changes nothing."""
    noise = planar_laplace_scales(1.0, nodes)
    np.testing.assert_allclose(noise.covariance, 3 * np.eye(2), rtol=1e-12)
    t, width = np.linspace(np.log(1e-6), np.log(50), 50_001, retstep=True)
    r = np.exp(t)
    mass = width * r**2 * np.exp(-r)  # the radius has density r exp(-r) for b = 1
    variances = noise.covariances[:, 0, 0]
    joint = noise.weights * np.exp(-np.square(r[:, None]) / (2 * variances)) / (2 * np.pi * variances)
    density = joint.sum(axis=1)
    assert 0 < mass @ (-r - np.log(2 * np.pi) - np.log(density)) < divergence
    cdf = 1 - np.exp(-np.square(r[:, None]) / (2 * variances)) @ noise.weights
    assert np.abs(cdf - gamma(2).cdf(r)).max() < error
    share = joint / density[:, None] * mass[:, None]
    np.testing.assert_allclose(share.sum(axis=0), noise.weights, rtol=3e-5)
    np.testing.assert_allclose(np.square(r) @ share / share.sum(axis=0) / 2, variances, rtol=3e-5)


@pytest.mark.parametrize(("d", "scales"), [(1, 4), (2, 16), (3, 27), (4, 16), (5, 32), (6, 1), (30, 1)])
def test_scales_stay_few_in_many_dimensions(d, scales):
    noise = laplace_scales(0.5, d)
    assert len(noise.weights) == scales
    np.testing.assert_allclose(noise.covariance, np.eye(d) * 0.5, atol=1e-12)


def noisy_pass(reports, mixture, noise):
    return noisy_passes([reports], Parameters.of([mixture]), noise)[0]


def of_reports(mixture, noise):
    return report_mixtures(Parameters.of([mixture]), noise).mixture(0)


def test_laplace_scales_are_independent_coordinates():
    noise = laplace_scales(1.0, 2, 3)
    fourth = noise.weights @ (noise.covariances[:, 0, 0] * noise.covariances[:, 1, 1])
    assert fourth == pytest.approx(4.0)  # E τ₁τ₂ = (2b²)²


def test_a_pass_without_noise_is_the_plain_pass():
    points = TRUTH.sample(500, np.random.default_rng(0))
    start = em.public_start(**BOX, n_components=3, rng=np.random.default_rng(0))
    plain = em_pass(observe(points), start)
    through = noisy_pass(observe(points), start, gaussian_scales(0.0, 2))
    for name in ("counts", "sums", "squares", "log_likelihood", "total_weight"):
        np.testing.assert_allclose(getattr(through, name), getattr(plain, name), rtol=1e-9, atol=1e-9)


def test_a_pass_is_the_posterior_expectation_of_the_records():
    """Compare with the conditional Gaussian of each record, computed from the joint distribution of (x, y)."""
    noise = ScaleMixture([0.3, 0.7], [[[0.02, 0.01], [0.01, 0.03]], [[0.2, 0.0], [0.0, 0.1]]])
    reports = np.random.default_rng(0).normal(size=(40, 2)) * 0.5
    shares = of_reports(TRUTH, noise).responsibilities(reports).reshape(40, 3, 2)
    sums, squares = np.zeros((3, 2)), np.zeros((3, 2, 2))
    for i, k, j in np.ndindex(40, 3, 2):
        precision = np.linalg.inv(TRUTH.covariances[k]) + np.linalg.inv(noise.covariances[j])
        covariance = np.linalg.inv(precision)
        mean = covariance @ (
            np.linalg.solve(TRUTH.covariances[k], TRUTH.means[k])
            + np.linalg.solve(noise.covariances[j], reports[i])
        )
        sums[k] += shares[i, k, j] * mean
        squares[k] += shares[i, k, j] * (covariance + np.outer(mean, mean))
    moments = noisy_pass(observe(reports), TRUTH, noise)
    np.testing.assert_allclose(moments.counts, shares.sum(axis=(0, 2)), rtol=1e-10)
    np.testing.assert_allclose(moments.sums, sums, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(moments.squares, squares, rtol=1e-9, atol=1e-10)
    assert moments.log_likelihood == pytest.approx(of_reports(TRUTH, noise).log_density(reports).sum())


def test_the_joint_of_a_component_is_the_sum_over_its_scales_of_noise():
    noise, reports = laplace_scales(0.3, 2, 3), np.random.default_rng(0).normal(size=(30, 2))
    joint = noisy_joint(observe(reports), TRUTH, noise)
    assert joint.shape == (3, 30)
    for number in range(3):
        alone = Mixture([1.0], TRUTH.means[[number]], TRUTH.covariances[[number]])
        wanted = np.log(TRUTH.weights[number]) + of_reports(alone, noise).log_density(reports)
        np.testing.assert_allclose(joint[number], wanted, rtol=1e-9, atol=1e-9)


def test_no_component_is_wider_than_half_the_box_and_others_are_left_alone():
    side = np.array([2.0, 4.0])
    covariances = np.array(
        [[[9.0, 0.0], [0.0, 1.0]], [[0.5, 0.1], [0.1, 3.9]], [[100.0, 99.99], [99.99, 100.0]]]
    )
    found = cap_covariances(covariances, side, np.full(2, 1e-3))
    np.testing.assert_allclose(found[0], [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(found[1], covariances[1])
    assert (np.diagonal(found[2]) <= side**2 / 4 * (1 + 1e-9)).all()
    assert found[2][0, 1] > 0.7  # the rest of its shape is kept
    assert (np.linalg.eigvalsh(found) >= 1e-3 * (1 - 1e-9)).all()


@pytest.mark.parametrize("noise", [gaussian_scales(0.3, 2), laplace_scales(0.3, 2)])
def test_noise_aware_em_never_lowers_the_objective(noise):
    rng = np.random.default_rng(0)
    reports = observe(TRUTH.sample(800, rng) + rng.laplace(scale=0.3, size=(800, 2)))
    mixture, reached = em.public_start(**BOX, n_components=3, rng=rng), -np.inf
    for _ in range(40):
        moments = noisy_pass(reports, mixture, noise)
        assert moments.log_likelihood >= reached - 1e-8
        reached = moments.log_likelihood
        mixture = estimate(moments, floor=FLOOR)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_mixture_is_recovered_through_noise_far_better_than_naively(kind):
    rng = np.random.default_rng(0)
    points = TRUTH.sample(15_000, rng)
    draw, noise = {
        "gaussian": (rng.normal(scale=0.2, size=points.shape), gaussian_scales(0.2, 2)),
        "laplace": (rng.laplace(scale=0.15, size=points.shape), laplace_scales(0.15, 2)),
    }[kind]
    reports = observe(points + draw)
    naive = em.fit(reports, 3, floor=FLOOR, rng=rng, relocations=0).mixture
    aware = fit(reports, 3, noise, **BOX, floor=FLOOR, rng=rng).mixture
    fresh = TRUTH.sample(5000, rng)
    ceiling = TRUTH.log_density(fresh).mean()
    lost_naive = ceiling - naive.log_density(fresh).mean()
    lost_aware = ceiling - aware.log_density(fresh).mean()
    assert lost_naive > 0.5
    assert lost_aware < 0.15
    for mean in TRUTH.means:
        assert np.sqrt(np.square(aware.means - mean).sum(axis=1).min()) < 0.05


def test_without_noise_it_is_the_plain_fit():
    points = TRUTH.sample(4000, np.random.default_rng(0))
    plain = em.fit(observe(points), 3, floor=FLOOR, rng=np.random.default_rng(0))
    for sigma in (0.0, 1e-7):
        noise = gaussian_scales(sigma, 2)
        aware = fit(observe(points), 3, noise, **BOX, floor=FLOOR, rng=np.random.default_rng(0), tol=1e-7)
        assert aware.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-3)
        order = [
            int(np.square(aware.mixture.means - mean).sum(axis=1).argmin()) for mean in plain.mixture.means
        ]
        np.testing.assert_allclose(aware.mixture.means[order], plain.mixture.means, atol=0.01)


def test_grouping_reports_keeps_moments_and_hardly_changes_the_fit():
    rng = np.random.default_rng(0)
    noise = laplace_scales(0.4, 2)
    reports = observe(TRUTH.sample(20_000, rng) + rng.laplace(scale=0.4, size=(20_000, 2)))
    fewer = group_reports(reports, noise, FLOOR)
    assert len(fewer) < 6000
    assert fewer.total_weight == pytest.approx(reports.total_weight)
    for one, other in zip(fewer.covariance(), reports.covariance(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    start = em.public_start(**BOX, n_components=1, rng=rng)
    climb = partial(
        em.loop, mixture=start, floor=FLOOR, expectation=partial(noisy_passes, noise=noise), tol=1e-7
    )
    full, cells = climb(reports).mixture, climb(fewer).mixture
    # standard errors here: 0.004 of a mean, 0.005 of a variance
    np.testing.assert_allclose(cells.means, full.means, atol=0.001)
    np.testing.assert_allclose(cells.covariances, full.covariances, atol=0.004)


def test_reports_are_not_grouped_if_the_noise_is_smaller_than_their_distances():
    reports = observe(TRUTH.sample(1000, np.random.default_rng(0)))
    assert len(group_reports(reports, gaussian_scales(1e-12, 2), np.full(2, 1e-30))) == 1000


def test_overwhelming_noise_gives_a_broad_mixture_inside_the_box_with_a_note():
    rng = np.random.default_rng(0)
    points = TRUTH.sample(3000, rng)
    reports = observe(points + rng.laplace(scale=20.0, size=points.shape))
    result = fit(reports, 8, laplace_scales(20.0, 2), **BOX, floor=FLOOR, rng=rng)
    assert (np.abs(result.mixture.means) <= 0.7).all()
    assert "support" in " ".join(result.notes)
    # no spikes fitted to noise: within two nats of the uniform density on the box
    assert result.mixture.log_density(points).mean() > -np.log(1.4**2) - 2


@pytest.mark.parametrize("scale", [3.0, 100.0, 3000.0])
def test_few_reports_in_many_dimensions_through_overwhelming_noise_are_no_worse_than_the_box(scale):
    """An estimate minus the noise has directions of no variance, which the fit must not use."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.3, 0.1, size=(300, 6))
    for noise, drawn in (
        (gaussian_scales(scale, 6), rng.normal(scale=scale, size=points.shape)),
        (laplace_scales(scale, 6), rng.laplace(scale=scale, size=points.shape)),
    ):
        box = {"lower": np.full(6, -0.4), "upper": np.full(6, 0.4)}
        result = fit(observe(points + drawn), 3, noise, **box, floor=np.full(6, 1e-6), rng=rng)
        assert result.mixture.log_density(points).mean() > -6 * np.log(0.8) - 8


@pytest.mark.filterwarnings("error")
def test_equal_reports_give_a_mixture_at_their_place():
    result = fit(
        observe(np.full((50, 2), 0.25)),
        4,
        gaussian_scales(1e-9, 2),
        **BOX,
        floor=FLOOR,
        rng=np.random.default_rng(0),
    )
    centre = result.mixture.weights @ result.mixture.means
    np.testing.assert_allclose(centre, 0.25, atol=1e-3)
    assert np.isfinite(result.mixture.log_density(np.zeros((1, 2)))).all()


def test_the_resolvable_floor_follows_noise_and_reports():
    wide = {"lower": np.full(2, -100.0), "upper": np.full(2, 100.0)}
    at = partial(resolvable_variance, noise=gaussian_scales(1.0, 2), floor=FLOOR)
    np.testing.assert_allclose(at(200, 1, **wide), 0.1)
    np.testing.assert_allclose(at(20_000, 1, **wide), 0.01)
    np.testing.assert_allclose(at(200, 1, lower=np.zeros(2), upper=np.ones(2)), 1 / 12)
    np.testing.assert_allclose(
        resolvable_variance(10, 1, gaussian_scales(0.0, 2), **wide, floor=FLOOR), FLOOR
    )


def test_a_start_sets_the_number_of_components():
    reports = observe(TRUTH.sample(500, np.random.default_rng(0)))
    result = fit(
        reports,
        3,
        gaussian_scales(0.1, 2),
        **BOX,
        floor=FLOOR,
        rng=np.random.default_rng(0),
        start=TRUTH,
        max_iter=0,
    )
    np.testing.assert_array_equal(result.mixture.means, TRUTH.means)


@pytest.mark.parametrize(
    ("weights", "covariances", "sentence"),
    [
        ([0.5, 0.6], [[1.0], [1.0]], "sum to 1"),
        ([1.0], [[-1.0]], "positive semidefinite"),
        ([1.0], [[np.nan]], "finite"),
        ([1.0], [[1.0], [1.0]], "weights"),
    ],
)
def test_invalid_noise_is_refused(weights, covariances, sentence):
    with pytest.raises(UserError, match=sentence):
        ScaleMixture(weights, covariances)


def test_wrong_dimensions_nodes_and_sizes_are_refused():
    reports = observe(np.zeros((5, 2)))
    with pytest.raises(UserError, match="3 dimensions"):
        fit(reports, 1, gaussian_scales(1.0, 3), **BOX, floor=FLOOR, rng=np.random.default_rng(0))
    with pytest.raises(UserError, match="9 components to 5 reports"):
        fit(reports, 9, gaussian_scales(1.0, 2), **BOX, floor=FLOOR, rng=np.random.default_rng(0))
    with pytest.raises(UserError, match="1 to 5 nodes"):
        laplace_scales(1.0, 2, 6)
    with pytest.raises(UserError, match="1 to 5 nodes"):
        planar_laplace_scales(1.0, 0)


def test_means_end_inside_the_public_box_with_the_likelihood_they_have_there():
    outside = Mixture([0.5, 0.5], [[2.0, 0.1], [0.0, 0.0]], [np.eye(2) * 0.1] * 2)
    reports, noise = observe(TRUTH.sample(100, np.random.default_rng(0))), gaussian_scales(0.1, 2)
    result = fit(
        reports, 2, noise, **BOX, floor=FLOOR, rng=np.random.default_rng(0), start=outside, max_iter=0
    )
    np.testing.assert_array_equal(result.mixture.means, [[0.7, 0.1], [0.0, 0.0]])
    assert result.log_likelihood == pytest.approx(
        of_reports(result.mixture, noise).log_density(reports.points).mean()
    )
    assert "1 of 2 means were moved" in result.notes[-1]


def test_a_fit_to_reports_uses_the_options():
    reports, noise = observe(TRUTH.sample(300, np.random.default_rng(0))), gaussian_scales(0.05, 2)

    def found(**options):
        return fit(reports, 3, noise, **BOX, floor=FLOOR, rng=np.random.default_rng(0), **options).mixture

    assert not (found(covariance="diagonal").covariances * (1 - np.eye(2))).any()
    np.testing.assert_array_equal(found(threads=2).means, found(threads=1).means)
    assert found(relocations=0).n_components <= 3
    with pytest.raises(UserError, match="starts >= 1"):
        found(starts=0)
