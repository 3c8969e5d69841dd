"""The JSON of a release without a guarantee: what it is, how anonymous it looks, and what attacks find in it."""

from typing import Any, Literal

from pydantic import Field

from privmix.artefacts.io import Artefact

Kind = Literal[
    "linkage", "homogeneity", "intersection", "differencing", "averaging", "reconstruction", "membership"
]


class NaiveAttack(Artefact):
    """The success of one attack, or the reason why it was not measured. Rates are shares of the attacked people.

    For membership the rate is the AUC of the likelihood ratio, and the baseline is 1/2.
    """

    kind: Kind
    attack: str  # a plain name, such as "linkage by 2 known facts"
    counted: Literal["people", "rows", "questions"] = "people"  # what the rates are shares of
    people: int = 0  # attacked, or rows or questions
    population: int = 0  # in the table
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    baseline: float | None = None  # the rate of an attacker who knows the population only
    gain_low: float | None = None
    gain_high: float | None = None
    reason: str | None = None  # why there is no number

    @property
    def measured(self) -> bool:
        """Whether there is a number."""
        return self.rate is not None

    @property
    def beats_population(self) -> bool:
        """Whether this attack alone is better than knowledge of the population, beyond chance (95 %)."""
        return self.gain_low is not None and self.gain_low > 0

    @property
    def disclosed(self) -> int:
        """About how many people of the table the attack succeeds on, and the baseline does not."""
        if self.rate is None or self.baseline is None or self.kind == "membership":
            return 0
        return max(round((self.rate - self.baseline) * self.population), 0)


class Uniqueness(Artefact):
    """The rows that are unique in some quasi-identifiers."""

    columns: str
    rows: int
    share: float


class Anonymity(Artefact):
    """How anonymous the rows of a table look."""

    k: int
    distinct_l: int
    entropy_l: float
    t: float
    uniqueness: list[Uniqueness] = Field(default_factory=list)  # for growing sets of quasi-identifiers


class AveragedAnswers(Artefact):
    """The error of an answer that was asked for several times."""

    times: int
    error: float


class NaiveFile(Artefact):
    """`data/naive/<dataset>/<release>/attacks.json`."""

    notice: str
    dataset: str
    release: str  # id in the configuration
    method: str
    parameters: dict[str, Any]
    description: str  # what would be published, as a plain sentence
    rows: int
    people: int
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    anonymity: Anonymity | None = None  # if rows are published
    attacks: list[NaiveAttack] = Field(default_factory=list)
    averaging: list[AveragedAnswers] = Field(default_factory=list)  # if questions are answered
    failure: str | None = None  # why the release does not exist, such as too few rows
    seconds: float = 0.0
