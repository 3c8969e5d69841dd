"""The accountant adds up what was spent, and the sum is never less than what was drawn."""

import hashlib
import itertools
import json
import math
import os
import re
import shutil
import stat
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy.accounting import Claim, account
from privmix.privacy.composition import ReleaseCost, group_cost, total_cost
from privmix.privacy.ledger import Gaussian, Laplace, PlanarLaplace, Selection
from privmix.release import account as spending_account
from privmix.release import charges, make, summary
from privmix.release.account import Account
from privmix.release.charges import Cost, SpendingLimit
from privmix.release.fingerprints import Fingerprints

WHAT = {"dataset": "walks", "mechanism": "grid", "date": "2026-01-01"}


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


def test_a_ledger_after_a_private_choice_counts_by_its_claim():
    chosen = ReleaseCost("replace_one", 1.0, 1e-6, (Selection("K", 0.1), Gaussian("m", 5.0)))
    assert total_cost([chosen, chosen], 1e-5).epsilon == pytest.approx(2.0)


def test_a_guarantee_for_nearby_places_counts_between_any_two():
    event = PlanarLaplace("place", 90.0, 200.0, 1.0, 100.0)
    assert spending_account.epsilon_anywhere(Claim(1.0, 0.0), [event], "linear") == pytest.approx(90.0)
    assert spending_account.epsilon_anywhere(Claim(1.0, 1e-6), [Gaussian("a", 3.0)], "exact") == 1.0


def test_groups_cost_what_single_steps_add_up_to():
    epsilon, delta = 0.3, 1e-7
    step = (epsilon, delta)
    for steps in range(1, 6):
        assert group_cost(epsilon, delta, steps) == pytest.approx(step, rel=1e-12)
        # P_0 ≤ e^ε P_1 + δ, and P_1 ≤ e^{kε} P_k + δ_k
        step = (step[0] + epsilon, math.exp(epsilon) * step[1] + delta)
    assert group_cost(1.0, 0.0, 5000) == (5000.0, 0.0)
    assert group_cost(1.0, 1e-9, 5000) == (5000.0, 1.0)
    assert group_cost(5000.0, 1e-9, 1) == (5000.0, 1e-9)
    assert group_cost(599.0, 1e-9, 2) == (1198.0, 1.0)
    assert group_cost(0.0, 1e-9, 3) == pytest.approx((0.0, 3e-9))


@pytest.mark.parametrize(("epsilons", "deltas"), [((0.4, 0.7, 0.2), (0.0, 0.02, 0.01))])
def test_the_sum_bounds_a_worst_case_of_adaptive_releases(epsilons, deltas):
    """Leaky randomised response, whose ε and δ of later rounds depend on the answers, within a filter (1.3, 0.03)."""

    def answer(bit, epsilon, delta):
        """With probability δ the bit itself, else randomised response; exact for (ε, δ)."""
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        kept = {"0": keep if bit == 0 else 1 - keep, "1": keep if bit == 1 else 1 - keep}
        return {**{name: (1 - delta) * share for name, share in kept.items()}, f"leak {bit}": delta}

    def transcripts(bit, spent=(0.0, 0.0), past=()):
        order = -1 if past and past[-1] == "1" else 1  # the answers decide which release comes next
        choices = [
            pair
            for pair in itertools.product(epsilons, deltas)
            if spent[0] + pair[0] <= 1.3 and spent[1] + pair[1] <= 0.03
        ][::order]
        if not choices or len(past) == 4:
            return {past: 1.0}
        found = {}
        for name, share in answer(bit, *choices[0]).items():
            after = (spent[0] + choices[0][0], spent[1] + choices[0][1])
            for path, inner in transcripts(bit, after, (*past, name)).items():
                found[path] = found.get(path, 0.0) + share * inner
        return found

    one, other = transcripts(0), transcripts(1)
    for p, q in ((one, other), (other, one)):
        excess = sum(max(share - math.exp(1.3) * q.get(path, 0.0), 0.0) for path, share in p.items())
        assert excess <= 0.03 + 1e-12


def _rows(*numbers, persons=(), most=None):
    return Fingerprints(
        np.array(sorted(persons), np.uint64), np.array(sorted(numbers), np.uint64), most if persons else None
    )


