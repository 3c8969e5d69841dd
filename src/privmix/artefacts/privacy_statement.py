"""What a model or a private file states about its privacy: notice, claim with ledger, and replay verdict."""

from typing import Any, Literal

from pydantic import Field

from privmix.artefacts.domain import Domain
from privmix.artefacts.io import Artefact

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


class PrivacyStatement(Artefact):
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


class MechanismFile(Artefact):
    """What every file that a mechanism made says of itself."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: PrivacyStatement


class ReplayVerdict(Artefact):
    """What replaying the runs of a mechanism has shown. It fails if there is any finding."""

    runs: int
    releases: int  # all that were looked at
    # The largest share of the claimed ε that any pair of worlds was seen to use, exactly computed; not of a release.
    used: float | None
    # A sentence each: what does not hold, where, and what is meant to hold.
    findings: list[str] = Field(default_factory=list)
    # The first numbers of the noise over its scale; none of a release.
    noise: list[float] = Field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
