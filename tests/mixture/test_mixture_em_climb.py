"""Climbs never lower the objective, end where the gradient vanishes, and do not depend on each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from privmix.errors import UserError
from privmix.mixture import em as climbing
from privmix.mixture.em import climb
from privmix.mixture.kernel import em_pass, em_passes
from privmix.mixture.model import Mixture
from privmix.mixture.moments import (
    Moments,
    Observations,
    Parameters,
    Prior,
    estimate,
    estimates,
    observe,
    observe_boxes,
)
from privmix.mixture.search import ClimbResult

FLOOR = np.array([1e-3, 1e-5])
TINY = np.full(2, 1e-12)


def random_mixture(k: int, d: int, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * 0.2
    covariances = factors @ np.swapaxes(factors, 1, 2) + 0.01 * np.eye(d)
    return Mixture(rng.dirichlet(np.full(k, 5.0)), rng.uniform(-0.5, 0.5, (k, d)), covariances)


def random_data(seed: int, *, boxes: bool, n: int = 40) -> Observations:
    rng = np.random.default_rng(seed)
    points, weights = rng.uniform(-0.7, 0.7, (n, 2)) ** 3, rng.exponential(size=n)
    side = rng.uniform(0, 0.3, (n, 2))
    return observe_boxes(points - side / 2, points + side / 2, weights) if boxes else observe(points, weights)


def one_climb(data: Observations, start: Mixture, **options) -> ClimbResult:
    return climb([data], Parameters.of([start]), **options)


def objective_of(data: Observations, mixture: Mixture, prior: Prior | None = None) -> float:
    moments = em_pass(data, mixture)
    addition = 0.0 if prior is None else prior.log_density(mixture)
    return (moments.log_likelihood + addition) / moments.total_weight


def overlapping(n: int = 1000) -> tuple[Observations, Mixture]:
    """Draw two components 2.5 standard deviations apart, on which EM is slow, and a start."""
    truth = Mixture([0.5, 0.5], [[0.0], [2.5]], np.ones((2, 1, 1)))
    start = Mixture([0.3, 0.7], [[-1.0], [0.5]], np.ones((2, 1, 1)))
    return observe(truth.sample(n, np.random.default_rng(0))), start


@given(
    st.integers(0, 10_000),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["full", "diagonal", "tied", "prior"]),
)
@settings(max_examples=30, deadline=None)
def test_a_climb_never_lowers_the_objective(seed, boxes, accelerate, kind):
    data = random_data(seed, boxes=boxes)
    prior = Prior() if kind == "prior" else None
    options = {"floor": FLOOR, "prior": prior, "covariance": "full" if prior else kind}
    start = estimate(em_pass(data, random_mixture(3, 2, seed)), **options)
    reached = -np.inf
    for steps in range(14):
        climbed = one_climb(data, start, tol=0, max_iter=steps, accelerate=accelerate, **options)
        assert climbed.iterations[0] == steps
        assert climbed.objective[0] >= reached - 1e-9 * max(1.0, abs(reached))
        reached = climbed.objective[0]
        assert reached == pytest.approx(objective_of(data, climbed.parameters.mixture(0), prior), rel=1e-9)


@pytest.mark.parametrize("prior", [None, Prior(scale=0.3)], ids=["likelihood", "posterior"])
def test_the_log_likelihood_and_the_objective_are_separate(prior):
    data = random_data(1, boxes=False)
    climbed = one_climb(data, random_mixture(3, 2), floor=FLOOR, prior=prior, tol=1e-6, max_iter=50)
    mixture = climbed.parameters.mixture(0)
    mean = data.weights @ mixture.log_density(data.points) / data.total_weight
    assert climbed.log_likelihood[0] == pytest.approx(mean, rel=1e-10)
    assert climbed.objective[0] == pytest.approx(objective_of(data, mixture, prior), rel=1e-10)


def test_a_climb_stops_as_soon_as_the_gain_is_below_tol():
    data, start = overlapping()
    climbed = one_climb(data, start, floor=[1e-6], tol=1e-5, max_iter=500)
    steps = int(climbed.iterations[0])
    assert climbed.converged[0]
    path = [
        one_climb(data, start, floor=[1e-6], tol=0, max_iter=n).objective[0]
        for n in range(steps - 2, steps + 1)
    ]
    assert path[1] - path[0] >= 1e-5 > path[2] - path[1]
    short = one_climb(data, start, floor=[1e-6], tol=1e-5, max_iter=steps - 1)
    assert (short.iterations[0], short.converged[0]) == (steps - 1, False)


@pytest.mark.parametrize("accelerate", [False, True])
def test_zero_iterations_return_the_start(accelerate):
    data, start = overlapping(50)
    climbed = one_climb(data, start, floor=[1e-6], tol=1e-5, max_iter=0, accelerate=accelerate)
    np.testing.assert_array_equal(climbed.parameters.means[0], start.means)
    assert not climbed.converged[0]
    assert climbed.objective[0] == pytest.approx(objective_of(data, start))


def test_acceleration_reaches_the_same_objective_in_fewer_passes():
    data, start = overlapping()
    plain, fast = (
        one_climb(data, start, floor=[1e-6], tol=1e-9, max_iter=5000, accelerate=accelerate)
        for accelerate in (False, True)
    )
    assert plain.converged[0]
    assert fast.converged[0]
    assert fast.objective[0] >= plain.objective[0] - 1e-6
    assert fast.iterations[0] < plain.iterations[0] / 3


def test_an_extrapolation_that_lowers_the_objective_is_rejected(monkeypatch):
    data, start = overlapping()
    dreadful = em_pass(observe([[50.0], [60.0]]), start)

    def far_away(_first, _second, third: Moments, most: np.ndarray) -> tuple[Moments, np.ndarray]:
        parts = (dreadful.counts[None], dreadful.sums[None], dreadful.squares[None])
        return Moments(*parts, third.log_likelihood, third.total_weight), most

    monkeypatch.setattr(climbing, "_extrapolate", far_away)
    # The third, sixth and ninth of nine steps are rejected, so six remain.
    climbed = one_climb(data, start, floor=[1e-6], tol=0, max_iter=9, accelerate=True)
    plain = one_climb(data, start, floor=[1e-6], tol=0, max_iter=6)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_array_equal(getattr(climbed.parameters, name), getattr(plain.parameters, name))
    assert climbed.objective[0] == plain.objective[0]
    assert climbed.log_likelihood[0] == plain.log_likelihood[0]


def sequence(counts: list[list[float]]) -> list[Moments]:
    """Return moments with these counts. The sums are twice, the squares five times as large."""
    return [
        Moments(each, each[..., None] * 2, each[..., None, None] * 5, np.zeros(1), np.full(1, 100.0))
        for each in np.array(counts)[:, None]
    ]


FAR = np.array([1e9])


def test_moments_that_approach_a_limit_are_extrapolated_to_it():
    halving = sequence([[48.0, 52.0], [44.0, 56.0], [42.0, 58.0]])  # the way to 40 and 60
    found, length = climbing._extrapolate(*halving, most=FAR)
    assert length == pytest.approx([2.0])
    np.testing.assert_allclose(found.counts, [[40.0, 60.0]], rtol=1e-12)
    np.testing.assert_allclose(found.sums[..., 0], [[80.0, 120.0]], rtol=1e-12)
    np.testing.assert_allclose(found.squares[..., 0, 0], [[200.0, 300.0]], rtol=1e-12)


def test_an_extrapolation_is_no_longer_than_its_limit():
    moments = sequence([[50.0, 50.0], [49.0, 51.0], [48.1, 51.9]])  # slows by a tenth: ten steps to the limit
    found, length = climbing._extrapolate(*moments, most=np.array([4.0]))
    assert length.tolist() == [4.0]
    assert found.counts[0, 0] == pytest.approx(50 - 2 * 4 * 1.0 + 16 * 0.1)


def test_steps_are_shorter_after_a_failure_and_may_be_longer_after_a_success(monkeypatch):
    data, start = overlapping(200)
    allowed, real = [], climbing._extrapolate

    def watched(*moments: Moments, most: np.ndarray) -> tuple[Moments, np.ndarray]:
        allowed.append(float(most[0]))
        return real(*moments, most=most)

    monkeypatch.setattr(climbing, "_extrapolate", watched)
    one_climb(data, start, floor=[1e-6], tol=0, max_iter=90, accelerate=True)
    assert max(allowed) > allowed[0]
    assert min(allowed) >= 1.0
    assert any(later < earlier for earlier, later in pairwise(allowed))


@pytest.mark.parametrize(
    "counts",
    [
        [[10.2, 89.8], [5.2, 94.8], [2.7, 97.3]],  # leaves a tenth of its count to the first
        [[50.0, 50.0], [49.0, 51.0], [44.0, 56.0]],  # accelerates by itself: an extrapolation would go back
        [[50.0, 50.0], [50.0, 50.0], [50.0, 50.0]],  # has arrived
    ],
    ids=["empties a component", "too short a step", "standing still"],
)
def test_an_unsound_extrapolation_becomes_an_ordinary_step(counts):
    moments = sequence(counts)
    found, length = climbing._extrapolate(*moments, most=FAR)
    np.testing.assert_array_equal(found.counts, moments[2].counts)
    assert length.tolist() == [1.0]


@pytest.mark.parametrize("accelerate", [False, True])
def test_a_climb_in_a_stack_equals_a_single_climb(accelerate):
    data = [random_data(seed, boxes=False, n=20 + 30 * seed) for seed in range(5)]
    starts = [random_mixture(3, 2, seed) for seed in range(5)]
    options = {"floor": FLOOR, "tol": 1e-4, "max_iter": 40, "accelerate": accelerate}
    together = climb(data, Parameters.of(starts), **options)
    assert len(set(together.iterations)) > 2  # they leave at different times
    for number in range(5):
        alone = one_climb(data[number], starts[number], **options)
        for name in ("weights", "means", "covariances"):
            np.testing.assert_array_equal(
                getattr(together.parameters, name)[number], getattr(alone.parameters, name)[0]
            )
        for name in ("objective", "log_likelihood", "iterations", "converged"):
            assert getattr(together, name)[number] == getattr(alone, name)[0]


def test_a_climb_does_not_change_its_start():
    data, start = overlapping(50)
    starts = Parameters.of([start])
    climb([data], starts, floor=[1e-6], tol=1e-5, max_iter=5, accelerate=True)
    np.testing.assert_array_equal(starts.means[0], start.means)
    np.testing.assert_array_equal(starts.weights[0], start.weights)


def test_the_expectation_can_be_replaced():
    calls = []

    def counted(data, parameters):
        calls.append(len(data))
        return em_passes(data, parameters)

    data, start = overlapping(100)
    climb([data] * 2, Parameters.of([start] * 2), floor=[1e-6], tol=0, max_iter=3, expectation=counted)
    assert calls == [2, 2, 2, 2]


def numeric_gradient(height, means: np.ndarray, step: float = 1e-5) -> np.ndarray:
    gradient = np.empty_like(means)
    for place in np.ndindex(means.shape):
        moved = np.zeros_like(means)
        moved[place] = step
        gradient[place] = (height(means + moved) - height(means - moved)) / (2 * step)
    return gradient


@pytest.mark.parametrize(
    "prior", [None, Prior(alpha=2.0, kappa=3.0, scale=0.2)], ids=["likelihood", "posterior"]
)
@pytest.mark.parametrize("boxes", [False, True], ids=["points", "boxes"])
def test_the_moments_hold_the_gradient_of_the_objective(boxes, prior):
    """Fisher's identity: ∂ log L/∂μ_k = Σ_k⁻¹(s_k - N_k μ_k), anywhere; and the prior adds -κ Σ_k⁻¹ μ_k."""
    data, mixture = random_data(3, boxes=boxes), random_mixture(3, 2, 4)

    def height(means: np.ndarray) -> float:
        moved = Mixture(mixture.weights, means, mixture.covariances)
        return em_pass(data, moved).log_likelihood + (0.0 if prior is None else prior.log_density(moved))

    moments, kappa = em_pass(data, mixture), 0.0 if prior is None else prior.kappa
    pull = moments.sums - (moments.counts + kappa)[:, None] * mixture.means
    expected = np.linalg.solve(mixture.covariances, pull[..., None])[..., 0]
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(numeric_gradient(height, mixture.means), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("kind", ["full", "diagonal", "tied", "prior"])
def test_a_climb_ends_where_the_gradient_vanishes(kind, accelerate):
    points = random_mixture(3, 2, 8).sample(400, np.random.default_rng(0))
    data, prior = observe(points), Prior() if kind == "prior" else None
    covariance = "full" if prior else kind
    climbed = one_climb(
        data, random_mixture(3, 2, 8), floor=TINY, prior=prior, covariance=covariance,
        tol=1e-14, max_iter=5000, accelerate=accelerate,
    )  # fmt: skip
    assert climbed.converged[0]
    top = climbed.parameters.mixture(0)

    def along_means(means: np.ndarray) -> float:
        return objective_of(data, Mixture(top.weights, means, top.covariances), prior)

    def along_scales(logs: np.ndarray) -> float:
        stretch = np.exp(logs[:, None, None]) if kind != "tied" else np.exp(logs[0])
        return objective_of(data, Mixture(top.weights, top.means, top.covariances * stretch), prior)

    def along_weights(logs: np.ndarray) -> float:
        weights = top.weights * np.exp(logs)
        return objective_of(data, Mixture(weights / weights.sum(), top.means, top.covariances), prior)

    np.testing.assert_allclose(numeric_gradient(along_means, top.means), 0, atol=3e-5)
    np.testing.assert_allclose(numeric_gradient(along_scales, np.zeros(3)), 0, atol=3e-6)
    np.testing.assert_allclose(numeric_gradient(along_weights, np.zeros(3)), 0, atol=3e-6)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize(("covariance", "theirs"), [("full", "full"), ("diagonal", "diag"), ("tied", "tied")])
def test_from_one_start_a_climb_ends_no_lower_than_scikit_learn(covariance, theirs, accelerate):
    truth = Mixture([0.5, 0.3, 0.2], [[0.0, 0.0], [0.5, 0.2], [-0.1, 0.6]], [np.diag([0.03, 0.02])] * 3)
    points = truth.sample(1500, np.random.default_rng(0))
    start = Mixture(np.full(3, 1 / 3), points[:3], [np.diag([0.05, 0.04])] * 3)
    precisions = {
        "full": [np.diag([20.0, 25.0])] * 3,
        "diag": [[20.0, 25.0]] * 3,
        "tied": np.diag([20.0, 25.0]),
    }
    model = GaussianMixture(
        3, covariance_type=theirs, tol=1e-9, max_iter=5000, reg_covar=0.0,
        weights_init=start.weights, means_init=start.means, precisions_init=np.array(precisions[theirs]),
    ).fit(points)  # fmt: skip
    climbed = one_climb(
        observe(points),
        start,
        floor=TINY,
        covariance=covariance,
        tol=1e-9,
        max_iter=5000,
        accelerate=accelerate,
    )
    assert model.converged_
    assert climbed.log_likelihood[0] >= model.score(points) - 1e-6
    if not accelerate:  # then it is the same path
        found, expected = climbed.parameters.mixture(0), Mixture.from_sklearn(model)
        np.testing.assert_allclose(found.means, expected.means, atol=1e-4)
        np.testing.assert_allclose(found.covariances, expected.covariances, atol=1e-4)


def random_moments(m: int, k: int = 3, seed: int = 0) -> tuple[Moments, np.ndarray, np.ndarray]:
    """Return a stack of moments of random points with random shares, the points, and the shares."""
    rng = np.random.default_rng(seed)
    points, shares = rng.normal(size=(m, 60, 2)), rng.dirichlet(np.ones(k), (m, 60))
    moments = Moments(
        shares.sum(axis=1),
        np.einsum("mnk,mni->mki", shares, points),
        np.einsum("mnk,mni,mnj->mkij", shares, points, points),
        np.zeros(m),
        np.full(m, 60.0),
    )
    return moments, points, shares


@pytest.mark.parametrize("kind", ["full", "diagonal", "tied", "prior"])
def test_estimates_of_a_stack_equal_single_estimates(kind):
    moments, *_ = random_moments(4)
    moments.counts[1, 2], moments.sums[1, 2], moments.squares[1, 2] = 0.0, 0.0, 0.0  # an empty component
    moments.counts[2], moments.sums[2], moments.squares[2] = -1.0, 0.3, 0.1  # nothing but noise
    options = {"floor": FLOOR, "prior": Prior() if kind == "prior" else None}
    options["covariance"] = "full" if kind == "prior" else kind
    together = estimates(moments, **options)
    for number in range(4):
        alone = estimate(moments[number], **options)
        for name in ("weights", "means", "covariances"):
            np.testing.assert_allclose(
                getattr(together, name)[number], getattr(alone, name), rtol=1e-13, atol=1e-13
            )


def test_diagonal_covariances_are_the_weighted_variances():
    moments, points, shares = random_moments(1)
    mixture = estimate(moments[0], floor=TINY, covariance="diagonal")
    for k in range(3):
        mean = np.average(points[0], axis=0, weights=shares[0, :, k])
        variance = np.average((points[0] - mean) ** 2, axis=0, weights=shares[0, :, k])
        np.testing.assert_allclose(mixture.covariances[k], np.diag(variance), rtol=1e-12, atol=0)


def test_a_tied_covariance_is_the_mean_deviation_from_the_own_component():
    moments, points, shares = random_moments(1)
    mixture = estimate(moments[0], floor=TINY, covariance="tied")
    pooled = np.zeros((2, 2))
    for k in range(3):
        away = points[0] - np.average(points[0], axis=0, weights=shares[0, :, k])
        pooled += (away * shares[0, :, k, None]).T @ away / 60
    np.testing.assert_allclose(mixture.covariances, [pooled] * 3, rtol=1e-12)


def test_an_empty_component_adds_nothing_to_a_tied_covariance():
    moments, *_ = random_moments(1)
    emptied = Moments(
        np.append(moments.counts[0], 0.0),
        np.vstack([moments.sums[0], np.zeros(2)]),
        np.concatenate([moments.squares[0], np.zeros((1, 2, 2))]),
        0.0,
        60.0,
    )
    without = estimate(moments[0], floor=TINY, covariance="tied").covariances[0]
    np.testing.assert_allclose(
        estimate(emptied, floor=TINY, covariance="tied").covariances, [without] * 4, rtol=1e-12
    )


def test_the_floor_holds_for_diagonal_and_tied_covariances_too():
    equal = Moments(np.array([5.0, 5.0]), np.full((2, 2), 5.0), np.full((2, 2, 2), 5.0), 0.0, 10.0)
    for covariance in ("full", "diagonal", "tied"):
        found = estimate(equal, floor=FLOOR, covariance=covariance)
        np.testing.assert_allclose(found.covariances, [np.diag(FLOOR)] * 2, atol=1e-15)


@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_a_prior_needs_full_covariances(covariance):
    with pytest.raises(UserError, match="a prior needs full covariances"):
        estimates(random_moments(1)[0], floor=FLOOR, prior=Prior(), covariance=covariance)


def test_an_unknown_kind_of_covariance_is_named_with_the_nearest():
    with pytest.raises(UserError, match="'diag' is not known; did you mean 'diagonal'"):
        estimates(random_moments(1)[0], floor=FLOOR, covariance="diag")


def test_log_prior_densities_of_a_stack_equal_single_ones():
    mixtures = [random_mixture(3, 2, seed) for seed in range(4)]
    stacked = Prior().log_density(Parameters.of(mixtures))
    np.testing.assert_allclose(stacked, [Prior().log_density(each) for each in mixtures], rtol=1e-13)
