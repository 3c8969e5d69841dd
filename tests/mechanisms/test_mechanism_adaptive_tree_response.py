"""Answers in rounds: which record answers what, what later questions depend on, and what a fit recovers."""

import json

import numpy as np
import pytest
from making import assert_truthful, clusters, make_spec, partitions_asked
from scipy import stats

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local import adaptive_tree_response
from privmix.mechanisms.local.adaptive_tree_response import (
    MOST_ROUNDS,
    AdaptiveTreeResponse,
    estimate_shares,
    next_question,
    oracle_of,
    schedule,
)
from privmix.mechanisms.local.base import CoordinateReports
from privmix.mechanisms.local.tree_response import halvings
from privmix.mechanisms.run import run
from privmix.mechanisms.shared import report_shuffle
from privmix.mechanisms.shared.partitions import Partition
from privmix.mechanisms.shared.share_tree import NodeEstimates, ShareEstimates
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise
from privmix.privacy.oracles import GeneralizedResponse
from privmix.privacy.oracles.survey import Survey, unpack_reports
from privmix.privacy.privtree import TreeShape

ADAPTIVE = AdaptiveTreeResponse()


def _plan(spec, epsilon):
    return ADAPTIVE.plan(spec, Budget(epsilon, 0.0))


def _source(seed=1):
    return SeededNoise(np.random.Generator(np.random.PCG64(seed)))


def _answered(points, spec, epsilon, seed=1, cuts=(), folder=None):
    """Return the answers of all records, which come in parts that end at these rows."""
    parts = map(Records, np.split(points, cuts))
    said = list(ADAPTIVE.answer_parts(parts, spec, _plan(spec, epsilon), _source(seed), folder))
    rows = np.concatenate([answers.columns["part"] for answers, _ in said])
    assert all(answers.asked == said[0][0].asked and set(answers.columns) == {"part"} for answers, _ in said)
    return CoordinateReports({"part": rows}, said[0][0].asked), said[0][1]


def _turns(answers, people, seed=1):
    """Return the round of each record, which is drawn first; answers come out round by round."""
    rounds = len(answers.asked["partitions"])
    turns = Survey(np.ones(rounds), epsilon=1.0, source=_source(seed), label="").deal(people, Ledger())
    assert np.array_equal(np.sort(turns), answers.columns["part"]["turn"])
    return turns


def _partitions(answers, spec):
    deepest = halvings(spec, "").depth
    return [Partition(TreeShape.unpacked(0, text), deepest) for text in answers.asked["partitions"]]


def _table(oracle):
    """P(report | part) of a round, a column for each report; of hashed answers, for some hashes."""
    if isinstance(oracle, GeneralizedResponse):
        return oracle.probability_table()
    draws = np.random.Generator(np.random.PCG64(3)).integers(oracle.prime, size=(4, 2))
    return np.hstack([oracle.probability_table(int(a), int(b)) / oracle.prime**2 for a, b in draws])


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_table_of_round_and_answer_has_ratios_of_at_most_e_to_the_epsilon(epsilon):
    """For the questions of a run: the round has the same probability for any record, and the bound is reached."""
    spec = make_spec(rows=2000)
    answers, _ = _answered(clusters(2000), spec, epsilon)
    asked, plan = _partitions(answers, spec), _plan(spec, epsilon)
    places = halvings(spec, "").codes(clusters(400, seed=2))
    table = np.hstack([_table(oracle_of(each, plan))[each.locate(places)] / len(asked) for each in asked])
    assert len(asked) > 1
    assert (table.max(axis=0) / table.min(axis=0)).max() == pytest.approx(np.exp(epsilon), rel=1e-9)


