"""Whom a guarantee protects: the unit that changes between two neighbouring datasets, and how it changes."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from privmix.errors import UserError
from privmix.privacy.validation import known

Unit = Literal["record", "person"]
Relation = Literal["replace_one", "add_remove"]


@dataclass(frozen=True)
class Neighbours:
    """Two datasets are neighbours if one unit is replaced, or is added or removed.

    The datasets are training sets. When a record is replaced both have the same number of records, which is
    public, and the record keeps its person and its part of the split, and is as readable as before. A person
    holds at most `max_records` records; replacing a person keeps the number of people, not of records.
    """

    unit: Unit
    relation: Relation
    max_records: int = 1

    def __post_init__(self) -> None:
        known(self.unit, get_args(Unit), "neighbours: unit")
        known(self.relation, get_args(Relation), "neighbours: relation")
        if not self.max_records >= 1:
            raise UserError(f"neighbours: max_records = {self.max_records!r} must be at least 1.")

    @property
    def records(self) -> int:
        """How many records of one side may differ."""
        return self.max_records if self.unit == "person" else 1

    @property
    def size_is_public(self) -> bool:
        """Whether all neighbours have the same number of records: then it is no secret."""
        return self.unit == "record" and self.relation == "replace_one"

    def difference(self, norm: float, *, opposed: bool) -> float:
        """Sensitivity of a sum over records whose contributions have at most this norm.

        Adding or removing changes the sum by `norm`. Replacing changes it by the difference of two
        contributions: `2 norm` when they may point in opposite directions (`opposed`, or an L1 norm), and
        `sqrt(2) norm` in L2 when their inner product is never negative, since then
        |s - s'|^2 = |s|^2 + |s'|^2 - 2<s, s'> <= 2 norm^2. Several records add up by the triangle inequality;
        a person replaced by one with fewer records is covered, because no record at all contributes zero.
        """
        if self.relation == "add_remove":
            factor = 1.0
        else:
            factor = 2.0 if opposed else math.sqrt(2.0)
        return self.records * factor * norm
