"""The one way out: every release of something private is drawn here, and written to the ledger before it is given out.

Whoever audits puts a `Watch` in the place of the source of noise: it sees the statistic behind each release, which
nobody else does, or says what is released instead of drawing.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from privmix.privacy.laws import Law
from privmix.privacy.ledger import Event, Ledger

Released = TypeVar("Released")


class Watch(Protocol):
    """A source of noise that wants to see releases."""

    def watch(self, event: Event, law: Law, statistic: Any, draw: Callable[[], Released]) -> Released:
        """What is released; `draw` draws it."""


def release(
    event: Event,
    law: Law,
    statistic: Any,
    draw: Callable[[], Released],
    *,
    source: Any,
    ledger: Ledger,
) -> Released:
    """What `draw` draws from the law, given the statistic; the event says what it costs."""
    watch = getattr(source, "watch", None)
    released = draw() if watch is None else watch(event, law, statistic, draw)
    ledger.append(event)
    return released