def test_reports_of_the_first_round_have_the_probabilities_of_the_table():
    """Chi square at 1e-6, with the power to detect half of the noise; the rounds are also equally likely."""
    spec, epsilon, people = make_spec(rows=60), 2.0, 40_000
    points = np.full((people, 2), 0.3)
    answers, _ = _answered(points, spec, epsilon)
    rows, asked = answers.columns["part"], _partitions(answers, spec)
    turns = np.bincount(rows["turn"], minlength=len(asked))
    assert stats.chisquare(turns).pvalue > 1e-6
    part = asked[0].locate(halvings(spec, "").codes(points[:1]))[0]
    found_counts = np.bincount(rows["answer"][rows["turn"] == 0], minlength=len(asked[0]))
    for factor, likely in ((1.0, True), (2.0, False)):
        chance = GeneralizedResponse(len(asked[0]), factor * epsilon).probability_table()[part]
        assert (stats.chisquare(found_counts, turns[0] * chance).pvalue > 1e-6) == likely


def test_a_question_depends_only_on_the_answers_of_earlier_rounds():
    """A record that answers in round r changes no partition up to r, wherever it is; it changes later ones."""
    spec, points = make_spec(rows=6000), clusters(6000)
    answers, _ = _answered(points, spec, 4.0)
    turns, asked = _turns(answers, 6000), answers.asked["partitions"]
    for turn in range(len(asked)):
        moved = points.copy()
        moved[turns == turn] = -0.7
        again = _answered(moved, spec, 4.0)[0].asked["partitions"]
        assert again[: turn + 1] == asked[: turn + 1]
        if turn + 1 < len(asked):
            assert again[turn + 1 :] != asked[turn + 1 :]


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_every_round_tells_the_truth_as_often_as_stated(epsilon):
    """Through all of `answered`, hashed or not; and the report has no other column."""
    spec, points = make_spec(rows=20_000), clusters(20_000)
    answers, _ = _answered(points, spec, epsilon)
    places = points[np.argsort(_turns(answers, 20_000), kind="stable")]
    asked, codes = _partitions(answers, spec), halvings(spec, "").codes(places)
    oracles = [oracle_of(each, _plan(spec, epsilon)) for each in asked]
    assert_truthful(answers.columns["part"], oracles, [each.locate(codes) for each in asked])


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_the_questions_do_not_depend_on_the_parts_of_the_records(epsilon, tmp_path, monkeypatch):
    """The same draws give the same questions and reports, from memory or from files, for any parts."""
    spec, points = make_spec(rows=6000), clusters(6000)
    whole, ledger = _answered(points, spec, epsilon)
    monkeypatch.setattr(report_shuffle, "FEW", 1000)
    for cuts in ([1, 1, 2500], range(100, 6000, 100)):
        parts, cost = _answered(points, spec, epsilon, cuts=cuts, folder=tmp_path)
        assert parts.asked == whole.asked
        assert np.array_equal(parts.columns["part"], whole.columns["part"])
        assert cost.events == ledger.events
        assert len(cost.events) == 1


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_rounds_that_are_read_part_by_part_get_one_question(epsilon, monkeypatch):
    """The number of rows per read decides which record gets which draw, and so the reports.

    But the first question is public, every record answers in its own round, and every round tells the truth at the
    stated rate.
    """
    spec, points = make_spec(rows=20_000), clusters(20_000)
    whole, _ = _answered(points, spec, epsilon)
    monkeypatch.setattr(adaptive_tree_response, "PART", 300)
    answers, _ = _answered(points, spec, epsilon)
    assert answers.asked["partitions"][0] == whole.asked["partitions"][0]
    rows = answers.columns["part"]
    asked, turns = _partitions(answers, spec), _turns(answers, 20_000)
    codes = halvings(spec, "").codes(points[np.argsort(turns, kind="stable")])
    plan = _plan(spec, epsilon)
    assert_truthful(rows, [oracle_of(each, plan) for each in asked], [each.locate(codes) for each in asked])
    found = partitions_asked(rows, spec, plan)
    assert answers.asked == {"partitions": [each.shape.packed() for each in found]}


