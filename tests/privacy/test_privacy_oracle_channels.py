"""Exact probabilities of every frequency oracle, from the coins in the code: no likelihood ratio exceeds e^ε."""

from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from privmix.privacy.ledger import Ledger
from privmix.privacy.oracles import (
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
    base,
)

GRID = 2**53  # a uniform number is one of the multiples of 2^-53


class Coin:
    """A uniform number that supports only the comparison with a threshold."""

    def __init__(self, branching, shape):
        self.branching, self.shape = branching, shape

    def __lt__(self, threshold):
        below = Fraction(-(-Fraction(threshold) * GRID // 1)) / GRID  # share of multiples of 2^-53 below
        odds = [1 - below, below]
        return np.array([self.branching.take(odds) for _ in range(np.prod(self.shape))], bool).reshape(
            self.shape
        )


class Branching:
    """A source that follows a given path through all outcomes of its coins, and computes its probability."""

    def __init__(self, path, hash_seed):
        self.path, self.select, self.probability, self.hash_seed = path, [], Fraction(1), hash_seed

    def take(self, odds):
        choice = self.path[len(self.select)] if len(self.select) < len(self.path) else 0
        self.select.append((choice, len(odds)))
        self.probability *= odds[choice]
        return choice

    def uniform(self, shape):
        return Coin(self, shape)

    def integers(self, high, shape):
        if len(shape) == 2:  # the draw of a hash, which is fixed here
            return np.array(self.hash_seed).reshape(shape)
        return np.array([self.take([Fraction(1, high)] * high) for _ in range(np.prod(shape))], np.int64)


def exact_law(oracle, truth, hash_seed):
    """Return P(report | truth) as fractions, by walking every path through the coins in the code."""
    law, path = defaultdict(Fraction), []
    while path is not None:
        source = Branching(path, hash_seed)
        report = oracle.perturb(np.array([truth]), source=source, ledger=Ledger(), label="x")
        law[report.tobytes()] += source.probability
        taken = source.select
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        path = [choice for choice, _ in taken[:-1]] + [taken[-1][0] + 1] if taken else None
    return law


def worst_ratio(oracle, hash_seed):
    """Return the largest likelihood ratio of a report over all pairs of truths, to fifty digits."""
    laws = [exact_law(oracle, truth, hash_seed) for truth in range(oracle.categories)]
    assert all(sum(law.values()) == 1 for law in laws)
    reports = set().union(*laws)
    ratio = max(max(law[r] for law in laws) / min(law[r] for law in laws) for r in reports)
    return Decimal(ratio.numerator) / Decimal(ratio.denominator)


SMALL = [
    *(GeneralizedResponse(k, e) for k in (2, 3, 7) for e in (1e-6, 0.1, 1.0, 4.0)),
    *(UnaryEncoding(k, e) for k in (2, 3, 5) for e in (1e-6, 0.1, 1.0, 4.0)),
    *(LocalHashing(k, e) for k in (2, 3, 6) for e in (1e-6, 0.1, 1.0, 2.5)),
    *(SubsetSelection(k, e) for k in (2, 3, 5, 6) for e in (1e-6, 0.1, 1.0, 4.0)),
    *(HadamardResponse(k, e) for k in (2, 3, 5, 8) for e in (1e-6, 0.1, 1.0, 4.0)),
]  # fmt: skip
HASHES = [(20_000, 678), (0, 5), (1, 0), (32_748, 32_748)]


@pytest.mark.parametrize("oracle", SMALL, ids=str)
def test_no_ratio_exceeds_e_to_the_epsilon_and_it_is_reached(oracle):
    """The ratio is not one bit above e^ε, and its logarithm less than 1e-8 of ε below."""
    with localcontext(prec=50):
        ratio = worst_ratio(oracle, HASHES[0])
        assert ratio <= Decimal(oracle.epsilon).exp()
        assert ratio.ln() >= Decimal(oracle.epsilon) * (1 - Decimal("1e-8"))


@pytest.mark.parametrize("seed", HASHES)
def test_privacy_does_not_depend_on_the_hash(seed):
    oracle = LocalHashing(5, 1.0)
    with localcontext(prec=50):
        assert worst_ratio(oracle, seed) <= Decimal(1).exp()


@pytest.mark.parametrize("epsilon", [10.0, 40.0, 100.0, 1000.0])
@pytest.mark.parametrize(
    "kind", [GeneralizedResponse, UnaryEncoding, SubsetSelection, HadamardResponse], ids=lambda k: k.__name__
)
def test_lies_happen_at_every_epsilon(kind, epsilon):
    """If the probability of a lie is below the precision of the coin, it is rounded up, never to 0."""
    with localcontext(prec=1000):
        assert worst_ratio(kind(3, epsilon), None) <= Decimal(epsilon).exp()


@pytest.mark.parametrize("factor", [2 / 3, 1 - 2**-45], ids=["a third fewer lies", "rounded down"])
@pytest.mark.parametrize(
    "kind",
    [GeneralizedResponse, UnaryEncoding, LocalHashing, SubsetSelection, HadamardResponse],
    ids=lambda k: k.__name__,
)
def test_too_few_lies_are_noticed(kind, factor, monkeypatch):
    """The twin of the bound: it detects coins that lie too rarely, even by their last bits."""
    monkeypatch.setattr(base, "ROUNDED_UP", factor)
    with localcontext(prec=50):
        assert worst_ratio(kind(4, 1.0), HASHES[0]) > Decimal(1).exp()


def as_bytes(oracle, column):
    """Return the report of a column of the probability table."""
    if isinstance(oracle, SubsetSelection):
        sets = list(combinations(range(oracle.categories), oracle.size))
        if oracle.is_list:
            return np.array(sets[column], np.uint8).tobytes()
        return np.packbits(np.isin(np.arange(oracle.categories), sets[column]), bitorder="little").tobytes()
    if isinstance(oracle, LocalHashing):
        return np.array([(*HASHES[0], column)], oracle.report).tobytes()
    return np.uint8(column).tobytes()


@pytest.mark.parametrize("oracle", [o for o in SMALL if o.epsilon >= 0.1], ids=str)
def test_probability_table_is_the_law_of_the_reports(oracle):
    hashed = isinstance(oracle, LocalHashing)
    table = oracle.probability_table(*HASHES[0]) if hashed else oracle.probability_table()
    assert table.sum(axis=1) == pytest.approx(np.ones(oracle.categories), rel=1e-12)
    for truth, row in enumerate(table):
        law = exact_law(oracle, truth, HASHES[0])
        assert {as_bytes(oracle, c): pytest.approx(p, rel=1e-9) for c, p in enumerate(row)} == {
            report: float(probability) for report, probability in law.items()
        }


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("k", [3, 5, 6])
def test_lists_have_the_law_of_the_sets_too(k, epsilon, monkeypatch):
    """Sets of large domains are lists instead of marks. On a small domain both can be enumerated."""
    monkeypatch.setattr(SubsetSelection, "is_list", property(lambda _: True))
    test_probability_table_is_the_law_of_the_reports(SubsetSelection(k, epsilon))


@pytest.mark.parametrize("oracle", [o for o in SMALL if not isinstance(o, LocalHashing)], ids=str)
def test_support_probabilities_follow_from_the_table(oracle):
    """p and q of each oracle are sums over the reports that support an answer; q is the same for all other answers."""
    table, k = oracle.probability_table(), oracle.categories
    dtype = np.uint8
    width = {SubsetSelection: (1, -1), UnaryEncoding: (1, -1)}.get(type(oracle), (-1,))
    supports = np.array(
        [
            oracle.support(np.frombuffer(as_bytes(oracle, column), dtype).reshape(width))
            for column in range(table.shape[1])
        ]
    )
    wanted = np.full((k, k), oracle.other)
    np.fill_diagonal(wanted, oracle.truth)
    assert table @ supports == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("k", "epsilon"), [(5, 0.3), (5, 1.0), (1000, 3.0), (40_000, 1.0), (3, 11.0)])
def test_hash_collision_is_exact(k, epsilon):
    """Positions of two answers are independent and uniform, so q follows from how many positions share a value."""
    oracle = LocalHashing(k, epsilon)
    positions = np.arange(0, oracle.prime, max(1, oracle.prime // 3_000_000))  # all of the small prime
    sizes = np.bincount(oracle.hash_codes(0, positions, 0), minlength=oracle.buckets) / len(positions)
    collision = (sizes**2).sum()
    q = collision * oracle.channel.truth + (1 - collision) * (1 - oracle.channel.truth) / (oracle.buckets - 1)
    assert oracle.other == pytest.approx(q, rel=1e-12 if oracle.prime < 1 << 15 else 1e-4)
    assert all(oracle.prime % divisor for divisor in range(2, int(oracle.prime**0.5) + 1))
    assert oracle.prime >= max(k, oracle.buckets)
