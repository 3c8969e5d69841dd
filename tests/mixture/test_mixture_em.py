from functools import partial

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from privmix.errors import UserError
from privmix.mixture import kernel, search
from privmix.mixture.em import climb, fit, loop, public_start
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Prior, observe, observe_boxes, systematic_sample
from privmix.mixture.search import Relocation, plant_on_worst, removal_costs, seeded_start

FLOOR = np.full(2, 1e-8)


def three() -> Mixture:
    covariances = [np.diag([0.01, 0.02]), [[0.02, 0.012], [0.012, 0.02]], np.eye(2) * 0.002]
    return Mixture([0.5, 0.3, 0.2], [[-0.5, -0.3], [0.4, 0.3], [0.3, -0.5]], covariances)


def cities(n: int, seed: int) -> np.ndarray:
    """Draw cities of heavy-tailed size and very different extent, and some records between them."""
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, 31) ** 1.1
    centres, extents = rng.uniform(-0.6, 0.6, (30, 2)), 10 ** rng.uniform(-3, -1.5, 30)
    city = rng.choice(30, n, p=sizes / sizes.sum())
    points = centres[city] + extents[city, None] * rng.standard_normal((n, 2))
    between = rng.random(n) < 0.05
    points[between] = rng.uniform(-0.7, 0.7, (between.sum(), 2))
    return points


def assert_close(found: Mixture, truth: Mixture, tolerance: float) -> None:
    order = [int(np.square(found.means - mean).sum(axis=1).argmin()) for mean in truth.means]
    assert sorted(order) == list(range(truth.n_components))
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=tolerance)
    np.testing.assert_allclose(found.means[order], truth.means, atol=tolerance)
    np.testing.assert_allclose(found.covariances[order], truth.covariances, atol=tolerance / 4)


def test_a_known_mixture_is_recovered():
    points = three().sample(20_000, np.random.default_rng(0))
    result = fit(observe(points), 3, floor=FLOOR, rng=np.random.default_rng(0))
    assert_close(result.mixture, three(), 0.02)
    assert result.converged
    assert result.log_likelihood == pytest.approx(result.mixture.log_density(points).mean())
    assert result.objective == result.log_likelihood
    assert result.notes == ()


def test_the_search_beats_scikit_learn_by_a_clear_margin():
    points = cities(15_000, seed=1)
    ours = fit(observe(points), 10, floor=FLOOR, rng=np.random.default_rng(0)).log_likelihood
    theirs = GaussianMixture(10, n_init=1, random_state=0, reg_covar=1e-8).fit(points).score(points)
    assert ours > theirs + 0.2


def test_relocation_improves_on_the_same_starts_without_it():
    points = cities(6_000, seed=2)
    with_search = fit(observe(points), 8, floor=FLOOR, rng=np.random.default_rng(0))
    without = fit(observe(points), 8, floor=FLOOR, rng=np.random.default_rng(0), relocations=0)
    assert with_search.log_likelihood > without.log_likelihood + 0.05


def test_a_relocation_is_kept_only_if_it_is_better(monkeypatch):
    monkeypatch.setattr(search, "HOPEFUL_GAP", 10.0)  # climb from every proposal, even from bad ones
    sample, rise = observe(cities(1500, seed=12)), partial(climb, floor=FLOOR)
    begin = fit(sample, 6, floor=FLOOR, rng=np.random.default_rng(0)).mixture
    reached = loop(sample, begin, floor=FLOOR).log_likelihood
    for seed in range(8):
        (found,) = search.relocate([sample], [begin], FLOOR, [np.random.default_rng(seed)], rise, 1, 1e-5)
        assert em_pass(sample, found).log_likelihood / 1500 >= reached - 1e-6


