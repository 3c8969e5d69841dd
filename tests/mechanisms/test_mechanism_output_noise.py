"""Output noise: one unit changes one block, the mean over blocks moves by 2R/M, and the claim is the budget."""

import numpy as np
import pytest
from making import assert_fresh_noise, assert_same, clusters, make_spec, restored, spied
from pydantic import ValidationError

from privmix.errors import UserError
from privmix.mechanisms.base import Records, project_to_box, seeded_randomness
from privmix.mechanisms.central import output_noise
from privmix.mechanisms.central.output_noise import OutputNoise, block_vectors, shrink
from privmix.mixture import deviation
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters
from privmix.privacy import noise
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import noise_multipliers_by_share

BUDGET = Budget(1.0, 1e-6)
RICH = Budget(20.0, 1e-6)
MECHANISM = OutputNoise(blocks=20)
FLOOR = np.full(2, 1e-6)
ABOUT = Mixture(
    np.array([0.4, 0.6]), np.array([[-0.3, 0.0], [0.3, 0.1]]), np.stack([np.eye(2) * 0.02, np.eye(2) * 0.01])
)


def _vectors(points, assigned, blocks, radius):
    return block_vectors(np.asarray(points), np.asarray(assigned), blocks, ABOUT, FLOOR, radius)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("people", [1, 3], ids=["record", "person"])
def test_one_unit_changes_one_block_and_moves_the_mean_by_two_radii_over_the_blocks(relation, people):
    """Units keep their draws; the changed unit has any number of records up to the limit, anywhere in the box."""
    generator = np.random.Generator(np.random.PCG64(2))
    blocks, radius, units = 4, 0.3, 12
    owners = np.repeat(np.arange(units), people)
    points = generator.uniform(-0.7, 0.7, (len(owners), 2))
    draws = generator.integers(blocks, size=units)
    first = _vectors(points, draws[owners], blocks, radius)
    kept = owners < units - 1
    worst = 0.0
    for _ in range(40):
        held = generator.integers(1, people + 1) if relation == "replace_one" else 0
        other = np.vstack([points[kept], generator.uniform(-0.7, 0.7, (held, 2))])
        whose = np.concatenate([owners[kept], np.full(held, units - 1)])
        second = _vectors(other, draws[whose], blocks, radius)
        changed = np.flatnonzero(np.any(first != second, axis=(1, 2)))
        assert set(changed) <= {draws[-1]}
        worst = max(worst, np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)))
    assert 0 < worst <= 2 * radius / blocks * (1 + 1e-9)


def test_the_bound_on_the_mean_is_nearly_reached():
    """A block of one unit at one end of the box, then at the other. Both widen the covariance alike, so not quite."""
    spots = [np.array([[x, y]]) for x in (-0.7, 0.0, 0.7) for y in (-0.7, 0.1, 0.7)]
    found = [_vectors(spot, [0], 1, 0.01)[0] for spot in spots]
    worst = max(np.linalg.norm(one - other) for one in found for other in found)
    assert 0.7 * 0.02 < worst <= 0.02 * (1 + 1e-9)


def test_a_block_sees_only_its_own_records():
    generator = np.random.Generator(np.random.PCG64(3))
    points, assigned = generator.uniform(-0.7, 0.7, (60, 2)), np.repeat([0, 1, 2], 20)
    other = points.copy()
    other[assigned != 1] = generator.uniform(-0.7, 0.7, (40, 2)) * 0.01
    assert np.array_equal(_vectors(points, assigned, 3, 1.0)[1], _vectors(other, assigned, 3, 1.0)[1])


def test_empty_blocks_are_the_reference_and_no_vector_is_longer_than_the_radius():
    points = np.random.Generator(np.random.PCG64(4)).uniform(-0.7, 0.7, (30, 2))
    vectors = _vectors(points, np.zeros(30, dtype=int), 5, 0.2)
    assert not vectors[1:].any()
    assert np.linalg.norm(vectors[0]) == pytest.approx(0.2)


