"""Fits to coordinates and attributes: against EM written plainly here, and on simulated mixtures."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from privmix.errors import UserError
from privmix.mixture import em, mixed_em
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.mixed_em import fit, fit_shares
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters

FLOOR = np.full(2, 1e-4)


def simulate(n, *, k=3, sizes=(2, 4), seed=0, d=2, apart=1.0, concentration=0.5):
    """Draw a mixed mixture and n records of it: mixture, points, codes and sizes."""
    rng = np.random.default_rng(seed)
    factors = 0.2 * rng.normal(size=(k, d, d))
    gaussians = Mixture(
        rng.dirichlet(np.full(k, 10.0)),
        apart * rng.normal(size=(k, d)),
        factors @ np.swapaxes(factors, 1, 2) + 0.02 * np.eye(d),
    )
    shares = {f"a{i}": rng.dirichlet(np.full(v, concentration), size=k) for i, v in enumerate(sizes)}
    truth = MixedMixture(gaussians, shares)
    points, codes = truth.sample(n, rng)
    return truth, points, codes, dict(zip(shares, sizes, strict=True))


def plain_joint(weights, means, covariances, shares, points, codes):
    """Compute log(π_k N_k Π θ) of each record, (n, K), term by term."""
    joint = np.log(weights) + np.zeros((len(points), 1))
    for k in range(len(weights)):
        if points.shape[1]:
            joint[:, k] += stats.multivariate_normal(means[k], covariances[k]).logpdf(points)
        for name, code in codes.items():
            joint[:, k] += np.log(shares[name][k, code])
    return joint


def plain_step(mixture, points, codes, sizes):
    """One EM iteration on records of weight 1, without a floor: the mixture after it, and the objective before it."""
    gaussians, k, d = mixture.gaussians, mixture.gaussians.n_components, points.shape[1]
    joint = plain_joint(
        gaussians.weights, gaussians.means, gaussians.covariances, mixture.shares, points, codes
    )
    objective = logsumexp(joint, axis=1).sum()
    objective += sum(np.log(mixture.shares[name]).sum() / size**0.5 for name, size in sizes.items())
    gamma = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    counts, means, covariances = gamma.sum(axis=0), np.empty((k, d)), np.empty((k, d, d))
    shares = {name: np.empty((k, size)) for name, size in sizes.items()}
    for j in range(k):
        means[j] = gamma[:, j] @ points / counts[j]
        covariances[j] = (gamma[:, j, None] * (points - means[j])).T @ (points - means[j]) / counts[j]
        for name, size in sizes.items():
            found = [gamma[codes[name] == value, j].sum() for value in range(size)]
            shares[name][j] = (np.array(found) + size**-0.5) / (counts[j] + size**0.5)
    return MixedMixture(Mixture(counts / len(points), means, covariances), shares), objective / len(points)


def climb(points, codes, sizes, start, *, max_iter, tol=0.0, accelerate=False, floor=FLOOR):
    """Run EM of the engine from one start, in the units of the records."""
    values, units = (
        mixed_em._Values.of(sizes, 1.0),
        em.Units(np.zeros(len(floor)), np.ones(len(floor)), floor),
    )
    records = mixed_em._Records.of(mixed_em._observe(points, codes, values, None), units)
    model = mixed_em._Model(
        Parameters.of([start.gaussians]), np.concatenate([start.shares[name] for name in sizes], axis=1)
    )
    maximise = partial(mixed_em._estimate, values=values, floor=floor, covariance="full")
    found = mixed_em._climb(
        records, model, values=values, maximise=maximise, tol=tol, max_iter=max_iter, accelerate=accelerate
    )
    return MixedMixture(found.model.parameters.mixture(0), values.split(found.model.shares)), found


def assert_same(one, other, **tolerance):
    for part in ("weights", "means", "covariances"):
        np.testing.assert_allclose(
            getattr(one.gaussians, part), getattr(other.gaussians, part), err_msg=part, **tolerance
        )
    assert list(one.shares) == list(other.shares)
    for name in one.shares:
        np.testing.assert_allclose(one.shares[name], other.shares[name], err_msg=name, **tolerance)


@pytest.mark.parametrize("d", [0, 2])
def test_it_is_em_as_written_plainly(d):
    start, _, _, _ = simulate(1, seed=4, d=d)
    _, points, codes, sizes = simulate(50, seed=5, d=d)
    plain = start
    for _ in range(7):
        plain, objective = plain_step(plain, points, codes, sizes)
    found, climbed = climb(points, codes, sizes, start, max_iter=7, floor=np.full(d, 1e-12))
    assert_same(found, plain, rtol=1e-8, atol=1e-12)
    assert climbed.objective == pytest.approx(plain_step(plain, points, codes, sizes)[1], rel=1e-10)
    assert climbed.objective > objective


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0, 1, 3]))
@settings(max_examples=25, deadline=None)
def test_a_climb_never_lowers_the_objective(seed, accelerate, d):
    start, _, _, _ = simulate(1, seed=seed, d=d)
    _, points, codes, sizes = simulate(60, seed=seed + 1, d=d)
    floor = np.full(d, 1e-3)
    start, _ = climb(points, codes, sizes, start, max_iter=1, floor=floor)
    reached = -np.inf
    for steps in range(12):
        _, found = climb(points, codes, sizes, start, max_iter=steps, accelerate=accelerate, floor=floor)
        assert found.iterations == steps
        assert found.objective >= reached - 1e-9 * max(1.0, abs(reached))
        reached = found.objective


def test_acceleration_saves_iterations_and_ends_as_high():
    start, points, codes, sizes = simulate(2000, seed=3, apart=0.1, concentration=3.0)
    _, plain = climb(points, codes, sizes, start, max_iter=5000, tol=1e-9)
    _, fast = climb(points, codes, sizes, start, max_iter=5000, tol=1e-9, accelerate=True)
    assert fast.objective > plain.objective - 1e-5
    assert fast.iterations < plain.iterations / 2


def test_it_recovers_a_simulated_mixture():
    truth, points, codes, sizes = simulate(60_000, k=4, sizes=(3, 5), seed=2)
    found = fit(points, codes, sizes, 4, FLOOR, rng=np.random.default_rng(0))
    assert found.converged
    assert found.log_likelihood > truth.log_density(points, codes).mean()
    assert found.log_likelihood == pytest.approx(found.mixture.log_density(points, codes).mean(), abs=1e-9)
    distance = np.linalg.norm(truth.gaussians.means[:, None] - found.mixture.gaussians.means[None], axis=2)
    order = distance.argmin(axis=1)
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(found.mixture.gaussians.weights[order], truth.gaussians.weights, atol=0.01)
    np.testing.assert_allclose(found.mixture.gaussians.means[order], truth.gaussians.means, atol=0.02)
    for name in sizes:
        np.testing.assert_allclose(found.mixture.shares[name][order], truth.shares[name], atol=0.02)


def test_it_finds_components_that_differ_in_their_attributes_only():
    """Two places with two components each. The coordinates alone show two components."""
    rng = np.random.default_rng(1)
    means = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 2, axis=0)
    shares = {
        name: np.array([[0.85, 0.1, 0.05], [0.05, 0.1, 0.85], [0.1, 0.85, 0.05], [0.8, 0.1, 0.1]])
        for name in ("a", "b", "c")
    }
    truth = MixedMixture(
        Mixture(np.full(4, 0.25), means, np.repeat(0.04 * np.eye(2)[None], 4, axis=0)), shares
    )
    points, codes = truth.sample(8000, rng)
    sizes = dict.fromkeys(shares, 3)
    wanted = truth.log_density(points, codes).mean()
    searched = fit(points, codes, sizes, 4, FLOOR, rng=np.random.default_rng(0))
    without = fit(points, codes, sizes, 4, FLOOR, rng=np.random.default_rng(0), relocations=0)
    assert searched.log_likelihood > wanted
    assert searched.objective > without.objective + 0.01


def test_a_fit_is_a_fixed_point_of_plain_em():
    _, points, codes, sizes = simulate(300, seed=8)
    found = fit(points, codes, sizes, 3, np.full(2, 1e-9), rng=np.random.default_rng(1), tol=1e-12)
    again, objective = plain_step(found.mixture, points, codes, sizes)
    assert found.objective == pytest.approx(objective, abs=1e-10)
    assert_same(again, found.mixture, atol=1e-4)


def test_without_coordinates_it_is_the_best_of_many_plain_latent_class_fits():
    _, points, codes, sizes = simulate(400, k=2, sizes=(2, 3, 3), d=0, seed=6, concentration=0.3)
    best = -np.inf
    for seed in range(5):
        plain, _, _, _ = simulate(1, k=2, sizes=(2, 3, 3), d=0, seed=100 + seed)
        for _ in range(300):
            plain, objective = plain_step(plain, points, codes, sizes)
        best = max(best, objective)
    found = fit(points, codes, sizes, 2, rng=np.random.default_rng(0), tol=1e-9)
    assert found.mixture.gaussians.dimensions == 0
    assert found.objective > best - 1e-6
    assert found.log_likelihood == pytest.approx(found.mixture.log_density(points, codes).mean(), abs=1e-12)
    drawn, values = found.mixture.sample(5, np.random.default_rng(0))
    assert drawn.shape == (5, 0)
    assert set(values) == set(sizes)


@pytest.mark.parametrize("d", [0, 2])
@pytest.mark.parametrize("sizes", [(3,) * 20, (500,), (1, 2)])
@pytest.mark.parametrize("k", [1, 3])
def test_many_attributes_and_many_values(d, sizes, k):
    _, points, codes, numbers = simulate(1500, sizes=sizes, d=d, seed=7)
    found = fit(points, codes, numbers, k, np.full(d, 1e-4), rng=np.random.default_rng(0))
    assert found.converged
    assert found.mixture.gaussians.n_components == k
    assert found.log_likelihood == pytest.approx(found.mixture.log_density(points, codes).mean(), abs=1e-9)
    for name, size in numbers.items():
        assert found.mixture.shares[name].shape == (k, size)
        assert found.mixture.shares[name].min() > 0


def test_one_component_has_the_smoothed_shares_of_all_records():
    _, points, codes, sizes = simulate(200, seed=9)
    found = fit(points, codes, sizes, 1, FLOOR, rng=np.random.default_rng(0)).mixture
    np.testing.assert_allclose(found.gaussians.means[0], points.mean(axis=0), atol=1e-9)
    for name, size in sizes.items():
        counts = np.bincount(codes[name], minlength=size)
        np.testing.assert_allclose(
            found.shares[name][0], (counts + size**-0.5) / (200 + size**0.5), rtol=1e-12
        )


@pytest.mark.parametrize("d", [0, 2])
def test_a_weight_is_a_number_of_equal_records(d):
    _, points, codes, sizes = simulate(500, seed=10, d=d)
    weights = np.random.default_rng(0).integers(0, 4, 500)
    repeated = np.repeat(np.arange(500), weights)
    options = {"floor": np.full(d, 1e-4)}
    weighted = fit(
        points, codes, sizes, 3, rng=np.random.default_rng(1), weights=weights.astype(float), **options
    )
    by_record = {name: code[repeated] for name, code in codes.items()}
    listed = fit(points[repeated], by_record, sizes, 3, rng=np.random.default_rng(1), **options)
    assert_same(weighted.mixture, listed.mixture, rtol=1e-12, atol=1e-12)
    assert weighted.objective == pytest.approx(listed.objective, rel=1e-12)


def test_without_attributes_it_is_the_numeric_fit():
    _, points, _, _ = simulate(800, seed=11)
    found = fit(points, {}, {}, 3, FLOOR, rng=np.random.default_rng(2))
    numeric = em.fit(points, 3, floor=FLOOR, rng=np.random.default_rng(2))
    assert_same(found.mixture, MixedMixture(numeric.mixture), rtol=0)
    assert (found.log_likelihood, found.iterations) == (numeric.log_likelihood, numeric.iterations)


def test_attributes_that_do_not_differ_leave_the_numeric_fit():
    _, points, _, _ = simulate(800, seed=12)
    codes = {"a": np.zeros(800, dtype=int)}
    found = fit(points, codes, {"a": 1}, 3, FLOOR, rng=np.random.default_rng(2), relocations=0, tol=1e-10)
    numeric = em.fit(points, 3, floor=FLOOR, rng=np.random.default_rng(2), relocations=0, tol=1e-10)
    assert found.log_likelihood == pytest.approx(numeric.log_likelihood, abs=1e-7)


def test_units_and_threads_do_not_matter():
    _, points, codes, sizes = simulate(70_000, seed=13)
    scale, centre = np.array([1e3, 1e-3]), np.array([5e5, -2.0])
    fits = [
        fit(points, codes, sizes, 3, FLOOR, rng=np.random.default_rng(3), threads=threads)
        for threads in (1, 2)
    ]
    assert_same(fits[0].mixture, fits[1].mixture, rtol=0)
    moved = fit(points * scale + centre, codes, sizes, 3, FLOOR * scale**2, rng=np.random.default_rng(3))
    assert moved.log_likelihood + np.log(scale).sum() == pytest.approx(fits[0].log_likelihood, abs=1e-4)


def test_the_shares_of_a_given_mixture_are_the_best_ones():
    truth, points, codes, sizes = simulate(400, seed=14, apart=0.4)
    found = fit_shares(points, codes, sizes, truth.gaussians, tol=1e-13)
    assert_same(MixedMixture(found.mixture.gaussians), MixedMixture(truth.gaussians), rtol=0)
    again, objective = plain_step(found.mixture, points, codes, sizes)
    assert found.objective == pytest.approx(objective, abs=1e-9)
    for name in sizes:
        np.testing.assert_allclose(again.shares[name], found.mixture.shares[name], atol=1e-4)
    from_coordinates = truth.gaussians.responsibilities(points)
    simple = {
        name: np.stack([np.bincount(codes[name], gamma, size) for gamma in from_coordinates.T]) + size**-0.5
        for name, size in sizes.items()
    }
    simple = {name: counts / counts.sum(axis=1, keepdims=True) for name, counts in simple.items()}
    rival = MixedMixture(truth.gaussians, simple)
    assert found.log_likelihood > rival.log_density(points, codes).mean()


BAD = [
    ({"a": np.zeros(9, dtype=int)}, {"a": 2}, {}, "one integer code for each of 10 records"),
    ({"a": np.zeros(10)}, {"a": 2}, {}, "one integer code"),
    ({"a": np.full(10, 2)}, {"a": 2}, {}, "between 0 and 1"),
    ({"a": np.full(10, -1)}, {"a": 2}, {}, "between 0 and 1"),
    ({"b": np.zeros(10, dtype=int)}, {"a": 2}, {}, r"attributes \['a'\]"),
    ({"a": np.zeros(10, dtype=int)}, {"a": 2}, {"prior": 0.0}, "prior > 0"),
    ({"a": np.zeros(10, dtype=int)}, {"a": 0}, {}, "at least one value"),
    ({"a": np.zeros(10, dtype=int)}, {"a": 2}, {"weights": np.zeros(10)}, "nothing to fit"),
]


@pytest.mark.parametrize(("codes", "sizes", "options", "message"), BAD)
@pytest.mark.parametrize("d", [0, 1])
def test_bad_input_is_explained(codes, sizes, options, message, d):
    with pytest.raises(UserError, match=message):
        fit(np.zeros((10, d)), codes, sizes, 1, rng=np.random.default_rng(0), **options)


def test_too_many_components_and_wrong_dimensions_are_explained():
    codes, sizes = {"a": np.zeros(3, dtype=int)}, {"a": 2}
    with pytest.raises(UserError, match="cannot fit 4 components to 3 records"):
        fit(np.zeros((3, 0)), codes, sizes, 4, rng=np.random.default_rng(0))
    with pytest.raises(UserError, match="d >= 1 or an attribute"):
        fit(np.zeros((3, 0)), {}, {}, 1, rng=np.random.default_rng(0))
    with pytest.raises(UserError, match="has 1 dimensions, but the points have 2"):
        fit_shares(np.zeros((3, 2)), codes, sizes, Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1))))
