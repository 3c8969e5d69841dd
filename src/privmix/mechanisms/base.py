"""The contract of a mechanism: what it sees, what it may spend, and what it returns.

A central mechanism fits the records. A local mechanism first randomises each record (`privatise`), and its fit sees
the reports only. Everything else that a mechanism knows is public and stands in `Spec`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pydantic.dataclasses
from pydantic import ConfigDict

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel, Proportion
from privmix.artefacts.privacy_statement import Trust
from privmix.artefacts.private import PrivateInfo
from privmix.errors import UserError
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import Observations, compress, floor_covariances, observe
from privmix.privacy.accounting import Budget, Claim
from privmix.privacy.ledger import Event, from_rows
from privmix.privacy.noise import NoiseSource, SeededNoise, stream
from privmix.privacy.sensitivity import Neighbours, Unit

# A mechanism is a frozen dataclass whose fields are its parameters; unknown ones are errors.
mechanism_dataclass: Callable[[type], Any] = pydantic.dataclasses.dataclass(
    frozen=True, kw_only=True, config=ConfigDict(extra="forbid")
)


@dataclass(frozen=True)
class Records:
    """The training records: private."""

    points: np.ndarray  # (n, d), inside the public box
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)  # attribute -> (n,)
    persons: np.ndarray | None = None  # (n,) whose record it is; not needed where the unit is a record

    def __len__(self) -> int:
        return len(self.points)

    @classmethod
    def concatenate(cls, parts: Sequence["Records"]) -> "Records":
        """The records of all parts; whose they are is known if it is of every part."""
        codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes}
        persons = [part.persons for part in parts]
        known = all(each is not None for each in persons)
        return cls(
            np.concatenate([part.points for part in parts]), codes, np.concatenate(persons) if known else None
        )

    def select(self, rows: np.ndarray) -> "Records":
        """The records of these rows, in that order."""
        persons = None if self.persons is None else self.persons[rows]
        return Records(self.points[rows], {name: code[rows] for name, code in self.codes.items()}, persons)

    def with_twin(self, row: int, point: np.ndarray) -> "Records":
        """The records and one more, the last: that of the row as it would be elsewhere."""
        twin = replace(self.select(np.array([row])), points=np.reshape(point, (1, -1)))
        return Records.concatenate([self, twin])

    @property
    def owners(self) -> np.ndarray:
        """Whose record each is, where that must be known, (n,)."""
        if self.persons is None:
            raise UserError(
                "unit: person needs to know whose each record is; give the records their persons."
            )
        return self.persons

    def units(self, unit: Unit) -> np.ndarray:
        """The number, from 0, of the unit that each record belongs to, (n,)."""
        if unit == "record":
            return np.arange(len(self))
        return np.unique(self.owners, return_inverse=True)[1]


def training_records(clean: CleanData) -> Records:
    """The part of a clean dataset that mechanisms may see."""
    domain, persons = clean.info.domain, clean.person[clean.train]
    holdings = np.unique(persons, return_counts=True)[1] if domain.unit == "person" else np.empty(0)
    if (holdings > domain.max_records_per_person).any():
        raise UserError(
            f"{domain.dataset}: somebody has more records in the clean file than the limit of "
            f"{domain.max_records_per_person} on which every sensitivity rests; delete the file and run again."
        )
    codes = {name: values[clean.train] for name, values in clean.codes.items()}
    return Records(clean.points[clean.train], codes, persons)


@dataclass(frozen=True)
class Spec:
    """What is public: the domain and the wanted number of Gaussians, or the numbers to choose among."""

    domain: Domain
    n_components: int  # the largest candidate where there are any
    candidates: tuple[int, ...] = ()
    choice_share: float = 0.1  # part of ε that the choice costs where it is not free

    def with_components(self, number: int) -> "Spec":
        """The same with a fixed number of Gaussians."""
        return replace(self, n_components=number, candidates=())

    @property
    def neighbours(self) -> Neighbours:
        """The unit and relation that the catalog asks for."""
        return Neighbours(self.domain.unit, self.domain.relation, self.domain.max_records_per_person)

    def observations(self, points: np.ndarray, merge: bool = True) -> Observations:
        """The records inside the public box, equal ones merged; where there is none, one that weighs nothing.

        A mechanism must not fail on no records: whether there is one would show.
        """
        if not len(points):
            return Observations(self.domain.lower[None], np.zeros(1))
        observations = observe(self.inside(points))
        return compress(observations) if merge else observations

    def inside(self, points: np.ndarray) -> np.ndarray:
        """The points, clipped to the public box on which every sensitivity rests. Clean records lie in it."""
        return np.clip(points, self.domain.lower, self.domain.upper)

    @property
    def floor(self) -> np.ndarray:
        """Smallest variance per axis: the square of the public resolution."""
        return self.domain.resolution**2

    def choice_note(self, number: int) -> str:
        """What a reader should know if this number was chosen among the candidates."""
        return f"The number of Gaussians, {number}, was chosen among {', '.join(map(str, self.candidates))}."


def best_fit(spec: Spec, fit: Callable[[int], FitResult], records: float) -> FitResult:
    """The fit of the wanted number, or of the candidate with the best Bayesian information criterion.

    The criterion (Schwarz 1978) is the log-likelihood of so many `records` less half a ln(records) for each parameter,
    and never less than 1 (Akaike 1974); of noisy data, as many records as would be that uncertain without the noise.
    """
    if not spec.candidates:
        return fit(spec.n_components)
    penalty = max(math.log(max(records, 1.0)) / 2, 1.0)

    def criterion(fitted: FitResult) -> float:
        return records * fitted.log_likelihood - penalty * fitted.mixture.n_parameters()

    best = max((fit(number) for number in spec.candidates), key=criterion)
    return replace(best, notes=(*best.notes, spec.choice_note(best.mixture.n_components)))


def project_to_box(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray, spec: Spec) -> Mixture:
    """Means inside the public box, no variance above what the box allows or below the public floor."""
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
    """The randomness of a benchmark run with exactly this purpose."""
    return Randomness(
        SeededNoise(stream(master_seed, *purpose, "noise")), stream(master_seed, *purpose, "search")
    )


@dataclass(frozen=True)
class Reports:
    """What a local mechanism makes of the records: one row per report, and what one person's reports cost."""

    columns: Mapping[str, np.ndarray]
    events: Sequence[Event]
    claim: Claim
    # Public: what was asked, where earlier answers decided it.
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def replicate_reports(info: PrivateInfo, replicate: int, columns: Mapping[str, np.ndarray]) -> Reports:
    """One replicate's reports as a private file holds them."""
    claim = Claim(info.privacy.epsilon, info.privacy.delta)
    return Reports(columns, from_rows(info.privacy.ledger), claim, info.asked[replicate])


