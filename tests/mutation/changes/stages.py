"""Changes of the stages: from which stream a job draws."""

from changes.change import change
from changes.places import JOB, OF_STREAMS

CHANGES = (
    change("epsilon left out of the stream", OF_STREAMS, (JOB, "settings, *budget,", "settings,")),
    change(
        "replicate left out of the stream",
        OF_STREAMS,
        (JOB, "*spec, *purpose)", "*spec)"),
    ),
    change("relation left out of the stream", OF_STREAMS, (JOB, "domain.relation, ", "")),
    change("dataset left out of the stream", OF_STREAMS, (JOB, "domain.dataset, self.name", "self.name")),
)