def _cost(epsilon, *, unit="record", relation="replace_one", delta=0.0, most=None):
    return Cost("this release", unit, relation, epsilon, delta, most)


def _book(tmp_path):
    return Account(tmp_path / "spending", tmp_path / "head")


def _spend(book, epsilon, rows=None, limit=9.0, **cost):
    rows = _rows(1, 2, 3) if rows is None else rows
    return book.begin(WHAT, _cost(epsilon, most=rows.most, **cost), rows, SpendingLimit(limit, 1e-4))


def test_a_release_counts_with_the_most_it_may_spend_done_or_not(tmp_path):
    book = _book(tmp_path)
    booking = _spend(book, 2.0, limit=3.0)
    with pytest.raises(UserError, match="may be at most ε = 1\\."):
        _spend(book, 1.5, limit=3.0)
    book.finish(booking, 1.0, 0.0)
    with pytest.raises(UserError, match="may be at most ε = 1\\."):
        _spend(book, 1.5, limit=3.0)
    _spend(book, 1.0, limit=3.0)
    assert [cost.epsilon for cost in book.costs()] == [2.0, 1.0]
    assert book.unfinished() == 1


def test_any_shared_record_or_person_charges_fully_and_disjoint_ones_do_not(tmp_path):
    book = _book(tmp_path)
    _spend(book, 2.0, _rows(1, 2, 3, persons=(7, 8), most=2), limit=3.0)
    _spend(book, 3.0, _rows(4, 5, 6), limit=3.0)
    _spend(book, 3.0, _rows(14, 15, persons=(9,), most=2), limit=3.0)
    for shared in (_rows(3, 30), _rows(31, persons=(8, 80), most=1)):
        with pytest.raises(UserError, match=r"sum: ε = 3.5"):
            _spend(book, 1.5, shared, limit=3.0)
    assert len(_spend(book, 0.5, _rows(3, 30), limit=3.0).earlier) == 1


def test_releases_of_records_and_of_persons_are_refused_alike_in_both_orders(tmp_path):
    rows = _rows(1, 2, 3, persons=(7, 8), most=2)
    for order in (("record", "person"), ("person", "record")):
        book = _book(tmp_path / order[0])
        _spend(book, 1.0, rows, limit=3.0, unit=order[0])
        with pytest.raises(UserError) as refused:
            _spend(book, 1.5 if order[1] == "person" else 1.0 + 1e-5, rows, limit=3.0, unit=order[1])
        said = str(refused.value)
        assert "one replaced person" in said
        assert "one person has up to 2 records" in said
        _spend(book, 1.0, rows, limit=3.0, unit=order[1])


def test_without_ids_a_release_counts_for_as_many_records_as_another_knows(tmp_path):
    with_ids, without = _rows(1, 2, 3, persons=(7,), most=3), _rows(1, 2, 3)
    for number, order in enumerate(((with_ids, without), (without, with_ids))):
        book = _book(tmp_path / str(number))
        units = ["person" if rows is with_ids else "record" for rows in order]
        _spend(book, 1.0, order[0], limit=3.0, unit=units[0])
        with pytest.raises(UserError, match="3 × 1 = 3"):
            _spend(book, 1.0, order[1], limit=3.0, unit=units[1])


def test_another_id_column_does_not_hide_the_records_of_a_person(tmp_path):
    """Records of persons 7 and 8, three each, and then the same records with an id for each."""
    persons = _rows(*range(6), persons=(7, 8), most=3)
    trips = _rows(*range(6), persons=range(20, 26), most=1)
    for number, order in enumerate(((persons, trips), (trips, persons))):
        book = _book(tmp_path / str(number))
        units = ["person" if rows is persons else "record" for rows in order]
        _spend(book, 1.0, order[0], limit=3.0, unit=units[0])
        with pytest.raises(UserError, match="3 × 1 = 3"):
            _spend(book, 1.0, order[1], limit=3.0, unit=units[1])


def test_releases_with_and_without_ids_are_linked_through_others(tmp_path):
    first, without, second = _rows(1, persons=(7,), most=1), _rows(1), _rows(2, persons=(7,), most=1)
    for number, order in enumerate(itertools.permutations((first, without, second))):
        book = _book(tmp_path / str(number))
        for rows in order[:2]:
            _spend(book, 1.0, rows, limit=2.0, unit="record" if rows is without else "person")
        with pytest.raises(UserError, match="sum: ε = "):
            _spend(book, 1.0, order[2], limit=2.0, unit="record" if order[2] is without else "person")


