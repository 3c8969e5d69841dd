"""The result of one run of a mechanism: a mixture, proportions of attributes, and the transcript."""

from typing import Any

from pydantic import Field

from privmix.artefacts.io import Artefact
from privmix.artefacts.statistics import Statistic


class Proportion(Artefact):
    """Estimated share of one value of an attribute, with 95 % intervals."""

    attribute: str
    value: str
    estimate: float
    standard_error: float
    exact: tuple[float, float]
    normal: tuple[float, float]
    chebyshev: tuple[float, float]


class LabelLimit(Artefact):
    """How much censored labels tell about one attribute, in nats."""

    attribute: str
    at_most: float  # as requested
    limit: float  # upper 95 % confidence limit, at most `at_most`


class CensoredLabels(Artefact):
    """A map from a record to a random label: its component with probability `kept`, else one drawn by the weights."""

    kept: float
    limits: tuple[LabelLimit, ...]


class FittedModel(Artefact):
    """The mixture of one replicate in normalised coordinates, and the measurements behind it."""

    replicate: int
    weights: list[float]
    means: list[list[float]]
    covariances: list[list[list[float]]]
    shares: dict[str, list[list[float]]] = Field(default_factory=dict)  # attribute -> components x values
    seconds: float
    transcript: list[dict[str, Any]] = Field(default_factory=list)
    proportions: list[Proportion] = Field(default_factory=list)
    statistics: list[Statistic] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    labels: CensoredLabels | None = None
