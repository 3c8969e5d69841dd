"""Canaries: pairs of worlds differ only in their last unit, as the relation states."""

import numpy as np
import pytest
from making import clusters, make_spec

from privmix.audit import crafted_worlds
from privmix.audit.canaries import list_canaries, neighbours_with_canary
from privmix.mechanisms.base import Records
from privmix.mechanisms.registry import build
from privmix.privacy.sensitivity import Neighbours

KINDS = [(unit, relation) for unit in ("record", "person") for relation in ("replace_one", "add_remove")]


def _without_last(records, unit):
    units = records.units(unit)
    return records.select(np.flatnonzero(units < units.max()))


def _same(first, second):
    codes = all(np.array_equal(first.codes[name], second.codes[name]) for name in first.codes)
    return codes and np.array_equal(first.points, second.points)


def _assert_neighbours(pair, unit, relation):
    if relation == "replace_one":
        assert len(pair.mine) == len(pair.other)
        assert _same(_without_last(pair.mine, unit), _without_last(pair.other, unit))
        assert not _same(pair.mine, pair.other)
    else:
        longer, shorter = sorted([pair.mine, pair.other], key=len, reverse=True)
        assert _same(_without_last(longer, unit), shorter)


@pytest.mark.parametrize(("unit", "relation"), KINDS)
def test_crafted_worlds_are_neighbours(unit, relation):
    for pair in crafted_worlds.crafted_pairs(build("dp_em", {}), unit, relation):
        _assert_neighbours(pair, unit, relation)
        largest = np.unique(pair.mine.persons, return_counts=True)[1].max()
        assert largest <= pair.spec.neighbours.records


@pytest.mark.parametrize(("unit", "relation"), KINDS)
def test_worlds_with_real_records_are_neighbours(unit, relation):
    spec = make_spec(rows=90, unit=unit, relation=relation, max_records=3 if unit == "person" else 1)
    records = Records(clusters(90), {}, np.repeat(np.arange(30), 3))
    neighbours = Neighbours(unit, relation, 3 if unit == "person" else 1)
    for pair in neighbours_with_canary(records, spec, neighbours):
        assert pair.mine is records
        _assert_neighbours(pair, unit, relation)


def test_a_replace_one_mechanism_gets_replaced_units():
    (pair, *_) = crafted_worlds.crafted_pairs(build("laplace_input", {}), "record", "add_remove")
    assert len(pair.mine) == len(pair.other)


def test_alternatives_differ_in_every_attribute():
    (pair, *_) = crafted_worlds.crafted_pairs(build("laplace_input", {}), "record", "replace_one")
    assert pair.mine.codes["answer"][-1] != pair.other.codes["answer"][-1]


@pytest.mark.parametrize("dimensions", [1, 2, 6])
def test_canaries_lie_at_the_edge_of_the_box_and_outside(dimensions):
    spec = make_spec(dimensions=dimensions)
    for canary in list_canaries(spec):
        for place in (canary.place, canary.alternative):
            clipped = spec.inside(place[None])[0]
            assert np.isin(clipped, [*spec.domain.lower, *spec.domain.upper]).any()
    assert any((np.abs(canary.place) > np.abs(spec.domain.upper)).all() for canary in list_canaries(spec))
