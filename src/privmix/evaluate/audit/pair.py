"""Two worlds that a private mechanism must not let anybody tell apart."""

from dataclasses import dataclass

from privmix.mechanisms.base import Records, Spec


@dataclass(frozen=True, eq=False)
class Pair:
    """Neighbouring records: they differ in their last unit, which one of them may lack.

    The spec is public, and so the same in both.
    """

    name: str  # of what is different, for a reader
    mine: Records
    other: Records
    spec: Spec