def test_a_release_without_ids_counts_all_records_that_others_know(tmp_path):
    book = _book(tmp_path)
    _spend(book, 0.5, _rows(1, 2, persons=(7,), most=2), limit=5.0, unit="person")
    _spend(book, 0.5, _rows(3, 4, 5, persons=(7,), most=3), limit=5.0, unit="person")
    with pytest.raises(UserError, match="5 × 1 = 5"):
        _spend(book, 1.0, _rows(1, 2, 3, 4, 5), limit=5.0)


def test_several_releases_of_one_file_count_its_records_once(tmp_path):
    """Three releases of a file with four records of a person, then one without ids: it can hold four of them."""
    book, with_ids = _book(tmp_path), _rows(1, 2, 3, 4, persons=(7,), most=4)
    for _ in range(3):
        _spend(book, 0.5, with_ids, limit=5.0, unit="person")
    with pytest.raises(UserError, match=r"4 × 1 = 4, .*\n  sum: ε = 5.5") as refused:
        _spend(book, 1.0, _rows(1, 2, 3, 4), limit=5.0)
    assert "may be at most ε = 0.875." in str(refused.value)
    booking = _spend(book, 0.875, _rows(1, 2, 3, 4), limit=5.0)
    assert [each.total[0] for each in charges.statements(booking.earlier, booking.cost)] == [2.375, 5.0]


def test_files_count_once_by_their_pairs_of_person_and_record_and_otherwise_each(tmp_path):
    """Two fingerprints of a file whose bytes changed, then a release without ids."""
    one, other = _rows(1, 2, 3, persons=(7,), most=3), _rows(1, 2, 4, persons=(7,), most=3)
    for pairs, factor, why in (
        (("same", "same"), 3, "one person has up to 3 records in one of these releases"),
        (("one", "other"), 6, "the 2 files with person ids have up to 6 records of one person together"),
        ((None, None), 6, "the 2 files with person ids have up to 6 records of one person together"),
    ):
        book = _book(tmp_path / str(pairs))
        for rows, own in zip((one, other), pairs, strict=True):
            _spend(book, 0.5, replace(rows, pairs=own), limit=3.0, unit="person")
        with pytest.raises(UserError, match=rf"{factor} × 1 = {factor}, δ = 0 \({why}\)"):
            _spend(book, 1.0, _rows(1, 2), limit=3.0)


def test_lines_without_pairs_stay_readable(tmp_path):
    """Accounts of earlier versions: each set of fingerprints counts as a file, with its largest number of records."""
    book = _book(tmp_path)
    append = book._append

    def append_old(handle, entry, entries, end):
        append(handle, {name: entry[name] for name in entry if name != "pairs"}, entries, end)

    book._append = append_old
    _spend(book, 0.5, _rows(1, 2, 3, persons=(7,), most=3), unit="person")
    _spend(book, 0.5, _rows(1, 2, 3, persons=(7,), most=1), unit="person")
    assert "pairs" not in book.path.read_text()
    booking = _spend(_book(tmp_path), 0.5, _rows(1, 2, 3))
    [_, person] = charges.statements(booking.earlier, booking.cost)
    assert [each.records for each in person.charges] == [1, 1, 3]


