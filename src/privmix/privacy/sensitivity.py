"""Neighbouring datasets, and the sensitivity of a mixture's statistics: how far one unit can move them.

`Neighbours` states the unit that a guarantee protects (record or person) and how it changes (replaced, or added or
removed). Every function here takes it, and turns the bound on the contribution of one record into the bound for one
unit (`Neighbours.difference`), for sums over records.

A record contributes with responsibilities γ (γ_k ≥ 0, Σ γ_k = 1), computed from parameters that are public or
already measured, and as a point z_k in the coordinates of component k, clipped to ‖z_k‖₂ ≤ c (`radius`). Because
Σ γ_k² ≤ 1, no bound has a factor K. The bounds are reached if K ≥ 2 and d ≥ 2.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from privmix.errors import UserError
from privmix.privacy.ledger import check_member, check_positive

Unit = Literal["record", "person"]
Relation = Literal["replace_one", "add_remove"]


@dataclass(frozen=True)
class Neighbours:
    """Two datasets are neighbours if one unit is replaced, or is added or removed.

    The datasets are training sets. If a record is replaced, both datasets have the same number of records, which is
    public. The record keeps its person and its part of the split, and is as readable as before: cleaning leaves out
    rows with invalid values, and with missing values where the catalog declares none, so an unreadable record would
    change the public number. Whether a row was
    readable is therefore not protected, and the model card says so. If the number of records is private, an unreadable
    record counts as a removed one and is covered. A person has at most `max_records` records. Replacing a person keeps
    the number of persons, but not the number of records.

    Some statistics are of complete records only (`all_counted` is false): a record that lacks a coordinate contributes
    zero. Replacing a record may then replace its contribution by zero, so the number of records that contribute is
    private. All bounds cover this. A sum changes by the norm of one contribution, which is less than the bound for two
    (`difference`). A unit that no longer contributes is a unit removed, and the proofs that do not use `difference`
    (`privacy.privtree`, blocks of units, samples of units) cover removed units.
    """

    unit: Unit
    relation: Relation
    max_records: int = 1
    all_counted: bool = True  # whether every record contributes to the statistics

    def __post_init__(self) -> None:
        check_member(self.unit, get_args(Unit), "neighbours: unit")
        check_member(self.relation, get_args(Relation), "neighbours: relation")
        if not self.max_records >= 1:
            raise UserError(f"neighbours: max_records = {self.max_records!r} must be at least 1.")

    @property
    def records(self) -> int:
        """Largest number of records of one dataset that may differ."""
        return self.max_records if self.unit == "person" else 1

    @property
    def size_is_public(self) -> bool:
        """Whether the same number of records contributes in all neighbours, which makes this number public."""
        return self.unit == "record" and self.relation == "replace_one" and self.all_counted

    def difference(self, norm: float, *, opposed: bool) -> float:
        """Return the sensitivity of a sum over records whose contributions have at most this norm.

        Adding or removing a record changes the sum by `norm`. Replacing it changes the sum by the difference of two
        contributions: `2 norm` if they may point in opposite directions (`opposed`, or an L1 norm), and `sqrt(2) norm`
        in L2 if their inner product is never negative, since then
        |s - s'|^2 = |s|^2 + |s'|^2 - 2<s, s'> <= 2 norm^2. Several records add up by the triangle inequality.
        This covers a person replaced by one with fewer records, because a missing record contributes zero.
        """
        if self.relation == "add_remove":
            factor = 1.0
        else:
            factor = 2.0 if opposed else math.sqrt(2.0)
        return self.records * factor * norm


@dataclass(frozen=True)
class Sensitivity:
    """Largest change between neighbours in L1 (for Laplace noise) and in L2 (for Gaussian noise)."""

    l1: float
    l2: float


def counts(neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of (Σ_i γ_ik)_k: 1 (L1) and 1 (L2), or 2 and √2 when replacing.

    It also holds for any histogram, where γ is 1 in one cell. Contributions have L1 norm 1 and L2 norm at most 1, and
    are non-negative: no two of them are opposed in L2.
    """
    return Sensitivity(neighbours.difference(1.0, opposed=True), neighbours.difference(1.0, opposed=False))


