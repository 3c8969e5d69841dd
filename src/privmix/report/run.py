"""The input of a report: the outcome of each job, the material of each dataset, and the usage of each stage."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pyarrow as pa

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.clean import CleanData, CleanInfo
from privmix.artefacts.domain import Domain
from privmix.artefacts.model import ModelFile
from privmix.artefacts.naive import NaiveFile
from privmix.artefacts.privacy_statement import Trust, holds_anywhere, randomises_records
from privmix.artefacts.scores import ScoresInfo
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.catalog.entry import Entry
from privmix.evaluate.groupings import HeldOutGroups
from privmix.report.provenance import Provenance
from privmix.report.true_numbers import NumberKey, true_numbers, true_statistics
from privmix.settings import Settings

SHOWN_POINTS = 5000
NOT_MADE = "Not made: the job did not run or did not finish; its log says why."


@dataclass(frozen=True)
class Outcome:
    """The files of one (dataset, mechanism, epsilon); a missing file is None."""

    dataset: str
    mechanism: str
    method: str
    trust: str
    epsilon: float
    model: ModelFile | None = None
    scores: pa.Table | None = None
    scores_info: ScoresInfo | None = None
    audit: AuditFile | None = None  # of the mechanism at this epsilon; the same for all datasets

    @property
    def key(self) -> tuple[str, str, float]:
        """Key of its numbers in the results."""
        return self.dataset, self.mechanism, self.epsilon

    @property
    def private(self) -> bool:
        """Whether the job spends a finite budget."""
        return math.isfinite(self.epsilon)

    @property
    def comparable(self) -> bool:
        """Whether its ε holds for any two records and so compares with the ε of other mechanisms."""
        return holds_anywhere(self.trust)

    @property
    def randomises_records(self) -> bool:
        """Whether each record is randomised before anyone stores it."""
        return randomises_records(self.trust)

    @property
    def limiting_epsilon(self) -> float:
        """The ε that limits an attacker who compares any two records."""
        anywhere = self.model.privacy.epsilon_anywhere if self.model else None
        return self.epsilon if anywhere is None else anywhere

    @property
    def claimed_delta(self) -> float:
        """The δ of the claim; without a model file, the δ of the budget, which is an upper bound."""
        if self.model is not None:
            return self.model.privacy.delta
        assert self.scores is not None, "a job without a model and without scores has no claim"
        return float(self.scores["delta"][0].as_py())

    @property
    def failure(self) -> str | None:
        """Reason why there is no result; None if there is one."""
        for part in (self.model, self.scores_info):
            if part is not None and part.failure:
                return part.failure
        return NOT_MADE if self.model is None or self.scores is None else None


@dataclass(frozen=True)
class LeftOut:
    """A mechanism that is not run on a dataset because the dataset has too many or too few coordinates."""

    dataset: str
    mechanism: str
    trust: str
    min_coordinates: int
    max_coordinates: int | None


@dataclass(frozen=True)
class Material:
    """The records that the page may show of a dataset: none if the dataset is sensitive."""

    info: CleanInfo
    protects_people: bool  # whether the unit covers all records of a person
    most_records: int | None  # largest number of training records of one person; None if sensitive
    cloud: np.ndarray  # (n, d) training records in original units
    places: np.ndarray  # (m, d) places of the isolated people in original units
    shares: Mapping[tuple[str, str], float]  # (attribute, value) -> true share of training records or people
    numbers: Mapping[NumberKey, float]  # true numbers of the training records; empty if sensitive
    statistics: Mapping[StatisticRequest, Statistic]  # true values of what is published; empty if sensitive

    @property
    def domain(self) -> Domain:
        """The public description of the records."""
        return self.info.domain

    @property
    def shows_counts(self) -> bool:
        """Whether the page may show exact counts and hashes of the records."""
        return self.domain.visibility != "sensitive"


def sample_material(
    clean: CleanData, rng: np.random.Generator, requests: Sequence[StatisticRequest] = ()
) -> Material:
    """Sample records, and return them with the isolated places and true numbers; nothing if the data is sensitive.

    `requests` are the statistics that are published beside the models.
    """
    domain = clean.info.domain
    protects_people = domain.unit == "person" or len(np.unique(clean.person)) == len(clean.person)
    if domain.visibility == "sensitive":
        nothing = np.empty((0, len(domain.axes)))
        return Material(clean.info, protects_people, None, nothing, nothing, {}, {}, {})
    complete = ~domain.absent(clean.codes, len(clean.points)).any(axis=1)
    rows = np.flatnonzero(clean.train & complete)
    if len(rows) > SHOWN_POINTS:
        rows = np.sort(rng.choice(rows, SHOWN_POINTS, replace=False))
    _, whose, records = np.unique(clean.person[clean.train], return_inverse=True, return_counts=True)
    # If the unit is a person, each person answers for one of their records, so all people have the same weight.
    weights = 1 / records[whose] if domain.unit == "person" else np.ones(len(whose))
    shares = {
        (attribute.name, value): float(
            np.average(clean.codes[attribute.name][clean.train] == code, weights=weights)
        )
        for attribute in domain.attributes
        for code, value in enumerate(attribute.values)
    }
    return Material(
        info=clean.info,
        protects_people=protects_people,
        most_records=int(records.max(initial=1)),
        cloud=domain.denormalise(clean.points[rows]),
        places=domain.denormalise(clean.points[clean.isolated_rows]),
        shares=shares,
        numbers=true_numbers(clean),
        statistics=true_statistics(clean, requests),
    )


def sort_outcomes(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Sort outcomes: non-private first, then central, local, distance; each in the order of the configuration."""
    return tuple(
        sorted(outcomes, key=lambda outcome: (outcome.private, get_args(Trust).index(outcome.trust)))
    )


