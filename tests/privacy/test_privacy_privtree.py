"""The shape of a private tree: its exact probabilities on neighbours, the noise that makes them, its encoding."""

import itertools
import math

import numpy as np
import pytest
from making import RecordingNoise
from scipy import stats

from privmix.errors import UserError
from privmix.privacy import privtree
from privmix.privacy.exact import STEP, ExactNoise, laplace_steps
from privmix.privacy.ledger import Decomposition, Ledger
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.sensitivity import Neighbours

RECORD = Neighbours("record", "add_remove")
UNITS = [
    Neighbours(unit, relation, records)
    for unit, records in (("record", 1), ("person", 3))
    for relation in ("add_remove", "replace_one")
]


def _grown(codes, *, depth, first=0, threshold=0, neighbours=RECORD, epsilon=1.0, source=None):
    ledger = Ledger()
    shape = privtree.decompose(
        np.sort(np.asarray(codes, dtype=np.int64)),
        depth=depth, first=first, threshold=threshold, neighbours=neighbours, epsilon=epsilon,
        source=source or SeededNoise(stream(1, "tree")), ledger=ledger, label="tree",
    )  # fmt: skip
    return shape, ledger.events


def _log_splits(score, scale):
    """Return the log-probabilities that a node of this score is split, and that it is not."""
    tail = -abs(score) / scale - math.log(2)
    rest = math.log1p(-math.exp(tail))
    return (rest, tail) if score > 0 else (tail, rest)


def _log_discrete_splits(score, scale):
    """Return the same for the noise of releases: P(k steps) ∝ exp(-|k| / s)."""
    s, k = laplace_steps(scale), round(score / STEP)
    tail = -(k if k > 0 else 1 - k) / s - math.log1p(math.exp(-1 / s))
    rest = math.log1p(-math.exp(tail))
    return (rest, tail) if k > 0 else (tail, rest)


def _log_probability(nodes, codes, depth, first, neighbours, epsilon, law=_log_splits):
    """Return the log-probability of a shape, given as {(depth, code): split}, by the definition."""
    scale = privtree.path_loss(neighbours) / epsilon
    step = privtree.decay(scale)
    total, codes = 0.0, np.asarray(codes, dtype=np.int64)
    for (level, code), split in nodes.items():
        count = int((codes >> (depth - level) == code).sum())
        score = max(-step, count - (level - first) * step)
        total += law(score, scale)[0 if split else 1]
    return total


def _shapes(depth, level=0, code=0):
    """Yield all shapes below a node, as {(depth, code): split}; the last level has no decision."""
    if level == depth:
        yield {}
        return
    yield {(level, code): False}
    for left, right in itertools.product(
        list(_shapes(depth, level + 1, 2 * code)), list(_shapes(depth, level + 1, 2 * code + 1))
    ):
        yield {(level, code): True, **left, **right}


def _pairs(neighbours, generator, depth):
    """Yield neighbouring lists of codes: the records of one unit are added, or replace those of another."""
    common = generator.integers(1 << depth, size=generator.integers(0, 12)).tolist()
    for _ in range(6):
        held, other = (
            (generator.integers(1 << depth) * np.ones(neighbours.records, dtype=int)).tolist()
            if generator.random() < 0.5
            else generator.integers(1 << depth, size=generator.integers(1, neighbours.records + 1)).tolist()
            for _ in range(2)
        )
        yield common + held, common + (other if neighbours.relation == "replace_one" else [])


@pytest.mark.parametrize("neighbours", UNITS, ids=str)
@pytest.mark.parametrize("law", [_log_splits, _log_discrete_splits], ids=["continuous", "discrete"])
def test_no_neighbour_changes_the_probability_of_any_shape_by_more_than_epsilon(neighbours, law):
    generator = np.random.Generator(np.random.PCG64(3))
    shapes = list(_shapes(3))
    assert len(shapes) == 26
    for epsilon in (0.5, 4.0):
        for _ in range(3):
            for one, two in _pairs(neighbours, generator, 3):
                logs = np.array(
                    [
                        [_log_probability(s, data, 3, 0, neighbours, epsilon, law) for s in shapes]
                        for data in (one, two)
                    ]
                )
                assert np.exp(logs).sum(axis=1) == pytest.approx([1.0, 1.0])
                assert np.abs(logs[0] - logs[1]).max() <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", UNITS, ids=str)
@pytest.mark.parametrize("law", [_log_splits, _log_discrete_splits], ids=["continuous", "discrete"])
def test_the_worst_neighbours_come_near_to_epsilon_and_not_above(neighbours, law):
    """A long path is split to its end although no score is far above 0. Under replacement, the record comes from a root
    that is not split although it is full. The remaining difference is the tail of the series."""
    epsilon, depth, worst = 0.02, 9, 0.0
    step = privtree.decay(privtree.path_loss(neighbours) / epsilon)
    nodes = {(1, 0): False, **{(level, 1 << (level - 1)): True for level in range(1, depth)}}
    target = 1 << (depth - 1)
    for base in np.ceil(np.arange(3, depth - 1) * step):
        common = [target] * int(base)
        full = [0] * int(20 * step)
        held = [target] * neighbours.records
        other = [0] * neighbours.records if neighbours.relation == "replace_one" else []
        logs = [
            _log_probability(nodes, data, depth, 1, neighbours, epsilon, law)
            for data in (common + full + held, common + full + other)
        ]
        worst = max(worst, abs(logs[0] - logs[1]))
    assert 0.96 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_the_constant_is_its_series():
    """For β = 2 the series Σ 1/(2^n - 1) is the Erdős-Borwein constant."""
    assert privtree.BASE == 2.0
    assert privtree.path_loss(RECORD) == pytest.approx(1 + 1.6066951524, rel=1e-9)
    assert privtree.path_loss(Neighbours("record", "replace_one")) == pytest.approx(
        2 + 1.6066951524, rel=1e-9
    )
    assert privtree.path_loss(Neighbours("person", "add_remove", 7)) == pytest.approx(
        7 * 2.6066951524, rel=1e-9
    )