@pytest.mark.parametrize(
    ("ids", "unit", "next_unit"),
    [(False, "record", "record"), *itertools.product([True], ["record", "person"], ["record", "person"])],
)
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_what_is_left_is_accepted_by_the_next_release(tmp_path, ids, unit, next_unit, relation):
    book, limit = _book(tmp_path), SpendingLimit(9.0, 1e-4)
    _spend(book, 0.3, _rows(1, 2, 3, persons=(7,), most=3), unit="person")
    rows = _rows(1, 2, 3, persons=(7,) if ids else (), most=3)
    booking = _spend(book, 0.4, rows, unit=unit, relation=relation)
    said = dict(summary.describe_spending(booking, limit))["Left"]
    [left] = re.findall(rf"with {relation} at {next_unit} level and δ = 0 may be at most ε = ([\d.]+)", said)
    with pytest.raises(UserError):
        _spend(book, 1.01 * float(left), rows, unit=next_unit, relation=relation)
    _spend(book, float(left), rows, unit=next_unit, relation=relation)


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
def test_no_sequence_of_releases_costs_a_unit_more_than_the_limit(tmp_path, ids):
    """An oracle adds up the true cost of every record and person over random releases that the account accepts."""
    rng = np.random.default_rng(5)
    limit, accepted, refused, worst = SpendingLimit(4.0, 1e-4), 0, 0, 0.0
    for number in range(40):
        book = _book(tmp_path / str(number))
        owner = rng.integers(4, size=10)
        spent = {("record", row): 0.0 for row in range(10)} | {("person", person): 0.0 for person in range(4)}
        protected = np.zeros(4, dtype=bool)  # persons in a release that protects persons
        for _ in range(8):
            rows = rng.choice(10, size=int(rng.integers(1, 6)), replace=False)
            held = np.bincount(owner[rows], minlength=4)
            unit = str(rng.choice(["record", "person"])) if ids else "record"
            relation = str(rng.choice(["replace_one", "add_remove"]))
            epsilon, double = float(rng.choice([0.25, 0.5, 1.0])), 1 + (relation == "add_remove")
            persons = np.flatnonzero(held).tolist() if ids else ()
            prints = _rows(*(100 + rows).tolist(), persons=persons, most=int(held.max()))
            try:
                book.begin(
                    WHAT, _cost(epsilon, unit=unit, relation=relation, most=prints.most), prints, limit
                )
            except UserError:
                refused += 1
                continue
            accepted += 1
            protected |= (held > 0) & (unit == "person")
            for row in rows.tolist():
                spent["record", row] += double * epsilon
            for person in np.flatnonzero(held).tolist():
                spent["person", person] += double * epsilon * (1 if unit == "person" else held[person])
        persons = np.flatnonzero(protected).tolist()
        worst = max(
            worst, *(spent["record", row] for row in range(10)), *(spent["person", p] for p in persons)
        )
    assert worst <= limit.epsilon + 1e-9
    assert worst > 0.8 * limit.epsilon  # the oracle counts something
    assert min(accepted, refused) > 40


def test_the_delta_of_a_group_grows_with_epsilon():
    [_, person] = charges.statements(
        [_cost(0.5, unit="person", delta=1e-6, most=3)], _cost(0.5, delta=1e-6, most=3)
    )
    assert person.total[0] == pytest.approx(0.5 + 3 * 0.5)
    assert person.total[1] == pytest.approx(1e-6 + 1e-6 * (1 + math.exp(0.5) + math.exp(1.0)))


def test_a_larger_claim_than_allowed_is_charged_and_refused(tmp_path):
    book = _book(tmp_path)
    booking = _spend(book, 1.0, limit=3.0)
    book.finish(booking, 2.5, 0.0)
    with pytest.raises(UserError, match=r"ε = 2\.5"):
        _spend(book, 1.0, limit=3.0)
    privacy = SimpleNamespace(epsilon=1.01, epsilon_anywhere=None, delta=0.0)
    with pytest.raises(UserError, match="more than its rehearsal stated"):
        make._refuse_overspending(booking.cost, privacy)
    make._refuse_overspending(booking.cost, SimpleNamespace(epsilon=1.0, epsilon_anywhere=None, delta=0.0))
    with pytest.raises(UserError, match="more than its rehearsal stated"):
        make._refuse_overspending(
            booking.cost, SimpleNamespace(epsilon=1.0, epsilon_anywhere=None, delta=1e-9)
        )


def test_the_limit_is_exact_up_to_rounding(tmp_path):
    _spend(_book(tmp_path / "a"), 3.0, limit=3.0)
    with pytest.raises(UserError):
        _spend(_book(tmp_path / "b"), 3.0 * (1 + 1e-8), limit=3.0)


TERM = re.compile(
    r"^(?P<name>.+): ε = (?:(?P<product>[\d.e× -]+) = )?(?P<epsilon>[\d.e-]+), δ = (?P<delta>[\d.e-]+)"
)


