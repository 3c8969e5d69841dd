"""The contract of a mechanism: the data that it sees, the budget that it may spend, and the result that it returns.

A central mechanism fits the records. A local mechanism first randomises each record (`privatise`), and its fit sees
only the reports. Everything else that a mechanism knows is public and is in `Spec`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pydantic.dataclasses
from pydantic import ConfigDict, Field
from pydantic.fields import FieldInfo

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import CensoredLabels, FittedModel, Proportion
from privmix.artefacts.privacy_statement import Trust
from privmix.artefacts.private import PrivateInfo
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.errors import UserError
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import Observations, compress, floor_covariances, observe
from privmix.privacy.accounting import Budget, Claim, Theorem
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import Event, from_rows
from privmix.privacy.noise import NoiseSource, SeededNoise, fresh_stream, stream
from privmix.privacy.sensitivity import Neighbours, Unit

# A mechanism is a frozen dataclass. Its fields are its parameters; unknown parameters are errors.
mechanism_dataclass: Callable[[type], Any] = pydantic.dataclasses.dataclass(
    frozen=True, kw_only=True, config=ConfigDict(extra="forbid")
)


@dataclass(frozen=True)
class Records:
    """The training records: private."""

    points: np.ndarray  # (n, d), inside the public box
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)  # attribute -> (n,)
    persons: np.ndarray | None = None  # (n,) person of each record; not needed if the unit is a record

    def __len__(self) -> int:
        return len(self.points)

    @classmethod
    def concatenate(cls, parts: Sequence["Records"]) -> "Records":
        """Return the records of all parts. Persons are known only if every part has them."""
        codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes}
        persons = [part.persons for part in parts if part.persons is not None]
        return cls(
            np.concatenate([part.points for part in parts]),
            codes,
            np.concatenate(persons) if len(persons) == len(parts) else None,
        )

    def select(self, rows: np.ndarray) -> "Records":
        """Return the records of these rows, in this order."""
        persons = None if self.persons is None else self.persons[rows]
        return Records(self.points[rows], {name: code[rows] for name, code in self.codes.items()}, persons)

    def complete(self, domain: Domain) -> "Records":
        """Return the records that have all coordinates."""
        return self.select(np.flatnonzero(~domain.absent(self.codes, len(self)).any(axis=1)))

    def with_twin(self, row: int, point: np.ndarray) -> "Records":
        """Return the records plus a last one: a copy of this row, moved to `point`."""
        twin = replace(self.select(np.array([row])), points=np.reshape(point, (1, -1)))
        return Records.concatenate([self, twin])

    @property
    def owners(self) -> np.ndarray:
        """The person of each record, (n,); an error if the persons are not known."""
        if self.persons is None:
            raise UserError(
                "unit: person needs the person of each record, but these records have no persons; add them."
            )
        return self.persons

    def units(self, unit: Unit) -> np.ndarray:
        """Return the number, from 0, of the unit to which each record belongs, (n,)."""
        if unit == "record":
            return np.arange(len(self))
        return np.unique(self.owners, return_inverse=True)[1]


def training_records(clean: CleanData) -> Records:
    """Return the part of a clean dataset that mechanisms may see."""
    domain, persons = clean.info.domain, clean.person[clean.train]
    holdings = np.unique(persons, return_counts=True)[1] if domain.unit == "person" else np.empty(0)
    if (holdings > domain.max_records_per_person).any():
        raise UserError(
            f"{domain.dataset}: a person has more records in the clean file than the limit of "
            f"{domain.max_records_per_person}, on which every sensitivity relies; delete the file and run again."
        )
    codes = {name: values[clean.train] for name, values in clean.codes.items()}
    return Records(clean.points[clean.train], codes, persons)


@dataclass(frozen=True)
class Spec:
    """Public values: the domain and the requested number of components, or the candidates for this number."""

    domain: Domain
    n_components: int  # the largest candidate if there are candidates
    candidates: tuple[int, ...] = ()
    choice_share: float = 0.1  # part of ε for the choice if it is not free
    count_share: float = 0.0  # part of ε for a noisy count of the records if `domain.rows` is not known
    all_counted: bool = True  # whether records that lack a coordinate take part
    censored: Mapping[str, float] = field(
        default_factory=dict
    )  # attribute -> most nats that a label tells about it
    statistics: tuple[StatisticRequest, ...] = ()  # to publish beside the model
    statistics_share: float = 0.1  # part of the budget for all statistics together

    def with_components(self, number: int) -> "Spec":
        """Return the same spec with a fixed number of components."""
        return replace(self, n_components=number, candidates=())

    def up_to(self, factor: int) -> "Spec":
        """Return the same spec with candidates that double the number of components, up to this factor."""
        if factor == 1 or self.candidates:
            return self
        numbers = [self.n_components << times for times in range(factor.bit_length())]
        return replace(self, n_components=numbers[-1], candidates=tuple(numbers))

    def with_rows(self, rows: int) -> "Spec":
        """Return the same spec with a public number of records."""
        return replace(self, domain=self.domain.model_copy(update={"rows": rows}), count_share=0.0)

    @property
    def neighbours(self) -> Neighbours:
        """The unit and the relation that the catalog asks for."""
        return Neighbours(
            self.domain.unit, self.domain.relation, self.domain.max_records_per_person, self.all_counted
        )

    def absent(self, records: Records) -> np.ndarray | None:
        """Return which coordinates each record lacks, (n, d); None if the domain lets no record lack any."""
        return self.domain.absent(records.codes, len(records)) if self.domain.states else None

    def observations(self, points: np.ndarray, merge: bool = True) -> Observations:
        """Return the records inside the public box, with equal records merged.

        Without records, return one record of weight zero. A mechanism must not fail on an empty dataset: the failure
        would show that the dataset is empty.
        """
        if not len(points):
            return Observations(self.domain.lower[None], np.zeros(1))
        observations = observe(self.inside(points))
        return compress(observations) if merge else observations

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Return the points, clipped to the public box, on which every sensitivity relies. Clean records lie in it."""
        return np.clip(points, self.domain.lower, self.domain.upper)

    @property
    def floor(self) -> np.ndarray:
        """Smallest variance per axis, from public values."""
        return self.domain.floor

    @property
    def parts(self) -> str:
        """What the counts of a partition are about, for notes."""
        return "parts of the public box" if self.domain.axes else "combinations of values"

    def choice_note(self, number: int) -> str:
        """Return the note for readers if this number was chosen among the candidates."""
        listed = ", ".join(map(str, self.candidates))
        if number not in self.candidates:
            return f"The number of components was chosen among {listed}; only {number} are supported."
        return f"The number of components ({number}) was chosen among {listed}."