def test_relocations_of_several_fits_do_not_depend_on_each_other():
    samples, rise = [observe(cities(800, seed=seed)) for seed in (8, 9)], partial(climb, floor=FLOOR)
    begin = [seeded_start(sample, 5, FLOOR, np.random.default_rng(1)) for sample in samples]
    rngs = [np.random.default_rng(seed) for seed in (2, 3)]
    together = search.relocate(samples, begin, FLOOR, rngs, rise, 10, 1e-5)
    for number, seed in enumerate((2, 3)):
        (alone,) = search.relocate(
            [samples[number]], [begin[number]], FLOOR, [np.random.default_rng(seed)], rise, 10, 1e-5
        )
        np.testing.assert_array_equal(together[number].means, alone.means)


def test_the_removal_cost_is_the_loss_of_likelihood():
    points = cities(500, seed=3)
    mixture = fit(observe(points), 4, floor=FLOOR, rng=np.random.default_rng(0)).mixture
    costs = removal_costs(observe(points), mixture)
    for k in range(4):
        kept = [j for j in range(4) if j != k]
        share = mixture.weights[kept].sum()
        rest = Mixture(mixture.weights[kept] / share, mixture.means[kept], mixture.covariances[kept])
        lost = (mixture.log_density(points) - rest.log_density(points) - np.log(share)).sum()
        assert costs[k] == pytest.approx(lost, rel=1e-6)