def _add_up(lines):
    """Check that every product and the sum are right, as a reader would, and return the sum."""
    terms = [TERM.match(line.strip()) for line in lines]
    assert all(terms), lines
    for term in terms:
        if term["product"]:
            assert math.prod(map(float, term["product"].split(" × "))) == pytest.approx(
                float(term["epsilon"])
            )
    *parts, last = terms if len(terms) > 1 else [*terms, terms[0]]
    for name in ("epsilon", "delta"):
        assert sum(float(part[name]) for part in parts) == pytest.approx(float(last[name]), rel=1e-5)
    return float(last["epsilon"])


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_every_message_adds_up_and_states_what_can_still_be_asked(tmp_path, unit, relation):
    book, limit, rows = _book(tmp_path), SpendingLimit(6.0, 1e-4), _rows(1, 2, persons=(7,), most=2)
    for cost in (
        _cost(0.25, relation="add_remove", delta=1e-6, most=2),
        _cost(0.25, relation="add_remove", delta=1e-6, most=2),
        _cost(0.5, unit="person", delta=2e-6, most=2),
        _cost(0.3, most=2),
    ):
        booking = book.begin(WHAT, cost, rows, limit)
        for fact, value in summary.describe_spending(booking, limit)[:-1]:
            wanted = {each.unit: each for each in charges.statements(booking.earlier, cost)}[fact.split()[-1]]
            assert _add_up(value.split("; ")) == pytest.approx(wanted.total[0], rel=1e-5)
    asked = _cost(4.0, unit=unit, relation=relation, delta=1e-6, most=2)
    with pytest.raises(UserError) as refused:
        book.begin(WHAT, asked, rows, limit)
    said = str(refused.value)
    assert _add_up([line for line in said.splitlines() if line.startswith("  ")]) > 6.0
    assert ("add_remove counts double" in said) or relation == "replace_one"
    [left] = re.findall(rf"A request with {relation} at {unit} level .* at most ε = ([\d.]+)\.", said)
    with pytest.raises(UserError):
        book.begin(
            WHAT, _cost(1.01 * float(left), unit=unit, relation=relation, delta=1e-6, most=2), rows, limit
        )
    book.begin(WHAT, _cost(float(left), unit=unit, relation=relation, delta=1e-6, most=2), rows, limit)


def test_a_request_that_counts_double_is_told_half_of_the_rest(tmp_path):
    book = _book(tmp_path)
    _spend(book, 1.0, limit=3.0, relation="add_remove")
    with pytest.raises(UserError, match=r"ε = 2 × 1 = 2, δ = 0 .add_remove counts double") as refused:
        _spend(book, 1.0, limit=3.0, relation="add_remove")
    assert "A request with add_remove at record level and δ = 0 may be at most ε = 0.5." in str(refused.value)
    _spend(book, 1.0, limit=3.0)
    with pytest.raises(UserError, match=r"No ε fits .*\. Raise release.limit_epsilon"):
        _spend(book, 1.0, limit=3.0)


def test_a_request_for_nearby_places_is_told_its_own_epsilon(tmp_path):
    """ε = 1 for nearby places is 20 for any two records: 30 of 50 are left, which is 1.5 for nearby places."""
    book, limit = _book(tmp_path), SpendingLimit(50.0, 0.0)

    def spend(nearby):
        return book.begin(WHAT, replace(_cost(20.0 * nearby), nearby=nearby), _rows(1), limit)

    spend(1.0)
    with pytest.raises(UserError) as refused:
        spend(2.0)
    said = str(refused.value)
    assert "this release: ε = 40, δ = 0 (ε = 2 for nearby places is ε = 40 for any two)" in said
    assert _add_up([line for line in said.splitlines() if line.startswith("  ")]) == 60.0
    assert "for nearby places may be at most ε = 1.5." in said
    spend(1.5)


def test_what_no_release_can_have_is_not_offered(tmp_path):
    """0.1 is left for any two records, which is ε = 5e-6 for nearby places: less than a release may have."""
    book, limit = _book(tmp_path), SpendingLimit(3.0, 0.0)
    _spend(book, 2.9, limit=3.0)
    with pytest.raises(
        UserError, match=r"No ε fits .* for nearby places, because .* at least ε = 0\.0001\. Raise"
    ):
        book.begin(WHAT, replace(_cost(20_000.0), nearby=1.0), _rows(1), limit)
    _spend(book, 0.09995, limit=3.0)
    with pytest.raises(UserError, match=r"No ε fits .*\. Raise"):
        _spend(book, 1.0, limit=3.0)


