"""Marginals: their sensitivity, noise and cost, the fit that agrees with them, and finer mixtures for tables."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from making import make_domain
from scipy import stats
from test_mechanism_blanks import with_states

from privmix.artefacts.domain import Axis
from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.shared import attribute_counts, marginals
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget, account
from privmix.privacy.ledger import Gaussian, Ledger
from privmix.privacy.sensitivity import Neighbours
from privmix.release import derived_values, transcripts
from privmix.release.public_plan import PublicPlan, mechanism_events

BUDGET = Budget(1.0, 1e-6)
RELATIONS = ["add_remove", "replace_one"]
LEVELS = [("record", 1), ("person", 3)]
CELLS = 1000  # of the column of whole numbers


def make_spec(rows=2000, components=3, attributes=(("sex", ("f", "m")),), **options):
    """Make a domain of two real coordinates, of which records may lack the second, and one of whole numbers."""
    domain = make_domain(rows=rows, attributes=attributes, **options)
    age = Axis(
        name="v2", description="", unit="year", geographic=None, lower=-0.5, upper=CELLS - 0.5, resolution=1,
        centre=(CELLS - 1) / 2, scale=1 / CELLS, kind="integer",
    )  # fmt: skip
    return Spec(with_states(domain.model_copy(update={"axes": (*domain.axes, age)}), (1,)), components)


def make_records(spec, rows, seed=1):
    """Make skewed columns that depend on each other."""
    rng = np.random.default_rng(seed)
    side = rng.integers(2, size=rows)
    low, high = spec.domain.lower, spec.domain.upper
    parts = np.column_stack([rng.beta(1, 6, rows), rng.beta(2, 2 + 4 * side, rows), rng.random(rows) ** 3])
    codes = {"sex": np.where(rng.random(rows) < 0.8, side, 1 - side), "s1": rng.integers(3, size=rows)}
    return Records(low + parts * (high - low), codes, np.arange(rows, dtype=np.uint64))


def plan_columns(spec, names=("sex", "s1"), multiplier=1.0):
    return marginals.plan_columns(spec, names, multiplier, spec.neighbours)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
def test_no_unit_moves_the_counts_further_than_their_sensitivity(unit, held, relation):
    """Random units with and without blanks, and units at opposite ends, which reach the bound."""
    spec = make_spec(unit=unit, max_records=held, relation=relation)
    columns, rng = plan_columns(spec), np.random.default_rng(3)
    bound, farthest = marginals.reach(5, spec.neighbours), 0.0

    def counts(end, trial):
        number = held if trial % 2 else int(rng.integers(1, held + 1))
        points = rng.uniform(-2, 2, (number, 3)) if trial % 3 else np.full((number, 3), float(end))
        codes = {"sex": rng.integers(2, size=number), "s1": rng.integers(3, size=number)}
        if trial % 3 == 0:
            codes = {"sex": np.full(number, max(end, 0)), "s1": np.full(number, 0)}
        return marginals.count(Records(points, codes), columns)

    for trial in range(60):
        moved = counts(-1, trial) - (counts(1, trial) if relation == "replace_one" else 0)
        if relation == "replace_one" and trial % 3 == 0:  # states are equal: replace one of them
            moved[-3:] = [held, -held, 0]
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert bound * 0.999 <= farthest <= bound + 1e-9


@pytest.mark.parametrize(("relation", "reach"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_the_noise_has_the_scale_of_the_sensitivity(relation, reach):
    """On empty counts: the right scale is within 6 standard errors, 3 % less is not."""
    size = 60_000
    spec = make_spec(attributes=[("many", tuple(map(str, range(size))))], relation=relation)
    columns = marginals.Columns(spec, ("many", "s1"), 8)
    empty = Records(np.zeros((0, 3)), {name: np.zeros(0, dtype=int) for name in columns.attributes})
    scale = 4.0 * math.sqrt(5) * reach
    allowed = 6 * math.sqrt((math.pi / 2 - 1) / size)
    for source in (seeded_randomness(3).noise, exact_randomness().noise):
        ledger = Ledger()
        noisy = marginals.measure(
            empty, columns, noise_multiplier=4.0, neighbours=spec.neighbours, source=source, ledger=ledger
        )
        assert list(ledger.events) == [Gaussian("marginals", 4.0)]
        assert stats.kstest(noisy / scale, stats.norm.cdf).pvalue > 1e-6
        spread = np.abs(noisy / scale).mean() / math.sqrt(2 / math.pi)
        assert abs(spread - 1) < allowed < abs(0.97 * spread - 1)


def test_every_record_is_counted_once_in_each_column_that_it_has():
    spec = make_spec()
    records = make_records(spec, 500)
    columns = plan_columns(spec)
    parts = columns.split(marginals.count(records, columns))
    assert [part.sum() for part in parts] == [500, (records.codes["s1"] == 0).sum(), 500, 500, 500]
    np.testing.assert_array_equal(parts[3], np.bincount(records.codes["sex"]))


def test_bins_of_whole_numbers_hold_whole_cells():
    """Records lie in the middle of their cells. Anywhere in a cell, the bin is the same."""
    spec = make_spec()
    columns = marginals.Columns(spec, (), 64)
    axis = spec.domain.axes[2]
    ages = np.arange(CELLS)
    for shift in (-0.49, 0.0, 0.49):
        points = np.column_stack([np.zeros((CELLS, 2)), (ages + shift - axis.centre) * axis.scale])
        np.testing.assert_array_equal(columns.codes(points, {})[:, 2], ages // 16)
    assert columns.sizes == [64, 64, 63]


def test_public_values_decide_the_bins():
    few, many = (plan_columns(make_spec(rows=rows), multiplier=10.0).bins for rows in (500, 500_000))
    assert (few, many) == (marginals.FEWEST_BINS, marginals.MOST_BINS)


def test_weighted_rows_have_the_measured_shares_and_keep_their_dependence():
    rng = np.random.default_rng(1)
    first = rng.integers(4, size=20_000)
    second = np.where(rng.random(20_000) < 0.7, first, rng.integers(4, size=20_000))
    wanted = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.25, 0.4, 0.1])]
    codes = np.column_stack([first, second])
    weights = marginals.rake(codes, codes >= 0, [1e5 * each for each in wanted], 1.0)
    for own, shares in zip(codes.T, wanted, strict=True):
        np.testing.assert_allclose(np.bincount(own, weights), shares, atol=1e-3)

    def odds(weights):
        table = np.zeros((4, 4))
        np.add.at(table, (first, second), weights)
        return table[1, 1] * table[2, 2] / table[1, 2] / table[2, 1]

    assert odds(weights) == pytest.approx(odds(np.ones(20_000)), rel=1e-6)


def test_more_records_than_expected_keep_their_shares():
    """Under add_remove the public number of records is only expected: counts may add up to any number."""
    codes = np.repeat(np.arange(4), 1000)[:, None]
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    for records in (500, 5000):
        weights = marginals.rake(codes, codes >= 0, [records * shares], 1e-3)
        np.testing.assert_allclose(np.bincount(codes[:, 0], weights), shares, atol=1e-6)


def test_noise_alone_changes_nothing_and_impossible_counts_do_no_harm():
    rng = np.random.default_rng(2)
    codes = rng.integers(8, size=(5000, 1))
    noise = 300 / 8 + rng.normal(0, 500, 8)
    kept = [marginals.rake(codes, codes >= 0, [noise * sign], 1e4) for sign in (1, -1)]
    for weights in kept:
        np.testing.assert_allclose(weights, 1 / 5000)
    only = np.zeros(9)
    only[8] = 300  # no row has this value
    assert np.isfinite(marginals.rake(codes, codes >= 0, [only], 1.0)).all()
    given = rng.random((5000, 1)) < 0.4
    third = np.array([0, 0, 300, 0, 0, 0, 0, 0.0])
    weights = marginals.rake(codes, given, [third], 1.0)
    assert weights[given[:, 0]].sum() == pytest.approx(given.mean())
    assert weights[codes[:, 0] == 2].sum() == pytest.approx(
        1, abs=1e-3
    )  # also the place of rows that lack it


def run_table(spec, records, rng, **parameters):
    mechanism = registry.build("noisy_moments", {"marginal_share": 0.2, **parameters})
    return mechanism, mechanism_run.run(mechanism, records, spec, BUDGET, rng)


def test_columns_agree_better_with_the_records():
    spec = make_spec(rows=20_000)
    records = make_records(spec, 20_000)
    columns = marginals.Columns(spec, ("sex", "s1"), 32)

    def distances(release):
        points, codes = MixedMixture(release.mixture, release.shares).sample(50_000, np.random.default_rng(1))
        made = columns.split(marginals.count(Records(points, codes), columns))
        real = columns.split(marginals.count(records, columns))
        return [np.abs(a / a.sum() - b / b.sum()).sum() / 2 for a, b in zip(made, real, strict=True)]

    without = mechanism_run.run(
        registry.build("noisy_moments", {}), records, spec, BUDGET, seeded_randomness(1)
    )
    _, release = run_table(spec, records, seeded_randomness(1))
    assert max(np.delete(distances(release), 1)) < 0.05  # two thirds of the second column are missing
    assert distances(release)[1] < 0.12
    assert np.mean(distances(release)) < 0.6 * np.mean(distances(without))
    assert release.mixture.n_components == marginals.FINER * without.mixture.n_components


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("attributes", ["together", "after"])
def test_a_release_has_the_cost_and_the_transcript_of_its_plan(relation, attributes):
    """What `privmix verify` checks. False alarm: less than 1e-9 for each run."""
    spec = make_spec(rows=400, relation=relation)
    mechanism, release = run_table(spec, make_records(spec, 400), exact_randomness(), attributes=attributes)
    assert 0.999 < release.claim.epsilon <= 1 + 1e-9
    assert account(release.events, 1e-6, "exact").epsilon == pytest.approx(release.claim.epsilon)
    job = mechanism_run.MechanismJob("made", "noisy_moments", {}, mechanism, BUDGET, (3,), 0.1, 1, None)
    after = attribute_counts.make_plan(mechanism, spec, BUDGET)
    left = after.left if after else BUDGET
    plan = PublicPlan(job, spec, left, None, (), after)
    expected = [*mechanism_events(mechanism, plan.mixture_spec, left), *([after.event] if after else [])]
    assert list(release.events) == expected
    transcripts.check_transcript(release.transcript, plan)
    model = SimpleNamespace(
        transcript=release.transcript, normalised=release.mixture, original=release.mixture, notes=release.notes,
        shares=release.shares, domain=spec.domain, components=(3,),
    )  # fmt: skip
    assert derived_values.check_mixture(model, plan) == "nothing"
    derived_values.check_shares(model, plan)
    derived_values.check_notes(model, plan)
    for change in (lambda own: own + 5000.0, lambda own: np.repeat(own[:1], len(own)), lambda own: own + 0.3):
        entry = next(each for each in release.transcript if "marginals" in each)
        columns = mechanism.columns(spec, mechanism.split(left)[1])
        counts = transcripts._counts(entry["marginals"], sum(columns.sizes)).copy()
        counts[: columns.sizes[0]] = change(counts[: columns.sizes[0]])
        forged = [
            {"marginals": attribute_counts.to_text(counts)} if each is entry else each
            for each in release.transcript
        ]
        with pytest.raises(UserError):
            transcripts.check_transcript(forged, plan)


@pytest.mark.parametrize("defect", ["twice", "data bins"])
def test_replay_finds_mistakes_in_the_counts(defect, monkeypatch):
    """A column that is counted twice, and bins that depend on the records."""
    honest = marginals.count

    def wrong(records, columns):
        if defect == "twice":
            return 2 * honest(records, columns)
        least, most = records.points.min(axis=0), records.points.max(axis=0)
        parts = (records.points - least) / np.maximum(most - least, 1e-9)
        low, high = columns.spec.domain.lower, columns.spec.domain.upper
        return honest(Records(low + parts * (high - low), records.codes), columns)

    mechanism = registry.build("noisy_moments", {"marginal_share": 0.2})
    pairs = crafted_pairs(mechanism, "record", "replace_one")

    def verdict():
        return replay.replay_audit(mechanism, pairs, BUDGET, lambda run: seeded_randomness(9, run))

    assert list(verdict().findings) == []
    monkeypatch.setattr(marginals, "count", wrong)
    assert any("marginals" in each or "moves" in each for each in map(str, verdict().findings))


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("relation", RELATIONS)
def test_any_number_of_records_gives_a_mixture(rows, relation):
    spec = make_spec(rows=max(rows, 1), relation=relation)
    _, release = run_table(spec, make_records(spec, rows), seeded_randomness(rows))
    assert isinstance(release.mixture, Mixture)


@pytest.mark.parametrize("method", ["noisy_tree", "noisy_grid", "tree_then_moments", "non_private"])
def test_a_finer_mixture_has_more_components_if_the_counts_support_them(method):
    rng = np.random.default_rng(4)
    places = rng.uniform(-0.6, 0.6, (12, 2))
    points = places[rng.integers(12, size=30_000)] + rng.normal(0, 0.01, (30_000, 2))
    spec = Spec(make_domain(rows=30_000), 3)
    finer = registry.build(method, {"finer": 4, "searches": 1})
    used = {}
    for name, records in (("all", Records(points)), ("one", Records(points * 0 + 0.1))):
        release = mechanism_run.run(finer, records, spec, Budget(2.0, 1e-6), seeded_randomness(1))
        used[name] = release.mixture.n_components
        assert "was chosen among 3, 6, 12" in " ".join(release.notes)
    assert used["all"] == 12
    assert used["one"] < 12


def test_neighbours_and_finer_specs():
    spec = Spec(make_domain(), 5)
    assert spec.up_to(1) is spec
    assert spec.up_to(4).candidates == (5, 10, 20)
    assert spec.up_to(6).candidates == (5, 10, 20)
    assert marginals.reach(4, Neighbours("person", "replace_one", 3)) == pytest.approx(3 * math.sqrt(8))
