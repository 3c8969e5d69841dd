"""The ledger: what was really released, one frozen event per release.

An event holds the noise relative to the sensitivity, after unit and relation were applied, so that it means
the same whatever the mechanism was. The accountant reads nothing but the ledger.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from privmix.errors import UserError
from privmix.privacy.validation import known, positive

RADIUS_95 = 4.743864518  # (1 + r) exp(-r) = 0.05
OLDER_KEYS = {"multiplier": "noise_multiplier"}  # older key of a row -> the field that has its value now


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise with standard deviation `multiplier` times the L2 sensitivity: (1/multiplier)-GDP."""

    kind: ClassVar[str] = "gaussian"
    label: str
    multiplier: float

    def __post_init__(self) -> None:
        positive(self.multiplier, f"ledger: multiplier of {self.label!r}")


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise on a sum over a secret sample that holds each unit with probability `rate`, independently.

    `multiplier` is the standard deviation over the L2 norm of one unit's contribution. The event speaks of units that
    are added or removed, and of nothing else: for those amplification by such sampling is proven.
    """

    kind: ClassVar[str] = "sampled_gaussian"
    label: str
    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        positive(self.multiplier, f"ledger: multiplier of {self.label!r}")
        if not 0 < self.rate <= 1:
            raise UserError(
                f"ledger: rate of {self.label!r} = {self.rate!r} must be greater than 0 and at most 1."
            )


@dataclass(frozen=True)
class Pure:
    """A release whose likelihood ratios on neighbours are at most exp(`epsilon`)."""

    label: str
    epsilon: float

    def __post_init__(self) -> None:
        positive(self.epsilon, f"ledger: epsilon of {self.label!r}")


@dataclass(frozen=True)
class Laplace(Pure):
    """Laplace noise of scale (L1 sensitivity) / `epsilon`."""

    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True)
class RandomizedResponse(Pure):
    """Each record answers through a channel whose likelihood ratios are at most exp(`epsilon`)."""

    kind: ClassVar[str] = "randomized_response"


@dataclass(frozen=True)
class Selection(Pure):
    """One of several options, chosen by the exponential mechanism at `epsilon`.

    It is accounted as any pure release. Its loss has in truth a range of `epsilon`, not of 2 `epsilon` (Durfee
    and Rogers 2019, bounded range), which would compose more tightly; that is not used.
    """

    kind: ClassVar[str] = "selection"


@dataclass(frozen=True)
class Decomposition(Pure):
    """The shape of a private tree: all its decisions to split together, at `epsilon`; no count is in it."""

    kind: ClassVar[str] = "decomposition"


@dataclass(frozen=True)
class PlanarLaplace(Pure):
    """Planar Laplace noise on a place: `epsilon` is for any two places of the public box.

    The loss grows in proportion to the distance on the map, so two places that are no farther apart than `within_m`
    metres have the much smaller `epsilon_within`. Every total counts `epsilon`. `scale_m` is the scale of the noise
    that was drawn, in metres.
    """

    kind: ClassVar[str] = "planar_laplace"
    within_m: float
    epsilon_within: float
    scale_m: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.within_m, f"ledger: within_m of {self.label!r}")
        positive(self.scale_m, f"ledger: scale_m of {self.label!r}")
        if not 0 < self.epsilon_within <= self.epsilon:
            raise UserError(
                f"ledger: epsilon_within of {self.label!r} = {self.epsilon_within!r} must be greater than 0 and at "
                f"most {self.epsilon!r}, the epsilon of any two places."
            )

    @property
    def radius_m(self) -> float:
        """How far in metres 95 % of reports stay from the true place: a quantile of the gamma law of shape 2."""
        return RADIUS_95 * self.scale_m


Event = Gaussian | SampledGaussian | Laplace | RandomizedResponse | Selection | Decomposition | PlanarLaplace
KINDS: dict[str, type[Event]] = {event.kind: event for event in get_args(Event)}


def check_known(event: object) -> None:
    """Refuse, by name, what no theorem here speaks about."""
    if type(event) not in KINDS.values():
        raise UserError(
            f"the ledger does not know a release of kind {type(event).__name__}; "
            f"it knows {', '.join(kind.__name__ for kind in KINDS.values())}."
        )


@dataclass
class Ledger:
    """Events in the order in which they happened."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Record a release. Only the functions that draw the noise call this."""
        check_known(event)
        self.events.append(event)


def to_rows(events: Iterable[Event]) -> tuple[dict[str, Any], ...]:
    """Equal events with their count, as plain values for a file."""
    return tuple(
        {"kind": event.kind, "count": count, **dataclasses.asdict(event)}
        for event, count in Counter(events).items()
    )


def from_rows(rows: Iterable[dict[str, Any]]) -> list[Event]:
    """The events of a file, which may have been written under the older names of fields."""
    events: list[Event] = []
    for row in rows:
        kind = KINDS[known(row["kind"], KINDS, "ledger: kind of release")]
        names = {each.name for each in dataclasses.fields(kind)}
        values = {
            key if key in names else OLDER_KEYS.get(key, key): value
            for key, value in row.items()
            if key not in ("kind", "count")
        }
        events.extend([kind(**values)] * row["count"])
    return events
