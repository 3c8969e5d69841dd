"""Defects in the stages: the random stream of a job, and the budget of a row."""

from changes.change import change
from changes.places import EVALUATE, JOB, OF_EVALUATE, OF_STREAMS

CHANGES = (
    change(
        "evaluate: the ledger's delta beside the budget's epsilon",
        f"{OF_EVALUATE}::test_epsilon_and_delta_of_a_row_are_those_of_the_budget",
        (EVALUATE, "privacy.budget_delta", "privacy.delta"),
    ),
    change("epsilon left out of the stream", OF_STREAMS, (JOB, "settings, *budget,", "settings,")),
    change(
        "replicate left out of the stream",
        OF_STREAMS,
        (JOB, "*spec, *purpose)", "*spec)"),
    ),
    change("relation left out of the stream", OF_STREAMS, (JOB, "domain.relation, ", "")),
    change("dataset left out of the stream", OF_STREAMS, (JOB, "domain.dataset, self.name", "self.name")),
)
