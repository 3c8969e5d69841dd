"""Reports of every frequency oracle: few bytes, little memory, any integer codes; invalid codes are refused."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import (
    ORACLES,
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
)

NAMES = {"ids": lambda kind: kind.__name__}


def perturbed(oracle, codes, seed=1):
    return oracle.perturb(codes, source=SeededNoise(stream(seed, "reports")), ledger=Ledger(), label="x")


@pytest.mark.parametrize(
    ("oracle", "bytes_each"),
    [
        (GeneralizedResponse(256, 1.0), 1),
        (GeneralizedResponse(257, 1.0), 2),
        (UnaryEncoding(1024, 1.0), 128),
        (UnaryEncoding(9, 1.0), 2),
        (LocalHashing(1024, 1.0), 5),
        (LocalHashing(1024, 6.0), 6),
        (LocalHashing(100_000, 1.0), 9),
        (SubsetSelection(1024, 1.0), 128),  # as marks: 275 answers of two bytes would be more
        (SubsetSelection(1024, 4.0), 128),  # compression leaves a bit or two of each byte
        (SubsetSelection(1024, 6.0), 2 * 2),
        (SubsetSelection(8, 5.0), 1),
        (HadamardResponse(128, 1.0), 1),
        (HadamardResponse(1024, 1.0), 2),
        (HadamardResponse(40_000, 1.0), 4),
    ],
    ids=str,
)
def test_a_report_takes_few_bytes(oracle, bytes_each):
    reports = perturbed(oracle, np.arange(50) % oracle.categories)
    assert len(reports) == 50
    assert reports.nbytes == 50 * bytes_each


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_no_table_of_people_by_answers_is_held(kind):
    """100,000 people by 1,024 answers are 100 MB of single bytes; one block is a fraction of it."""
    oracle, codes = kind(1024, 4.0), np.arange(100_000) % 1024
    tracemalloc.start()
    reports = perturbed(oracle, codes)
    oracle.support(reports)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - reports.nbytes < 30e6


def supported(oracle, report, answer):
    """Return whether one report supports an answer, directly from the definition."""
    if isinstance(oracle, GeneralizedResponse):
        return report == answer
    if isinstance(oracle, LocalHashing):
        a, b, said = (int(report[field]) for field in ("a", "b", "answer"))
        return (a * answer + b) % oracle.prime * oracle.buckets // oracle.prime == said
    if isinstance(oracle, HadamardResponse):
        row, digit = int(report) // 2 + 1, int(report) % 2
        return (row & answer).bit_count() % 2 == digit
    if isinstance(oracle, SubsetSelection) and oracle.is_list:
        return answer in report
    return bool(report[answer // 8] >> (answer % 8) & 1)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(ORACLES),
    k=st.one_of(st.integers(2, 70), st.integers(32_740, 32_760)),
    epsilon=st.floats(1e-6, 12),
    n=st.integers(0, 8),
    dtype=st.sampled_from([np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64]),
    seed=st.integers(0, 1000),
)
def test_support_counts_the_reports_that_support_an_answer(kind, k, epsilon, n, dtype, seed):
    oracle = kind(k, epsilon)
    top = min(k - 1, np.iinfo(dtype).max)
    codes = np.linspace(0, top, n).astype(dtype)
    before = codes.copy()
    reports = perturbed(oracle, codes, seed)
    assert np.array_equal(codes, before)
    assert len(reports) == n
    support = oracle.support(reports)
    assert support.shape == (k,)
    for answer in {0, 1, k // 2, k - 1}:
        assert support[answer] == sum(supported(oracle, report, answer) for report in reports)


@pytest.mark.parametrize("k", [2, 255, 256, 257, 1000])
@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_at_a_large_epsilon_every_report_supports_the_truth(kind, k):
    """For every type of codes. Only unary encoding sets the own mark in just half of the reports."""
    codes = np.arange(k).astype(np.min_scalar_type(k - 1))
    oracle = kind(k, 60.0)
    reports = perturbed(oracle, codes)
    hits = np.array(
        [supported(oracle, report, int(code)) for report, code in zip(reports, codes, strict=True)]
    )
    if kind is UnaryEncoding:
        assert not oracle.support(reports)[~hits].any()
    else:
        assert hits.all()


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_reports_do_not_depend_on_the_type_of_the_codes(kind):
    codes, oracle = np.arange(100) % 20, kind(20, 1.0)
    wanted = perturbed(oracle, codes)
    for dtype in (np.uint8, np.int16, np.uint64):
        assert perturbed(oracle, codes.astype(dtype)).tobytes() == wanted.tobytes()
    assert perturbed(kind(np.int64(20), 1.0), codes).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("k", [24, 200])
def test_a_set_is_reported_in_the_order_of_the_answers(k):
    """The order of the draws would reveal the own answer."""
    oracle = SubsetSelection(k, 3.0)
    reports = perturbed(oracle, np.full(500, k // 2))
    if oracle.is_list:
        assert (np.diff(reports.astype(int), axis=1) > 0).all()
    else:
        assert (np.unpackbits(reports, axis=1).sum(axis=1) == oracle.size).all()


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_each_call_enters_the_ledger_once(kind):
    ledger, source = Ledger(), SeededNoise(stream(1, "x"))
    for label in ("cell", "colour"):
        kind(300, 0.8).perturb(np.zeros(2000, np.int64), source=source, ledger=ledger, label=label)
    assert ledger.events == [RandomizedResponse("cell", 0.8), RandomizedResponse("colour", 0.8)]


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
@pytest.mark.parametrize(
    ("k", "epsilon", "said"),
    [
        (1, 1.0, "1"), (0, 1.0, "0"), (2.5, 1.0, "2.5"), (1 << 31, 1.0, "2147483648"), (2, 0.0, "0.0"),
        (2, -1.0, "-1.0"), (2, math.inf, "inf"), (2, math.nan, "nan"), (2, 1e-9, "1e-09"),
    ],
)  # fmt: skip
def test_impossible_oracles_are_refused_with_the_value(kind, k, epsilon, said):
    with pytest.raises(UserError, match=said):
        kind(k, epsilon)


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (np.array([0, 5]), "must lie in 0 ... 4"),
        (np.array([-1, 2]), "must lie in 0 ... 4"),
        (np.array([0.0, 1.0]), "float64"),
        (np.array([[0, 1]]), r"\(1, 2\)"),
        (np.array([True, False]), "bool"),
    ],
)
def test_codes_that_are_no_answers_are_refused_and_cost_nothing(kind, codes, said):
    ledger = Ledger()
    with pytest.raises(UserError, match=f"'cell'.*{said}"):
        kind(5, 1.0).perturb(codes, source=SeededNoise(stream(1, "x")), ledger=ledger, label="cell")
    assert ledger.events == []


FOREIGN = [
    (GeneralizedResponse(4, 1.0), np.array([0, 4])),
    (GeneralizedResponse(4, 1.0), np.array([0.5])),
    (UnaryEncoding(9, 1.0), np.zeros((3, 1), np.uint8)),
    (UnaryEncoding(9, 1.0), np.zeros(3, np.uint8)),
    (LocalHashing(9, 1.0), np.zeros(3, np.uint64)),
    (LocalHashing(9, 1.0), np.array([(40_000, 0, 0)], LocalHashing(9, 1.0).report)),
    (LocalHashing(9, 1.0), np.array([(0, 0, 4)], LocalHashing(9, 1.0).report)),
    (SubsetSelection(9, 1.0), np.zeros((3, 5), np.uint8)),
    (SubsetSelection(100, 3.0), np.full((3, 4), 100, np.uint8)),
    (SubsetSelection(100, 3.0), np.zeros((3, 7), np.uint8)),
    (HadamardResponse(4, 1.0), np.array([6])),
]


@pytest.mark.parametrize(("oracle", "reports"), FOREIGN, ids=str)
def test_reports_of_another_oracle_are_refused(oracle, reports):
    with pytest.raises(UserError, match=f"not reports of {type(oracle).__name__}"):
        oracle.support(reports)


@pytest.mark.parametrize("kind", ORACLES, **NAMES)
def test_shares_of_no_reports_are_refused(kind):
    oracle = kind(4, 1.0)
    for ask in (oracle.estimate, oracle.standard_error):
        with pytest.raises(UserError, match="n = 0"):
            ask(np.zeros(4), 0)
        with pytest.raises(UserError, match=r"shape \(3,\)"):
            ask(np.zeros(3), 10)
    with pytest.raises(UserError, match="n = 0"):
        oracle.variance(0, 0.5)
