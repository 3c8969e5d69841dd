"""The ledger: what was really released, one frozen event per release.

An event holds the noise relative to the sensitivity, after unit and relation were applied, so that it means
the same whatever the mechanism was. The accountant reads nothing but the ledger.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise with standard deviation `multiplier` times the L2 sensitivity."""

    kind: ClassVar[str] = "gaussian"
    label: str
    multiplier: float


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of scale (L1 sensitivity) / `epsilon`."""

    kind: ClassVar[str] = "laplace"
    label: str
    epsilon: float


@dataclass(frozen=True)
class RandomizedResponse:
    """Each record answers through a channel whose likelihood ratios are at most exp(`epsilon`)."""

    kind: ClassVar[str] = "randomized_response"
    label: str
    epsilon: float


Event = Gaussian | Laplace | RandomizedResponse
KINDS: dict[str, type[Event]] = {event.kind: event for event in (Gaussian, Laplace, RandomizedResponse)}


@dataclass
class Ledger:
    """Events in the order in which they happened."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Record a release. Only the functions that draw the noise call this."""
        self.events.append(event)


def to_rows(events: Iterable[Event]) -> tuple[dict[str, Any], ...]:
    """Equal events with their count, as plain values for a file."""
    return tuple(
        {"kind": event.kind, "count": count, **dataclasses.asdict(event)}
        for event, count in Counter(events).items()
    )


def from_rows(rows: Iterable[dict[str, Any]]) -> list[Event]:
    """The events of a file."""
    events: list[Event] = []
    for row in rows:
        values = {key: value for key, value in row.items() if key not in ("kind", "count")}
        events.extend([KINDS[row["kind"]](**values)] * row["count"])
    return events