def best_fit(spec: Spec, fit: Callable[[int], FitResult], records: float) -> FitResult:
    """Fit the requested number of components, or the candidate with the best Bayesian information criterion.

    The criterion (Schwarz 1978) is the log-likelihood of `records` records minus half a ln(records) for each parameter.
    The penalty per parameter is never less than 1 (Akaike 1974). For noisy data, `records` is the number of records
    that would leave the same uncertainty without noise.
    """
    if not spec.candidates:
        return fit(spec.n_components)
    penalty = max(math.log(max(records, 1.0)) / 2, 1.0)

    def criterion(fitted: FitResult) -> float:
        return records * fitted.log_likelihood - penalty * fitted.mixture.n_parameters()

    best = max((fit(number) for number in spec.candidates), key=criterion)
    return replace(best, notes=(*best.notes, spec.choice_note(best.mixture.n_components)))


def project_to_box(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray, spec: Spec) -> Mixture:
    """Move means into the public box, and limit variances to the range from the public floor to what the box allows."""
    half = (spec.domain.upper - spec.domain.lower) / 2
    ceiling = max(float(half @ half), float(spec.floor.max()))
    values, vectors = np.linalg.eigh(covariances)
    if values.max() > ceiling:
        limited = vectors * np.clip(values, 0.0, ceiling)[:, None, :]
        covariances = limited @ vectors.transpose(0, 2, 1)
    means = np.clip(means, spec.domain.lower, spec.domain.upper)
    return Mixture(weights, means, floor_covariances(covariances, spec.floor))


@dataclass(frozen=True)
class Randomness:
    """Noise for privacy, and a stream for everything else (starts, searches)."""

    noise: NoiseSource
    search: np.random.Generator


def seeded_randomness(master_seed: int, *purpose: str | int | float) -> Randomness:
    """Return the randomness of a benchmark run with exactly this purpose."""
    return Randomness(
        SeededNoise(stream(master_seed, *purpose, "noise")), stream(master_seed, *purpose, "search")
    )


def exact_randomness() -> Randomness:
    """Return exact noise from the operating system's entropy, and a search stream that cannot be repeated."""
    return Randomness(ExactNoise(), fresh_stream())


@dataclass(frozen=True)
class Reports:
    """The result of a local mechanism: one row per report, and the cost of one person's reports."""

    columns: Mapping[str, np.ndarray]
    events: Sequence[Event]
    claim: Claim
    # Public: the questions, if earlier answers decided them.
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def replicate_reports(info: PrivateInfo, replicate: int, columns: Mapping[str, np.ndarray]) -> Reports:
    """Return the reports of one replicate from a private file."""
    claim = Claim(info.privacy.epsilon, info.privacy.delta)
    return Reports(columns, from_rows(info.privacy.ledger), claim, info.asked[replicate])


