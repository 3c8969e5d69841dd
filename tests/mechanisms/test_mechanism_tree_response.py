"""The tree of answers: what one report may reveal, how shares become consistent, and what a fit recovers."""

import itertools

import numpy as np
import pytest
from making import assert_truthful, clusters, make_spec
from scipy import stats

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local.base import CoordinateReports
from privmix.mechanisms.local.tree_response import TreeResponse, expand_tree, level_depths
from privmix.mechanisms.run import run
from privmix.mechanisms.shared.share_tree import ShareEstimates, ShareTree, fit_shares
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise
from privmix.privacy.oracles import GeneralizedResponse
from privmix.privacy.oracles.survey import unpack_reports

TREE = TreeResponse()


def _plan(spec, epsilon):
    return TREE.plan(spec, Budget(epsilon, 0.0))


def _answered(points, spec, epsilon, seed=1):
    source, ledger = SeededNoise(np.random.Generator(np.random.PCG64(seed))), Ledger()
    answers = TREE.answer(points, spec, _plan(spec, epsilon), source, ledger)
    return answers.columns["part"], ledger


def _table(oracle, hashes=4):
    """P(report | part) of a level, a column for each report; of hashed answers, for some hashes."""
    if isinstance(oracle, GeneralizedResponse):
        return oracle.probability_table()
    draws = np.random.Generator(np.random.PCG64(3)).integers(oracle.prime, size=(hashes, 2))
    return np.hstack([oracle.probability_table(int(a), int(b)) / oracle.prime**2 for a, b in draws])


@pytest.mark.parametrize(("rows", "epsilon"), [(50, 1.0), (1000, 0.5), (2000, 4.0), (20_000, 2.0)])
def test_the_table_of_level_and_answer_has_ratios_of_at_most_e_to_the_epsilon(rows, epsilon):
    """The level is part of the report and has the same probability for any record: and the bound is reached."""
    spec = make_spec(dimensions=1, rows=rows)
    halving, depths, oracles = TREE.questions(spec, _plan(spec, epsilon))
    places = np.unique(halving.codes(np.linspace(-1, 1, 41)[:, None]))
    table = np.hstack(
        [
            _table(oracle)[places >> (halving.depth - depth)] / len(depths)
            for depth, oracle in zip(depths, oracles, strict=True)
        ]
    )
    ratio = (table.max(axis=0) / table.min(axis=0)).max()
    assert ratio == pytest.approx(np.exp(epsilon), rel=1e-9)


def _frequencies(point, spec, epsilon, people, seed):
    rows, _ = _answered(np.full((people, 1), point), spec, epsilon, seed)
    _, depths, _ = TREE.questions(spec, _plan(spec, epsilon))
    wide = 1 << depths[-1]
    return np.bincount(rows["turn"].astype(int) * wide + rows["answer"], minlength=len(depths) * wide)


@pytest.mark.parametrize(("rows", "epsilon", "levels"), [(30, 2.0, 1), (8, 7.0, 2)])
def test_reports_have_the_probabilities_of_the_table(rows, epsilon, levels):
    """Chi square at 1e-6 over all reports of a record, with the power to detect half of the noise."""
    spec, people = make_spec(dimensions=1, rows=rows), 60_000
    halving, depths, oracles = TREE.questions(spec, _plan(spec, epsilon))
    assert len(depths) == levels
    assert all(isinstance(oracle, GeneralizedResponse) for oracle in oracles)
    assert halving.codes(np.array([[-1.0], [1.0]])).tolist() == [0, (1 << halving.depth) - 1]
    for seed, point in enumerate((-0.9, 0.4, 1.0)):
        code = int(halving.codes(np.array([[point]]))[0])
        wanted, halved = [], []
        for depth, oracle in zip(depths, oracles, strict=True):
            part = code >> (halving.depth - depth)
            wanted.append(_table(oracle)[part] / len(depths))
            halved.append(_table(GeneralizedResponse(oracle.categories, 2 * epsilon))[part] / len(depths))
        found = _frequencies(point, spec, epsilon, people, seed)
        found = np.concatenate(
            [found[level << depths[-1] :][: 1 << depth] for level, depth in enumerate(depths)]
        )
        assert found.sum() == people
        assert stats.chisquare(found, people * np.concatenate(wanted)).pvalue > 1e-6
        assert stats.chisquare(found, people * np.concatenate(halved)).pvalue < 1e-6