@dataclass(frozen=True)
class Release:
    """What a mechanism gives back."""

    mixture: Mixture
    events: Sequence[Event]
    claim: Claim
    transcript: list[dict[str, Any]] = field(default_factory=list)
    proportions: list[Proportion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_artefact(self, replicate: int, seconds: float) -> FittedModel:
        """The release as a model file holds it."""
        return FittedModel(
            replicate=replicate,
            weights=self.mixture.weights.tolist(),
            means=self.mixture.means.tolist(),
            covariances=self.mixture.covariances.tolist(),
            seconds=seconds,
            transcript=self.transcript,
            proportions=self.proportions,
            notes=self.notes,
        )


class Mechanism:
    """Base of all mechanisms."""

    trust: ClassVar[Trust] = "central"
    # Whether each record is randomised (`privatise`) before anyone stores it; `fit` then sees the reports alone.
    randomises_records: ClassVar[bool] = False
    private: ClassVar[bool] = True
    # Whether `fit` itself chooses among `Spec.candidates`, at no cost beyond what it releases anyway.
    chooses_components: ClassVar[bool] = False
    # Most coordinates of a dataset that it can fit, or None for any number. A plan makes no jobs beyond it.
    max_coordinates: ClassVar[int | None] = None
    # Whether `fit_many` fits many subsets of the records side by side, faster than one after another.
    fits_together: ClassVar[bool] = False

    @property
    def accountant(self) -> str:
        """The composition under which the ledger is added up."""
        return "linear"

    def relation(self, spec: Spec) -> Neighbours:
        """Whom the guarantee protects."""
        return spec.neighbours

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """Randomise each record on its own (local mechanisms)."""
        raise NotImplementedError(f"{type(self).__name__} has no privatise stage")

    def fit(self, view: Records | Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """The mixture, with the ledger of what was released to get it."""
        raise NotImplementedError

    def fit_many(
        self, records: Records, subsets: Sequence[np.ndarray], spec: Spec, rng: Randomness
    ) -> list[Release]:
        """A fit to each subset of the records, a boolean mask (mechanisms that fit many together)."""
        raise NotImplementedError(f"{type(self).__name__} fits one dataset after another")