@pytest.mark.parametrize("scale", [1e-3, 0.3, 7.0, 1e4])
def test_the_decay_is_whole_steps_and_large_enough_for_exact_noise(scale):
    step = privtree.decay(scale)
    assert step / STEP == round(step / STEP)
    assert step >= laplace_steps(scale) * STEP * math.log(privtree.BASE) + STEP / 2
    assert step <= scale * math.log(privtree.BASE) + 8 * STEP


ROOTS, SCALE = 13, privtree.path_loss(RECORD)


def _splits(counts, threshold):
    """Return how many of 2^ROOTS roots with equal counts are split at ε = 1."""
    codes = np.repeat(2 * np.arange(1 << ROOTS), counts)
    source = SeededNoise(stream(5, "splits", counts))
    shape, _ = _grown(codes, depth=ROOTS + 1, first=ROOTS, threshold=threshold, source=source)
    return int(shape.splits[0].sum())


@pytest.mark.parametrize(
    ("counts", "threshold", "score"),
    [(4, 2, 2.0), (0, 0, 0.0), (0, 1, -1.0), (0, 20, -SCALE * math.log(2)), (3, 20, -SCALE * math.log(2))],
)
def test_splits_have_the_probability_of_the_theorem_and_of_no_other_scale(counts, threshold, score):
    """Binomial test at 1e-6. A score is never below -δ. The test rejects half the noise, except at 0 and for clamped
    scores, where δ scales with the noise."""
    split = _splits(counts, threshold)
    expected = stats.laplace.sf(0.0, score, SCALE)
    assert stats.binomtest(split, 1 << ROOTS, expected).pvalue > 1e-6
    if -1.5 < score != 0:
        halved = stats.laplace.sf(0.0, score, SCALE / 2)
        assert stats.binomtest(split, 1 << ROOTS, halved).pvalue < 1e-6


@pytest.mark.parametrize("neighbours", UNITS, ids=str)
def test_noise_is_scaled_for_the_unit_and_written_once(neighbours):
    source = RecordingNoise()
    codes = np.zeros(500, dtype=np.int64)
    shape, events = _grown(codes, depth=8, neighbours=neighbours, epsilon=0.7, source=source)
    assert {scale for _, scale, _ in source.asked} == {privtree.path_loss(neighbours) / 0.7}
    assert [size for _, _, (size,) in source.asked] == [len(split) for split in shape.splits][:8]
    assert events == [Decomposition("tree", 0.7)]


def test_without_noise_a_node_is_split_as_long_as_its_count_outweighs_the_decay():
    step = privtree.decay(privtree.path_loss(RECORD) / 1.0)
    codes = np.full(10, 5, dtype=np.int64)
    shape, _ = _grown(codes, depth=9, threshold=1, source=RecordingNoise())
    codes, depths = shape.leaves()
    assert depths.max() == math.ceil((10 - 1) / step)
    assert len(codes) == depths.max() + 1


def test_exact_noise_grows_a_tree_and_scores_lie_on_its_lattice():
    shape, events = _grown(np.arange(64), depth=6, epsilon=5.0, source=ExactNoise())
    assert len(events) == 1
    assert sum(2.0**-depth for depth in shape.leaves()[1]) == 1.0


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("records", [0, 1, 3000])
def test_leaves_are_a_partition_and_the_shape_survives_its_text(first, records):
    generator = np.random.Generator(np.random.PCG64(records))
    data = np.sort(generator.integers(1 << 12, size=records) // 3)
    shape, _ = _grown(data, depth=12, first=first, epsilon=3.0)
    codes, depths = shape.leaves()
    assert (depths >= first).all()
    assert (depths <= 12).all()
    assert sum(2.0**-depth for depth in depths) == 1.0
    starts = np.sort(codes << (12 - depths))
    assert starts[0] == 0
    assert len(np.unique(starts)) == len(starts)
    assert privtree.count_within(data, 12, codes, depths).sum() == records
    again = privtree.TreeShape.unpacked(first, shape.packed())
    assert all(np.array_equal(*pair) for pair in zip(shape.splits, again.splits, strict=True))


def test_counts_are_those_of_a_loop():
    generator = np.random.Generator(np.random.PCG64(8))
    data = np.sort(generator.integers(256, size=100))
    codes, depths = np.array([0, 1, 5, 255, 3]), np.array([0, 1, 3, 8, 2])
    slow = [sum(int(r) >> (8 - d) == c for r in data) for c, d in zip(codes, depths, strict=True)]
    assert privtree.count_within(data, 8, codes, depths).tolist() == slow


@pytest.mark.parametrize(("depth", "first"), [(61, 0), (3, 4), (3, -1)])
def test_impossible_trees_are_refused(depth, first):
    with pytest.raises(UserError, match="needs 0 <= roots <= depth <= 60"):
        _grown([], depth=depth, first=first)