@pytest.mark.parametrize(("epsilon", "grr"), [(1.0, 0), (3.0, 0), (6.0, 1)])
def test_every_level_tells_the_truth_as_often_as_stated(epsilon, grr):
    """Through all of `answer`, with hashed levels and others; and the report has no other column."""
    spec, points = make_spec(rows=20_000), clusters(20_000)
    points[:500] = spec.domain.upper
    halving, depths, oracles = TREE.questions(spec, _plan(spec, epsilon))
    assert sum(isinstance(oracle, GeneralizedResponse) for oracle in oracles) == grr < len(oracles) - 1
    source = SeededNoise(np.random.Generator(np.random.PCG64(1)))
    answers = TREE.answer(points, spec, _plan(spec, epsilon), source, Ledger())
    assert set(answers.columns) == {"part"}
    assert not answers.asked
    assert set(answers.columns["part"].dtype.names) == {"turn", "a", "b", "answer"}
    codes = halving.codes(points)
    assert_truthful(answers.columns["part"], oracles, [codes >> (halving.depth - depth) for depth in depths])


@pytest.mark.parametrize("corner", ["lower", "upper"])
def test_a_record_on_the_edge_of_the_box_is_in_the_edge_part_at_every_level(corner):
    spec, people = make_spec(rows=20_000), 20_000
    rows, _ = _answered(np.tile(getattr(spec.domain, corner), (people, 1)), spec, 3.0)
    _, depths, oracles = TREE.questions(spec, _plan(spec, 3.0))
    assert stats.chisquare(np.bincount(rows["turn"], minlength=len(depths))).pvalue > 1e-6
    last = [0 if corner == "lower" else (1 << depth) - 1 for depth in depths]
    assert_truthful(rows, oracles, [np.full(people, part) for part in last])


@pytest.mark.parametrize("epsilon", [0.7, 5.0])
def test_the_ledger_and_the_claim_are_the_budget(epsilon):
    spec = make_spec(rows=500, attributes=(("night", ("no", "yes")),))
    codes = {"night": np.zeros(500, dtype=np.int16)}
    reports = TREE.privatise(Records(clusters(500), codes), spec, Budget(epsilon, 1e-6), seeded_randomness(1))
    assert sum(event.epsilon for event in reports.events) == pytest.approx(epsilon, rel=1e-9)
    assert reports.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert reports.claim.delta == 0.0


def test_the_questions_depend_only_on_public_values():
    """The same layout and levels for any records."""
    spec = make_spec(rows=100_000)
    alone, _ = _answered(np.zeros((5, 2)), spec, 1.0)
    crowd, _ = _answered(clusters(3000), spec, 1.0)
    assert alone.dtype == crowd.dtype
    # A record's report is a function of its own point and draws: moving the others does not move it.
    points = clusters(3000)
    moved = points.copy()
    moved[1:] = 0.3
    assert np.array_equal(_answered(points, spec, 1.0)[0][0], _answered(moved, spec, 1.0)[0][0])


def test_more_persons_and_more_epsilon_never_give_fewer_parts():
    deepest = 29
    for one, more in itertools.pairwise((0.1, 0.3, 1.0, 3.0, 10.0)):
        few, many = (
            level_depths(deepest, _plan(make_spec(rows=200_000), epsilon)) for epsilon in (one, more)
        )
        assert few[0] <= many[0]
        assert few[-1] <= many[-1]
    assert level_depths(deepest, _plan(make_spec(rows=200_000), 1.0)) == [8, 13, 18, 23, 28]
    assert level_depths(3, _plan(make_spec(rows=200_000), 1.0)) == [3]
    assert level_depths(deepest, _plan(make_spec(rows=1), 0.01)) == [1]


@pytest.mark.parametrize("deepest", range(1, 31))
def test_levels_end_near_the_resolution_if_there_are_enough(deepest):
    depths = level_depths(deepest, _plan(make_spec(rows=200_000), 8.0))
    assert depths[0] == min(deepest, 8)
    assert deepest - 5 < depths[-1] <= deepest
    if deepest <= 13:
        assert depths[-1] == deepest
    few = level_depths(deepest, _plan(make_spec(rows=2000), 1.0))
    assert few == sorted(set(few))
    assert few[-1] <= deepest


