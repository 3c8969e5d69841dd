"""The accountant adds up what was spent, and the sum is never less than what was drawn."""

import json
import math
import os

import pytest

from privmix.errors import UserError
from privmix.privacy.accounting import Claim, account
from privmix.privacy.composition import ReleaseCost, total_cost
from privmix.privacy.ledger import Gaussian, Laplace, PlanarLaplace, Selection
from privmix.release import account as spending_account
from privmix.release.account import Account, SpendingLimit

CONTENT = "ab" * 32


def _known(*events, relation="replace_one", theorem="exact", delta=1e-6):
    claim = account(events, delta, theorem)
    return ReleaseCost(relation, claim.epsilon, claim.delta, tuple(events))


def test_releases_whose_ledger_is_unknown_add_up_plainly():
    found = total_cost([ReleaseCost("replace_one", 1.0, 1e-6), ReleaseCost("replace_one", 0.5, 2e-6)], 1e-5)
    assert found.epsilon == pytest.approx(1.5)
    assert found.delta == pytest.approx(3e-6)


def test_known_ledgers_add_up_by_the_accountant():
    releases = [_known(Gaussian("a", 10.0))] * 4
    found = total_cost(releases, 4e-6)
    assert found.epsilon == pytest.approx(account([Gaussian("a", 5.0)], 4e-6, "exact").epsilon)
    assert found.epsilon < 0.7 * sum(release.epsilon for release in releases)
    assert found.delta <= 4e-6


def test_what_is_unknown_takes_its_delta_first():
    releases = [
        _known(Gaussian("a", 10.0)),
        _known(Gaussian("b", 10.0)),
        ReleaseCost("replace_one", 1.0, 1e-6),
    ]
    found = total_cost(releases, 4e-6)
    together = account([Gaussian("a", 10.0), Gaussian("b", 10.0)], 3e-6, "exact").epsilon
    assert found.epsilon == pytest.approx(1.0 + together)


def test_too_little_delta_is_no_sum_at_all():
    assert (
        total_cost(
            [ReleaseCost("replace_one", 1.0, 1e-5), ReleaseCost("replace_one", 1.0, 1e-5)], 1e-5
        ).epsilon
        == math.inf
    )
    assert total_cost(
        [_known(Laplace("a", 1.0), theorem="linear", delta=0.0)] * 2, 0.0
    ).epsilon == pytest.approx(2.0)


def test_relations_that_differ_count_for_a_unit_replaced():
    mixed = [ReleaseCost("replace_one", 1.0, 0.0), ReleaseCost("add_remove", 1.0, 1e-7)]
    assert total_cost(mixed, 1e-6).epsilon == pytest.approx(3.0)
    assert total_cost(mixed, 1e-6).delta == pytest.approx((math.e + 1) * 1e-7)
    alike = [ReleaseCost("add_remove", 1.0, 0.0)] * 2
    assert total_cost(alike, 1e-6).epsilon == pytest.approx(2.0)


def test_a_refusal_compares_costs_of_the_same_relation(tmp_path):
    book, limit = Account(tmp_path, CONTENT, "record"), SpendingLimit(3.0, 1e-5)
    book.begin({}, ReleaseCost("add_remove", 1.0, 0.0), limit)
    with pytest.raises(UserError) as refused:
        book.begin({}, ReleaseCost("replace_one", 1.5, 0.0), limit)
    assert "would cost ε = 1.5, δ = 0 (replace_one), and 1 release of these records so far cost ε = 2" in str(
        refused.value
    )
    assert "the ε of add_remove are doubled here" in str(refused.value)
    assert "ε = 1 is left" in str(refused.value)


def test_a_ledger_after_a_private_choice_counts_by_its_claim():
    chosen = ReleaseCost("replace_one", 1.0, 1e-6, (Selection("K", 0.1), Gaussian("m", 5.0)))
    assert total_cost([chosen, chosen], 1e-5).epsilon == pytest.approx(2.0)


