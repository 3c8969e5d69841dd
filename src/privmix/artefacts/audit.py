"""The audit JSON: lower bounds on ε from attacks on crafted records, to compare with a mechanism's claim."""

from typing import Any, Literal

from pydantic import Field

from privmix.artefacts.io import Artefact
from privmix.artefacts.privacy_statement import ReplayVerdict


class EpsilonBound(Artefact):
    """A lower bound on ε that one score on one pair of worlds proves."""

    pair: str
    score: Literal["likelihood ratio", "difference", "learned", "output"]
    theorem: Literal["Clopper-Pearson", "Gaussian AUC", "pure AUC"]
    auc: float
    lower: float  # at 95 %, corrected for all bounds of the audit together
    alarm: float  # at 99 %, with the same correction; above the claim it raises an alarm


class AuditFile(Artefact):
    """`data/audits/<mechanism>/eps-<epsilon>.json`: the game and the replay on crafted records."""

    notice: str
    mechanism: str
    method: str
    parameters: dict[str, Any]
    budget_epsilon: float
    budget_delta: float
    epsilon: float  # claimed
    delta: float
    runs: int  # per world of each pair
    bounds: list[EpsilonBound]
    replay: ReplayVerdict | None
    notes: list[str] = Field(default_factory=list)  # one sentence for each thing that could not be measured
    failure: str | None = None
    seconds: float

    @property
    def lower(self) -> float:
        """The best lower bound at 95 %."""
        return max((bound.lower for bound in self.bounds), default=0.0)

    @property
    def alarmed(self) -> bool:
        """Whether a bound at 99 % is above the claim."""
        return any(bound.alarm > self.epsilon for bound in self.bounds)
