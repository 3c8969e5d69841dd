"""What a model or a private file states of its privacy: whether it may be published, and the claim with its ledger."""

from typing import Any, Literal

from privmix.artefacts.domain import Domain
from privmix.artefacts.part import Part

BENCHMARK_NOTICE = (
    "Benchmark file: its noise comes from a known seed and several replicates share one dataset. "
    "It must not be published."
)
RELEASE_NOTICE = (
    "Release: its noise comes from the operating system's entropy. "
    "Each further release of the same records costs its own ε, and the costs add up."
)
# Who must be trusted: a curator; nobody; or nobody, with a guarantee that hides a place among nearby ones alone.
Trust = Literal["central", "local", "distance"]


def randomises_records(trust: str) -> bool:
    """Whether each record is randomised before anyone stores it, so that no curator is trusted."""
    return trust in ("local", "distance")


def holds_anywhere(trust: str) -> bool:
    """Whether ε is for any two records, so that it may stand beside the ε of others."""
    return trust != "distance"


class Privacy(Part):
    """The claim of one model or one private file, with the ledger that carries it."""

    budget_epsilon: float
    budget_delta: float
    epsilon: float  # what the ledger adds up to; infinite where nothing is private
    delta: float
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    trust: Trust
    within_m: float | None = (
        None  # where trust is "distance": epsilon is for places no farther apart than this,
    )
    epsilon_anywhere: float | None = None  # and this one for any two records
    mode: Literal["benchmark", "release"]
    accountant: str
    ledger: tuple[dict[str, Any], ...]

    @property
    def randomises_records(self) -> bool:
        """Whether each record was randomised before anyone stored it."""
        return randomises_records(self.trust)


class MechanismFile(Part):
    """What every file that a mechanism made says of itself."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: Privacy
