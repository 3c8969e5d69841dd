"""Collecting reports: every row comes out once, in an order that carries no information."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from making import clusters, make_spec
from scipy import stats

from privmix.errors import UserError
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local.adaptive_tree_response import AdaptiveTreeResponse
from privmix.mechanisms.local.base import collect
from privmix.mechanisms.local.laplace_input import LaplaceInput
from privmix.mechanisms.local.randomized_response import RandomizedResponse
from privmix.mechanisms.shared import report_shuffle
from privmix.mechanisms.shared.report_shuffle import open_shuffler
from privmix.privacy import shuffle
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import SeededNoise


def _source(seed):
    return SeededNoise(np.random.default_rng(seed))


def test_rows_come_out_whole_and_once(tmp_path, monkeypatch):
    """Numbers, rows of bytes and structured rows, through several buckets and parts of several sizes."""
    monkeypatch.setattr(report_shuffle, "BUCKET", 100)
    monkeypatch.setattr(report_shuffle, "FEW", 300)
    number = np.arange(1000, dtype=np.uint16)
    marks = np.stack([number % 251, number // 251], axis=1).astype(np.uint8)
    pair = np.array([(value, value / 4) for value in number], dtype=[("a", "u2"), ("b", "f4")])
    columns = {"number": number, "marks": marks, "pair": pair}
    with open_shuffler(1000, _source(1), tmp_path) as shuffler:
        for part in (slice(0, 1), slice(1, 700), slice(700, 1000)):
            shuffler.add({name: values[part] for name, values in columns.items()})
        parts = list(shuffler.parts())
    assert len(parts) == 10
    found = {name: np.concatenate([part[name] for part in parts]) for name in columns}
    assert sorted(found["number"]) == list(range(1000))
    for name, values in columns.items():
        assert np.array_equal(found[name], values[found["number"]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bucket", [1, 2, 4])
def test_every_order_is_equally_likely(tmp_path, monkeypatch, bucket):
    monkeypatch.setattr(report_shuffle, "BUCKET", bucket)
    seen, source = Counter(), _source(bucket)
    for _ in range(4800):
        with open_shuffler(4, source, tmp_path) as shuffler:
            shuffler.add({"row": np.arange(4)})
            seen[tuple(np.concatenate([part["row"] for part in shuffler.parts()]))] += 1
    counts = [seen[orders] for orders in itertools.permutations(range(4))]
    assert sum(counts) == 4800
    assert stats.chisquare(counts).pvalue > 1e-4


def test_the_ledger_of_one_part_is_that_of_all(tmp_path):
    """Each record answers once, so all parts together cost as much as one."""
    spec, rng, points = make_spec(rows=900), seeded_randomness(1), clusters(900)
    parts = [Records(points[:400]), Records(points[:0]), Records(points[400:])]
    with open_shuffler(900, rng.noise, tmp_path) as shuffler:
        said = collect(RandomizedResponse(), parts, spec, Budget(2.0, 0.0), rng, shuffler)
        assert shuffler.rows == 900
    assert len(said.events) == 1
    assert said.claim.epsilon == 2.0


def test_a_mechanism_with_rounds_asks_every_record_once_for_any_parts(tmp_path):
    """And it states its questions; rounds within each part would ask each part different questions."""
    rng, points = seeded_randomness(1), clusters(900)
    parts = [Records(points[:400]), Records(points[:0]), Records(points[400:])]
    with open_shuffler(900, rng.noise, tmp_path) as shuffler:
        said = collect(AdaptiveTreeResponse(), parts, make_spec(rows=900), Budget(2.0, 0.0), rng, shuffler)
        assert shuffler.rows == 900
    assert len(said.events) == 1
    assert said.claim.epsilon == 2.0
    alone = AdaptiveTreeResponse().privatise(
        Records(points), make_spec(rows=900), Budget(2.0, 0.0), seeded_randomness(1)
    )
    assert said.asked == alone.asked
    assert not list(tmp_path.iterdir())


def test_parts_that_spend_differently_are_a_defect(tmp_path):
    class Growing(LaplaceInput):
        def answer(self, points, spec, plan, source, ledger):
            half = Budget(plan.budget.epsilon / (1 + len(points) % 2), plan.budget.delta)
            return super().answer(points, spec, replace(plan, budget=half), source, ledger)

    rng = seeded_randomness(1)
    parts = [Records(clusters(10)), Records(clusters(11))]
    with (
        open_shuffler(21, rng.noise, tmp_path) as shuffler,
        pytest.raises(UserError, match="spent differently"),
    ):
        collect(Growing(), parts, make_spec(), Budget(1.0, 0.0), rng, shuffler)


def test_parts_share_no_draw(tmp_path):
    """The same records in both parts: no report of one is a report of the other."""
    spec, rng, points = make_spec(rows=200), seeded_randomness(1), clusters(100)
    with open_shuffler(200, rng.noise, tmp_path) as shuffler:
        collect(LaplaceInput(), [Records(points), Records(points)], spec, Budget(1.0, 0.0), rng, shuffler)
        [columns] = shuffler.parts()
    assert len(np.unique(columns["y0"])) == 200


def test_no_records_are_an_error_message(tmp_path):
    rng = seeded_randomness(1)
    with (
        open_shuffler(1, rng.noise, tmp_path) as shuffler,
        pytest.raises(UserError, match="no training record"),
    ):
        collect(LaplaceInput(), [Records(clusters()[:0])], make_spec(), Budget(1.0, 0.0), rng, shuffler)


def test_picks_are_uniform_and_repeat_only_if_records_run_out():
    units = np.array([0, 1, 1, 1, 2, 2])
    firsts, source = Counter(), _source(3)
    for _ in range(3000):
        picks = shuffle.pick_rows(units, shuffle.random_keys(len(units), source=source), 2)
        assert picks.shape == (3, 2)
        assert (units[picks] == np.arange(3)[:, None]).all()
        assert picks[0].tolist() == [0, 0]
        assert len(set(picks[1])) == len(set(picks[2])) == 2
        firsts[picks[1, 0]] += 1
    assert stats.chisquare([firsts[row] for row in (1, 2, 3)]).pvalue > 1e-4
