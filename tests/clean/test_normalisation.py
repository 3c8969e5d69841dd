"""The public box fits into the unit ball for any bounds, and the map is invertible."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmix.artefacts.domain import Domain
from privmix.catalog.entry import Entry
from privmix.clean.normalisation import build_axes, clip
from privmix.errors import UserError

PROPERTY = settings(deadline=None, derandomize=True, max_examples=60)
EARTH = 6_371_000.0  # metres; only ratios of distances matter here


def box(columns: list[tuple[float, float, str | None]]) -> Domain:
    """Return the domain of coordinates with these bounds and kinds."""
    entry = Entry.model_validate(
        {
            "name": "box", "title": "", "description": "", "licence": {"spdx": "CC0-1.0"},
            "source": {"kind": "file", "path": ""}, "reader": {"format": "csv"},
            "columns": [
                {
                    "name": f"v{index}", "description": "", "type": "number", "lower": lower, "upper": upper,
                    "geographic": kind, "bound_reason": "given", "resolution": 1,
                }
                for index, (lower, upper, kind) in enumerate(columns)
            ],
            "coordinates": [f"v{index}" for index in range(len(columns))],
        }
    )  # fmt: skip
    return Domain(
        dataset="box", title="", axes=build_axes(entry), attributes=(), unit="record", relation="replace_one",
        max_records_per_person=1, visibility="public", rows=1,
    )  # fmt: skip


def bounds(low: float, high: float) -> st.SearchStrategy[tuple[float, float]]:
    ends = st.floats(low, high, allow_nan=False)
    return (
        st.tuples(ends, ends).map(sorted).filter(lambda pair: pair[1] - pair[0] > 1e-6 * (1 + abs(pair[0])))
    )


PLAIN = bounds(-1e9, 1e9).map(lambda pair: (*pair, None))
LATITUDE = bounds(-89, 89).map(lambda pair: (*pair, "latitude"))
LONGITUDE = bounds(-180, 360).map(lambda pair: (*pair, "longitude"))
COLUMNS = (
    st.tuples(st.lists(PLAIN, max_size=5), st.lists(LATITUDE, max_size=2), st.lists(LONGITUDE, max_size=2))
    .flatmap(lambda parts: st.permutations([*parts[0], *parts[1], *parts[2]]))
    .filter(bool)
)


@PROPERTY
@given(COLUMNS)
def test_every_corner_of_the_public_box_is_inside_the_unit_ball_and_touches_it(columns):
    domain = box(columns)
    corners = np.array(list(itertools.product(*((lower, upper) for lower, upper, _ in columns))))
    norms = np.linalg.norm(domain.normalise(corners), axis=1)
    assert norms.max() <= 1
    assert norms.min() >= 1 - 1e-6


@PROPERTY
@given(COLUMNS, st.randoms(use_true_random=False))
def test_denormalise_inverts_normalise(columns, drawn):
    domain = box(columns)
    values = np.array([[drawn.uniform(lower, upper) for lower, upper, _ in columns] for _ in range(5)])
    widths = np.array([upper - lower for lower, upper, _ in columns])
    size = widths + np.abs(values).max(axis=0)
    assert np.all(np.abs(domain.denormalise(domain.normalise(values)) - values) <= 1e-12 * size)


@PROPERTY
@given(LATITUDE, LONGITUDE, st.lists(PLAIN, max_size=3))
def test_geographic_axes_are_isotropic_in_metres_at_the_centre_of_the_box(latitude, longitude, others):
    domain = box([latitude, *others, longitude])
    north, east = domain.axes[0].scale, domain.axes[-1].scale
    middle = math.radians((latitude[0] + latitude[1]) / 2)
    metres_north = EARTH * math.radians(1)
    metres_east = EARTH * math.radians(1) * math.cos(middle)
    assert east / north == pytest.approx(metres_east / metres_north, rel=1e-9)


@PROPERTY
@given(st.lists(PLAIN, min_size=1, max_size=6), st.booleans())
def test_each_other_axis_has_the_half_width_one_over_root_d(others, with_place):
    columns = others + [(40.0, 42.0, "latitude"), (-3.0, 5.0, "longitude")] * with_place
    domain = box(columns)
    half = (domain.upper - domain.lower) / 2
    assert half[: len(others)] == pytest.approx(1 / math.sqrt(len(columns)), rel=1e-9)
    if with_place:
        assert math.hypot(*half[-2:]) == pytest.approx(math.sqrt(2 / len(columns)), rel=1e-9)


def test_the_world_keeps_degrees_square():
    domain = box([(-90, 90, "latitude"), (-180, 180, "longitude")])
    assert domain.axes[0].scale == domain.axes[1].scale
    assert domain.axes[0].scale == pytest.approx(1 / math.hypot(90, 180))
    assert [axis.centre for axis in domain.axes] == [0, 0]


def test_a_latitude_beyond_the_poles_is_refused():
    with pytest.raises(UserError, match=r"'v0' is a latitude with bounds \[-90, 120\]"):
        box([(-90, 120, "latitude")])


def test_values_outside_are_clipped_to_the_bounds_and_counted_by_column():
    values = np.array([[-1.0, 5.0], [0.5, 10.0], [2.0, 10.5], [1.0, -0.1]])
    clipped, outside = clip(values, np.array([0.0, 0.0]), np.array([1.0, 10.0]))
    assert clipped.tolist() == [[0, 5], [0.5, 10], [1, 10], [1, 0]]
    assert outside.tolist() == [2, 2]
