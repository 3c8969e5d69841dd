"""Every frequency oracle estimates shares without bias and with the stated variance, and the best one is chosen.

Each comparison fails by chance with probability less than α = 1e-6 over seeds (5.7e-7 for 5 standard errors of a mean;
a variance has its χ² interval), and must reject a law that is off by 2/3 or 3/2.
"""

import math

import numpy as np
import pytest
from scipy import stats

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import (
    ORACLES,
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
    best_for,
)

ALPHA = 1e-6
PEOPLE, RUNS = 120, 3_000
NAMES = {"ids": lambda kind: kind.__name__}


def estimates(made, read, shares, seed):
    """Return the estimates of each run, with reports made by one oracle and read by another."""
    codes = np.repeat(np.arange(len(shares)), (np.array(shares) * PEOPLE).astype(int))
    source = SeededNoise(stream(seed, "estimates", repr(made)))
    reports = made.perturb(np.tile(codes, RUNS), source=source, ledger=Ledger(), label="x")
    runs = [reports[start : start + PEOPLE] for start in range(0, len(reports), PEOPLE)]
    return np.array([read.estimate(read.support(run), PEOPLE) for run in runs])


def mean_agrees(values, mean, variance):
    return abs(values.mean() - mean) < 5 * math.sqrt(variance / RUNS)


def variance_agrees(values, variance):
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], RUNS - 1) / (RUNS - 1)
    return low < values.var(ddof=1) / variance < high


# A frequent, a rare and an empty answer among six: not a power of two.
SHARES = (0.6, 0.05, 0.0, 0.1, 0.2, 0.05)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_estimates_are_unbiased_with_the_stated_variance(kind, epsilon):
    oracle = kind(len(SHARES), epsilon)
    found = estimates(oracle, oracle, SHARES, 1)
    for values, share in list(zip(found.T, SHARES, strict=True))[:3]:
        # Theorem 2 of Wang, Blocki, Li, Jha 2017, for fixed people and random reports.
        variance = oracle.variance(PEOPLE, share)
        assert mean_agrees(values, share, variance)
        assert variance_agrees(values, variance)
        assert not variance_agrees(values, variance * 2 / 3)
        assert not variance_agrees(values, variance * 3 / 2)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_another_epsilon_than_stated_is_noticed(kind, factor):
    """The twin of unbiasedness: reports made with 2/3 or 3/2 of ε give a biased share of the frequent answer.

    At ε = 0.8 the hash of OLH and the set of subset selection have the same size for all three.
    """
    stated, made = kind(6, 0.8), kind(6, 0.8 * factor)
    if kind is LocalHashing:
        stated, made = kind(6, 0.55), kind(6, 0.55 * factor)
    if kind is UnaryEncoding:
        # p is 1/2 for every ε: the bias is in the empty answer.
        answer, share = 2, 0.0
    else:
        answer, share = 0, 0.6
    values = estimates(made, stated, SHARES, 2)[:, answer]
    assert not mean_agrees(values, share, stated.variance(PEOPLE, share))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_variance_of_an_empty_answer_is_the_published_one(epsilon):
    e, k = math.exp(epsilon), 1024
    least = 4 * e / (e - 1) ** 2
    assert GeneralizedResponse(k, epsilon).variance(1, 0.0) == pytest.approx((e + k - 2) / (e - 1) ** 2)
    assert UnaryEncoding(k, epsilon).variance(1, 0.0) == pytest.approx(least)
    hashing = LocalHashing(k, epsilon)
    g = round(e) + 1
    assert hashing.buckets == g
    assert hashing.variance(1, 0.0) == pytest.approx((e + g - 1) ** 2 / (e - 1) ** 2 / (g - 1), rel=1e-4)
    assert least * (1 - 1e-9) <= hashing.variance(1, 0.0) < 1.03 * least
    assert 0.95 * least < SubsetSelection(k, epsilon).variance(1, 0.0) < least
    assert HadamardResponse(k, epsilon).variance(1, 0.0) == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=3e-3)


def test_subset_of_one_is_generalised_response():
    subset, grr = SubsetSelection(9, 3.0), GeneralizedResponse(9, 3.0)
    assert subset.size == 1
    assert (subset.truth, subset.other) == (pytest.approx(grr.truth), pytest.approx(grr.other))


def test_subset_has_k_over_e_to_the_epsilon_plus_one_answers():
    assert [SubsetSelection(1000, e).size for e in (0.001, 1.0, 3.0, 10.0)] == [500, 269, 47, 1]


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_deviations_are_roots_of_variances(kind):
    oracle, n = kind(10, 1.0), 400
    assert oracle.cell_deviation(n) == pytest.approx(math.sqrt(oracle.variance(n, 0.0)))
    assert oracle.variance(4 * n, 0.3) == pytest.approx(oracle.variance(n, 0.3) / 4)
    # Sampled people add share (1 - share) / n.
    share = np.full(10, 0.1)
    support = n * (share * oracle.truth + (1 - share) * oracle.other)
    assert oracle.estimate(support, n) == pytest.approx(share)
    assert oracle.standard_error(support, n)[0] ** 2 == pytest.approx(oracle.variance(n, 0.1) + 0.1 * 0.9 / n)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 3.7, 6.0])
def test_generalised_response_is_chosen_exactly_below_the_published_size(epsilon):
    """Among GRR, OUE and OLH: k < 3 e^ε + 2 (Wang, Blocki, Li, Jha 2017)."""
    limit = 3 * math.exp(epsilon) + 2
    for k in {2, 3, math.floor(limit) - 1, math.floor(limit), math.ceil(limit), math.ceil(limit) + 1, 5000}:
        chosen = best_for(k, epsilon, among=(GeneralizedResponse, UnaryEncoding, LocalHashing))
        assert isinstance(chosen, GeneralizedResponse) == (k < limit), k


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("k", [2, 3, 10, 64, 1024, 100_000])
def test_the_best_has_no_more_variance_than_any(k, epsilon):
    best = best_for(k, epsilon)
    variances = [kind(k, epsilon).variance(1, 0.0) for kind in ORACLES]
    assert best.variance(1, 0.0) == pytest.approx(min(variances), rel=1e-9)
    assert (best.categories, best.epsilon) == (k, epsilon)
    if SubsetSelection(k, epsilon).size == 1:
        assert isinstance(best, GeneralizedResponse)


def test_there_must_be_something_to_choose_among():
    with pytest.raises(UserError, match="at least one"):
        best_for(4, 1.0, among=())
