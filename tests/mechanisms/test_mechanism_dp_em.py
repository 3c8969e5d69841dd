"""DP-EM: sensitivities by brute force, noise where it belongs, claims from the ledger."""

import math

import numpy as np
import pytest
from making import clusters, make_spec

from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mixture import em, kernel
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Prior, estimate, observe
from privmix.privacy.accounting import Budget

BUDGET = Budget(1.0, 1e-6)


def _moments(points, mixture):
    return kernel.em_pass(observe(points), mixture)


def _two_far_components(dimensions):
    """Responsibilities are one-hot on opposite sides of the first axis, where sensitivities are reached."""
    means = np.zeros((2, dimensions))
    means[:, 0] = [-0.5, 0.5]
    return Mixture(np.array([0.5, 0.5]), means, np.stack([np.eye(dimensions) * 1e-3] * 2))


def _changes(first, second):
    """How far counts (L1, L2), sums of one component (L1, L2) and squares (Frobenius) lie apart."""
    counts = first.counts - second.counts
    sums = first.sums - second.sums
    squares = first.squares - second.squares
    return np.array(
        [
            np.abs(counts).sum(),
            np.linalg.norm(counts),
            np.abs(sums).sum(axis=1).max(),
            np.linalg.norm(sums, axis=1).max(),
            np.linalg.norm(squares, axis=(1, 2)).max(),
        ]
    )