def _estimated(points, spec, epsilon, seed):
    halving, depths, oracles = TREE.questions(spec, _plan(spec, epsilon))
    rows, _ = _answered(points, spec, epsilon, seed)
    reports = [unpack_reports(rows, level, oracle) for level, oracle in enumerate(oracles)]
    codes, levels, tree = expand_tree(depths, oracles, reports, _plan(spec, epsilon))
    parts = halving.codes(points)[:, None] >> (halving.depth - np.array(depths)[levels])
    return tree, np.mean(parts == codes, axis=0), levels


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_estimated_shares_are_unbiased_with_the_stated_variance(epsilon):
    """All parts that are opened, of every level, in units of the stated error: mean 0 and mean square 1.

    At ε = 8 without those that hold next to nothing, whose errors are far from normal; and there the mean square is
    below 1, for of L levels each asks a part 1 / L of the people, and leaves no more than 1 - 1 / L of the variance.
    """
    spec, points = make_spec(rows=4000), clusters(4000)
    scores, wholes = [], []
    for seed in range(12):
        tree, truth, levels = _estimated(points, spec, epsilon, seed)
        assert levels.max() > 0
        held = truth >= (0.01 if epsilon == 8.0 else 0.0)
        scores.append(((tree.estimates - truth) / np.sqrt(tree.variances))[held])
        wholes.append(tree.subtree_estimates()[0][tree.parents < 0].sum())
    scores = np.concatenate(scores)
    # Parts of one level share their reports and lean on each other, so the bounds are wider than for coins.
    assert abs(scores.mean()) < 0.1
    sampled = 1 - 1 / (levels.max() + 1) if epsilon == 8.0 else 1.0
    assert 0.85 * sampled < np.square(scores).mean() < 1.15
    # The first level averaged with all below it still sums to one, but for what selection does.
    assert abs(np.mean(wholes) - 1) < 3 * np.std(wholes) / np.sqrt(len(wholes)) + 0.05


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_variance_of_a_share_adds_noise_and_sampling_of_persons(share):
    """One report each: the binomial spread of the support. Several of a person: sampling counts each person once."""
    oracle, reports = GeneralizedResponse(8, 2.0), 600
    rate = oracle.other + share * (oracle.truth - oracle.other)
    single = ShareEstimates(oracle, np.zeros(1), reports).variances(np.array([share]))
    assert single == pytest.approx(oracle.spread(np.array([rate]), reports) ** 2)
    several = ShareEstimates(oracle, np.zeros(1), reports, 3).variances(np.array([share]))
    assert several - single == pytest.approx(2 * share * (1 - share) / reports)


def test_a_level_without_answers_is_skipped():
    """A deeper level is left out; without the first nothing is known, and the fit says so."""
    spec, epsilon = make_spec(rows=4000), 6.0
    plan = _plan(spec, epsilon)
    _, depths, oracles = TREE.questions(spec, plan)
    rows, _ = _answered(clusters(4000), spec, epsilon)
    second = rows[rows["turn"] != 1]
    reports = [unpack_reports(second, level, oracle) for level, oracle in enumerate(oracles)]
    codes, levels, tree = expand_tree(depths, oracles, reports, plan)
    assert set(levels[:1000]) == {0, 2}
    children = np.flatnonzero(levels == 2)
    assert np.array_equal(codes[children] >> (depths[2] - depths[0]), codes[tree.parents[children]])
    first = rows[rows["turn"] != 0]
    fit = TREE.model(CoordinateReports({"part": first}), spec, plan, np.random.default_rng(1))
    assert any("mostly noise" in note for note in fit.notes)


def test_the_certainty_of_the_shares_decides_the_number_of_components():
    """Shares of n records without noise: many records support one more cluster, few do not."""
    lower, upper = np.array([[-0.5, -0.5], [0.3, 0.3]]), np.array([[-0.3, -0.3], [0.5, 0.5]])
    shares, spec = np.array([0.9, 0.1]), make_spec(2)
    for records, number in ((4, 1), (4000, 2)):
        variances = shares * (1 - shares) / records
        fit = fit_shares(
            lower, upper, shares, variances, spec, noise=0.0, rng=np.random.default_rng(1), searches=2
        )
        assert fit.mixture.n_components == number


