"""Noisy moments: sensitivity by brute force through the real pass, noise of the theorem, replay from the transcript."""

import math
from dataclasses import replace

import numpy as np
import pytest
from making import Tape, clusters, make_spec

from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, Spec, seeded_randomness
from privmix.mechanisms.central import noisy_moments
from privmix.mechanisms.central.noisy_moments import ROUND, NoisyMoments, Schedule, _reduce_to
from privmix.mechanisms.shared import joint_moments
from privmix.mechanisms.shared.joint_moments import (
    MomentMeasurement,
    average_mixtures,
    m_step,
    predicted_loss,
    refine,
    scheme,
    weighted_vector,
)
from privmix.mixture import em
from privmix.mixture.model import Mixture
from privmix.mixture.moments import compress, observe
from privmix.mixture.search import reduce_components, split_components
from privmix.mixture.standardised_moments import standardised_pass
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import equal_shares
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

BUDGET = Budget(1.0, 1e-6)
RICH = Budget(50.0, 1e-6)


@pytest.fixture(autouse=True)
def few_draws(request, monkeypatch):
    """Small samples of the wide mixture, except where the quality of the result is tested."""
    if "clusters" not in request.node.name:
        monkeypatch.setattr(noisy_moments, "SAMPLE", 500)


def _statistic(points, mixture):
    """Return the statistic of a measurement; zero without records."""
    shape = scheme(mixture.dimensions)
    if not len(points):
        k, d = mixture.means.shape
        return np.zeros(k * (1 + d + d * (d + 1) // 2))
    return weighted_vector(standardised_pass(observe(points), mixture, shape.radius), shape)


def _mixtures(dimensions):
    """Two narrow components far apart, where γ is one-hot and all places are clipped; one wide; three mixed."""
    means = np.zeros((2, dimensions))
    means[:, 0] = [-0.3, 0.3]
    narrow = Mixture(np.array([0.5, 0.5]), means, np.stack([np.eye(dimensions) * 1e-4] * 2))
    wide = Mixture(np.ones(1), np.zeros((1, dimensions)), np.eye(dimensions)[None] * 1e-2)
    generator = np.random.Generator(np.random.PCG64(3))
    return [narrow, wide, em.public_start(-np.ones(dimensions), np.ones(dimensions), 3, generator)]


def _records(dimensions, mixture):
    """Records on the clip sphere of each component: along each axis, both ways, and random; and some inside."""
    generator = np.random.Generator(np.random.PCG64(11))
    axes = np.concatenate([np.eye(dimensions), -np.eye(dimensions)])
    directions = generator.normal(size=(12, dimensions))
    sphere = np.concatenate([axes, directions / np.linalg.norm(directions, axis=1, keepdims=True)])
    radius = scheme(dimensions).radius
    return np.concatenate(
        [
            mean + size * radius * sphere @ cholesky.T
            for mean, cholesky in zip(mixture.means, mixture.cholesky, strict=True)
            for size in (0.4, 1.0, 3.0)
        ]
    )


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_no_record_moves_the_measurement_further_than_its_sensitivity(relation, dimensions):
    bound = scheme(dimensions).sensitivity(Neighbours("record", relation))
    common, worst = clusters(5, dimensions), 0.0
    for mixture in _mixtures(dimensions):
        base = _statistic(common, mixture)
        moved = np.array(
            [
                _statistic(np.vstack([common, record]), mixture) - base
                for record in _records(dimensions, mixture)
            ]
        )
        sizes = np.linalg.norm(moved, axis=1)
        if relation == "replace_one":
            sizes = np.linalg.norm(moved[:, None] - moved[None], axis=2)
        worst = max(worst, sizes.max())
    assert worst <= bound * (1 + 1e-9)
    # It is reached: by a record on the sphere, and by two of them in different components.
    assert worst >= 0.999 * bound


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_person_moves_the_measurement_further_than_its_sensitivity(relation):
    held = 3
    bound = scheme(2).sensitivity(Neighbours("person", relation, held))
    generator, worst = np.random.Generator(np.random.PCG64(5)), 0.0
    common = clusters(5)
    for mixture in _mixtures(2):
        records = _records(2, mixture)
        base = _statistic(common, mixture)
        people = [np.repeat(record[None], held, axis=0) for record in records]
        people += [
            records[generator.integers(len(records), size=generator.integers(1, held + 1))] for _ in range(40)
        ]
        moved = np.array([_statistic(np.vstack([common, person]), mixture) - base for person in people])
        moved = np.vstack([moved, np.zeros(len(base))])  # a person without records
        sizes = np.linalg.norm(moved, axis=1)
        if relation == "replace_one":
            sizes = np.linalg.norm(moved[:, None] - moved[None], axis=2)
        worst = max(worst, sizes.max())
    assert worst <= bound * (1 + 1e-9)
    assert worst >= 0.999 * bound


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("held", [1, 4], ids=["record", "person"])
def test_merging_equal_records_moves_the_measurement_no_further(relation, held):
    """Records share places with others, so they enter with weights above one, as in a mechanism."""
    shape = scheme(2)
    unit = "record" if held == 1 else "person"
    bound, worst = shape.sensitivity(Neighbours(unit, relation, held)), 0.0
    for mixture in _mixtures(2):
        places = _records(2, mixture)
        common = np.repeat(places, 3, axis=0)

        def merged(records, common=common, mixture=mixture):
            observations = compress(observe(np.vstack([common, records])))
            assert observations.weights.max() >= 3
            return weighted_vector(standardised_pass(observations, mixture, shape.radius), shape)

        base = merged(np.empty((0, 2)))
        moved = np.array([merged(np.repeat(place[None], held, axis=0)) - base for place in places])
        assert base == pytest.approx(_statistic(common, mixture))
        sizes = np.linalg.norm(moved, axis=1)
        if relation == "replace_one":
            sizes = np.linalg.norm(moved[:, None] - moved[None], axis=2)
        worst = max(worst, sizes.max())
    assert 0.999 * bound <= worst <= bound * (1 + 1e-9)


@pytest.mark.parametrize("dimensions", range(1, 31))
def test_the_weights_keep_contributions_from_opposing_each_other(dimensions):
    shape = scheme(dimensions)
    assert shape.total**2 <= 2 * shape.count * shape.square
    one, two = (Neighbours("record", relation) for relation in ("add_remove", "replace_one"))
    assert shape.sensitivity(two) == pytest.approx(math.sqrt(2) * shape.sensitivity(one))


def test_the_weights_minimise_the_predicted_loss():
    """S² (½/a² + ½d/b² + d(d+1)/8/e²) is the loss of a measurement; no other weights make it smaller."""
    d, shape, neighbours = 6, scheme(6), Neighbours("record", "add_remove")

    def loss(candidate):
        reach = candidate.sensitivity(neighbours) ** 2
        return reach * (
            0.5 / candidate.count**2 + d / 2 / candidate.total**2 + d * (d + 1) / 8 / candidate.square**2
        )

    for block in ("count", "total", "square"):
        for factor in (0.9, 1.1):
            assert loss(replace(shape, **{block: factor * getattr(shape, block)})) > loss(shape)
    # K components of equal weight, N records, noise S/μ: the loss of component k counts with π_k = 1/K.
    rows, k, mu = 1000, 4, 0.5
    assert predicted_loss(rows, d, k, mu, neighbours) == pytest.approx(loss(shape) * k**2 / (mu * rows) ** 2)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("unit", "held"), [("record", 1), ("person", 4)])
def test_noise_has_the_scale_of_the_theorem(relation, unit, held, recording):
    spec = make_spec(rows=1000, relation=relation, unit=unit, max_records=held)
    release = NoisyMoments(iterations=7).fit(Records(clusters()), spec, RICH, recording)
    shape = scheme(2)
    largest = math.sqrt(shape.count**2 + (shape.total * 3) ** 2 + (shape.square * 9) ** 2)
    factor = held * (math.sqrt(2) if relation == "replace_one" else 1)
    noise_multiplier = equal_shares(0, 7, RICH, "exact").noise_multiplier
    assert [kind for kind, _, _ in recording.noise.asked] == ["gaussian"] * 7
    assert [scale for _, scale, _ in recording.noise.asked] == pytest.approx(
        [factor * largest * noise_multiplier] * 7
    )
    assert [event.noise_multiplier for event in release.events] == [noise_multiplier] * 7


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("iterations", [None, 1, 5])
def test_the_claim_is_the_budget_and_comes_from_the_ledger(epsilon, iterations):
    mechanism, budget = NoisyMoments(iterations=iterations), Budget(epsilon, 1e-6)
    release = mechanism.fit(Records(clusters()), make_spec(), budget, seeded_randomness(1, epsilon))
    assert release.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert release.claim.epsilon <= epsilon * (1 + 1e-9)
    spec = make_spec()
    assert (
        len(release.events)
        == len(release.transcript)
        == mechanism.schedule(spec, budget, spec.neighbours).releases
    )


@pytest.fixture(
    params=[("record", "replace_one", 1), ("record", "add_remove", 1), ("person", "replace_one", 3)]
)
def played(request, monkeypatch):
    """A run with its tape and the mixture that each pass used."""
    unit, relation, held = request.param
    spec = make_spec(rows=1000, relation=relation, unit=unit, max_records=held)
    used = []

    def watched(observations, mixture, radius):
        used.append(mixture)
        return standardised_pass(observations, mixture, radius)

    monkeypatch.setattr(joint_moments, "completed_pass", watched)
    tape = Tape(seeded_randomness(3, *request.param).noise)
    generator = np.random.Generator(np.random.PCG64(1))
    release = NoisyMoments().fit(Records(clusters()), spec, RICH, Randomness(tape, generator))
    return spec, release, used, tape.drawn


def _released(step, sigma, shape):
    arrays = [np.array(step[name]) for name in ("counts", "sums", "squares")]
    return MomentMeasurement(*arrays, sigma / shape.count, sigma / shape.total, sigma / shape.square)


def test_every_measurement_is_the_statistic_plus_its_noise(played):
    _, release, used, drawn = played
    shape = scheme(2)
    assert len(used) == len(drawn) == len(release.transcript)
    for mixture, step, (_, noise) in zip(used, release.transcript, drawn, strict=True):
        squares = np.array(step["squares"])
        assert (squares == squares.transpose(0, 2, 1)).all()
        upper = squares[:, [0, 0, 1], [0, 1, 1]] * [1, math.sqrt(2), 1]
        told = np.concatenate(
            [
                shape.count * np.array(step["counts"]),
                shape.total * np.array(step["sums"]).ravel(),
                shape.square * upper.ravel(),
            ]
        )
        assert told == pytest.approx(_statistic(clusters(), mixture) + noise, abs=1e-6)


def test_no_noise_is_used_twice(played):
    standard = np.concatenate([noise / sigma for sigma, noise in played[3]])
    assert len(np.unique(standard)) == len(standard)


def test_each_iteration_uses_only_earlier_measurements(played):
    """All mixtures, from the box to the result, are recomputed from the transcript and public values."""
    spec, release, used, drawn = played
    shape, neighbours = scheme(2), spec.neighbours
    plan = NoisyMoments().schedule(spec, RICH, neighbours)
    sigma = shape.sensitivity(neighbours) * equal_shares(0, plan.releases, RICH, "exact").noise_multiplier
    assert [scale for scale, _ in drawn] == pytest.approx([sigma] * plan.releases)
    side = spec.domain.upper - spec.domain.lower
    middle = (spec.domain.upper + spec.domain.lower) / 2
    mixture = Mixture(np.ones(1), middle[None], np.diag(side**2 / 12)[None])
    rows, number = iter(zip(release.transcript, used, strict=True)), 0

    def iterated(mixture, iterations, stage):
        nonlocal number
        iterates = []
        for _ in range(iterations):
            step, seen = next(rows)
            assert step["stage"] == stage
            assert seen.means == pytest.approx(mixture.means, abs=1e-12)
            assert seen.covariances == pytest.approx(mixture.covariances, abs=1e-12)
            measured = _released(step, sigma, shape)
            mixture = m_step(mixture, measured, spec, neighbours, hold=stage == "refining")
            iterates.append(mixture)
            number += 1
        return iterates

    mixture = iterated(mixture, plan.whole, "whole")[-1]
    while mixture.n_components < plan.width:
        more = min(mixture.n_components, plan.width - mixture.n_components)
        mixture = iterated(split_components(mixture, more, spec.floor), plan.growing, "growing")[-1]
    for _ in range(plan.rounds):
        half = reduce_components(mixture, plan.width // 2)
        mixture = iterated(split_components(half, half.n_components, spec.floor), ROUND, "search")[-1]
    wide = average_mixtures(iterated(mixture, plan.settling, "wide")[plan.settling // 2 :], spec)
    mixture = _reduce_to(wide, 3, spec, np.random.Generator(np.random.PCG64(1)))
    iterates = iterated(mixture, plan.refining, "refining")
    assert number == plan.releases
    again = average_mixtures(iterates[plan.refining // 2 :], spec)
    assert release.mixture.means == pytest.approx(again.means, abs=1e-12)
    assert release.mixture.covariances == pytest.approx(again.covariances, abs=1e-12)
    assert release.mixture.weights == pytest.approx(again.weights, abs=1e-12)


def test_halving_the_noise_is_caught_by_the_residuals():
    """Measured minus recomputed statistic is the noise; its size must be the theorem's (chi square, 1e-6)."""
    from scipy import stats

    points, mixture = clusters(500), _mixtures(2)[2]
    neighbours, shape, noise_multiplier = Neighbours("record", "add_remove"), scheme(2), 2.0
    exact = standardised_pass(observe(points), mixture, shape.radius)
    residuals = []
    for run in range(10):
        released = joint_moments.measure_moments(
            observe(points), mixture, noise_multiplier=noise_multiplier, neighbours=neighbours,
            source=seeded_randomness(4, run).noise, ledger=Ledger(), label="x",
        )  # fmt: skip
        unit = noise_multiplier * math.sqrt(shape.count**2 + (3 * shape.total) ** 2 + (9 * shape.square) ** 2)
        residuals.append((released.counts - exact.counts) * shape.count / unit)
        residuals.append(((released.sums - exact.sums) * shape.total / unit).ravel())
        squares = (released.squares - exact.squares) * shape.square / unit
        residuals.append((squares[:, [0, 0, 1], [0, 1, 1]] * [1, math.sqrt(2), 1]).ravel())
    residuals = np.concatenate(residuals)
    total = np.square(residuals).sum()
    assert 1e-6 < stats.chi2.sf(total, len(residuals)) < 1 - 1e-6
    assert stats.chi2.cdf(total / 4, len(residuals)) < 1e-6  # what halved noise would leave


def test_without_noise_and_shrinkage_the_step_is_that_of_em():
    """Nothing is clipped in a mixture that covers the records, and the stated noise is zero."""
    points = clusters(2000)
    mixture = Mixture(
        np.array([0.5, 0.5]), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.stack([np.eye(2) * 0.5] * 2)
    )
    spec = make_spec(n_components=2, rows=2000)
    exact = standardised_pass(observe(points), mixture, 3.0)
    factor = joint_moments.clipped_variance(2, 3.0)
    silent = MomentMeasurement(exact.counts, exact.sums, exact.squares * factor, 0.0, 0.0, 0.0)
    stepped = m_step(mixture, silent, spec, spec.neighbours)
    plain = em.loop(observe(points), mixture, floor=spec.floor, max_iter=1).mixture
    assert stepped.weights == pytest.approx(plain.weights)
    assert stepped.means == pytest.approx(plain.means)
    assert stepped.covariances == pytest.approx(plain.covariances)


def test_schedule_and_start_depend_only_on_public_values():
    """Datasets of different size without a common record get the same plan and the same start."""
    spec = make_spec(rows=1000, relation="add_remove")
    releases = [
        NoisyMoments().fit(Records(points), spec, RICH, seeded_randomness(9, "start"))
        for points in (clusters(1000, seed=1), np.zeros((10, 2)), clusters(3000, seed=2))
    ]
    stages = [[(step["stage"], len(step["counts"])) for step in release.transcript] for release in releases]
    assert stages[0] == stages[1] == stages[2]
    assert [release.events for release in releases[1:]] == [releases[0].events] * 2


def test_more_noise_makes_shorter_schedules_and_fewer_components():
    plans = [
        NoisyMoments().schedule(make_spec(10, rows=rows), BUDGET, Neighbours("record", "add_remove"))
        for rows in (100, 1500, 6000, 1_000_000)
    ]
    assert plans[0].n_components == 1
    assert 1 < plans[1].n_components < 10 == plans[2].n_components
    assert plans[0].releases < plans[1].releases <= plans[2].releases < plans[3].releases


@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 12, 25, 40, 100])
@pytest.mark.parametrize("components", [1, 2, 3, 10])
def test_a_schedule_has_the_requested_number_of_measurements(iterations, components):
    spec = make_spec(components, rows=10**8)
    plan = NoisyMoments(iterations=iterations).schedule(spec, RICH, spec.neighbours)
    assert plan.releases == iterations
    assert plan.refining >= 1
    assert components <= plan.width <= 4 * components
    if components == 3:
        release = NoisyMoments(iterations=iterations).fit(
            Records(clusters(50)), spec, RICH, seeded_randomness(1)
        )
        assert len(release.events) == iterations
        assert release.mixture.n_components == components


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "points", [np.zeros((1, 2)), np.full((50, 2), 0.7), clusters(200)], ids=["one", "place", "some"]
)
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0, 1e4])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, relation):
    for rows in (len(points), 10**6):  # the second: a catalog that is wrong about the size
        spec = make_spec(rows=rows, relation=relation)
        release = NoisyMoments().fit(
            Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon)
        )
        mixture = release.mixture
        assert np.isfinite(mixture.log_density(points)).all()
        assert (mixture.means >= spec.domain.lower).all()
        assert (mixture.means <= spec.domain.upper).all()
        assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()
        if epsilon == 1e-4 and rows == len(points):
            assert any("mostly noise" in note for note in release.notes)
            assert any("1 of the 3 requested components" in note for note in release.notes)


