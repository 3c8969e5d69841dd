"""Sensitivities by brute force: random and adversarial neighbours come within 1 % of every bound and never exceed it.

The statistics are computed from their definition, record by record. Matrices are flattened to upper triangles, with
the entries off the diagonal times √2.
"""

import itertools
import math

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.privacy import sensitivity
from privmix.privacy.sensitivity import Neighbours

UNITS = [("record", 1), ("record", 3), ("person", 1), ("person", 3)]
RELATIONS = ["add_remove", "replace_one"]
COMPONENTS = 2
RADIUS = 1.7

every_relation = pytest.mark.parametrize("relation", RELATIONS)
every_unit = pytest.mark.parametrize(("unit", "most"), UNITS)
every_dimension = pytest.mark.parametrize("dimensions", [1, 2, 3])


def _statistics(responsibilities, points):
    """Return counts (K), sums (K, d) and upper triangles (K, d(d+1)/2) of the contribution of one record."""
    dimensions = points.shape[1]
    upper = np.triu_indices(dimensions)
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    outer = np.einsum("ki,kj->kij", points, points)[:, upper[0], upper[1]] * factor
    return responsibilities, responsibilities[:, None] * points, responsibilities[:, None] * outer


def _records(dimensions, generator, radius=RADIUS):
    """Return extreme and random records: (responsibilities, the point in the coordinates of each component)."""
    directions = [
        *np.eye(dimensions),
        *-np.eye(dimensions),
        *(np.array(list(itertools.product([-1.0, 1.0], repeat=dimensions))) / math.sqrt(dimensions)),
    ]
    if dimensions == 2:  # all angles, for bounds that are reached at neither 0 nor 180 degrees
        angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        directions += list(np.column_stack([np.cos(angles), np.sin(angles)]))
    corners = [
        (np.eye(COMPONENTS)[k], radius * np.tile(direction, (COMPONENTS, 1)))
        for k in range(COMPONENTS)
        for direction in directions
    ]
    random = []
    for _ in range(30):
        points = generator.normal(size=(COMPONENTS, dimensions))
        points *= radius * generator.random((COMPONENTS, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
        random.append((generator.dirichlet(np.full(COMPONENTS, 0.5)), points))
    return corners + random


def _changes(neighbours, contributions, generator):
    """Return the differences of the sum over all neighbours tried, one row each.

    A person has one record repeated as often as allowed, or a few random records (possibly fewer than allowed). The
    records of all other persons cancel out.
    """
    contributions = np.asarray(contributions)
    most = {"record": 1, "person": neighbours.max_records}[neighbours.unit]
    units = [most * row for row in contributions]
    for _ in range(30):
        held = generator.integers(len(contributions), size=generator.integers(1, most + 1))
        units.append(contributions[held].sum(axis=0))
    units = np.asarray(units)
    if neighbours.relation == "add_remove":
        return units
    return (units[:, None, :] - units[None, :, :]).reshape(-1, units.shape[1])


def _reached(bound, found):
    assert found <= bound * (1 + 1e-9)
    assert found >= 0.99 * bound


def _largest(changes, norm):
    return float(np.linalg.norm(changes, ord=norm, axis=1).max())


@every_relation
@every_unit
def test_counts_and_histograms(relation, unit, most):
    neighbours, generator = Neighbours(unit, relation, most), np.random.Generator(np.random.PCG64(1))
    histogram = np.eye(4)
    responsibilities = np.concatenate([generator.dirichlet(np.full(4, 0.3), size=40), np.eye(4)])
    bound = sensitivity.counts(neighbours)
    for contributions in (histogram, responsibilities):
        changes = _changes(neighbours, contributions, generator)
        _reached(bound.l1, _largest(changes, 1))
        _reached(bound.l2, _largest(changes, 2))


@every_relation
@every_unit
@every_dimension
def test_sums(relation, unit, most, dimensions):
    neighbours, generator = Neighbours(unit, relation, most), np.random.Generator(np.random.PCG64(2))
    contributions = [_statistics(*record)[1].ravel() for record in _records(dimensions, generator)]
    changes = _changes(neighbours, contributions, generator)
    bound = sensitivity.sums(neighbours, dimensions=dimensions, radius=RADIUS)
    _reached(bound.l1, _largest(changes, 1))
    _reached(bound.l2, _largest(changes, 2))


@every_relation
@every_unit
@every_dimension
def test_second_moments(relation, unit, most, dimensions):
    neighbours, generator = Neighbours(unit, relation, most), np.random.Generator(np.random.PCG64(3))
    contributions = [_statistics(*record)[2].ravel() for record in _records(dimensions, generator)]
    changes = _changes(neighbours, contributions, generator)
    _reached(sensitivity.second_moments(neighbours, radius=RADIUS), _largest(changes, 2))


# Plain weights, the weights that minimise the predicted loss for d = 2, c = 3, and two with b² > 2ae: opposition inside
# the domain, and at its edge.
WEIGHTS = {
    "plain": (1.0, 1.0, 1.0, RADIUS),
    "least loss": (0.5**0.25, 1 / math.sqrt(3), (6 / 8) ** 0.25 / 3, 3.0),
    "opposed inside": (0.5, 2.0, 1.0, 2.0),
    "opposed at the edge": (0.2, 2.0, 0.2, 1.0),
}


@every_relation
@every_unit
@pytest.mark.parametrize("weights", WEIGHTS)
def test_joint_release_of_all_statistics(relation, unit, most, weights):
    a, b, e, radius = WEIGHTS[weights]
    neighbours, generator = Neighbours(unit, relation, most), np.random.Generator(np.random.PCG64(4))
    contributions = []
    for record in _records(2, generator, radius):
        counts, sums, squares = _statistics(*record)
        contributions.append(np.concatenate([a * counts, b * sums.ravel(), e * squares.ravel()]))
    changes = _changes(neighbours, contributions, generator)
    bound = sensitivity.joint(neighbours, radius=radius, count=a, total=b, square=e)
    _reached(bound, _largest(changes, 2))


@every_relation
@every_unit
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("absent", [1, 2])
def test_joint_release_of_records_that_lack_coordinates(relation, unit, most, weights, absent):
    """Projections onto at most `absent` dimensions are added to the squares, orthogonal to the place."""
    a, b, e, radius = WEIGHTS[weights]
    neighbours, generator = Neighbours(unit, relation, most), np.random.Generator(np.random.PCG64(4))
    upper = np.triu_indices(3)
    factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    contributions = []
    for responsibilities, points in _records(2, generator, radius):
        for turn in (np.eye(3), np.linalg.qr(generator.normal(size=(3, 3)))[0]):
            lacking = int(generator.integers(absent + 1)) if len(contributions) % 3 else absent
            # Places in the span of the first 3 - absent axes, with their old length, then turned.
            flat = np.zeros((COMPONENTS, 3))
            flat[:, : min(2, 3 - lacking)] = points[:, : min(2, 3 - lacking)]
            flat *= (np.linalg.norm(points, axis=1) / np.maximum(np.linalg.norm(flat, axis=1), 1e-9))[:, None]
            flat[np.linalg.norm(flat, axis=1) > radius * (1 + 1e-9)] = 0.0
            unknown = turn @ np.diag([0.0] * (3 - lacking) + [1.0] * lacking) @ turn.T
            places = flat @ turn.T
            matrices = np.einsum("ki,kj->kij", places, places) + unknown
            squares = matrices[:, upper[0], upper[1]] * factor * responsibilities[:, None]
            sums = responsibilities[:, None] * places
            contributions.append(
                np.concatenate([a * responsibilities, b * sums.ravel(), e * squares.ravel()])
            )
    found = _largest(_changes(neighbours, contributions, generator), 2)
    bound = sensitivity.joint(neighbours, radius=radius, count=a, total=b, square=e, absent=absent)
    assert found <= bound * (1 + 1e-9)
    if relation == "add_remove" or b * b <= 2 * a * e:  # otherwise the two worst cases exclude each other
        assert found >= 0.99 * bound


def test_joint_sensitivity_has_the_known_values():
    add, replace = (Neighbours("record", relation) for relation in RELATIONS)
    assert sensitivity.joint(add, radius=1.0) == pytest.approx(math.sqrt(3))
    assert sensitivity.joint(replace, radius=1.0) == pytest.approx(math.sqrt(6))
    a, b, e, radius = WEIGHTS["least loss"]
    assert b * b <= 2 * a * e
    weighted = [sensitivity.joint(n, radius=radius, count=a, total=b, square=e) for n in (add, replace)]
    assert weighted == pytest.approx([3.39, 3.39 * math.sqrt(2)], abs=0.01)
    assert sensitivity.joint(add, radius=3.0) == pytest.approx(9.54, abs=0.01)


@every_relation
@every_dimension
def test_the_upper_triangle_as_it_stands_moves_no_further_than_the_frobenius_norm(relation, dimensions):
    neighbours, generator = Neighbours("record", relation), np.random.Generator(np.random.PCG64(5))
    upper = np.triu_indices(dimensions)
    contributions = [np.outer(points[0], points[0])[upper] for _, points in _records(dimensions, generator)]
    changes = _changes(neighbours, contributions, generator)
    assert _largest(changes, 2) <= sensitivity.second_moments(neighbours, radius=RADIUS) * (1 + 1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_radii_and_weights_are_refused_with_the_value(bad):
    neighbours = Neighbours("record", "replace_one")
    for call in (
        lambda: sensitivity.sums(neighbours, dimensions=2, radius=bad),
        lambda: sensitivity.second_moments(neighbours, radius=bad),
        lambda: sensitivity.joint(neighbours, radius=bad),
        lambda: sensitivity.joint(neighbours, radius=1.0, count=bad),
        lambda: sensitivity.joint(neighbours, radius=1.0, total=bad),
        lambda: sensitivity.joint(neighbours, radius=1.0, square=bad),
        lambda: sensitivity.joint(neighbours, radius=1.0, attributes=1, value=bad),
    ):
        with pytest.raises(UserError, match=f"= {bad!r} must be"):
            call()
    with pytest.raises(UserError, match="dimensions = 0"):
        sensitivity.sums(neighbours, dimensions=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("household", "replace_one"), "unit = 'household' is unknown; choose one of record, person"),
        (("record", "swap"), "relation = 'swap' is unknown"),
        (("person", "add_remove", 0), "max_records = 0"),
    ],
)
def test_unknown_neighbours_are_refused_with_the_value(arguments, message):
    with pytest.raises(UserError, match=message):
        Neighbours(*arguments)


def test_a_negative_number_of_attributes_is_refused():
    with pytest.raises(UserError, match="attributes = -1 must not be negative"):
        sensitivity.joint(Neighbours("record", "replace_one"), radius=1.0, attributes=-1)
    with pytest.raises(UserError, match="absent = -1 must not be negative"):
        sensitivity.joint(Neighbours("record", "replace_one"), radius=1.0, absent=-1)


def test_the_size_is_public_only_if_every_record_counts():
    assert Neighbours("record", "replace_one").size_is_public
    assert not Neighbours("record", "replace_one", all_counted=False).size_is_public
    assert not Neighbours("record", "add_remove").size_is_public
    assert not Neighbours("person", "replace_one", 3).size_is_public


@every_unit
def test_a_record_that_contributes_nothing_is_within_every_bound_of_replacing(unit, most):
    """Replacing a unit by one without complete records changes a sum by no more than adding it does."""
    replace, add = (
        Neighbours(unit, "replace_one", most, all_counted=False),
        Neighbours(unit, "add_remove", most),
    )
    bounds = [
        lambda neighbours: sensitivity.counts(neighbours).l1,
        lambda neighbours: sensitivity.counts(neighbours).l2,
        lambda neighbours: sensitivity.sums(neighbours, dimensions=3).l2,
        lambda neighbours: sensitivity.second_moments(neighbours),
        lambda neighbours: sensitivity.joint(neighbours, radius=2.0),
    ]
    assert all(bound(add) <= bound(replace) for bound in bounds)