@dataclass(frozen=True)
class Release:
    """The result of a mechanism's fit."""

    mixture: Mixture
    events: Sequence[Event]
    claim: Claim
    transcript: list[dict[str, Any]] = field(default_factory=list)
    proportions: list[Proportion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shares: Mapping[str, np.ndarray] = field(default_factory=dict)  # attribute -> (K, V), given the component
    labels: CensoredLabels | None = None
    statistics: list[Statistic] = field(default_factory=list)

    def to_artefact(self, replicate: int, seconds: float) -> FittedModel:
        """Return the release in the form of a model file."""
        return FittedModel(
            replicate=replicate,
            weights=self.mixture.weights.tolist(),
            means=self.mixture.means.tolist(),
            covariances=self.mixture.covariances.tolist(),
            shares={name: values.tolist() for name, values in self.shares.items()},
            seconds=seconds,
            transcript=self.transcript,
            proportions=self.proportions,
            statistics=self.statistics,
            notes=self.notes,
            labels=self.labels,
        )


class Mechanism:
    """Base class of all mechanisms. `CentralMechanism` and `local.base.LocalMechanism` add what each kind shares."""

    __pydantic_fields__: ClassVar[dict[str, FieldInfo]]  # from `mechanism_dataclass`
    trust: ClassVar[Trust] = "central"
    # Whether each record is randomised (`privatise`) before anyone stores it. `fit` then sees only the reports.
    randomises_records: ClassVar[bool] = False
    private: ClassVar[bool] = True
    # Whether `fit` itself chooses among `Spec.candidates`, at no extra privacy cost.
    chooses_components: ClassVar[bool] = False
    # Parameters for `goal: table`, unless the configuration sets them.
    for_table: ClassVar[Mapping[str, Any]] = {}
    # Most coordinates of a dataset that the mechanism can fit, or None for any number. A plan makes no jobs beyond it.
    max_coordinates: ClassVar[int | None] = None
    # Fewest coordinates: 0 if the mechanism also fits datasets with attributes only. A plan makes no jobs below it.
    min_coordinates: ClassVar[int] = 1
    # Whether `fit` uses records that lack coordinates. If not, a central mechanism sees the complete records only.
    completes_records: ClassVar[bool] = False
    # Whether `fit_many` fits many subsets of the records together, faster than one by one.
    fits_together: ClassVar[bool] = False

    @classmethod
    def fits(cls, coordinates: int) -> bool:
        """Return whether the mechanism can fit a dataset with this number of coordinates."""
        return cls.min_coordinates <= coordinates <= (cls.max_coordinates or coordinates)

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for a table of attributes after the mixture; 0 for no such table."""
        return 0.0

    @property
    def needed_attribute(self) -> str | None:
        """The attribute that a dataset must have for this mechanism, if there is one."""
        return None

    def only_gaussian(self, spec: Spec) -> bool:
        """Whether all measurements are Gaussian and compose exactly, so that a budget stands for μ-GDP."""
        return False

    @property
    def accountant(self) -> Theorem:
        """The composition theorem that adds up the ledger."""
        return "linear"

    def relation(self, spec: Spec) -> Neighbours:
        """Return the neighbouring datasets that the guarantee covers."""
        return spec.neighbours

    def mixture_spec(self, spec: Spec) -> Spec:
        """Return the spec for the mixture: the number of records is not public if only complete records take part."""
        sees_all = not spec.domain.states or self.completes_records or self.randomises_records
        return spec if sees_all else replace(spec, all_counted=False)

    def most_components(self, spec: Spec) -> int:
        """Return the largest number of components that the mixture may have."""
        return self.mixture_spec(spec).n_components

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """Randomise each record on its own (local mechanisms)."""
        raise NotImplementedError(f"{type(self).__name__} has no privatise stage")

    def fit(self, view: Any, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Fit a mixture to the records (central mechanisms) or to the reports (local mechanisms), with its ledger."""
        raise NotImplementedError

    def fit_many(
        self, records: Records, subsets: Sequence[np.ndarray], spec: Spec, rng: Randomness
    ) -> list[Release]:
        """Fit each subset of the records, given as a boolean mask (mechanisms that fit many subsets together)."""
        raise NotImplementedError(f"{type(self).__name__} fits one dataset after another")


@mechanism_dataclass
class FreeChoice(Mechanism):
    """`finer`: largest factor of the requested components; what was measured decides."""

    chooses_components: ClassVar[bool] = True
    for_table: ClassVar[Mapping[str, Any]] = {"finer": 4}

    finer: Annotated[int, Field(ge=1, le=64)] = 1

    def mixture_spec(self, spec: Spec) -> Spec:
        """Return the spec for the mixture, with candidates for the number of components if it may be finer."""
        return super().mixture_spec(spec).up_to(self.finer)


@mechanism_dataclass
class CentralMechanism(Mechanism):
    """`attribute_share`: the part of ε (of μ², if all noise is Gaussian) for all attributes of the dataset together."""

    attribute_share: Annotated[float, Field(ge=0, lt=1)] = 0.2

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for the attributes."""
        return self.attribute_share
