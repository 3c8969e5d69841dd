"""The noisy grid: a public grid, noise on every cell, a mixture from the noisy counts only."""

import json

import numpy as np
import pytest
from making import clusters, make_spec
from scipy import stats

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.central.noisy_grid import MOST_CELLS, NoisyGrid
from privmix.mixture import em
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Laplace, Ledger

BUDGET = Budget(1.0, 1e-6)
QUICK = NoisyGrid(searches=1)
LEVELS = [("record", 1, "add_remove"), ("record", 1, "replace_one")]
LEVELS += [("person", 4, "add_remove"), ("person", 4, "replace_one")]


def _spec(unit="record", records=1, relation="add_remove", **more):
    return make_spec(unit=unit, relation=relation, max_records=records, **more)


@pytest.mark.parametrize(("unit", "records", "relation"), LEVELS)
def test_no_unit_moves_the_counts_further_than_the_noise_is_scaled_for(unit, records, relation, recording):
    """Without noise the transcript holds the exact counts: its change is the sensitivity, over ε the scale."""
    spec = _spec(unit, records, relation)
    generator = np.random.Generator(np.random.PCG64(4))
    common, worst = clusters(100), 0.0

    def counts(points):
        return QUICK.measure(Records(points), spec, BUDGET, recording.noise, Ledger()).counts

    before = counts(common)
    for _ in range(40):
        held, other = (
            np.repeat(generator.uniform(-0.7, 0.7, (1, 2)), records, axis=0)
            if generator.random() < 0.6
            else generator.uniform(-0.7, 0.7, (generator.integers(1, records + 1), 2))
            for _ in range(2)
        )
        second = counts(np.vstack([common, other])) if relation == "replace_one" else before
        worst = max(worst, np.abs(counts(np.vstack([common, held])) - second).sum())
    bound = spec.neighbours.difference(1.0, opposed=True)
    assert worst == bound
    assert {(kind, scale) for kind, scale, _ in recording.noise.asked} == {("laplace", bound / 1.0)}


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_claim_is_the_budget_and_comes_from_one_event(epsilon):
    release = QUICK.fit(Records(clusters(100)), _spec(rows=100), Budget(epsilon, 1e-6), seeded_randomness(1))
    assert release.events == [Laplace("cell counts", epsilon)]
    assert (release.claim.epsilon, release.claim.delta) == (epsilon, 0.0)


def test_every_cell_has_noise_including_empty_ones():
    """Kolmogorov-Smirnov at 1e-6 on the cells of an empty dataset; half the noise is detected."""
    records, source = Records(np.zeros((0, 2))), seeded_randomness(1, "empty").noise
    synopsis = QUICK.measure(records, _spec(rows=20_000), BUDGET, source, Ledger())
    counts = synopsis.counts
    assert len(counts) == np.prod(synopsis.released["shape"]) > 1500
    assert stats.kstest(counts, stats.laplace(scale=1.0).cdf).pvalue > 1e-6
    assert stats.kstest(counts, stats.laplace(scale=0.5).cdf).pvalue < 1e-6


def test_the_mixture_follows_from_the_transcript_and_public_values():
    spec = _spec()
    release = QUICK.fit(Records(clusters()), spec, BUDGET, seeded_randomness(5, "replay"))
    (released,) = json.loads(json.dumps(release.transcript))
    assert set(released) == {"shape", "counts"}
    synopsis = QUICK.replay(released, spec, BUDGET)
    again, _ = synopsis.fit(spec, rng=seeded_randomness(5, "replay").search, searches=1)
    assert np.array_equal(again.mixture.means, release.mixture.means)


def test_the_number_of_cells_is_the_guidelines_and_knows_the_sensitivity():
    def cells(rows, epsilon, dimensions=2, **level):
        return QUICK.grid(_spec(rows=rows, dimensions=dimensions, **level), epsilon).cells

    assert cells(30_000, 1.0) == pytest.approx(10_000, rel=0.02)
    assert cells(30_000, 0.1) == pytest.approx(1_000, rel=0.05)
    assert cells(30_000, 1.0, relation="replace_one") == pytest.approx(5_000, rel=0.03)
    assert cells(30_000, 1.0, unit="person", records=10) == pytest.approx(1_000, rel=0.05)
    assert cells(300, 1.0, dimensions=1) == pytest.approx(100 ** (2 / 3), rel=0.1)
    assert cells(300, 1.0, dimensions=3) == pytest.approx(100**1.2, rel=0.25)
    assert cells(1, 1e-6) == 2
    assert cells(10**9, 100.0) <= MOST_CELLS


def test_no_cell_is_finer_than_the_resolution():
    """The box of one dimension is two wide, the resolution one thousandth."""
    assert QUICK.grid(_spec(rows=10**9, dimensions=1), 100.0).cells == 2000


def test_a_mixture_is_found_far_better_than_one_gaussian():
    points, held_out = clusters(6000, seed=4)[:5000], clusters(6000, seed=4)[5000:]
    spec = _spec(rows=5000)
    reached = NoisyGrid(searches=3).fit(Records(points), spec, BUDGET, seeded_randomness(2)).mixture
    single = em.fit(points, 1, floor=spec.floor, rng=np.random.default_rng(1)).mixture
    assert reached.log_density(held_out).mean() > single.log_density(held_out).mean() + 0.3


@pytest.mark.parametrize(
    "points",
    [np.zeros((0, 2)), np.zeros((1, 2)), np.full((50, 2), 0.3), clusters(200)],
    ids=["none", "one", "one place", "some"],
)
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 1000.0])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_any_budget_and_any_data_give_a_valid_mixture_inside_the_box(points, epsilon, relation):
    spec = _spec(rows=max(len(points), 1), relation=relation)
    release = QUICK.fit(Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, epsilon))
    mixture = release.mixture
    assert np.isfinite(mixture.log_density(clusters(20))).all()
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()
    if epsilon < 0.1:
        assert any("mostly noise" in note for note in release.notes)


def test_too_many_coordinates_are_refused_with_an_alternative():
    with pytest.raises(MechanismFailure, match="use `noisy_moments`"):
        QUICK.fit(Records(np.zeros((5, 5))), make_spec(dimensions=5), BUDGET, seeded_randomness(1))
