"""The number of components: free if the fit is post-processing; otherwise paid for, in the ledger, and by blocks."""

import numpy as np
import pytest
from making import RecordingNoise, clusters, make_domain, make_mechanism

from privmix.mechanisms import registry
from privmix.mechanisms.base import Randomness, Records, Spec, seeded_randomness
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.run import fit, run
from privmix.mechanisms.shared import component_choice
from privmix.mechanisms.shared.component_choice import block_count, choose_components, score_candidates
from privmix.privacy import selection
from privmix.privacy.accounting import Budget, account
from privmix.privacy.ledger import Ledger, Selection
from privmix.privacy.sensitivity import Neighbours

CANDIDATES = (1, 2, 3, 6)


def open_spec(rows=20_000, candidates=CANDIDATES, share=0.1, **domain):
    return Spec(make_domain(rows=rows, **domain), max(candidates), candidates, share)


class DealtNoise(RecordingNoise):
    """Gives the units blocks that were drawn before."""

    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def integers(self, high, shape):
        assert len(self.draws) == shape[0]
        return np.asarray(self.draws) % high

    def uniform(self, shape):
        return np.full(shape, 0.5)


def _scores(points, persons, draws, spec, unit, monkeypatch):
    """Return the scores of each block, and the input of the exponential mechanism."""
    said, given = [], {}
    with monkeypatch.context() as patched:
        patched.setattr(
            component_choice,
            "score_candidates",
            lambda *block: (said.append(score_candidates(*block)), said[-1])[1],
        )
        patched.setattr(
            selection, "exponential", lambda scores, **how: given.update(scores=scores, **how) or 0
        )
        choose_components(
            Records(points, {}, persons), spec, Neighbours(unit, "add_remove", 7), epsilon=1.0,
            source=DealtNoise(draws), search=np.random.Generator(np.random.PCG64(1)), ledger=Ledger(),
        )  # fmt: skip
    assert given["scores"] == pytest.approx(np.sum(said, axis=0))
    assert not given.get("monotonic")  # one block may raise a score and lower another
    return np.array(said), given["sensitivity"]


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("which", [0, 23, -1])
def test_one_unit_moves_at_most_one_block_by_at_most_one(unit, which, monkeypatch):
    """Brute force with shared draws: the first, a middle and the last unit, left out or replaced by other records."""
    generator = np.random.Generator(np.random.PCG64(4))
    spec, points = open_spec(rows=800, unit=unit, max_records=7), clusters(800)
    persons = np.arange(800) // 7
    units = persons if unit == "person" else np.arange(800)
    changed = np.unique(units)[which]
    draws = generator.integers(1000, size=units.max() + 1)
    assert block_count(spec) >= 5
    before, sensitivity = _scores(points, persons, draws, spec, unit, monkeypatch)
    gone = units == changed
    neighbours = [(points[~gone], persons[~gone], np.delete(draws, changed))]
    for spot in np.array([[0.7, 0.7], [-0.7, 0.7], [0.0, 0.0]]):
        moved = points.copy()
        moved[gone] = spot
        neighbours.append((moved, persons, draws))
    moves = []
    for other in neighbours:
        change = np.abs(_scores(*other, spec, unit, monkeypatch)[0] - before).max(axis=1)
        assert np.flatnonzero(change).tolist() in ([], [draws[changed] % block_count(spec)])
        moves.append(change.max())
    assert 0 < max(moves) <= sensitivity == 1.0


def test_the_scores_of_a_block_lie_between_zero_and_one():
    spec, search = open_spec(rows=1000), np.random.Generator(np.random.PCG64(1))
    for points in (clusters(300), np.zeros((50, 2)), np.zeros((1, 2)), np.empty((0, 2)), clusters(3)):
        scores = score_candidates(points, np.arange(len(points)), spec, search)
        assert ((scores >= 0) & (scores <= 1)).all()
    assert score_candidates(clusters(300), np.arange(300), spec, search).max() == 1.0