def test_attributes_stay_with_their_record(tmp_path):
    """Through the files of the rounds, at a budget that hides nothing: records on the right have colour 2, at night."""
    spec = make_spec(rows=4000, attributes=(("night", ("no", "yes")), ("colour", ("red", "green", "blue"))))
    points = clusters(4000)
    right = points[:, 0] > 0
    codes = {"night": right.astype(np.int16), "colour": 2 * right.astype(np.int16)}
    parts = [
        Records(points[some], {name: code[some] for name, code in codes.items()})
        for some in (slice(0, 1500), slice(1500, 4000))
    ]
    made = list(ADAPTIVE.reports(parts, spec, Budget(200.0, 0.0), seeded_randomness(1), tmp_path))
    deepest, plan = halvings(spec, "").depth, _plan(spec, 200.0)
    seen = 0
    for reports in made:
        assert np.array_equal(2 * reports.columns["a_night"], reports.columns["a_colour"])
        asked = [Partition(TreeShape.unpacked(0, text), deepest) for text in reports.asked["partitions"]]
        [turn] = set(reports.columns["part"]["turn"].tolist())
        support = oracle_of(asked[turn], plan).support
        own = unpack_reports(reports.columns["part"], turn, oracle_of(asked[turn], plan))
        night = reports.columns["a_night"] == 1
        lower, upper = halvings(spec, "").boxes(*asked[turn].nodes)
        assert not support(own[night])[upper[:, 0] <= 0].any()
        assert not support(own[~night])[lower[:, 0] >= 0].any()
        seen += len(reports)
    assert seen == 4000


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_questions_are_a_function_of_the_reports(epsilon):
    """So they reveal no more than the reports; and nothing else is stored beside them."""
    spec = make_spec(rows=6000)
    answers, _ = _answered(clusters(6000), spec, epsilon)
    asked = partitions_asked(answers.columns["part"], spec, _plan(spec, epsilon))
    assert answers.asked == {"partitions": [each.shape.packed() for each in asked]}
    assert len({len(each) for each in asked}) > 1


def test_the_first_partition_and_the_rounds_are_public():
    spec = make_spec(rows=5000)
    for points in (clusters(5000), np.zeros((7, 2))):
        answers, _ = _answered(points, spec, 1.0)
        first, rounds = schedule(halvings(spec, "").depth, _plan(spec, 1.0))
        assert len(answers.asked["partitions"]) == rounds <= MOST_ROUNDS
        assert len(_partitions(answers, spec)[0]) == 1 << first


@pytest.mark.parametrize("epsilon", [0.7, 5.0])
def test_the_ledger_and_the_claim_are_the_budget_for_any_number_of_rounds(epsilon):
    spec = make_spec(rows=500, attributes=(("night", ("no", "yes")),))
    codes = {"night": np.zeros(500, dtype=np.int16)}
    reports = ADAPTIVE.privatise(
        Records(clusters(500), codes), spec, Budget(epsilon, 1e-6), seeded_randomness(1)
    )
    assert sum(event.epsilon for event in reports.events) == pytest.approx(epsilon, rel=1e-9)
    assert reports.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert json.loads(json.dumps(dict(reports.asked))) == dict(reports.asked)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_shares_of_all_rounds_are_unbiased_with_the_stated_variance(epsilon):
    """At ε = 8 for parts that hold one in a hundred: the errors of nearly empty parts are far from normal."""
    spec, points = make_spec(rows=4000), clusters(4000)
    codes, scores, wholes = halvings(spec, "").codes(points), [], []
    for seed in range(12):
        answers, _ = _answered(points, spec, epsilon, seed)
        asked, plan = _partitions(answers, spec), _plan(spec, epsilon)
        rows = answers.columns["part"]
        said = [
            estimate_shares(each, [unpack_reports(rows, turn, oracle_of(each, plan))], plan)
            for turn, each in enumerate(asked)
        ]
        findings = NodeEstimates.pool(asked, said)
        truth = np.mean(codes[:, None] >> (findings.deepest - findings.depths) == findings.codes, axis=0)
        held = truth >= (0.01 if epsilon == 8.0 else 0.0)
        scores.append(((findings.tree.estimates - truth) / np.sqrt(findings.tree.variances))[held])
        wholes.append(findings.tree.subtree_estimates()[0][findings.tree.parents < 0].sum())
    scores = np.concatenate(scores)
    # Parts of one round share their reports and lean on each other, so the bounds are wider than for coins.
    assert abs(scores.mean()) < 0.1
    assert 0.85 < np.square(scores).mean() < 1.15
    # The whole box still sums to one, but for what selection adds.
    assert abs(np.mean(wholes) - 1) < 3 * np.std(wholes) / np.sqrt(len(wholes)) + 0.1


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_rounds_about_the_same_parts_are_averaged_without_bias(epsilon):
    """Weights by variances that were estimated round by round would lose a fifth of the whole."""
    source, partition = SeededNoise(np.random.Generator(np.random.PCG64(3))), Partition.even(6, 12)
    plan, errors = _plan(make_spec(rows=4000), epsilon), []
    for _ in range(40):
        said, true = [], np.zeros(64)
        for people in (300, 350, 400, 450, 500):
            codes = (np.linspace(0, 8, people, endpoint=False) ** 2).astype(int)
            reports = oracle_of(partition, plan).perturb(codes, source=source, ledger=Ledger(), label="")
            said.append(estimate_shares(partition, [reports[:99], reports[99:]], plan))
            true += np.bincount(codes, minlength=64) / 2000
        errors.append(NodeEstimates.pool([partition] * 5, said).tree.estimates - true)
    errors = np.array(errors)
    assert (np.abs(errors.mean(axis=0)) < 5 * errors.std(axis=0) / np.sqrt(40) + 1e-9).all()
    assert abs(errors.sum(axis=1).mean()) < 5 * errors.sum(axis=1).std() / np.sqrt(40) + 1e-9