def test_delta_is_limited_too(tmp_path):
    book = _book(tmp_path)
    _spend(book, 0.1, delta=7e-5)
    with pytest.raises(UserError, match="No ε fits"):
        _spend(book, 0.1, delta=7e-5)


def test_a_guarantee_is_never_composed_below_its_sum(tmp_path):
    """Exact composition of Gaussian noise is not proven for releases that are chosen one after another."""
    book = _book(tmp_path)
    for _ in range(4):
        book.finish(_spend(book, 1.0, limit=4.0, delta=1e-6), 1.0, 1e-6)
    with pytest.raises(UserError, match=r"sum: ε = 4.01"):
        _spend(book, 0.01, limit=4.0)


def _lines(book):
    return book.path.read_text().splitlines(keepends=True)


def _edit(book):
    book.path.write_text(book.path.read_text().replace('"epsilon": 1.0', '"epsilon": 0.1', 1))


def _edit_last(book):
    *lines, last = _lines(book)
    book.path.write_text("".join([*lines, last.replace('"epsilon": 1.0', '"epsilon": 1')]))


def _recompute(book):
    """Edit a line and compute all hashes again, without the key."""
    before, lines = hashlib.sha256(b" ").hexdigest(), []
    for line in _lines(book):
        entry = {**json.loads(line), **({"epsilon": 0.1} if "epsilon" in line else {})}
        entry.pop("mac")
        before = hashlib.sha256(f"{before} {json.dumps(entry)}".encode()).hexdigest()
        lines.append(json.dumps({**entry, "mac": before}) + "\n")
    book.path.write_text("".join(lines))
    book.head.write_text(json.dumps({"lines": len(lines), "mac": before}))


def _drop_last(book):
    book.path.write_text("".join(_lines(book)[:-1]))


def _drop_all(book):
    book.path.write_text("")


def _swap(book):
    book.path.write_text("".join(reversed(_lines(book))))


def _respace(book):
    book.path.write_bytes(book.path.read_bytes().replace(b'": ', b'":  ', 1))


def _lose_lines_and_head(book):
    book.path.unlink()
    book.head.unlink()


def _behead(book):
    book.head.unlink()


def _old_head(book):
    book.head.write_text(json.dumps({"lines": 1, "mac": "ab" * 32}))


def _new_key(book):
    (book.folder / "key").write_bytes(bytes(32))


def _lose_key(book):
    (book.folder / "key").unlink()


def _lose_folder(book):
    shutil.rmtree(book.folder)


def _lose_fingerprints(book):
    next((book.folder / "fingerprints").iterdir()).unlink()


def _change_fingerprints(book):
    path = next((book.folder / "fingerprints").iterdir())
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))


@pytest.mark.parametrize(
    "spoil",
    [
        _edit, _edit_last, _recompute, _drop_last, _drop_all, _swap, _behead, _old_head, _new_key, _lose_key,
        _lose_folder, _lose_fingerprints, _change_fingerprints, _respace, _lose_lines_and_head,
    ],
)  # fmt: skip
def test_every_change_of_the_account_is_noticed(tmp_path, spoil):
    book = _book(tmp_path)
    _spend(book, 1.0)
    _spend(book, 1.0)
    spoil(book)
    with pytest.raises(UserError, match=r"was altered: .* Restore .* from the same backup"):
        _spend(book, 1.0)


def test_cut_lines_are_noticed_also_with_a_head_made_of_the_last_line(tmp_path):
    book = _book(tmp_path)
    _spend(book, 1.0)
    _spend(book, 1.0)
    first = book.path.read_text().splitlines(keepends=True)[0]
    book.path.write_text(first)
    book.head.write_text(json.dumps({"lines": 1, "mac": json.loads(first)["mac"]}))
    with pytest.raises(UserError, match="was changed, or belongs to another account"):
        _spend(book, 1.0)