def test_a_guarantee_for_nearby_places_counts_between_any_two():
    event = PlanarLaplace("place", 90.0, 200.0, 1.0, 100.0)
    assert spending_account.epsilon_anywhere(Claim(1.0, 0.0), [event], "linear") == pytest.approx(90.0)
    assert spending_account.epsilon_anywhere(Claim(1.0, 1e-6), [Gaussian("a", 3.0)], "exact") == 1.0


def test_an_intent_counts_in_full_until_it_is_done(tmp_path):
    book, limit = Account(tmp_path, CONTENT, "record"), SpendingLimit(3.0, 1e-5)
    number = book.begin({"dataset": "d"}, ReleaseCost("replace_one", 2.0, 1e-6), limit)
    assert total_cost(book.releases(), 1e-5).epsilon == 2.0
    with pytest.raises(UserError, match="ε = 1 is left"):
        book.begin({}, ReleaseCost("replace_one", 1.5, 1e-6), limit)
    book.finish(number, 1.0, 0.0, [Laplace("a", 1.0)])
    assert total_cost(book.releases(), 1e-5).epsilon == pytest.approx(1.0)
    book.begin({}, ReleaseCost("replace_one", 1.5, 1e-6), limit)
    assert total_cost(book.releases(), 1e-5).releases == 2


def test_units_and_contents_have_accounts_of_their_own(tmp_path):
    limit = SpendingLimit(1.0, 1e-5)
    for content in (CONTENT, "cd" * 32):
        for unit in ("record", "person"):
            Account(tmp_path, content, unit).begin({}, ReleaseCost("replace_one", 1.0, 0.0), limit)
    assert len(list(tmp_path.glob("*.jsonl"))) == 4


def test_what_protects_persons_counts_for_their_records_and_not_the_reverse(tmp_path):
    records, persons = (Account(tmp_path, CONTENT, unit) for unit in ("record", "person"))
    limit = SpendingLimit(3.0, 1e-5)
    persons.begin({}, ReleaseCost("replace_one", 2.0, 0.0), limit)
    with pytest.raises(UserError, match="3"):
        records.begin({}, ReleaseCost("replace_one", 1.5, 0.0), limit)
    records.begin({}, ReleaseCost("replace_one", 1.0, 0.0), limit)
    persons.begin({}, ReleaseCost("replace_one", 1.0, 0.0), limit)
    assert [len(account.releases()) for account in (records, persons)] == [3, 2]


def test_an_account_cannot_stand_in_for_another(tmp_path):
    one, other = Account(tmp_path, CONTENT, "record"), Account(tmp_path, "cd" * 32, "record")
    one.begin({}, ReleaseCost("replace_one", 1.0, 0.0), SpendingLimit(9.0, 0.0))
    one.path.rename(other.path)
    with pytest.raises(UserError, match="was altered"):
        other.releases()
    with pytest.raises(UserError, match="clean the dataset again"):
        Account(tmp_path, "", "record")


def test_the_seal_may_be_one_line_behind(tmp_path):
    """As a release leaves it that was killed between the two writes."""
    book = Account(tmp_path, CONTENT, "record")
    seals = []
    for _ in range(3):
        book.begin({}, ReleaseCost("replace_one", 1.0, 0.0), SpendingLimit(9.0, 0.0))
        seals.append(book.path.with_suffix(".seal").read_text())
    book.path.with_suffix(".seal").write_text(seals[1])
    assert len(book.releases()) == 3
    lines = book.path.read_text().splitlines(keepends=True)
    book.path.write_text("".join(lines[:1]))
    with pytest.raises(UserError, match="gone or changed"):
        book.releases()


def test_every_line_is_on_the_disk_before_begin_returns(tmp_path, monkeypatch):
    synced = []
    original = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size) or original(handle)
    )
    book = Account(tmp_path, CONTENT, "record")
    book.begin({}, ReleaseCost("replace_one", 1.0, 0.0), SpendingLimit(9.0, 0.0))
    assert synced[0] == book.path.stat().st_size
    assert json.loads(book.path.read_text())["entry"] == "intent"