def test_a_round_without_answers_is_skipped():
    spec, epsilon = make_spec(rows=4000), 4.0
    plan, deepest = _plan(spec, epsilon), halvings(spec, "").depth
    coarse, fine = Partition.even(2, deepest), Partition.even(4, deepest)
    nobody = estimate_shares(coarse, [np.zeros(0, dtype=oracle_of(coarse, plan).report)], plan)
    assert next_question([coarse], [nobody], 0.1) is coarse
    reports = oracle_of(fine, plan).perturb(
        np.arange(800) % 16,
        source=SeededNoise(np.random.Generator(np.random.PCG64(1))),
        ledger=Ledger(),
        label="",
    )
    said = estimate_shares(fine, [reports], plan)
    both, alone = NodeEstimates.pool([coarse, fine], [nobody, said]), NodeEstimates.pool([fine], [said])
    assert np.array_equal(both.tree.estimates, alone.tree.estimates)
    assert np.array_equal(both.depths, np.full(16, 4))


def test_a_partition_holds_every_code_once():
    rng = np.random.Generator(np.random.PCG64(4))
    shape = TreeShape(
        0, (np.ones(1, bool), np.array([True, False]), np.array([False, True]), np.zeros(2, bool))
    )
    partition = Partition(shape, 5)
    codes, depths = partition.nodes
    assert sum(2.0 ** -depths.astype(float)) == 1.0
    places = rng.integers(32, size=100)
    assert np.array_equal(codes[partition.locate(places)], places >> (5 - depths[partition.locate(places)]))
    assert len(Partition.even(3, 5)) == 8


def _findings():
    """Return four quarters, the first split into quarters once more: two rounds on a line of 16 codes."""
    coarse = Partition.even(2, 4)
    fine = Partition(TreeShape(0, (np.ones(1, bool), np.ones(2, bool), np.array([1, 0, 0, 0], bool),
                               np.ones(2, bool), np.zeros(4, bool))), 4)  # fmt: skip
    shares = (np.array([0.7, 0.1, 0.1, 0.1]), np.array([0.6, 0.1, 0.0, 0.0, 0.1, 0.1, 0.1]))
    return NodeEstimates.pool(
        [coarse, fine], [ShareEstimates(GeneralizedResponse(len(each), 30.0), each, 100) for each in shares]
    )


