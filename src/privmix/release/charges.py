"""Charges: the cost of all releases that share a record or a person, as sums that a reader can check.

Every guarantee is converted to one relation, a replaced unit. An added or removed unit is half of a replaced one, so
add_remove counts double (`group_cost` with 2 steps). A release that protects persons costs one of their records at most
as much as the person. A release that protects records costs a person with m records as much as m replaced records
(`group_cost` with m steps). m is the largest number of records of one person in that release or in any other of the
sum, because a release may name other ids, such as those of trips: the ids of two releases do not show that they are of
the same kind, so no smaller m is proven. For a release without ids, m is the sum of the numbers that the files with ids
know, because it may hold the records of all these files, or 1 if none has ids. A replaced person has the same number of
records in each file, and a replaced record stays with its person and in its files. m comes from these files, so the sum
per person is for persons with at most m records.

Files with the same `source` count once in this sum. The source is a hash of the multiset of pairs of person and record
(`fingerprints`), so it is the same if only the bytes of the file change. The sum stays an upper bound: let P be the set
of the person's records, without copies, in the files with ids, and P(s) the set in the files of source s. All files of
one source have the same pairs, so P(s) is the set in each of them and has at most m(s) elements. P is the union of
these sets, so it has at most as many elements as the m(s) of all sources together. A record is its values in all
declared columns: records of one person that are equal in them are copies. Files that differ in a row or in a declared
column have other sources, and a record that is in several of them counts several times. So the sum may be too large.

The limit holds for the sum per record, and also for the sum per person if any of the releases protects persons. So it
does not matter which of a record-level and a person-level release comes first. It is basic composition, which is
proven for adaptively chosen releases (`privacy.composition`): each release counts with the most that it may spend, a
number fixed before its noise is drawn. If all releases have ids of persons, or none has, every earlier release that
includes a unit overlaps with the last one that includes it, so the sum checked at the last one is at least the cost of
the unit. If only some have ids, releases are also linked through others (`account`). A row that occurs only in releases
without ids is linked to no person.

The theorem holds for the releases that are made, given the decisions to make or refuse them. These decisions depend on
the records (shared rows, m) and are not private: a curator should not publish a refusal, or an ε chosen because of one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from privmix.privacy.composition import ROUNDING, group_cost
from privmix.release.public_plan import LEAST_EPSILON

DOUBLE = "add_remove counts double"


@dataclass(frozen=True)
class SpendingLimit:
    """The most that all releases together may cost."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Cost:
    """The most that one release may spend, for its unit and its relation."""

    label: str
    unit: Literal["record", "person"]
    relation: Literal["replace_one", "add_remove"]
    epsilon: float
    delta: float
    most: int | None = None  # largest number of records of one person; None without person ids
    nearby: float | None = None  # ε for nearby places, if the user gave that one and `epsilon` is for any two
    source: str | None = field(
        default=None, compare=False
    )  # a hash of its persons and their records; without ids, of all fingerprints


@dataclass(frozen=True)
class Charge:
    """One term of a sum: the cost of one release for one replaced unit."""

    cost: Cost
    records: int  # records of the unit in that release
    files: int = 1  # number of files with ids, with other records each, over which `records` is a sum

    @property
    def total(self) -> tuple[float, float]:
        """(ε, δ) for one replaced unit."""
        return group_cost(self.cost.epsilon, self.cost.delta, self.steps)

    @property
    def steps(self) -> int:
        """Number of neighbouring datasets between the two datasets that differ in the unit."""
        return math.prod(self.factors)

    @property
    def factors(self) -> tuple[int, ...]:
        """The factors of ε, without ones."""
        double = 2 if self.cost.relation == "add_remove" else 1
        return tuple(factor for factor in (self.records, double) if factor > 1)

    @property
    def reason(self) -> str:
        """The reasons why ε is not the number that the user gave."""
        cost, reasons = self.cost, []
        if cost.nearby is not None:
            reasons.append(
                f"ε = {number(cost.nearby)} for nearby places is ε = {number(cost.epsilon)} for any two"
            )
        if self.records > 1 and self.files > 1:
            reasons.append(
                f"the {self.files} files with person ids have up to {self.records} records of one person together"
            )
        elif self.records > 1:
            reasons.append(f"one person has up to {self.records} records in one of these releases")
        if cost.relation == "add_remove":
            reasons.append(DOUBLE)
        return ", ".join(reasons)