def test_fingerprints_without_a_line_are_noticed(tmp_path):
    book = _book(tmp_path)
    _spend(book, 1.0)
    kept = book.path.read_bytes(), book.head.read_bytes()
    _spend(book, 1.0, _rows(50))
    book.path.write_bytes(kept[0])
    book.head.write_bytes(kept[1])
    with pytest.raises(UserError, match="fingerprints without a line"):
        _spend(book, 1.0)


def test_a_release_killed_between_its_fingerprints_and_their_name_counts(tmp_path, monkeypatch):
    book = _book(tmp_path)
    _spend(book, 2.0, limit=3.0)
    monkeypatch.setattr(Account, "_append", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):  # before the line: nothing counts
        _spend(book, 1.0, _rows(3, 50), limit=3.0)
    monkeypatch.undo()
    _spend(book, 3.0, _rows(60), limit=3.0)
    [last] = (book.folder / "fingerprints").glob(json.loads(_lines(book)[-1])["fingerprints"])
    last.rename(last.with_suffix(spending_account.WRITTEN))  # as if it was killed after the line
    with pytest.raises(UserError, match="sum: ε = 4"):
        _spend(book, 1.0, _rows(60), limit=3.0)
    _spend(book, 1.0, _rows(3, 50), limit=3.0)


def test_a_release_whose_line_was_removed_does_not_finish(tmp_path):
    book = _book(tmp_path)
    _spend(book, 1.0)
    kept = book.path.read_bytes(), book.head.read_bytes()
    booking = _spend(book, 1.0)
    book.path.write_bytes(kept[0])
    book.head.write_bytes(kept[1])
    with pytest.raises(UserError, match="the line of this release is missing"):
        book.finish(booking, 1.0, 0.0)


def test_an_older_copy_of_the_whole_folder_is_noticed(tmp_path):
    book = _book(tmp_path)
    _spend(book, 1.0)
    shutil.copytree(book.folder, tmp_path / "backup")
    _spend(book, 1.0)
    shutil.rmtree(book.folder)
    shutil.copytree(tmp_path / "backup", book.folder)
    with pytest.raises(UserError, match="1 lines instead of 2"):
        book.costs()


def test_the_head_may_be_behind(tmp_path):
    """As a release leaves it that was killed between the two writes."""
    book, heads = _book(tmp_path), []
    for _ in range(3):
        _spend(book, 1.0)
        heads.append(book.head.read_text())
    for head in heads:
        book.head.write_text(head)
        assert len(book.costs()) == 3
    _spend(book, 1.0)
    _drop_last(book)
    with pytest.raises(UserError, match="lines are missing"):
        book.costs()


def test_a_release_killed_before_its_first_line_leaves_an_account_that_works(tmp_path, monkeypatch):
    book = _book(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Account, "_append", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            _spend(book, 1.0)
    assert book.head.exists()
    _spend(book, 1.0)
    assert len(book.costs()) == 1


def test_only_the_owner_can_read_the_account(tmp_path):
    book = _book(tmp_path)
    (tmp_path / "spending").mkdir(mode=0o755)
    _spend(book, 1.0)
    assert stat.S_IMODE(book.folder.stat().st_mode) == 0o700
    files = [path for path in (book.head, *book.folder.rglob("*")) if path.is_file()]
    assert len(files) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_an_account_of_an_earlier_version_is_not_ignored(tmp_path):
    book = _book(tmp_path)
    book.folder.mkdir()
    old = book.folder / f"{'ab' * 16}-person.jsonl"
    old.write_text("{}")
    with pytest.raises(UserError, match=r"an earlier version of Privmix\. Move it"):
        _spend(book, 1.0)
    old.unlink()
    _spend(book, 1.0)


def test_lines_and_fingerprints_are_on_the_disk_before_begin_returns(tmp_path, monkeypatch):
    synced, original = [], os.fsync

    def noted(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        original(handle)

    book = _book(tmp_path)
    _spend(book, 1.0, _rows(9))
    monkeypatch.setattr(os, "fsync", noted)
    _spend(book, 1.0)
    names = [path.split("/")[-1] for path in synced]
    line, head = names.index("account.jsonl"), names.index(tmp_path.name)  # the folder of the head
    assert names.index("fingerprints") < line < head
    assert json.loads(_lines(book)[-1])["entry"] == "intent"