def _bounds(relation, dimensions):
    neighbours = make_spec(relation=relation).neighbours
    opposed, aligned = (neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    return np.array([opposed, aligned, math.sqrt(dimensions) * opposed, opposed, aligned])


def _pairs(relation, dimensions):
    """Random and adversarial neighbours on the unit ball, as (first, second) point sets."""
    generator = np.random.Generator(np.random.PCG64(11))
    common = generator.uniform(-0.3, 0.3, (5, dimensions))
    diagonal = np.ones(dimensions) / math.sqrt(dimensions)
    axis = np.eye(dimensions)[0]
    corners = [diagonal, -diagonal, axis, -axis]
    if dimensions > 1:
        # Orthogonal records of one component: the worst case of second moments.
        corners += [np.eye(dimensions)[0] * 0.8 + np.eye(dimensions)[1] * 0.6]
        corners += [np.eye(dimensions)[0] * 0.6 - np.eye(dimensions)[1] * 0.8]
    directions = generator.normal(size=(40, dimensions))
    inside = directions / np.linalg.norm(directions, axis=1, keepdims=True) * generator.random((40, 1))
    records = [*corners, *inside]
    for i, one in enumerate(records):
        if relation == "add_remove":
            yield np.vstack([common, one]), common
            continue
        for other in records[:i]:
            yield np.vstack([common, one]), np.vstack([common, other])


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_no_neighbour_moves_a_statistic_further_than_its_sensitivity(relation, dimensions):
    bounds = _bounds(relation, dimensions)
    generator = np.random.Generator(np.random.PCG64(3))
    mixtures = [_two_far_components(dimensions)]
    mixtures += [Mixture(np.ones(1), np.zeros((1, dimensions)), np.eye(dimensions)[None])]
    mixtures += [em.public_start(-np.ones(dimensions), np.ones(dimensions), 3, generator) for _ in range(3)]
    worst = np.zeros(5)
    for mixture in mixtures:
        for first, second in _pairs(relation, dimensions):
            worst = np.maximum(worst, _changes(_moments(first, mixture), _moments(second, mixture)))
    assert (worst <= bounds * (1 + 1e-9)).all()
    reached = worst / bounds
    if dimensions == 1:
        reached[4] = 1.0  # two records of a line are never orthogonal
    assert (reached >= 0.99).all(), reached


@pytest.mark.parametrize("noise", ["llg", "ggg"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_noise_has_the_scale_of_the_theorem(noise, relation, recording):
    """Every requested scale is sensitivity over the noisy count, times the calibrated multiplier."""
    spec = make_spec(rows=1000, relation=relation)
    mechanism = DpEm(noise=noise, composition="linear", iterations=2)
    share = mechanism.share(3, BUDGET)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, recording)
    asked = recording.noise.asked
    assert len(asked) == len(release.events) == 2 * (2 * 3 + 1)
    opposed, aligned = (spec.neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    size = 1000 if relation == "replace_one" else 1
    for number, step in enumerate(release.transcript):
        block = asked[7 * number : 7 * number + 7]
        counts = np.array(step["counts"])
        if noise == "llg":
            expected = [("laplace", opposed / size / share.laplace_epsilon)]
            expected += [("laplace", math.sqrt(2) * opposed / c / share.laplace_epsilon) for c in counts]
        else:
            expected = [("gaussian", aligned / size * share.noise_multiplier)]
            expected += [("gaussian", opposed / c * share.noise_multiplier) for c in counts]
        expected += [("gaussian", aligned / c * share.noise_multiplier) for c in counts]
        for (kind, scale, _), (wanted_kind, wanted) in zip(block, expected, strict=True):
            assert kind == wanted_kind
            assert scale == pytest.approx(wanted, rel=1e-9)


def test_linear_composition_is_the_papers_split():
    share = DpEm(noise="llg", composition="linear", iterations=10).share(5, BUDGET)
    assert share.laplace_epsilon == pytest.approx(1.0 / (10 * 11))


def test_without_noise_it_is_plain_map_em(recording):
    spec, points = make_spec(), clusters()
    generous = Budget(5000.0, 1e-6)  # so that the floor, which follows the noise, is nowhere reached
    release = DpEm(iterations=4).fit(Records(points), spec, generous, recording)
    start_rng = np.random.Generator(np.random.PCG64(5))
    mixture = em.public_start(spec.domain.lower, spec.domain.upper, 3, start_rng)
    for _ in range(4):
        mixture = estimate(_moments(points, mixture), floor=spec.floor, prior=Prior())
    assert release.mixture.means == pytest.approx(mixture.means, abs=1e-9)
    assert release.mixture.weights == pytest.approx(mixture.weights, abs=1e-9)
    assert release.mixture.covariances == pytest.approx(mixture.covariances, abs=1e-9)


def test_no_variance_is_smaller_than_the_noise_in_it(recording):
    spec = make_spec()
    mechanism = DpEm(iterations=2)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, recording)
    noise_multiplier = mechanism.share(3, BUDGET).noise_multiplier
    counts = np.array(release.transcript[-1]["counts"])
    least = np.minimum(math.sqrt(2) * noise_multiplier / counts + (2 * noise_multiplier / counts) ** 2, 1.0)
    assert (np.linalg.eigvalsh(release.mixture.covariances).min(axis=1) >= least * (1 - 1e-9)).all()


@pytest.mark.parametrize("noise", ["llg", "ggg"])
@pytest.mark.parametrize("composition", ["linear", "advanced", "zcdp", "rdp", "exact"])
def test_claim_is_the_budget_and_comes_from_the_ledger(noise, composition):
    mechanism = DpEm(noise=noise, composition=composition, iterations=3)
    release = mechanism.fit(
        Records(clusters()), make_spec(), BUDGET, seeded_randomness(1, noise, composition)
    )
    assert release.claim.epsilon == pytest.approx(1.0, rel=1e-5)
    assert release.claim.epsilon <= 1.0 + 1e-9
    assert release.claim.delta == 1e-6
    assert len(release.events) == 3 * 7


def test_halving_the_noise_is_caught_by_the_residuals():
    """Measured minus recomputed statistic is the noise; its size must be the theorem's (chi square, 1e-6)."""
    from scipy import stats

    spec, points = make_spec(n_components=2, rows=4000), clusters(4000)
    mechanism = DpEm(noise="ggg", composition="exact", iterations=40)
    share = mechanism.share(2, Budget(8.0, 1e-6))

    def standardised(randomness):
        release = mechanism.fit(Records(points), spec, Budget(8.0, 1e-6), randomness)
        mixture = em.public_start(
            spec.domain.lower, spec.domain.upper, 2, seeded_randomness(2, "halved").search
        )
        exact = _moments(points, mixture).counts  # the first iteration starts from public values
        first = np.array(release.transcript[0]["counts"])
        return (first - exact) / (share.noise_multiplier * math.sqrt(2))

    residuals = np.concatenate(
        [
            standardised(
                Randomness(seeded_randomness(2, "n", run).noise, seeded_randomness(2, "halved").search)
            )
            for run in range(60)
        ]
    )
    total = (residuals**2).sum()
    assert 1e-6 < stats.chi2.sf(total, len(residuals)) < 1 - 1e-6
    assert stats.chi2.cdf(total / 4, len(residuals)) < 1e-6  # what halved noise would leave


def test_start_and_bounds_do_not_depend_on_the_data():
    """Two datasets without a common record begin at the same public start."""
    spec = make_spec()
    seen = []
    original = kernel.em_pass

    def watching(observations, mixture):
        seen.append(mixture)
        return original(observations, mixture)

    kernel.em_pass = watching
    try:
        for points in (clusters(seed=1), np.zeros((1000, 2))):
            DpEm(iterations=1).fit(Records(points), spec, BUDGET, seeded_randomness(9, "start"))
    finally:
        kernel.em_pass = original
    assert np.array_equal(seen[0].means, seen[1].means)
    assert np.array_equal(seen[0].covariances, seen[1].covariances)
    assert (np.abs(seen[0].means) <= spec.domain.upper + 1e-12).all()


def test_records_outside_the_box_count_as_on_its_edge(recording):
    spec, far = make_spec(rows=200), clusters(200) * 10
    inside = np.clip(far, spec.domain.lower, spec.domain.upper)
    first, second = (
        DpEm(iterations=2).fit(
            Records(points), spec, BUDGET, Randomness(recording.noise, seeded_randomness(1).search)
        )
        for points in (far, inside)
    )
    assert first.transcript == second.transcript


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((50, 2)), clusters(200)])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon):
    spec = make_spec(rows=len(points))
    mechanism = DpEm(noise="llg", composition="zcdp")
    mixture = mechanism.fit(
        Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon)
    ).mixture
    assert np.isfinite(mixture.log_density(points)).all()
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("noise", ["llg", "ggg"])
def test_person_level_noise_covers_all_the_records_of_a_person(noise, relation, recording):
    """N is private there: counts are measured as sums, and every scale has the factor of m records."""
    spec = make_spec(rows=777, unit="person", relation=relation, max_records=5)
    one = make_spec(rows=777, relation=relation).neighbours
    mechanism = DpEm(noise=noise, composition="linear", iterations=1)
    share = mechanism.share(3, BUDGET)
    release = mechanism.fit(Records(clusters()), spec, BUDGET, recording)
    counts = np.array(release.transcript[0]["counts"])
    opposed, aligned = (5 * one.difference(1.0, opposed=flag) for flag in (True, False))
    if noise == "llg":
        first = [opposed / share.laplace_epsilon, *(math.sqrt(2) * opposed / counts / share.laplace_epsilon)]
    else:
        first = [aligned * share.noise_multiplier, *(opposed / counts * share.noise_multiplier)]
    expected = [*first, *(aligned / counts * share.noise_multiplier)]
    assert [scale for _, scale, _ in recording.noise.asked] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_person_moves_a_statistic_further_than_its_sensitivity(relation):
    """Persons as neighbours: any number of records up to the limit, against any other, over corners and inside."""
    people = 3
    neighbours = make_spec(relation=relation, unit="person", max_records=people).neighbours
    opposed, aligned = (neighbours.difference(1.0, opposed=flag) for flag in (True, False))
    bounds = np.array([opposed, aligned, math.sqrt(2) * opposed, opposed, aligned])
    generator = np.random.Generator(np.random.PCG64(5))
    common, worst = generator.uniform(-0.3, 0.3, (5, 2)), np.zeros(5)
    angles = np.arange(16) * np.pi / 8
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    mixtures = [_two_far_components(2), Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])]
    holdings = [np.repeat(spot[None], people, axis=0) for spot in circle]
    holdings += [circle[generator.integers(16, size=generator.integers(1, people + 1))] for _ in range(30)]
    for mixture in mixtures:
        for number, held in enumerate(holdings):
            others = [np.empty((0, 2)), *(holdings[:number] if relation == "replace_one" else [])]
            first = _moments(np.vstack([common, held]), mixture)
            for other in others:
                worst = np.maximum(worst, _changes(first, _moments(np.vstack([common, other]), mixture)))
    assert (worst <= bounds * (1 + 1e-9)).all()
    assert (worst >= 0.99 * bounds).all(), worst / bounds


def test_gaussian_noise_without_delta_is_refused():
    with pytest.raises(UserError, match="delta"):
        DpEm().fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))