def test_rounds_are_pooled_into_one_tree():
    findings = _findings()
    nodes = list(zip(findings.depths, findings.codes, strict=True))
    assert nodes == [(2, 0), (4, 0), (4, 1), (4, 2), (4, 3), (2, 1), (2, 2), (2, 3)]
    assert findings.tree.parents.tolist() == [-1, 0, 0, 0, 0, -1, -1, -1]
    # Without noise the variance of a share s is s (1 - s) / n, or 1 / n² if that is more; half of it if asked twice.
    assert findings.tree.variances == pytest.approx(
        [0.7 * 0.3 / 100, 0.6 * 0.4 / 100, 0.1 * 0.9 / 100, 1e-4, 1e-4, *[0.1 * 0.9 / 200] * 3]
    )
    assert findings.shares == pytest.approx([0.7, 0.6, 0.1, 0, 0, 0.1, 0.1, 0.1], abs=1e-9)


def test_small_parts_are_merged_and_large_parts_are_split():
    codes, depths = _findings().next_partition(0.25, finer=1).nodes
    # The code that holds most cannot be cut further; the farther from it, the coarser.
    assert list(zip(depths, codes, strict=True)) == [(4, 0), (4, 1), (3, 1), (2, 1), (1, 1)]
    parts, shares, variances = _findings().coarsen(0.25)
    assert shares.sum() == pytest.approx(1.0)
    assert len(shares) == len(variances) == len(parts)
    assert shares[0] == pytest.approx(0.6)
    opened = _findings().next_partition(0.05, finer=1)
    assert (opened.nodes[1] == 3).sum() >= 6  # the three quarters that are known no finer were halved


@pytest.mark.parametrize("dimensions", [1, 3])
@pytest.mark.parametrize("epsilon", [0.01, 100.0])
@pytest.mark.parametrize("points", ["one", "clusters"])
def test_every_budget_and_dataset_gives_a_valid_mixture(dimensions, epsilon, points):
    made = {
        "one": np.zeros((1, dimensions)),
        "clusters": np.vstack([clusters(150, dimensions), np.full((50, dimensions), 0.3)]),
    }[points]
    spec = make_spec(4, dimensions=dimensions, rows=len(made))
    mixture = run(
        AdaptiveTreeResponse(searches=1), Records(made), spec, Budget(epsilon, 0.0), seeded_randomness(1)
    ).mixture
    assert 1 <= mixture.n_components <= 4
    assert (mixture.means >= spec.domain.lower).all()
    assert (mixture.means <= spec.domain.upper).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor * (1 - 1e-6)).all()
    assert np.isfinite(mixture.log_density(made)).all()


def test_more_than_three_coordinates_are_refused_with_an_alternative():
    with pytest.raises(MechanismFailure, match="adaptive_tree_response works for up to 3 coordinates"):
        ADAPTIVE.privatise(
            Records(clusters(20, 4)), make_spec(dimensions=4), Budget(1.0, 0.0), seeded_randomness(1)
        )


def test_the_order_of_the_reports_does_not_matter_and_bytes_are_read_back():
    spec, plan = make_spec(rows=3000), _plan(make_spec(rows=3000), 3.0)
    answers, _ = _answered(clusters(3000), spec, 3.0)
    there = ADAPTIVE.model(answers, spec, plan, np.random.default_rng(1))
    rows = answers.columns["part"]
    stored = np.ascontiguousarray(rows[::-1]).view(np.uint8).reshape(len(rows), -1)
    back = ADAPTIVE.model(
        CoordinateReports({"part": stored}, answers.asked), spec, plan, np.random.default_rng(1)
    )
    assert np.array_equal(there.mixture.means, back.mixture.means)


@pytest.mark.parametrize(("epsilon", "gain"), [(1.0, 0.5), (6.0, 1.5)])
def test_the_clusters_are_found(epsilon, gain):
    spec, points = make_spec(rows=20_000), clusters(20_000)
    release = run(ADAPTIVE, Records(points), spec, Budget(epsilon, 0.0), seeded_randomness(1))
    uniform = -np.log(np.prod(spec.domain.upper - spec.domain.lower))
    assert release.mixture.log_density(clusters(2000)).mean() > uniform + gain


def test_a_note_says_if_the_mixture_is_mostly_noise():
    release = run(
        ADAPTIVE, Records(clusters(500)), make_spec(rows=500), Budget(0.02, 0.0), seeded_randomness(2)
    )
    assert any("noise" in note for note in release.notes), release.notes