def test_the_partition_does_not_depend_on_the_data(monkeypatch):
    drawn, original = [], noise.partition
    monkeypatch.setattr(
        noise, "partition", lambda *args, **kw: (drawn.append(original(*args, **kw)), drawn[-1])[1]
    )
    for points in (clusters(), np.zeros((1000, 2))):
        OutputNoise().fit(Records(points), make_spec(), BUDGET, seeded_randomness(2, "partition"))
    assert np.array_equal(*drawn)


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_noise_has_the_scale_of_the_theorem(unit, relation, recording):
    """2R for any unit; the reference is a histogram, where a person counts once per record."""
    spec = make_spec(relation=relation, unit=unit, max_records=4)
    persons = np.arange(1000) // 4 if unit == "person" else None
    mechanism = OutputNoise(radius=1.5, reference_share=0.25)
    release = mechanism.fit(Records(clusters(), persons=persons), spec, BUDGET, recording)
    of_reference, of_mean = noise_multipliers_by_share([0.25, 0.75], BUDGET)
    blocks = mechanism.number_of_blocks(spec, of_mean)
    assert release.transcript[0]["blocks"] == blocks
    reach = spec.neighbours.difference(1.0, opposed=False)
    scales = [scale for _, scale, _ in recording.noise.asked]
    assert scales == pytest.approx([of_reference * reach, of_mean * 2 * 1.5], rel=1e-9)
    assert recording.noise.asked[1][2] == (3, 6)


def test_all_records_of_a_person_are_in_one_block(monkeypatch, recording):
    seen, original = [], output_noise.block_vectors
    monkeypatch.setattr(
        output_noise, "block_vectors", lambda *args: (seen.append(args[1]), original(*args))[1]
    )
    persons = np.random.Generator(np.random.PCG64(6)).integers(100, 300, 1000)
    spec = make_spec(unit="person", max_records=20)
    OutputNoise(blocks=50).fit(Records(clusters(), persons=persons), spec, BUDGET, recording)
    for person in np.unique(persons):
        assert len(np.unique(seen[0][persons == person])) == 1


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_claim_is_the_budget(relation, epsilon):
    release = OutputNoise().fit(
        Records(clusters()),
        make_spec(relation=relation),
        Budget(epsilon, 1e-6),
        seeded_randomness(1, epsilon),
    )
    assert release.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert len(release.events) == 2


@pytest.fixture(scope="module")
def played():
    """Runs, each with its spec, what `reference` gave, and what `block_vectors` was handed and gave."""
    runs = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for run in range(6):
            references, vectors = [], []
            spied(monkeypatch, output_noise, "fit_reference", references)
            spied(monkeypatch, output_noise, "block_vectors", vectors)
            spec = make_spec(relation="add_remove", rows=1300)
            release = MECHANISM.fit(Records(clusters()), spec, RICH, seeded_randomness(3, "replay", run))
            monkeypatch.undo()
            runs.append((spec, release, references, vectors))
    return runs


def test_the_model_is_computed_from_the_measurements(played):
    """From the transcript's reference, sum and number of blocks, and public values: no record enters after the sum."""
    sigma = 2 * MECHANISM.radius * noise_multipliers_by_share([0.5, 0.5], RICH)[1]
    for spec, release, _, _ in played:
        (told,) = release.transcript
        shrunk, factors = shrink(np.array(told["sum"]) / told["blocks"], sigma / told["blocks"])
        assert factors.max() > 0.5
        moved = deviation.apply_deviation(restored(told["reference"]), shrunk, output_noise.LEAST_VARIANCE)
        assert_same(release.mixture, project_to_box(*moved, spec))


def test_blocks_are_fitted_about_the_measured_reference(played):
    for _, release, references, vectors in played:
        (((_, _, _, about, _, _), _),) = vectors
        ((_, given),) = references
        assert about is given
        assert_same(restored(release.transcript[0]["reference"]), given)


def test_the_sum_over_blocks_has_the_noise_of_the_theorem_and_not_half_of_it(played):
    """The measured sum minus the sum recomputed about the measured reference."""
    sigma = 2 * MECHANISM.radius * noise_multipliers_by_share([0.5, 0.5], RICH)[1]
    residuals = []
    for spec, release, _, vectors in played:
        told, ((_, assigned, *_), _) = release.transcript[0], vectors[0]
        about = restored(told["reference"])
        exact = block_vectors(clusters(), assigned, told["blocks"], about, spec.floor, MECHANISM.radius)
        residuals.append((np.array(told["sum"]) - exact.sum(axis=0)) / sigma)
    assert_fresh_noise(residuals)