def single_count(neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of the number of records with some property: m, or 1 if the unit is a record.

    A record contributes 0 or 1, so replacing, adding or removing it changes the number by at most 1. A person changes
    it once for each of at most m records. Replacing is not worse than adding, unlike in a histogram, where the record
    leaves one cell and enters another.
    """
    return Sensitivity(float(neighbours.records), float(neighbours.records))


def bounded_sum(neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of Σ_i z_i with |z_i| ≤ 1: m, or 2m when replacing, because z and z' may be opposed."""
    reach = neighbours.difference(1.0, opposed=True)
    return Sensitivity(reach, reach)


def bounded_sum_and_number(neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of (Σ_i z_i, number of these records) as one vector, with |z_i| ≤ 1.

    A record contributes (z, 1), or (0, 0) if it lacks the value. Adding or removing it moves the vector by |z| + 1 ≤ 2
    in L1 and √(z² + 1) ≤ √2 in L2. Replacing it moves the vector by (z - z', 0), of norm at most 2 in both, or, if only
    one of the two has the value, by at most as much as adding. So L1 is 2 in both relations, and L2 is √2 or 2.
    """
    moved = math.sqrt(2) if neighbours.relation == "add_remove" else 2.0
    return Sensitivity(2.0 * neighbours.records, moved * neighbours.records)


def rank_distance(neighbours: Neighbours, q: float) -> float:
    """Return the sensitivity of max(0, L - qn - w, qn + w - R), where L and R count records below and up to a value.

    n is the number of records with a value, and w is public. A record added below moves L - qn by 1 - q, any other by
    -q, and the same holds for R; the maximum of such terms moves by at most max(q, 1 - q). Replacing a record by one
    that also has a value keeps n and moves L and R by at most 1.
    """
    each = 1.0 if neighbours.relation == "replace_one" else max(q, 1 - q)
    return neighbours.records * each


def attribute_counts(neighbours: Neighbours, *, attributes: int) -> Sensitivity:
    """Return the sensitivity of (Σ_i γ_ik [c_ia = v])_kav: A (L1) and √A (L2) for A attributes, 2A and √(2A) replacing.

    A record adds γ to one value of each attribute: L1 norm A, L2 norm √(A Σ γ_k²) ≤ √A, and no negative number.
    """
    if attributes < 1:
        raise UserError(f"sensitivity of attribute counts: attributes = {attributes!r} must be at least 1.")
    return Sensitivity(
        neighbours.difference(float(attributes), opposed=True),
        neighbours.difference(math.sqrt(attributes), opposed=False),
    )


def sums(neighbours: Neighbours, *, dimensions: int, radius: float = 1.0) -> Sensitivity:
    """Return the sensitivity of (Σ_i γ_ik z_ik)_k over all components together.

    It is √d c (L1) and c (L2), twice that when replacing. The L2 norm is √(Σ γ_k² ‖z_k‖²) ≤ c, the L1 norm at most
    Σ γ_k ‖z_k‖₁ ≤ √d c. z and -z are opposed.
    """
    if dimensions < 1:
        raise UserError(f"sensitivity of sums: dimensions = {dimensions!r} must be at least 1.")
    l2 = neighbours.difference(check_positive(radius, "sensitivity of sums: radius"), opposed=True)
    return Sensitivity(math.sqrt(dimensions) * l2, l2)


def second_moments(neighbours: Neighbours, *, radius: float = 1.0) -> float:
    """Return the L2 sensitivity of (Σ_i γ_ik z_ik z_ikᵀ)_k over all components together: c², or √2 c² when replacing.

    It is for the Frobenius norm of the matrices: the L2 norm of their upper triangles with the entries off the diagonal
    times √2. Without that factor it is an upper bound. ⟨zzᵀ, z'z'ᵀ⟩ = (z·z')² is never negative.
    """
    return neighbours.difference(
        check_positive(radius, "sensitivity of second moments: radius") ** 2, opposed=False
    )


def joint(
    neighbours: Neighbours,
    *,
    radius: float,
    count: float = 1.0,
    total: float = 1.0,
    square: float = 1.0,
    attributes: int = 0,
    value: float = 1.0,
    absent: int = 0,
) -> float:
    """Return the L2 sensitivity of all statistics as one vector, Σ_i (a γ_k, b γ_k z_k, e γ_k z_k z_kᵀ, f γ_k u_c)_k.

    The vector is for one Gaussian measurement. a, b, e, f are the weights `count`, `total`, `square`, `value`. The
    matrices count by their Frobenius norm (upper triangle, √2 off the diagonal). Without attributes, a contribution has
    ‖s‖² = Σ γ_k² (a² + b²‖z‖² + e²‖z‖⁴) ≤ S² = a² + b²c² + e²c⁴. When replacing,
    ‖s - s'‖² = ‖s‖² + ‖s'‖² - 2 Σ γ_k γ'_k g(z_k·z'_k) with g(t) = a² + b²t + e²t². If b² ≤ 2ae then g ≥ 0 and the
    bound is √2 S. Otherwise it is √(2 S² - 2 min g), with the minimum over |t| ≤ c².

    u_c has a 1 at the value of each of the A `attributes`, and 0 elsewhere. Its block adds f² A Σ γ_k² ≤ A f² to ‖s‖²,
    and so to S². It adds f² γ_k γ'_k to the inner product for each attribute on which the two records agree: never a
    negative number, and nothing if they agree on none.

    A record that lacks some of q coordinates (`absent`) contributes z_k z_kᵀ + v P_k instead of z_k z_kᵀ, where v is
    public, 0 ≤ v ≤ 1, and P_k is a projection onto p ≤ q dimensions with P_k z_k = 0. Then ⟨zzᵀ, P⟩ = zᵀPz = 0 and
    ‖P‖² = p, so ‖zzᵀ + vP‖² = ‖z‖⁴ + v²p ≤ c⁴ + q, and S² gains e²q. The inner product of two records gains
    e² γ_k γ'_k (v zᵀP'z + v z'ᵀPz' + v² tr PP'), and projections are positive semidefinite: never a negative number.
    """
    c = check_positive(radius, "joint sensitivity: radius")
    a = check_positive(count, "joint sensitivity: weight of counts")
    b = check_positive(total, "joint sensitivity: weight of sums")
    e = check_positive(square, "joint sensitivity: weight of second moments")
    f = check_positive(value, "joint sensitivity: weight of attribute values")
    if attributes < 0:
        raise UserError(f"joint sensitivity: attributes = {attributes!r} must not be negative.")
    if absent < 0:
        raise UserError(f"joint sensitivity: absent = {absent!r} must not be negative.")
    largest = a * a + b * b * c * c + e * e * (c**4 + absent) + attributes * f * f
    if neighbours.relation == "add_remove":
        return neighbours.difference(math.sqrt(largest), opposed=False)
    lowest = max(-b * b / (2 * e * e), -c * c)
    opposition = max(0.0, -(a * a + b * b * lowest + e * e * lowest * lowest))
    return neighbours.difference(math.sqrt(largest + opposition), opposed=False)