def _made_tree(rng):
    parents = np.concatenate([np.full(4, -1), np.repeat([0, 2], 3), np.repeat([4, 9], 2)])
    return ShareTree(parents, rng.uniform(0.2, 1.0, len(parents)), rng.uniform(0.5, 2.0, len(parents)) * 1e-4)


def test_consistent_shares_are_the_weighted_least_squares_ones():
    """Against the normal equations over the leaves, with their sum fixed to one."""
    rng = np.random.Generator(np.random.PCG64(5))
    tree = _made_tree(rng)
    leaves = tree.leaves
    holds = np.zeros((len(tree.parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            holds[node, column] = 1
            node = tree.parents[node]
    truth = rng.dirichlet(np.full(len(leaves), 20.0))
    estimates = holds @ truth + rng.normal(0, 1e-3, len(holds))
    tree = ShareTree(tree.parents, estimates, tree.variances)
    weighted = holds / tree.variances[:, None]
    ones = np.ones((len(leaves), 1))
    system = np.block([[weighted.T @ holds, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(weighted.T @ estimates, 1.0))[:-1]
    assert (solved > 0).all()
    assert tree.consistent_shares()[leaves] == pytest.approx(solved, rel=1e-6)


def test_consistent_shares_add_up_and_are_non_negative():
    rng = np.random.Generator(np.random.PCG64(6))
    tree = _made_tree(rng)
    tree = ShareTree(tree.parents, rng.normal(0, 1, len(tree.parents)), tree.variances)
    shares = tree.consistent_shares()
    assert (shares >= 0).all()
    assert shares[tree.parents < 0].sum() == pytest.approx(1.0)
    for parent in set(tree.parents[tree.parents >= 0]):
        assert shares[tree.parents == parent].sum() == pytest.approx(shares[parent])


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.01, 100.0])
@pytest.mark.parametrize("points", ["one", "clusters"])
def test_every_budget_and_dataset_gives_a_valid_mixture(dimensions, epsilon, points):
    made = {
        "one": np.zeros((1, dimensions)),
        "clusters": np.vstack([clusters(150, dimensions), np.full((50, dimensions), 0.3)]),
    }[points]
    spec = make_spec(4, dimensions=dimensions, rows=len(made))
    mixture = run(
        TreeResponse(searches=1), Records(made), spec, Budget(epsilon, 0.0), seeded_randomness(1)
    ).mixture
    assert 1 <= mixture.n_components <= 4
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor * (1 - 1e-6)).all()
    assert np.isfinite(mixture.log_density(made)).all()


def test_more_than_three_coordinates_are_refused_with_an_alternative():
    with pytest.raises(MechanismFailure, match="up to 3 coordinates"):
        TREE.privatise(
            Records(clusters(20, 4)), make_spec(dimensions=4), Budget(1.0, 0.0), seeded_randomness(1)
        )


def test_the_order_of_the_reports_does_not_matter_and_bytes_are_read_back():
    spec, plan = make_spec(rows=3000), _plan(make_spec(rows=3000), 3.0)
    rows, _ = _answered(clusters(3000), spec, 3.0)
    there = TREE.model(CoordinateReports({"part": rows}), spec, plan, np.random.default_rng(1))
    stored = np.ascontiguousarray(rows[::-1]).view(np.uint8).reshape(len(rows), -1)
    back = TREE.model(CoordinateReports({"part": stored}), spec, plan, np.random.default_rng(1))
    assert np.array_equal(there.mixture.means, back.mixture.means)


@pytest.mark.parametrize(("epsilon", "gain"), [(1.0, 0.3), (6.0, 1.5)])
def test_the_clusters_are_found(epsilon, gain):
    spec, points = make_spec(rows=20_000), clusters(20_000)
    release = run(TREE, Records(points), spec, Budget(epsilon, 0.0), seeded_randomness(1))
    uniform = -np.log(np.prod(spec.domain.upper - spec.domain.lower))
    assert release.mixture.log_density(clusters(2000)).mean() > uniform + gain


def test_a_note_says_if_the_mixture_is_mostly_noise():
    spec = make_spec(rows=3000)
    release = run(TREE, Records(clusters(3000)), spec, Budget(0.02, 0.0), seeded_randomness(2))
    assert any("mostly noise" in note for note in release.notes), release.notes