def test_the_number_of_blocks_is_public_and_grows_with_the_noise():
    mechanism, spec = OutputNoise(), make_spec(rows=100_000, n_components=5)
    quiet, loud = (mechanism.number_of_blocks(spec, noise_multiplier) for noise_multiplier in (1.0, 50.0))
    assert 1 < quiet < loud <= 100_000 / 50
    person = make_spec(rows=100_000, unit="person", max_records=500)
    assert mechanism.number_of_blocks(person, 50.0) <= 200
    assert OutputNoise(blocks=7).number_of_blocks(spec, 1.0) == 7


def test_vector_and_parameters_round_trip():
    moved = Mixture(np.array([0.5, 0.5]), ABOUT.means + 0.05, ABOUT.covariances * 1.3)
    vector = deviation.deviations(Parameters.of([moved]), ABOUT)[0]
    weights, means, covariances = deviation.apply_deviation(ABOUT, vector, 1e-3)
    assert weights == pytest.approx(moved.weights)
    assert means == pytest.approx(moved.means)
    assert covariances == pytest.approx(moved.covariances)


def test_half_the_squared_length_is_the_divergence():
    """With labels: KL of the weights, plus KL of each pair of components by its weight."""
    near = Mixture(np.array([0.41, 0.59]), ABOUT.means + 0.003, ABOUT.covariances * 1.03)
    divergence = (ABOUT.weights * np.log(ABOUT.weights / near.weights)).sum()
    for k, weight in enumerate(ABOUT.weights):
        precision = np.linalg.inv(near.covariances[k])
        shift = near.means[k] - ABOUT.means[k]
        ratio = precision @ ABOUT.covariances[k]
        divergence += (
            weight / 2 * (np.trace(ratio) - 2 - np.linalg.slogdet(ratio)[1] + shift @ precision @ shift)
        )
    length = np.linalg.norm(deviation.deviations(Parameters.of([near]), ABOUT))
    assert divergence == pytest.approx(length**2 / 2, rel=0.05)


def test_shrinkage_keeps_what_stands_out_and_removes_noise():
    released = np.array([[3.0] * 6, [0.01] * 6])
    shrunk, factors = shrink(released, 0.1)
    assert shrunk[0] == pytest.approx(released[0], rel=0.01)
    assert not shrunk[1].any()
    assert factors[1] == 0


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((50, 2)), clusters(200)])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon):
    spec = make_spec(rows=len(points))
    mixture = (
        OutputNoise().fit(Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon)).mixture
    )
    assert np.isfinite(mixture.log_density(points)).all()
    assert (np.abs(mixture.means) <= spec.domain.upper + 1e-12).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


def test_a_note_says_if_the_mixture_is_mostly_noise():
    release = OutputNoise().fit(
        Records(clusters()), make_spec(), Budget(0.01, 1e-6), seeded_randomness(1, "small")
    )
    assert "private reference" in release.notes[0]


def test_it_beats_a_single_gaussian_and_more_dimensions_work():
    points, fresh = clusters(20_000), clusters(2000)
    one = Mixture(np.ones(1), points.mean(axis=0)[None], np.cov(points.T)[None])
    spec = make_spec(rows=20_000, relation="add_remove")
    release = OutputNoise().fit(Records(points), spec, BUDGET, seeded_randomness(1, "use"))
    assert release.mixture.log_density(fresh).mean() > one.log_density(fresh).mean() + 0.5
    wide = make_spec(dimensions=5, rows=500)
    release = OutputNoise().fit(
        Records(clusters(500, dimensions=5)), wide, BUDGET, seeded_randomness(1, "wide")
    )
    assert release.claim.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("wrong", [{"blocks": 0}, {"radius": 0}, {"reference_share": 1}, {"block": 3}])
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValidationError):
        OutputNoise(**wrong)


def test_no_delta_is_refused():
    with pytest.raises(UserError, match="delta"):
        OutputNoise().fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))