@dataclass(frozen=True)
class Statement:
    """The sum of all charges for one replaced unit."""

    unit: Literal["record", "person"]
    charges: tuple[Charge, ...]

    @property
    def total(self) -> tuple[float, float]:
        """(ε, δ) of all releases together."""
        epsilon, delta = (
            math.fsum(part) for part in zip(*(charge.total for charge in self.charges), strict=True)
        )
        return epsilon, delta

    def fits(self, limit: SpendingLimit) -> bool:
        """Return whether the sum is within the limit."""
        epsilon, delta = self.total
        return epsilon <= limit.epsilon * (1 + ROUNDING) and delta <= limit.delta * (1 + ROUNDING)

    def lines(self) -> list[str]:
        """Return one line per term, with equal terms as one, and the sum."""
        terms = Counter(self.charges)
        lines = [_term(charge, count) for charge, count in terms.items()]
        if len(self.charges) > 1:
            lines.append(f"sum: {_pair(*self.total)}")
        return lines


def _term(charge: Charge, count: int) -> str:
    epsilon, delta = charge.total
    factors = [*((count,) if count > 1 else ()), *charge.factors]
    product = " × ".join([*map(str, factors), number(charge.cost.epsilon)]) + " = " if factors else ""
    name = f"{count} releases of {charge.cost.label}" if count > 1 else charge.cost.label
    reason = f" ({charge.reason})" if charge.reason else ""
    return f"{name}: ε = {product}{number(count * epsilon)}, δ = {number(count * delta)}{reason}"


def _pair(epsilon: float, delta: float) -> str:
    return f"ε = {number(epsilon)}, δ = {number(delta)}"


def number(value: float) -> str:
    """Return a number with up to six digits."""
    return format(value, ".6g")


def statements(earlier: Sequence[Cost], new: Cost) -> list[Statement]:
    """Return the sum per record, and the sum per person if any of these releases protects persons."""
    every = [*earlier, new]
    known: dict[str | int, int] = {}  # largest number of records of one person, by file
    for place, cost in enumerate(every):
        if cost.most is not None:
            source = cost.source or place
            known[source] = max(cost.most, known.get(source, 0))
    largest, together = max(known.values(), default=1), max(sum(known.values()), 1)
    found = [Statement("record", tuple(Charge(cost, 1) for cost in every))]
    if any(cost.unit == "person" for cost in every):
        of_records = [
            Charge(cost, together, len(known)) if cost.most is None else Charge(cost, largest)
            for cost in every
        ]
        charges = [Charge(each.cost, 1) if each.cost.unit == "person" else each for each in of_records]
        found.append(Statement("person", tuple(charges)))
    return found


def largest_request(earlier: Sequence[Cost], new: Cost, limit: SpendingLimit) -> float:
    """Return the largest ε that a user may give, rounded down to four digits, or 0 if no release fits."""

    def fits(epsilon: float) -> bool:
        return all(each.fits(limit) for each in statements(earlier, replace(new, epsilon=epsilon)))

    low, high = 0.0, limit.epsilon
    if not fits(high):
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        high = low
    rounded = _round_down(high * (1 + ROUNDING))
    if not fits(rounded):
        return 0.0
    asked = rounded if new.nearby is None else _round_down(rounded * new.nearby / new.epsilon)
    return asked if asked >= LEAST_EPSILON else 0.0


def _round_down(value: float) -> float:
    if value <= 0:
        return 0.0
    digits = 3 - math.floor(math.log10(value))
    return float(f"{math.floor(value * 10.0**digits) / 10.0**digits:.4g}")


def describe_limit(limit: SpendingLimit) -> str:
    """Return the limit as text."""
    return f"the limit ε = {number(limit.epsilon)}, δ = {number(limit.delta)}"


def describe_largest(earlier: Sequence[Cost], new: Cost, limit: SpendingLimit) -> str:
    """Describe the largest ε of a release like `new` that fits after the earlier ones."""
    what = f"a request with {new.relation} at {new.unit} level and δ = {number(new.delta)}"
    most = largest_request(earlier, new, limit)
    if new.nearby is not None:
        what += " for nearby places"
    if most:
        return f"{what} may be at most ε = {number(most)}"
    return f"no ε fits for {what}, because a release needs at least ε = {number(LEAST_EPSILON)}"


def refusal(earlier: Sequence[Cost], new: Cost, limit: SpendingLimit, where: str) -> str:
    """Return the message that refuses a release: the sum that exceeds the limit, its terms, and what is left."""
    broken = max(
        (each for each in statements(earlier, new) if not each.fits(limit)),
        key=lambda each: (each.total, each.unit == "person"),
    )
    terms = "\n".join(f"  {line}" for line in broken.lines())
    largest = describe_largest(earlier, new, limit)
    advice = "Choose a smaller ε, or raise" if largest_request(earlier, new, limit) else "Raise"
    return (
        f"this release would exceed {describe_limit(limit)}. The costs for one replaced {broken.unit} of all releases "
        f"that share records or persons with it are:\n{terms}\n{largest[0].upper()}{largest[1:]}. {advice} "
        "release.limit_epsilon or release.limit_delta in the configuration if you accept the larger privacy loss "
        f"(account: {where})."
    )
