"""Tests that a named test catches every planted defect, and that the script rejects changes that prove nothing."""

import pytest
from changes import CHANGES
from changes.change import Change, Edit
from changes.places import OF_STREAMS, RELATION
from mutate import Unusable, copied, mutate

HARMLESS = Edit(RELATION, "factor = 1.0\n", "factor = 2.0 - 1.0\n")


@pytest.mark.slow
def test_every_defect_is_caught_by_a_named_test(tmp_path):
    outcomes = mutate(CHANGES, tmp_path, unchanged=False)  # the suite runs the tests on the package itself
    print(*outcomes, sep="\n")
    assert [outcome.change.name for outcome in outcomes if outcome.caught_by is None] == []
    assert len(outcomes) == len(CHANGES) >= 20


def test_every_change_has_its_own_name_and_finds_its_place_in_the_sources(tmp_path):
    assert len({change.name for change in CHANGES}) == len(CHANGES)
    for number, change in enumerate(CHANGES):
        source = copied(change, tmp_path / str(number))
        for edit in change.edits:
            compile((source / "privmix" / edit.path).read_text(), edit.path, "exec")


@pytest.mark.slow
def test_a_change_without_effect_survives(tmp_path):
    (outcome,) = mutate([Change("harmless", (OF_STREAMS,), (HARMLESS,))], tmp_path)
    assert outcome.caught_by is None


@pytest.mark.slow
def test_a_change_that_breaks_the_import_is_not_taken_for_caught(tmp_path):
    broken = Change("broken", (OF_STREAMS,), (Edit(RELATION, "import math", "import no_such_module"),))
    with pytest.raises(Unusable, match="pytest ended with"):
        mutate([broken], tmp_path)


@pytest.mark.parametrize(
    "edit",
    [Edit(RELATION, "no such snippet", "x"), Edit("privacy/nowhere.py", "x", "y")],
    ids=["snippet", "file"],
)
def test_a_change_that_fits_nowhere_is_refused_by_name(edit, tmp_path):
    with pytest.raises(Unusable, match=r"change 'lost'.*adapt the change"):
        copied(Change("lost", (), (edit,)), tmp_path)
