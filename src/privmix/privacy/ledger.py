"""The ledger: one frozen event per measurement, and the checks of its numbers.

An event holds the noise relative to the sensitivity, with unit and relation already applied. It therefore means
the same for every mechanism. The accountant reads the ledger and nothing else.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from privmix.errors import UserError


def check_positive(value: float, what: str) -> float:
    """Check that `value` is finite and greater than 0, like an epsilon or a sensitivity, and return it."""
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{what} = {value!r} must be a finite number greater than 0.")
    return float(value)


def check_probability(value: float, what: str) -> float:
    """Check that `value` lies strictly between 0 and 1, like the delta of a claim that is not pure, and return it."""
    if not 0 < value < 1:
        raise UserError(
            f"{what} = {value!r} must lie between 0 and 1; set `delta`, for instance to 1e-6, "
            "or choose a pure mechanism."
        )
    return float(value)


def check_member(value: str, names: Iterable[str], what: str) -> str:
    """Check that `value` is one of the names, and return it."""
    if value not in names:
        raise UserError(f"{what} = {value!r} is unknown; choose one of {', '.join(names)}.")
    return value


RADIUS_95 = 4.743864518  # (1 + r) exp(-r) = 0.05
OLDER_KEYS = {"multiplier": "noise_multiplier"}  # older key of a row -> current field


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise with standard deviation `noise_multiplier` times the L2 sensitivity: (1/noise_multiplier)-GDP."""

    kind: ClassVar[str] = "gaussian"
    label: str
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_positive(self.noise_multiplier, f"ledger: noise multiplier of {self.label!r}")


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise on a sum over a secret sample that contains each unit independently with probability `rate`.

    `noise_multiplier` is the standard deviation divided by the L2 norm of one unit's contribution. The event covers
    only units that are added or removed: for these, amplification by such sampling is proven.
    """

    kind: ClassVar[str] = "sampled_gaussian"
    label: str
    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        check_positive(self.noise_multiplier, f"ledger: noise multiplier of {self.label!r}")
        if not 0 < self.rate <= 1:
            raise UserError(
                f"ledger: rate of {self.label!r} = {self.rate!r} must be greater than 0 and at most 1."
            )


@dataclass(frozen=True)
class PureEvent:
    """A measurement whose likelihood ratios on neighbouring datasets are at most exp(`epsilon`)."""

    label: str
    epsilon: float

    def __post_init__(self) -> None:
        check_positive(self.epsilon, f"ledger: epsilon of {self.label!r}")


@dataclass(frozen=True)
class Laplace(PureEvent):
    """Laplace noise of scale (L1 sensitivity) / `epsilon`."""

    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True)
class RandomizedResponse(PureEvent):
    """One report per record, through a channel whose likelihood ratios are at most exp(`epsilon`)."""

    kind: ClassVar[str] = "randomized_response"


@dataclass(frozen=True)
class Selection(PureEvent):
    """One of several options, selected by the exponential mechanism at `epsilon`.

    The accountant treats it like any pure event. Its loss actually has a range of `epsilon`, not of 2 `epsilon`
    (Durfee and Rogers 2019, bounded range). This would compose more tightly, but is not used.
    """

    kind: ClassVar[str] = "selection"


@dataclass(frozen=True)
class NoisyMaximum(PureEvent):
    """The option with the largest score after Laplace noise on each score, and nothing else, at `epsilon`."""

    kind: ClassVar[str] = "noisy_maximum"


@dataclass(frozen=True)
class RecordCount(Laplace):
    """The number of records with Laplace noise. Parameters of later measurements depend on it, as on a selection."""

    kind: ClassVar[str] = "record_count"


@dataclass(frozen=True)
class Decomposition(PureEvent):
    """The shape of a private tree: all its decisions to split together, at `epsilon`, without any count."""

    kind: ClassVar[str] = "decomposition"


@dataclass(frozen=True)
class PlanarLaplace(PureEvent):
    """Planar Laplace noise on a place. `epsilon` is for any two places of the public box.

    The loss is proportional to the distance on the map. Two places at most `within_m` metres apart therefore have the
    much smaller `epsilon_within`. Every total counts `epsilon`. `scale_m` is the scale of the drawn noise, in metres.
    """

    kind: ClassVar[str] = "planar_laplace"
    within_m: float
    epsilon_within: float
    scale_m: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.within_m, f"ledger: within_m of {self.label!r}")
        check_positive(self.scale_m, f"ledger: scale_m of {self.label!r}")
        if not 0 < self.epsilon_within <= self.epsilon:
            raise UserError(
                f"ledger: epsilon_within of {self.label!r} = {self.epsilon_within!r} must be greater than 0 and at "
                f"most {self.epsilon!r}, the epsilon of any two places."
            )

    @property
    def radius_m(self) -> float:
        """Radius in metres around the true place with 95 % of reports: a quantile of the gamma law of shape 2."""
        return RADIUS_95 * self.scale_m


Event = (
    Gaussian
    | SampledGaussian
    | Laplace
    | RandomizedResponse
    | Selection
    | NoisyMaximum
    | RecordCount
    | Decomposition
    | PlanarLaplace
)
KINDS: dict[str, type[Event]] = {event.kind: event for event in get_args(Event)}
# Results that decide the parameters of later measurements. Such parameters are not fixed in advance.
DECIDING = (Selection, RecordCount)
STATISTIC = (
    "statistic: "  # start of the labels of published statistics, on which no later measurement depends
)


def decides(event: Event) -> bool:
    """Return whether the parameters of later measurements may depend on this result."""
    return isinstance(event, DECIDING) and not event.label.startswith(STATISTIC)


def check_kind(event: object) -> None:
    """Raise an error for an event of a kind that the ledger does not know."""
    if type(event) not in KINDS.values():
        raise UserError(
            f"the ledger does not know events of kind {type(event).__name__}; "
            f"use one of {', '.join(kind.__name__ for kind in KINDS.values())}."
        )


@dataclass
class Ledger:
    """All events, in the order of the measurements."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Add an event. Only the functions that draw the noise call this."""
        check_kind(event)
        self.events.append(event)


def to_rows(events: Iterable[Event]) -> tuple[dict[str, Any], ...]:
    """Return equal events with their count, as plain values for a file."""
    return tuple(
        {"kind": event.kind, "count": count, **dataclasses.asdict(event)}
        for event, count in Counter(events).items()
    )


def from_rows(rows: Iterable[dict[str, Any]]) -> list[Event]:
    """Return the events of a file. The rows may have the older names of fields."""
    events: list[Event] = []
    for row in rows:
        kind = KINDS[check_member(row["kind"], KINDS, "ledger: kind of event")]
        names = {each.name for each in dataclasses.fields(kind)}
        values = {
            key if key in names else OLDER_KEYS.get(key, key): value
            for key, value in row.items()
            if key not in ("kind", "count")
        }
        events.extend([kind(**values)] * row["count"])
    return events
