"""Tree, then moments: two parts that add up to the budget, each replayed from earlier measurements."""

import numpy as np
import pytest
from making import assert_fresh_noise, clusters, make_spec

from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms.base import Randomness, Records, seeded_randomness
from privmix.mechanisms.central import tree_then_moments
from privmix.mechanisms.central.noisy_tree import NoisyTree
from privmix.mechanisms.central.tree_then_moments import TreeThenMoments, moment_share
from privmix.mechanisms.shared.joint_moments import (
    MomentMeasurement,
    m_step,
    measure_moments,
    scheme,
    weighted_vector,
)
from privmix.mixture.moments import compress, observe
from privmix.mixture.standardised_moments import StandardisedMoments, standardised_pass
from privmix.privacy.accounting import Budget, account, gaussian_mu
from privmix.privacy.ledger import Decomposition, Gaussian, Laplace
from privmix.privacy.noise import SeededNoise

BUDGET = Budget(2.0, 1e-6)
QUICK = TreeThenMoments(searches=1)
UNITS = [("record", 1), ("person", 4)]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("unit", "limit"), UNITS)
def test_both_parts_are_in_the_ledger_and_cost_the_budget(relation, unit, limit):
    spec = make_spec(relation=relation, unit=unit, max_records=limit, rows=3000)
    persons = np.arange(3000) // limit
    release = QUICK.fit(
        Records(clusters(3000), {}, persons), spec, BUDGET, seeded_randomness(1, relation, unit)
    )
    shape, counts, *moments = release.events
    assert (type(shape), type(counts)) == (Decomposition, Laplace)
    assert shape.epsilon + counts.epsilon == pytest.approx(0.8 * 2.0, rel=1e-12)
    assert moments == [Gaussian("moments", np.sqrt(2) / gaussian_mu(0.4, 1e-6))] * 2
    assert release.claim.epsilon == pytest.approx(2.0, rel=1e-6)
    assert release.claim.epsilon <= 2.0 * (1 + 1e-9)
    assert account(release.events, 1e-6, "exact").epsilon <= 2.0


@pytest.mark.parametrize("unit", UNITS)
def test_the_moments_have_the_noise_of_their_sensitivity(unit, recording):
    spec = make_spec(relation="add_remove", unit=unit[0], max_records=unit[1], rows=3000)

    class Source(SeededNoise):
        def add_gaussian(self, values, sigma):
            return recording.noise.add_gaussian(values, sigma)

    QUICK.fit(
        Records(clusters(3000)),
        spec,
        BUDGET,
        Randomness(Source(seeded_randomness(1).noise.generator), seeded_randomness(1).search),
    )
    wanted = np.sqrt(2) / gaussian_mu(0.4, 1e-6) * scheme(2).sensitivity(spec.neighbours)
    assert [scale for _, scale, _ in recording.noise.asked] == pytest.approx([wanted] * 2, rel=1e-9)


def test_every_step_follows_from_earlier_measurements(monkeypatch):
    """The transcript alone gives the start, each iterate and the model; the rest of each measurement is its noise."""
    spec, points, used = make_spec(relation="add_remove", rows=3000), clusters(3000), []
    monkeypatch.setattr(
        "privmix.mechanisms.shared.joint_moments.measure_moments",
        lambda data, mixture, **given: (used.append(mixture), measure_moments(data, mixture, **given))[1],
    )
    model = QUICK.fit(Records(points), spec, BUDGET, seeded_randomness(3))
    monkeypatch.undo()
    tree, *steps = model.transcript
    synopsis = NoisyTree().replay(tree, spec, Budget(0.8 * 2.0, 0.0))
    start, _ = synopsis.fit(spec, rng=seeded_randomness(3).search, searches=1)
    assert used[0].means == pytest.approx(start.mixture.means, abs=1e-12)
    shape = scheme(2)
    sigma = model.events[-1].noise_multiplier * shape.sensitivity(spec.neighbours)
    mixture, iterates, residuals = start.mixture, [], []
    for mine, step in zip(used, steps, strict=True):
        assert mixture.covariances == pytest.approx(mine.covariances, rel=1e-9)
        numbers = [np.array(step[key]) for key in ("counts", "sums", "squares")]
        exact = standardised_pass(compress(observe(points)), mixture, shape.radius)
        residuals.append(
            (weighted_vector(StandardisedMoments(*numbers), shape) - weighted_vector(exact, shape)) / sigma
        )
        deviations = [sigma / weight for weight in (shape.count, shape.total, shape.square)]
        measured = MomentMeasurement(*numbers, *deviations)
        mixture = m_step(mixture, measured, spec, spec.neighbours, hold=True)
        iterates.append(mixture)
    followed = moment_share(start.mixture, spec, gaussian_mu(0.4, 1e-6), spec.neighbours)
    means = (1 - followed) * start.mixture.means + followed * np.mean(
        [each.means for each in iterates], axis=0
    )
    assert model.mixture.means == pytest.approx(means, abs=1e-9)
    assert np.size(residuals) == 36
    assert_fresh_noise(residuals, alarm=1e-4)


def test_noisier_moments_have_a_smaller_share():
    spec = make_spec(relation="add_remove", rows=5000)
    start = QUICK.fit(Records(clusters(5000)), spec, BUDGET, seeded_randomness(1)).mixture
    beliefs = [moment_share(start, spec, mu, spec.neighbours) for mu in (0.01, 0.1, 1.0, 10.0)]
    assert beliefs == sorted(beliefs)
    assert beliefs[0] < 0.05
    assert beliefs[-1] > 0.99
    people = make_spec(relation="add_remove", rows=5000, unit="person", max_records=9)
    assert moment_share(start, people, 0.1, people.neighbours) < beliefs[1]


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((50, 2)), clusters(200)])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 50.0])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, relation):
    spec = make_spec(rows=len(points), relation=relation)
    mixture = QUICK.fit(Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon)).mixture
    assert np.isfinite(mixture.log_density(points)).all()
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


def test_it_finds_the_clusters():
    spec, points = make_spec(relation="add_remove", rows=5000), clusters(5000)
    mixture = QUICK.fit(Records(points), spec, Budget(1.0, 1e-6), seeded_randomness(4)).mixture
    one = QUICK.fit(Records(points), spec.with_components(1), Budget(1.0, 1e-6), seeded_randomness(4)).mixture
    fresh = clusters(5000)
    assert mixture.log_density(fresh).mean() > one.log_density(fresh).mean() + 0.5


def test_impossible_settings_are_an_error_message():
    with pytest.raises(UserError, match="delta > 0"):
        QUICK.fit(Records(clusters()), make_spec(), Budget(1.0, 0.0), seeded_randomness(1))
    with pytest.raises(MechanismFailure, match="noisy_moments"):
        QUICK.fit(Records(clusters(dimensions=4)), make_spec(dimensions=4), BUDGET, seeded_randomness(1))
    assert tree_then_moments.EXPECTED_GAIN > 0