def test_thirty_dimensions():
    spec = make_spec(3, dimensions=30, rows=200_000, relation="add_remove")
    mixture = (
        NoisyMoments(iterations=10).fit(Records(clusters(500, 30)), spec, RICH, seeded_randomness(1)).mixture
    )
    assert mixture.dimensions == 30
    assert np.isfinite(mixture.log_density(clusters(10, 30))).all()


@pytest.mark.parametrize("dimensions", [2, 8])
def test_it_finds_the_clusters_and_beats_a_single_gaussian(dimensions):
    """Three clusters, ε = 1, 20,000 records: within 0.1 nat of EM without noise; one component is more than 1 below."""
    points = clusters(20_000, dimensions, seed=7)
    spec = make_spec(3, dimensions=dimensions, rows=20_000, relation="add_remove")
    best = (
        em.fit(points, 3, floor=spec.floor, rng=seeded_randomness(1).search)
        .mixture.log_density(points)
        .mean()
    )

    def found(components):
        release = NoisyMoments().fit(
            Records(points), Spec(spec.domain, components), BUDGET, seeded_randomness(2, components)
        )
        return release.mixture.log_density(points).mean()

    assert found(3) > best - 0.1
    assert found(1) < best - 1


def test_refinement_begins_at_its_start_and_returns_its_measurements():
    points, spec = clusters(5000), make_spec(rows=5000, relation="add_remove")
    start = em.fit(points, 3, floor=spec.floor, rng=seeded_randomness(1).search).mixture
    ledger = Ledger()
    refined = refine(
        observe(points), spec, start, iterations=4, noise_multiplier=1.0, neighbours=spec.neighbours,
        source=seeded_randomness(2).noise, ledger=ledger, label="again",
    )  # fmt: skip
    assert (
        [event.label for event in ledger.events]
        == ["again"] * 4
        == [row["stage"] for row in refined.transcript]
    )
    score = start.log_density(points).mean()
    assert refined.mixture.log_density(points).mean() > score - 0.01
    assert refined.last.log_density(points).mean() > score - 0.02
    none = refine(
        observe(points), spec, start, iterations=0, noise_multiplier=1.0, neighbours=spec.neighbours,
        source=seeded_randomness(2).noise, ledger=ledger,
    )  # fmt: skip
    assert none.last.means == pytest.approx(start.means, abs=1e-12)
    assert len(ledger.events) == 4


def test_records_outside_the_box_count_as_on_its_edge():
    spec, far = make_spec(rows=50), np.full((50, 2), 30.0)
    edge = np.tile(spec.domain.upper, (50, 1))
    releases = [
        NoisyMoments().fit(Records(points), spec, RICH, seeded_randomness(1, "edge"))
        for points in (far, edge)
    ]
    assert releases[0].transcript == releases[1].transcript


def test_gaussian_noise_without_delta_is_refused():
    with pytest.raises(UserError, match="delta"):
        NoisyMoments().fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))


def test_a_schedule_counts_its_measurements():
    plan = Schedule(5, 20, whole=3, growing=2, rounds=4, settling=7, refining=6)
    assert plan.releases == 3 + 2 * 5 + 4 * ROUND + 7 + 6