@dataclass(frozen=True)
class JobUsage:
    """Time and memory of one job; memory is None if Snakemake did not measure it."""

    seconds: float
    memory_mb: float | None


@dataclass(frozen=True)
class StageUsage:
    """Time and memory of the measured jobs of one stage."""

    stage: str
    planned: int
    measured: int
    total_seconds: float | None
    largest_seconds: float | None
    largest_mb: float | None

    @property
    def unmeasured(self) -> int:
        """Number of jobs that were not measured or did not run."""
        return self.planned - self.measured


@dataclass(frozen=True)
class RunResults:
    """The content of one report."""

    settings: Settings
    configuration: Mapping[str, object]  # as the user gave it
    entries: Mapping[str, Entry]
    outcomes: tuple[Outcome, ...]  # in the order of `sort_outcomes`
    materials: Mapping[str, Material]  # without the datasets that were not cleaned
    provenance: Provenance
    audit_code: str  # current version of the audit's code
    usage: tuple[StageUsage, ...] = ()  # of the stages before the report
    left_out: tuple[LeftOut, ...] = ()  # in the order of the configuration
    naive: tuple[
        NaiveFile, ...
    ] = ()  # attacked releases without a guarantee, in the order of the configuration
    held_out: Mapping[str, HeldOutGroups] = field(default_factory=dict)  # of the datasets that were cleaned

    @property
    def trust(self) -> dict[str, str]:
        """Trust model of every mechanism."""
        return {outcome.mechanism: outcome.trust for outcome in self.outcomes}

    @property
    def private(self) -> list[str]:
        """The mechanisms that spend a budget, central ones first."""
        return list(dict.fromkeys(outcome.mechanism for outcome in self.outcomes if outcome.private))

    def of(self, dataset: str) -> list[Outcome]:
        """Return the outcomes of one dataset, in order."""
        return [outcome for outcome in self.outcomes if outcome.dataset == dataset]

    def left_out_of(self, dataset: str, trust: str | None = None) -> list[LeftOut]:
        """Return the mechanisms that are not run on one dataset; `trust` selects those of one trust model."""
        return [each for each in self.left_out if each.dataset == dataset and trust in (None, each.trust)]

    def worst_person(self, dataset: str) -> str | None:
        """Return the catalog name of the isolated person whose record was attacked; None if there was no attack."""
        infos = (outcome.scores_info for outcome in self.of(dataset))
        return next((info.worst_person for info in infos if info and info.worst_person), None)

    def limits_average(self, dataset: str) -> bool:
        """Tell whether the guarantee limits an attack that separates members from held-out people."""
        return dataset in self.materials and self.materials[dataset].protects_people

    @property
    def epsilons(self) -> list[float]:
        """The budgets of the sweep in order; empty if no mechanism is private."""
        return sorted({outcome.epsilon for outcome in self.outcomes if outcome.private})

    @property
    def reference_epsilon(self) -> float | None:
        """The epsilon of the sweep nearest to 1 in ratio; None if no mechanism is private."""
        return min(self.epsilons, key=lambda epsilon: abs(math.log(epsilon)), default=None)


def parse_benchmark(text: str) -> JobUsage | None:
    """Parse the last line of a Snakemake benchmark file; None if it contains no time, as after a crash.

    The line holds the seconds (`s`) of the job's last run and the largest memory that Snakemake sampled (`max_rss`, in
    MB of 2^20 bytes). Snakemake samples every half second at first and every half minute later. It may miss a short
    job; then the file has no number and the page shows none.
    """
    lines = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    seconds = _number(lines[-1].get("s")) if lines else None
    return None if seconds is None else JobUsage(seconds, _number(lines[-1].get("max_rss")))


def summarize_stage(stage: str, planned: int, jobs: Sequence[JobUsage]) -> StageUsage:
    """Sum up the measured jobs of a stage, and find their largest time and memory."""
    seconds = [job.seconds for job in jobs]
    memory = [job.memory_mb for job in jobs if job.memory_mb is not None]
    return StageUsage(
        stage=stage,
        planned=planned,
        measured=len(jobs),
        total_seconds=math.fsum(seconds) if seconds else None,
        largest_seconds=max(seconds, default=None),
        largest_mb=max(memory, default=None),
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