def test_the_true_number_is_chosen_if_the_budget_allows_it():
    spec, points = open_spec(rows=6000), clusters(6000)
    ledger = Ledger()
    chosen = [
        choose_components(
            Records(points), spec, spec.neighbours, epsilon=1.0, source=seeded_randomness(run).noise,
            search=seeded_randomness(run).search, ledger=ledger,
        ).number
        for run in range(3)
    ]  # fmt: skip
    assert set(chosen) <= {3, 6}
    assert ledger.events == [Selection("number of Gaussians", 1.0)] * 3


def test_the_number_of_blocks_is_public():
    """It follows the catalog's number of rows, not the number of records."""
    spec = open_spec(rows=5000)
    seen = []

    class Counting(DealtNoise):
        def integers(self, high, shape):
            seen.append(high)
            return np.zeros(shape, dtype=int)

    for points in (clusters(100), clusters(400)):
        choose_components(
            Records(points), spec, spec.neighbours, epsilon=1.0, source=Counting([]),
            search=seeded_randomness(1).search, ledger=Ledger(),
        )  # fmt: skip
    assert seen == [block_count(spec)] * 2


@pytest.mark.parametrize("composition", ["linear", "advanced", "zcdp", "rdp", "exact"])
def test_choice_and_fit_together_cost_the_budget(composition):
    spec, mechanism = open_spec(rows=1000, share=0.2), DpEm(composition=composition, iterations=2)
    release = run(mechanism, Records(clusters(1000)), spec, Budget(1.0, 1e-6), seeded_randomness(2))
    assert release.events[0] == Selection("number of Gaussians", 0.2)
    total = 0.2 + account(release.events[1:], 1e-6, composition).epsilon
    assert release.claim.epsilon == pytest.approx(total, rel=1e-12)
    assert release.claim.epsilon == pytest.approx(1.0, rel=1e-6)
    assert account(release.events, 1e-6, "exact").epsilon <= 1.0
    chosen = release.transcript[0]["components"]
    assert release.mixture.n_components == chosen
    assert chosen in CANDIDATES
    assert any("chosen among 1, 2, 3, 6" in note for note in release.notes)


def test_a_note_says_if_the_choice_is_mostly_noise():
    spec = open_spec(rows=300)
    release = run(DpEm(), Records(clusters(300)), spec, Budget(0.1, 1e-6), seeded_randomness(2))
    assert any("nearly random" in note for note in release.notes)


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((40, 2))])
def test_very_little_data_does_not_fail(points):
    release = run(DpEm(), Records(points), open_spec(), Budget(1.0, 1e-6), seeded_randomness(2))
    assert release.mixture.n_components in CANDIDATES


@pytest.mark.parametrize("method", sorted(registry.METHODS))
def test_every_method_can_choose(method):
    """Free or paid: exactly the mechanisms that do not choose by themselves have the choice in their ledger."""
    mechanism = make_mechanism(method)
    spec = open_spec(rows=3000, candidates=(1, 3), relation="add_remove")
    release = run(mechanism, Records(clusters(3000)), spec, Budget(3.0, 1e-6), seeded_randomness(5, method))
    paid = any(isinstance(event, Selection) for event in release.events)
    assert paid == (not mechanism.chooses_components)
    assert any("chosen among 1, 3" in note for note in release.notes)
    assert release.mixture.n_components in (1, 3)


def test_a_fixed_number_costs_nothing():
    spec = Spec(make_domain(), 3)
    release = fit(DpEm(iterations=1), Records(clusters()), spec, Budget(1.0, 1e-6), seeded_randomness(1))
    assert not any(isinstance(event, Selection) for event in release.events)


def test_the_information_criterion_stops_at_the_true_number():
    spec, points = open_spec(rows=3000, candidates=(1, 2, 3, 4, 5)), clusters(3000)
    release = registry.build("non_private", {}).fit(
        Records(points), spec, Budget(1.0, 0.0), Randomness(RecordingNoise(), seeded_randomness(3).search)
    )
    assert release.mixture.n_components == 3
    assert component_choice.expected_loss(spec, 1.0) < component_choice.expected_loss(spec, 0.1)