def test_relocation_keeps_the_heaviest_and_changes_one_component():
    """This holds even if the heaviest component is among the cheapest, because another component is at its place."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [0.8, 0.8], [-0.8, 0.8]])
    observations = observe(np.repeat(centres, [400, 50, 50], axis=0) + rng.normal(0, 0.02, (500, 2)))
    mixture = Mixture([0.7, 0.1, 0.1, 0.1], centres[[0, 0, 1, 2]], [np.eye(2) * 4e-4] * 4)
    changes = set()
    for seed in range(12):
        moved = Relocation(observations, mixture, FLOOR).proposal(np.random.default_rng(seed))
        (changed,) = np.flatnonzero((moved.means != mixture.means).any(axis=1))
        assert changed != 0
        changes.add(int(changed))
    assert len(changes) > 1


def test_the_gain_of_a_candidate_is_the_log_likelihood_of_its_mixture():
    observations = observe(cities(500, seed=3), np.random.default_rng(0).exponential(size=500))
    mixture = fit(observations, 4, floor=FLOOR, rng=np.random.default_rng(0)).mixture
    planted = Mixture(
        np.full(3, 1 / 3), observations.points[:3], [np.eye(2) * 1e-2, np.eye(2) * 1e-3, np.eye(2)]
    )
    gains = Relocation(observations, mixture, FLOOR)._gains(1, planted, 0.3)
    for which in range(3):
        weights, means, covariances = (
            part.copy() for part in (mixture.weights, mixture.means, mixture.covariances)
        )
        weights *= 0.7 / (1 - weights[1])
        weights[1], means[1], covariances[1] = 0.3, planted.means[which], planted.covariances[which]
        made = em_pass(observations, Mixture(weights, means, covariances))
        assert gains[which] == pytest.approx(made.log_likelihood, rel=1e-10)


def test_the_same_stream_gives_the_same_fit():
    observations = observe(cities(6_000, seed=4))
    one, two, other = (
        fit(observations, 5, floor=FLOOR, rng=np.random.default_rng(seed), relocations=5)
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(one.mixture.means, two.mixture.means)
    assert not np.array_equal(one.mixture.means, other.mixture.means)


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(0)
    points, times = three().sample(300, rng), rng.integers(1, 4, 300)
    start = public_start([-1, -1], [1, 1], 3, rng)
    weighted = loop(observe(points, times), start, floor=FLOOR)
    repeated = loop(observe(np.repeat(points, times, axis=0)), start, floor=FLOOR)
    np.testing.assert_allclose(weighted.mixture.means, repeated.mixture.means, atol=1e-9)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood)


def test_loop_stops_and_reports_convergence_when_the_gain_is_below_tol():
    observations = observe(three().sample(2000, np.random.default_rng(0)))
    start = public_start([-1, -1], [1, 1], 3, np.random.default_rng(0))
    short = loop(observations, start, floor=FLOOR, max_iter=3)
    assert (short.iterations, short.converged) == (3, False)
    full = loop(observations, start, floor=FLOOR, tol=1e-6)
    assert full.converged
    again = loop(observations, full.mixture, floor=FLOOR, tol=1e-6)
    assert abs(again.log_likelihood - full.log_likelihood) < 1e-6
    reached = em_pass(observations, full.mixture).log_likelihood / 2000
    assert full.log_likelihood == pytest.approx(reached)


def test_a_given_start_is_used():
    points = three().sample(2000, np.random.default_rng(0))
    result = fit(
        observe(points),
        3,
        floor=FLOOR,
        rng=np.random.default_rng(0),
        start=three(),
        relocations=0,
        max_iter=0,
    )
    np.testing.assert_allclose(result.mixture.means, three().means, atol=1e-14)
    assert "0 iterations" in result.notes[0]
    with pytest.raises(UserError, match="start has 3 components"):
        fit(observe(points), 4, floor=FLOOR, rng=np.random.default_rng(0), start=three())


def test_a_prior_shrinks_the_fit():
    points = three().sample(30, np.random.default_rng(0))
    plain = fit(observe(points), 2, floor=FLOOR, rng=np.random.default_rng(0))
    prior = Prior(scale=5.0)
    shrunk = fit(observe(points), 2, floor=FLOOR, rng=np.random.default_rng(0), prior=prior)
    assert np.linalg.det(shrunk.mixture.covariances).min() > np.linalg.det(plain.mixture.covariances).max()
    assert shrunk.objective == pytest.approx(
        shrunk.log_likelihood + prior.log_density(shrunk.mixture) / 30, rel=1e-9
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_a_fit_has_the_requested_covariance(covariance):
    covariances = fit(
        cities(1500, seed=2), 4, rng=np.random.default_rng(0), covariance=covariance
    ).mixture.covariances
    off_diagonal, apart = np.abs(covariances[:, 0, 1]).max(), np.ptp(covariances, axis=0).max()
    assert (off_diagonal == 0) == (covariance == "diagonal")
    assert (apart == 0) == (covariance == "tied")


@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_less_restricted_covariances_have_a_higher_likelihood(covariance):
    points = cities(1500, seed=2)
    bound = fit(points, 4, rng=np.random.default_rng(0), covariance=covariance)
    free = fit(points, 4, rng=np.random.default_rng(0), start=bound.mixture, relocations=0)
    assert free.log_likelihood > bound.log_likelihood + 0.001


@pytest.mark.filterwarnings("ignore:Best performing initialization")
@pytest.mark.parametrize(("covariance", "theirs"), [("full", "full"), ("diagonal", "diag"), ("tied", "tied")])
def test_from_the_same_start_a_fit_is_no_worse_than_that_of_scikit_learn(covariance, theirs):
    points = three().sample(2000, np.random.default_rng(0)) * [1.0, 50.0] + [300.0, 0.0]
    model = GaussianMixture(
        3, covariance_type=theirs, tol=1e-8, max_iter=5000, reg_covar=1e-12, random_state=0
    )
    theirs_at = model.fit(points).score(points)
    start = Mixture.from_sklearn(
        GaussianMixture(3, covariance_type=theirs, random_state=0, max_iter=2).fit(points)
    )
    ours = fit(
        points, 3, rng=np.random.default_rng(0), start=start, relocations=0, tol=1e-8, max_iter=5000,
        covariance=covariance,
    )  # fmt: skip
    assert ours.log_likelihood >= theirs_at - 1e-6
    assert ours.log_likelihood == pytest.approx(ours.mixture.log_density(points).mean(), abs=1e-9)


def test_the_last_climb_of_a_fit_is_accelerated():
    points = Mixture([0.5, 0.5], [[0.0], [2.5]], np.ones((2, 1, 1))).sample(1000, np.random.default_rng(0))
    start = Mixture([0.3, 0.7], [[-1.0], [0.5]], np.ones((2, 1, 1)))
    options = {"tol": 1e-9, "max_iter": 5000, "floor": [1e-6]}
    fast = fit(points, 2, rng=np.random.default_rng(0), start=start, relocations=0, **options)
    plain = loop(observe(points), start, **options)
    assert fast.converged
    assert fast.log_likelihood >= plain.log_likelihood - 1e-6
    assert fast.iterations < plain.iterations / 3


def test_a_fit_uses_the_given_number_of_threads(monkeypatch):
    asked = set()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        kernel, "_pool", lambda threads, pool=kernel._pool: asked.add(threads) or pool(threads)
    )
    fit(three().sample(200, np.random.default_rng(0)), 2, rng=np.random.default_rng(0))
    assert asked == set()
    fit(three().sample(200, np.random.default_rng(0)), 2, rng=np.random.default_rng(0), threads=2)
    assert asked == {2}


def test_equal_records_each_count():
    rng = np.random.default_rng(0)
    points, times = three().sample(300, rng), rng.integers(1, 4, 300)
    repeated = np.repeat(points, times, axis=0)
    merged = fit(repeated[rng.permutation(len(repeated))], 3, floor=FLOOR, rng=np.random.default_rng(0))
    weighted = fit(points, 3, weights=times, floor=FLOOR, rng=np.random.default_rng(0))
    assert_close(merged.mixture, weighted.mixture, 1e-9)
    assert merged.log_likelihood == pytest.approx(merged.mixture.log_density(repeated).mean())


def test_the_search_uses_a_sample_and_the_climb_all_records(monkeypatch):
    points, seen = cities(70_000, seed=5), []

    def watched(data, size, rng):
        seen.append((len(data), size))
        return systematic_sample(data, size, rng)

    monkeypatch.setattr("privmix.mixture.em.systematic_sample", watched)
    result = fit(points, 3, floor=FLOOR, rng=np.random.default_rng(0), relocations=4)
    assert seen == [(70_000, 70_000 // 16)]
    assert result.log_likelihood == pytest.approx(result.mixture.log_density(points).mean(), rel=1e-9)
    overall = result.mixture.weights @ result.mixture.means
    np.testing.assert_allclose(overall, points.mean(axis=0), atol=1e-9)


def test_more_starts_give_no_lower_likelihood():
    points = cities(3000, seed=6)
    one, many = (
        [
            fit(
                points, 6, floor=FLOOR, rng=np.random.default_rng(seed), starts=starts, relocations=0
            ).log_likelihood
            for seed in range(6)
        ]
        for starts in (1, 12)
    )
    assert np.mean(many) > np.mean(one) + 0.05


def grid_fit(points: np.ndarray, side: float, k: int) -> Mixture:
    lower = np.floor(points / side) * side
    return fit(observe_boxes(lower, lower + side), k, floor=FLOOR, rng=np.random.default_rng(0)).mixture


def test_a_fine_histogram_gives_the_fit_of_its_points():
    points = three().sample(20_000, np.random.default_rng(0))
    of_points = fit(observe(points), 3, floor=FLOOR, rng=np.random.default_rng(0)).mixture
    of_boxes = grid_fit(points, 0.005, 3)
    assert_close(of_boxes, of_points, 2e-3)


def test_a_coarse_histogram_widens_by_no_more_than_its_cells():
    covariance = np.diag([0.04, 0.01])
    points = Mixture([1.0], [[0.0, 0.0]], [covariance]).sample(100_000, np.random.default_rng(0))
    side = 0.1
    found = grid_fit(points, side, 1).covariances[0]
    # grouping and spreading add h²/12 each (Sheppard)
    np.testing.assert_allclose(np.diag(found), np.diag(covariance) + side**2 / 6, rtol=0.02)


def test_a_coarse_histogram_does_not_collapse_components():
    points = three().sample(20_000, np.random.default_rng(0))
    side = 0.25
    found = grid_fit(points, side, 3)
    assert np.linalg.eigvalsh(found.covariances).min() >= side**2 / 12 - 1e-9


def test_a_public_start_depends_only_on_the_box():
    lower, upper = np.array([-0.5, 0.0, 2.0]), np.array([0.5, 0.1, 4.0])
    start = public_start(lower, upper, 8, np.random.default_rng(0))
    assert ((start.means >= lower) & (start.means <= upper)).all()
    np.testing.assert_allclose(start.weights, 1 / 8)
    np.testing.assert_allclose(start.covariances, [np.diag((upper - lower) ** 2 / 16)] * 8)
    again = public_start(lower, upper, 8, np.random.default_rng(1))
    assert not np.array_equal(start.means, again.means)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_public_start_spreads_its_means(d):
    spread = public_start(np.zeros(d), np.ones(d), 64, np.random.default_rng(0)).means
    np.testing.assert_allclose(spread.mean(axis=0), 0.5, atol=0.08)
    np.testing.assert_allclose(spread.std(axis=0), np.sqrt(1 / 12), atol=0.05)
    nearest = np.square(spread[:, None] - spread).sum(axis=2) + np.eye(64) * 9
    assert np.sqrt(nearest.min()) > 0.3 * 64 ** (-1 / d)


def test_a_public_start_needs_a_box():
    with pytest.raises(UserError, match="lower < upper"):
        public_start([0.0], [0.0], 2, np.random.default_rng(0))


def test_a_seeded_start_covers_separated_clusters():
    corners = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]])
    points = np.repeat(corners, 50, axis=0) + np.random.default_rng(0).normal(size=(200, 2)) * 1e-3
    covered = 0
    for seed in range(30):
        means = seeded_start(observe(points), 4, np.full(2, 0.01), np.random.default_rng(seed)).means
        covered += len(np.unique(means.round(1), axis=0)) == 4
    # drawing by mass alone would cover all four in 9 % of cases
    assert covered >= 28


def test_the_cheapest_component_is_planted_on_an_isolated_record():
    rng = np.random.default_rng(4)
    crowd = np.concatenate([rng.normal(centre, 0.05, (300, 2)) for centre in (-0.4, 0.3)])
    alone = np.array([[0.9, -0.9]])
    observations, floor = observe(np.concatenate([crowd, alone])), np.full(2, 1e-6)
    first = public_start(-np.ones(2), np.ones(2), 3, np.random.default_rng(1))
    start = loop(observe(crowd), first, floor=floor).mixture
    planted = plant_on_worst(observations, start, floor)
    cheapest = int(np.argmin(removal_costs(observations, start)))
    assert planted.means[cheapest] == pytest.approx(alone[0])
    assert planted.covariances[cheapest] == pytest.approx(np.diag(floor))
    assert planted.weights[cheapest] == pytest.approx(1 / 601)
    assert planted.weights.sum() == pytest.approx(1)


def test_the_planted_component_is_kept_only_if_it_improves_the_fit(monkeypatch):
    rng = np.random.default_rng(4)
    centres = rng.uniform(-0.8, 0.8, (6, 2))
    observations, floor = (
        observe(np.repeat(centres, 100, axis=0) + rng.normal(0, 0.02, (600, 2))),
        np.full(2, 1e-6),
    )
    good = fit(observations, 6, floor=floor, rng=np.random.default_rng(0))
    poor = Mixture(
        np.full(6, 1 / 6), np.full((6, 2), 0.9) + 0.001 * np.arange(6)[:, None], np.stack([np.eye(2)] * 6)
    )

    centre, covariance = observations.covariance()  # the units that the fit works in

    def fitted_when_offered(offer: Mixture) -> float:
        offered = offer.normalise(centre, 1 / np.sqrt(np.diagonal(covariance)))
        monkeypatch.setattr("privmix.mixture.em.plant_on_worst", lambda *_: offered)
        return fit(
            observations, 6, floor=floor, rng=np.random.default_rng(1), start=poor, relocations=1, max_iter=5
        ).log_likelihood

    refused = fitted_when_offered(poor)
    assert refused < good.log_likelihood - 0.1
    assert fitted_when_offered(good.mixture) >= good.log_likelihood - 1e-6
