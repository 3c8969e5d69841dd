"""Defects in what the page says about claims."""

from changes.change import change
from changes.places import ANSWER, OF_NEARBY, RUN_RESULTS

CHANGES = (
    change(
        "planar attack held against the epsilon of the distance",
        OF_NEARBY + "::test_an_attack_is_held_against_the_worst_case",
        (RUN_RESULTS, "return self.epsilon if anywhere is None else anywhere", "return self.epsilon"),
    ),
    change(
        "planar mechanisms among the answers",
        OF_NEARBY + "::test_it_is_no_answer_and_changes_none",
        (ANSWER, 'for trust in ("central", "local") if', 'for trust in ("central", "local", "distance") if'),
    ),
)
