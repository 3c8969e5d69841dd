"""Records that lack coordinates: densities, completed moments, EM without the bias of complete records, and shares."""

import numpy as np
import pytest
from scipy import stats

from privmix.mixture import em, mixed_em, standardised_moments
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture, split_patterns
from privmix.mixture.moments import Parameters, observe, observe_incomplete
from privmix.mixture.standardised_moments import clipped_variance, completed_pass, standardised_pass

FLOOR = 1e-6


def make_mixture(d, k=2, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.2
    covariances = factors @ factors.transpose(0, 2, 1) + 0.01 * np.eye(d)
    return Mixture(rng.dirichlet(np.full(k, 5.0)), rng.normal(size=(k, d)) * 0.4, covariances)


def make_points(mixture, n=300, seed=1, share=0.4):
    rng = np.random.default_rng(seed)
    return mixture.sample(n, rng), rng.random((n, mixture.dimensions)) < share


def test_patterns_cover_every_row_once():
    absent = np.random.default_rng(0).random((500, 9)) < 0.3
    found = split_patterns(absent)
    assert sorted(np.concatenate([rows for _, rows in found])) == list(range(500))
    assert len({tuple(present) for present, _ in found}) == len(found)
    for present, rows in found:
        assert (absent[rows] == ~present).all()
    assert split_patterns(np.zeros((0, 3), dtype=bool)) == []


def test_the_density_is_that_of_the_coordinates_that_are_there():
    mixture = make_mixture(3)
    points, absent = make_points(mixture)
    absent[0] = True
    wanted = np.empty((300, 2))
    for row, (point, lacks) in enumerate(zip(points, absent, strict=True)):
        for k in range(2):
            there = ~lacks
            mean, covariance = mixture.means[k, there], mixture.covariances[k][np.ix_(there, there)]
            density = stats.multivariate_normal.pdf(point[there], mean, covariance) if there.any() else 1.0
            wanted[row, k] = mixture.weights[k] * density
    assert np.exp(mixture.log_joint(points, absent)) == pytest.approx(wanted)
    assert np.exp(mixture.log_density(points, absent)) == pytest.approx(wanted.sum(axis=1))
    shares = wanted / wanted.sum(axis=1, keepdims=True)
    assert mixture.responsibilities(points, absent) == pytest.approx(shares)
    mixed = MixedMixture(mixture, {"c": np.array([[0.9, 0.1], [0.3, 0.7]])})
    codes = np.arange(300) % 2
    joint = wanted * mixed.shares["c"].T[codes]
    assert np.exp(mixed.log_density(points, {"c": codes}, absent)) == pytest.approx(joint.sum(axis=1))
    own = joint / joint.sum(axis=1, keepdims=True)
    assert mixed.responsibilities(points, {"c": codes}, absent) == pytest.approx(own)
    assert mixed.conditional("c", points, {}, absent) == pytest.approx(shares @ mixed.shares["c"])


def _by_definition(points, absent, mixture, radius):
    """Complete each record as the conditional mean and covariance of w given L_O w = x_O - μ_O."""
    k, d = mixture.means.shape
    shares, left = mixture.responsibilities(points, absent), clipped_variance(d, radius)
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    for point, lacks, share in zip(points, absent, shares, strict=True):
        for number in range(k):
            some = mixture.cholesky[number][~lacks]
            solved = some.T @ np.linalg.inv(some @ some.T) if len(some) else np.zeros((d, 0))
            place = solved @ (point - mixture.means[number])[~lacks]
            place = place * min(1.0, radius / max(np.linalg.norm(place), 1e-300))
            unknown = np.eye(d) - solved @ some
            assert unknown @ place == pytest.approx(np.zeros(d), abs=1e-9)
            assert np.square(unknown).sum() == pytest.approx(lacks.sum())
            counts[number] += share[number]
            sums[number] += share[number] * place
            squares[number] += share[number] * (np.outer(place, place) + left * unknown)
    return counts, sums, squares


@pytest.mark.parametrize("dimensions", [1, 2, 5])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_completed_pass_matches_its_definition(dimensions, compiled, monkeypatch):
    monkeypatch.setattr(standardised_moments, "WORTH_COMPILING", 0 if compiled else np.inf)
    mixture = make_mixture(dimensions, 3)
    points, absent = make_points(mixture)
    absent[0] = True
    passed = completed_pass(observe_incomplete(points, absent), mixture, 1.5)
    counts, sums, squares = _by_definition(points, absent, mixture, 1.5)
    assert passed.counts == pytest.approx(counts, abs=1e-9)
    assert passed.sums == pytest.approx(sums, abs=1e-9)
    assert passed.squares == pytest.approx(squares, abs=1e-9)


def test_complete_records_have_the_ordinary_moments():
    mixture = make_mixture(3)
    points, _ = make_points(mixture)
    nothing = np.zeros(points.shape, dtype=bool)
    one = completed_pass(observe_incomplete(points, nothing), mixture, 2.0)
    other = standardised_pass(observe(points), mixture, 2.0)
    assert one.squares == pytest.approx(other.squares, abs=1e-9)


def test_a_correct_mixture_is_a_fixed_point_of_the_clipped_moments():
    """The correction for clipping does not widen components along coordinates that most records lack."""
    d, radius = 2, 3.0
    mixture = Mixture(np.ones(1), np.zeros((1, d)), np.array([[[1.0, 0.7], [0.7, 1.0]]]))
    points, absent = mixture.sample(400_000, np.random.default_rng(1)), np.zeros((400_000, d), dtype=bool)
    absent[:360_000, 1] = True
    passed = completed_pass(observe_incomplete(points, absent), mixture, radius)
    second = passed.squares[0] / passed.counts[0] / clipped_variance(d, radius)
    assert second == pytest.approx(np.eye(d), abs=0.008)
    unscaled = second[1, 1] + 0.9 * (1 / clipped_variance(d, radius) - 1) * (1 - 0.49)
    assert unscaled > 1.004  # the power twin: without the factor of P


def test_em_needs_no_complete_records_where_those_are_biased():
    """The second coordinate is missing where the first is high. Dropping such records biases both, EM does not."""
    rng, n = np.random.default_rng(3), 60_000
    truth = Mixture(
        np.array([0.5, 0.5]),
        np.array([[-0.4, 0.3], [0.4, -0.2]]),
        np.array([[[0.02, 0.012], [0.012, 0.02]], [[0.03, -0.015], [-0.015, 0.02]]]),
    )
    points = truth.sample(n, rng)
    absent = np.zeros((n, 2), dtype=bool)
    absent[:, 1] = rng.random(n) < 1 / (1 + np.exp(-6 * points[:, 0]))
    complete = em.fit(points[~absent[:, 1]], 2, floor=np.full(2, FLOOR), rng=rng).mixture
    found = em.fit_incomplete(
        np.where(absent, 99.0, points), absent, complete, floor=np.full(2, FLOOR), tol=1e-8
    )
    assert found.converged
    assert found.log_likelihood == pytest.approx(found.mixture.log_density(points, absent).mean(), abs=1e-9)

    def errors(mixture):
        order = np.argsort(mixture.means[:, 0])
        return [
            float(np.abs(getattr(mixture, part)[order] - getattr(truth, part)).max())
            for part in ("weights", "means", "covariances")
        ]

    assert errors(found.mixture) == pytest.approx([0, 0, 0], abs=0.01)
    assert errors(complete)[0] > 0.2  # of the weights
    assert errors(complete)[1] > 0.05


@pytest.mark.parametrize("dimensions", [1, 3])
def test_em_on_incomplete_records_never_decreases_the_likelihood(dimensions):
    mixture = make_mixture(dimensions, 3)
    points, absent = make_points(mixture, 400)
    absent[:5] = True
    start, reached = make_mixture(dimensions, 3, seed=9), []
    for iterations in range(1, 12):
        fitted = em.fit_incomplete(
            points, absent, start, floor=np.full(dimensions, FLOOR), tol=0.0, max_iter=iterations
        )
        reached.append(fitted.log_likelihood)
    assert (np.diff(reached) > -1e-9).all()


def test_em_on_complete_records_is_ordinary_em():
    mixture = make_mixture(2)
    points, _ = make_points(mixture, 500)
    floor = np.full(2, FLOOR)
    one = em.fit_incomplete(points, np.zeros(points.shape, dtype=bool), mixture, floor=floor, tol=1e-10)
    other = em.loop(observe(points), mixture, floor=floor, accelerate=True, tol=1e-10)
    assert one.mixture.covariances == pytest.approx(other.mixture.covariances, abs=1e-4)


def test_the_pass_of_many_mixtures_stacks_them():
    mixture, other = make_mixture(3), make_mixture(3, seed=4)
    points, absent = make_points(mixture)
    data = observe_incomplete(points, absent)
    both = em.incomplete_passes([data, data], Parameters.of([mixture, other]))
    alone = em.incomplete_passes([data], Parameters.of([other]))
    assert both.squares[1] == pytest.approx(alone.squares[0])
    assert both.total_weight == pytest.approx([300, 300])


def test_shares_follow_what_is_there_and_placeholders_do_not_matter():
    rng, n = np.random.default_rng(6), 20_000
    mixture = Mixture(
        np.array([0.3, 0.7]), np.array([[-0.5, 0.0], [0.5, 0.0]]), np.array([np.eye(2) * 0.02] * 2)
    )
    points, labels = mixture.sample_with_labels(n, rng)
    shares = np.array([[0.9, 0.1], [0.2, 0.8]])
    codes = {"c": (rng.random(n) < shares[labels, 1]).astype(int)}
    absent = rng.random((n, 2)) < 0.5
    fits = [
        mixed_em.fit_shares(
            np.where(absent, value, points), codes, {"c": 2}, mixture, absent=absent, tol=1e-9
        )
        for value in (0.0, 0.4)
    ]
    assert fits[0].mixture.shares["c"] == pytest.approx(shares, abs=0.02)
    assert fits[1].mixture.shares["c"] == pytest.approx(fits[0].mixture.shares["c"], abs=1e-6)
    density = fits[0].mixture.log_density(points, codes, absent)
    assert fits[0].log_likelihood == pytest.approx(density.mean(), abs=1e-9)
