"""The private reference: its cost, what it may see, and that it finds the components."""

import math

import numpy as np
import pytest
from making import Tape, assert_fresh_noise, assert_same, clusters, make_spec, spied

from privmix.mechanisms.base import Randomness, project_to_box, seeded_randomness
from privmix.mechanisms.shared import joint_moments
from privmix.mechanisms.shared import reference as module
from privmix.mechanisms.shared.joint_moments import average_mixtures, m_step, scheme, weighted_vector
from privmix.mechanisms.shared.partitions import cubic_grid
from privmix.mechanisms.shared.reference import ROUNDS, fit_reference, significant_boxes
from privmix.mixture import em
from privmix.mixture.moments import observe, observe_boxes
from privmix.mixture.standardised_moments import standardised_pass
from privmix.privacy.ledger import Ledger


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("dimensions", [2, 5])
def test_it_costs_one_gaussian_measurement_of_its_multiplier(unit, relation, dimensions, recording):
    """One histogram, or ROUNDS joint measurements of an equal share each; noise by the sensitivity of the unit."""
    spec = make_spec(dimensions=dimensions, relation=relation, unit=unit, max_records=3)
    ledger = Ledger()
    fit_reference(
        clusters(dimensions=dimensions),
        spec,
        spec.neighbours,
        noise_multiplier=4.0,
        rng=recording,
        ledger=ledger,
    )
    assert len(ledger.events) == (1 if dimensions == 2 else ROUNDS)
    assert math.hypot(*(1 / event.noise_multiplier for event in ledger.events)) == pytest.approx(0.25)
    if dimensions == 2:
        reach = spec.neighbours.difference(1.0, opposed=False)
    else:
        reach = scheme(5).sensitivity(spec.neighbours) * math.sqrt(ROUNDS)
    assert [scale for _, scale, _ in recording.noise.asked] == pytest.approx(
        [4.0 * reach] * len(ledger.events)
    )


def test_the_grid_does_not_depend_on_the_data(monkeypatch):
    shapes, original = [], module.cubic_grid
    monkeypatch.setattr(module, "cubic_grid", lambda *args: (shapes.append(original(*args)), shapes[-1])[1])
    spec = make_spec(rows=1000)
    for points in (clusters(), np.zeros((7, 2))):
        fit_reference(
            points, spec, spec.neighbours, noise_multiplier=4.0, rng=seeded_randomness(1), ledger=Ledger()
        )
    assert shapes[0].shape == shapes[1].shape


def test_the_grid_reference_follows_from_the_noisy_counts():
    """Recomputed from the exact counts plus the recorded noise, with the same start of the search."""
    spec, points = make_spec(rows=1300, relation="add_remove"), clusters()
    tape = Tape(seeded_randomness(6, "tape").noise)
    found = fit_reference(
        points, spec, spec.neighbours, noise_multiplier=0.5, ledger=Ledger(),
        rng=Randomness(tape, seeded_randomness(6, "tape").search),
    )  # fmt: skip
    ((sigma, noise),) = tape.drawn
    assert sigma == pytest.approx(0.5)
    grid = cubic_grid(spec.domain.lower, spec.domain.upper, module.FINENESS * 1300 / 0.5)
    noisy = np.bincount(grid.locate(points), minlength=grid.cells) + noise
    lower, upper, weights = significant_boxes(grid, noisy, 0.5)
    assert len(weights) >= 3
    assert weights.sum() < 1300
    boxes = observe_boxes(
        np.vstack([lower, spec.domain.lower]),
        np.vstack([upper, spec.domain.upper]),
        np.append(weights, 1300 - weights.sum()),
    )
    again = em.fit(boxes, 3, floor=spec.floor, rng=seeded_randomness(6, "tape").search).mixture
    assert_same(found, project_to_box(again.weights, again.means, again.covariances, spec))


def test_the_reference_of_moments_follows_from_the_noisy_moments(monkeypatch):
    """From a public start on, every mixture is computed from the measured moments before it."""
    spec, points, releases = (
        make_spec(dimensions=5, rows=1300, relation="add_remove"),
        clusters(dimensions=5),
        [],
    )
    spied(monkeypatch, joint_moments, "measure_moments", releases)
    found = fit_reference(
        points, spec, spec.neighbours, noise_multiplier=0.5, rng=seeded_randomness(6, "moments"), ledger=Ledger()
    )  # fmt: skip
    mixture = em.public_start(spec.domain.lower, spec.domain.upper, 3, seeded_randomness(6, "moments").search)
    shape, iterates, residuals = scheme(5), [], []
    sigma = 0.5 * math.sqrt(ROUNDS) * shape.sensitivity(spec.neighbours)
    for (_, seen), released in releases:
        assert_same(seen, mixture)
        exact = weighted_vector(standardised_pass(observe(points), mixture, shape.radius), shape)
        residuals.append((weighted_vector(released, shape) - exact) / sigma)
        mixture = m_step(mixture, released, spec, spec.neighbours)
        iterates.append(mixture)
    assert len(iterates) == ROUNDS
    assert_same(found, average_mixtures(iterates[ROUNDS // 2 :], spec))
    assert_fresh_noise(residuals)


def test_it_finds_separated_clusters():
    spec, points = make_spec(rows=20_000, relation="add_remove"), clusters(20_000)
    found = fit_reference(
        points, spec, spec.neighbours, noise_multiplier=5.0, rng=seeded_randomness(2), ledger=Ledger()
    )
    distances = np.linalg.norm(points[:200, None] - found.means, axis=2)
    assert (distances.min(axis=1) < 0.25).all()


def test_only_counts_that_stand_out_from_the_noise_are_kept():
    """A full cell is kept as it is, thin mass over many cells only in wider boxes, and noise hardly at all."""
    grid = cubic_grid(np.zeros(2), np.ones(2), 4096)
    generator = np.random.Generator(np.random.PCG64(3))
    noise = generator.normal(0, 10.0, grid.cells)
    assert len(significant_boxes(grid, noise, 10.0)[2]) <= 8
    one = noise.copy()
    one[77] += 1000
    lower, upper, weights = significant_boxes(grid, one, 10.0)
    best = np.argmax(weights)
    assert (upper - lower)[best] == pytest.approx(1 / np.array(grid.shape))
    thin = noise + 5.0
    lower, upper, weights = significant_boxes(grid, thin, 10.0)
    assert weights.sum() == pytest.approx(5.0 * grid.cells, rel=0.2)
    assert np.median((upper - lower)[:, 0] * grid.shape[0]) > 1


def test_boxes_do_not_overlap_in_their_cells_and_stay_inside():
    grid = cubic_grid(np.zeros(2), np.array([1.0, 0.4]), 300)
    counts = np.random.Generator(np.random.PCG64(4)).poisson(3.0, grid.cells).astype(float)
    lower, upper, weights = significant_boxes(grid, counts, 0.1)
    assert weights.sum() == pytest.approx(counts.sum())
    assert (lower >= 0).all()
    assert (upper <= np.array([1.0, 0.4]) + 1e-12).all()
