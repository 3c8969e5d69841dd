"""The privacy statement of a model or a private file: notice, claim with ledger, and replay verdict."""

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
# central: a trusted curator. local: no trusted party. distance: no trusted party, but ε holds only for nearby places.
Trust = Literal["central", "local", "distance"]


def randomises_records(trust: str) -> bool:
    """Return whether each record is randomised before it is stored, so that no curator needs to be trusted."""
    return trust in ("local", "distance")


def holds_anywhere(trust: str) -> bool:
    """Return whether ε holds for any two records, so that it is comparable with the ε of other mechanisms."""
    return trust != "distance"


class PrivacyStatement(Artefact):
    """The claim of one model or private file, and the ledger that it is computed from."""

    budget_epsilon: float
    budget_delta: float
    epsilon: float  # computed from the ledger; infinite for a non-private model
    delta: float
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    trust: Trust
    # If trust is "distance", epsilon holds for places at most within_m metres apart, epsilon_anywhere for any two.
    within_m: float | None = None
    epsilon_anywhere: float | None = None
    mode: Literal["benchmark", "release"]
    accountant: str
    ledger: tuple[dict[str, Any], ...]

    @property
    def randomises_records(self) -> bool:
        """Whether each record was randomised before it was stored."""
        return randomises_records(self.trust)


class MechanismFile(Artefact):
    """The fields of every file that a mechanism makes."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: PrivacyStatement


class ReplayVerdict(Artefact):
    """The result of replaying the runs of a mechanism. The replay fails if there is any finding."""

    runs: int
    releases: int  # number of measurements that were checked
    # The largest share of the claimed ε that any pair of worlds uses, computed exactly; None in a release.
    used: float | None
    # One sentence each: what does not hold, where, and what should hold.
    findings: list[str] = Field(default_factory=list)
    # The first noise values divided by their scale; empty in a release.
    noise: list[float] = Field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there are no findings."""
        return not self.findings
