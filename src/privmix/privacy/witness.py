"""Seeing a mechanism's releases with the statistics behind them, and running it again with the same releases.

A `Witness` stands in for a source of noise and remembers, for each release, the statistic, the law and what came out;
and all other draws, which no data enters (samples, blocks, turns). A `Replay` gives a mechanism these releases and
draws again, whatever the records are, and remembers the statistics that it has computed from them. So it shows

* what the releases would have rested on, had one unit been another: for each release the exact difference that the
  noise must hide, with everything that leads to it (scaling, starts, earlier releases);
* whether anything reaches the outside beside the releases: with all of them held fixed, a mechanism must give the same
  output whatever the records are.

What a witness holds is private: it is kept in memory, and thrown away.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from privmix.errors import UserError
from privmix.privacy.laws import Law
from privmix.privacy.ledger import Event
from privmix.privacy.noise import NoiseSource


@dataclass(frozen=True, eq=False)
class Entry:
    """One release: what it cost, how it was drawn, what it rested on and what came out."""

    event: Event
    law: Law
    statistic: Any
    released: Any


@dataclass(frozen=True, eq=False)
class Tape:
    """All releases of one run, in their order, and all draws that no data enters."""

    entries: list[Entry] = field(default_factory=list)
    draws: list[np.ndarray] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)  # kinds of noise that belonged to no release


class Witness:
    """Real noise of another source, and a tape of it."""

    def __init__(self, source: NoiseSource) -> None:
        self.tape = Tape()
        self._source = source
        self._drawing = False

    def watch(self, event: Event, law: Law, statistic: Any, draw: Callable[[], Any]) -> Any:
        """Draw, and remember."""
        self._drawing = True
        try:
            released = draw()
        finally:
            self._drawing = False
        self.tape.entries.append(Entry(event, law, _kept(statistic), _kept(released)))
        return released

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The source's."""
        return self._noticed("laplace", self._source.add_laplace(values, scale))

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """The source's."""
        return self._noticed("gaussian", self._source.add_gaussian(values, sigma))

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The source's."""
        return self._noticed("planar laplace", self._source.add_planar_laplace(values, scale))

    def planar_scale(self, scale: float) -> float:
        """The source's."""
        return self._source.planar_scale(scale)

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """The source's."""
        return self._source.rounding(size, norm)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """The source's; remembered unless it is part of a release."""
        return self._remembered(self._source.uniform(shape))

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """The source's; remembered unless it is part of a release."""
        return self._remembered(self._source.integers(high, shape))

    def _noticed(self, kind: str, noisy: np.ndarray) -> np.ndarray:
        if not self._drawing:
            self.tape.loose.append(kind)
        return noisy

    def _remembered(self, drawn: np.ndarray) -> np.ndarray:
        if not self._drawing:
            self.tape.draws.append(drawn.copy())
        return drawn


class Replay:
    """The releases and draws of a tape again; `entries` are what the same releases rest on now.

    The last unit may be one more or one less than there were. One more has 0 for its draw; with `sampled`, the
    last unit is in every sample, whatever it drew. With `short`, the mechanism is stopped by `Enough` once the last
    statistic is known: all that follows is computed from releases.
    """

    def __init__(
        self, tape: Tape, source: NoiseSource, *, sampled: bool = False, short: bool = False
    ) -> None:
        self.entries: list[Entry] = []
        self._tape, self._source, self._sampled, self._short = tape, source, sampled, short
        self._drawn = 0

    def watch(self, event: Event, law: Law, statistic: Any, draw: Callable[[], Any]) -> Any:
        """The release of the tape."""
        if len(self.entries) == len(self._tape.entries):
            raise Astray(f"with one unit changed there is one release more, {event.label!r}")
        before = self._tape.entries[len(self.entries)]
        if type(event) is not type(before.event) or event.label != before.event.label:
            raise Astray(
                f"with one unit changed, {event.label!r} is released in the place of {before.event.label!r}"
            )
        self.entries.append(Entry(event, law, _kept(statistic), before.released))
        if self._short and len(self.entries) == len(self._tape.entries):
            raise Enough
        return _kept(before.released)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Noise outside of any release is not the tape's to give."""
        raise Astray("noise is drawn outside of a release")

    add_gaussian = add_planar_laplace = add_laplace

    def planar_scale(self, scale: float) -> float:
        """The source's."""
        return self._source.planar_scale(scale)

    def rounding(self, size: int, norm: Literal[1, 2]) -> float:
        """The source's."""
        return self._source.rounding(size, norm)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """The tape's."""
        drawn = self._next(shape)
        if self._sampled:
            drawn[-1:] = 0.0
        return drawn

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """The tape's."""
        return self._next(shape)

    def _next(self, shape: tuple[int, ...]) -> np.ndarray:
        if self._drawn == len(self._tape.draws):
            raise Astray("with one unit changed there is one draw more")
        before = self._tape.draws[self._drawn]
        self._drawn += 1
        drawn = np.zeros(shape, dtype=before.dtype)
        if before.shape[1:] != drawn.shape[1:]:
            raise Astray("with one unit changed, draws have another shape")
        common = min(len(before), len(drawn))
        drawn[:common] = before[:common]
        return drawn


class Enough(Exception):
    """A replay has seen all that it was asked for."""


class Astray(UserError):
    """A mechanism does something else when one unit is changed and all releases are held fixed."""


def _kept(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
