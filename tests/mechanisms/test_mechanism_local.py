"""Local mechanisms: what one report may reveal, and what a fit recovers from the reports only."""

import itertools
import math

import numpy as np
import pytest
from making import LOCAL, clusters, make_mechanism, make_spec
from scipy import stats

from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local.gaussian_input import GaussianInput
from privmix.mechanisms.local.laplace_input import LaplaceInput
from privmix.mechanisms.local.randomized_response import RandomizedResponse
from privmix.mechanisms.run import run
from privmix.mechanisms.shared.partitions import Grid, cubic_grid
from privmix.privacy.accounting import Budget, claim, gaussian_delta

ATTRIBUTES = (("night", ("no", "yes")), ("colour", ("red", "green", "blue")))


def _asked_scale(mechanism, epsilon, recording, dimensions=2):
    spec = make_spec(dimensions=dimensions)
    points = clusters(50, dimensions)
    mechanism.privatise(Records(points), spec, Budget(epsilon, 1e-6), recording)
    return recording.noise.asked[0]


@pytest.mark.parametrize("dimensions", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_laplace_density_ratio_is_at_most_e_to_the_epsilon(dimensions, epsilon, recording):
    """Over all pairs of corners of the public box and reports near them: and it is reached."""
    _, scale, shape = _asked_scale(LaplaceInput(), epsilon, recording, dimensions)
    assert shape == (50, dimensions)
    spec = make_spec(dimensions=dimensions)
    corners = list(itertools.product(*zip(spec.domain.lower, spec.domain.upper, strict=True)))
    worst = max(
        (np.abs(np.subtract(report, other)).sum() - np.abs(np.subtract(report, one)).sum()) / scale
        for one in corners
        for other in corners
        for report in corners
    )
    assert worst == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_gaussian_rows_meet_the_exact_profile(epsilon, recording):
    _, sigma, _ = _asked_scale(GaussianInput(), epsilon, recording)
    spec = make_spec()
    diameter = np.linalg.norm(spec.domain.upper - spec.domain.lower)
    assert gaussian_delta(epsilon, diameter / sigma) == pytest.approx(1e-6, rel=1e-6)
    assert gaussian_delta(epsilon, 2 * diameter / sigma) > 1e-6  # what halved noise would give


def _records(spec, rows=300):
    """Return records in three clusters, with attributes if the domain has any, two of each person."""
    codes = {each.name: np.arange(rows) % len(each.values) for each in spec.domain.attributes}
    return Records(clusters(rows), codes, np.arange(rows) // 2)


WORLDS = {
    "records": {},
    "records with attributes": {"attributes": ATTRIBUTES},
    "people": {"unit": "person", "max_records": 2},
    "people with attributes": {"unit": "person", "max_records": 2, "attributes": ATTRIBUTES},
}


@pytest.mark.parametrize("epsilon", [0.05, 2.0, 20.0])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("method", LOCAL)
def test_claim_is_the_budget(method, world, epsilon):
    spec, mechanism = make_spec(rows=300, **WORLDS[world]), make_mechanism(method)
    reports = mechanism.privatise(_records(spec), spec, Budget(epsilon, 1e-6), seeded_randomness(1))
    assert reports.claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert reports.claim.delta in (0.0, pytest.approx(1e-6, rel=1e-6))
    assert claim(reports.events, Budget(epsilon, 1e-6), mechanism.accountant) == reports.claim


@pytest.mark.parametrize("epsilon", [0.01, 100.0])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("method", LOCAL)
def test_the_smallest_and_largest_budgets_give_valid_mixtures(method, world, epsilon):
    spec, mechanism = make_spec(n_components=4, rows=60, **WORLDS[world]), make_mechanism(method)
    release = run(mechanism, _records(spec, 60), spec, Budget(epsilon, 1e-6), seeded_randomness(1))
    mixture = release.mixture
    assert np.isfinite(mixture.log_density(clusters(60))).all()
    assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()
    assert (mixture.means >= spec.domain.lower - 1e-9).all()
    assert (mixture.means <= spec.domain.upper + 1e-9).all()
    assert mixture.weights.sum() == pytest.approx(1.0)
    asked = {proportion.attribute for proportion in release.proportions}
    assert asked == {attribute.name for attribute in spec.domain.attributes}


ASKED_AT_ONCE = [name for name in LOCAL if name != "adaptive_tree_response"]


@pytest.mark.parametrize("method", ASKED_AT_ONCE)
def test_a_report_depends_only_on_its_own_record(method):
    """With the same draws, changes of other records leave a record's report unchanged."""
    spec, mechanism = make_spec(rows=40, attributes=ATTRIBUTES), make_mechanism(method)
    codes = {"night": np.arange(40) % 2, "colour": np.arange(40) % 3}
    points, elsewhere = clusters(40), np.zeros((40, 2))
    elsewhere[7] = points[7]
    # All others answer something else.
    others = {
        name: np.where(np.arange(40) == 7, code, (code + 1) % (code.max() + 1))
        for name, code in codes.items()
    }
    one, two = (
        mechanism.privatise(Records(*each), spec, Budget(1.0, 1e-6), seeded_randomness(5)).columns
        for each in ((points, codes), (elsewhere, others))
    )
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].dtype == two[name].dtype
        assert np.array_equal(one[name][7], two[name][7])
    assert any(not np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("method", LOCAL)
def test_the_answers_of_one_record_are_independent(method):
    """Shared coins would reveal which answers of a record are lies: the budgets add up only without them."""
    spec, mechanism, rows = make_spec(rows=20_000, attributes=ATTRIBUTES), make_mechanism(method), 20_000
    codes = {"night": np.ones(rows, dtype=np.int64), "colour": np.ones(rows, dtype=np.int64)}
    columns = mechanism.privatise(
        Records(np.full((rows, 2), 0.3), codes), spec, Budget(3.0, 1e-6), seeded_randomness(9)
    ).columns
    told = {name: _in_few(values) for name, values in columns.items()}
    for one, other in itertools.combinations(told, 2):
        table = np.zeros((told[one].max() + 1, told[other].max() + 1))
        np.add.at(table, (told[one], told[other]), 1)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        if min(table.shape) > 1 and {one, other} & {"a_night", "a_colour"}:
            assert stats.chi2_contingency(table).pvalue > 1e-6, (one, other)


def _in_few(values):
    """Reports as one of a few classes each."""
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    if values.dtype.kind == "f":
        return (values > np.median(values)).astype(np.int64)
    return octets[:, 0].astype(np.int64) % 8


@pytest.mark.parametrize("method", ASKED_AT_ONCE)
def test_parts_of_the_records_answer_as_all_of_them_do(method):
    """The same question, the same columns and the same cost, for any part."""
    spec, mechanism = make_spec(rows=300), make_mechanism(method)
    points = clusters(300)
    parts = [
        mechanism.privatise(Records(each), spec, Budget(1.0, 1e-6), seeded_randomness(5))
        for each in (points[:1], points[1:40], points[40:], np.zeros((9, 2)))
    ]
    assert [len(part) for part in parts] == [1, 39, 260, 9]
    kinds = [{name: (each.dtype, each.shape[1:]) for name, each in part.columns.items()} for part in parts]
    assert all(kind == kinds[0] for kind in kinds)
    assert all(list(part.events) == list(parts[0].events) for part in parts)
    assert all(part.asked == parts[0].asked for part in parts)


@pytest.mark.parametrize("method", LOCAL)
def test_answers_of_one_record_add_up_to_the_budget(method):
    spec = make_spec(attributes=ATTRIBUTES)
    plan = make_mechanism(method, attribute_share=0.3).plan(spec, Budget(2.0, 1e-6))
    assert plan.budget.epsilon == pytest.approx(1.4)
    assert plan.attribute_epsilon == pytest.approx(0.3)
    without = make_mechanism(method, attribute_share=0).plan(spec, Budget(2.0, 1e-6))
    assert (without.budget.epsilon, without.attribute_epsilon) == (2.0, 0.0)


def test_every_point_of_the_box_is_in_exactly_its_cell():
    grid = Grid(np.array([-1.0, 0.0]), np.array([1.0, 1.0]), (4, 3))
    lower, upper = grid.boxes()
    generator = np.random.Generator(np.random.PCG64(1))
    points = np.vstack([generator.uniform(grid.lower, grid.upper, (500, 2)), [[1.0, 1.0], [-1.0, 0.0]]])
    cells = grid.locate(points)
    assert (points >= lower[cells] - 1e-12).all()
    assert (points <= upper[cells] + 1e-12).all()
    assert np.prod(upper - lower, axis=1).sum() == pytest.approx(2.0)


def test_grid_cells_are_nearly_cubic():
    grid = cubic_grid(np.zeros(2), np.array([2.0, 1.0]), 800)
    assert 600 <= grid.cells <= 800
    assert grid.shape[0] / grid.shape[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input"])
@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_knowing_the_noise_helps(method, epsilon):
    spec, points, held_out = make_spec(rows=5000), clusters(5000), clusters(2000)
    scores = {}
    for reading in ("naive", "aware"):
        mechanism = registry.build(method, {"fit": reading})
        release = run(
            mechanism, Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1, method, epsilon)
        )
        scores[reading] = release.mixture.log_density(held_out).mean()
    assert scores["aware"] > scores["naive"] + 0.1


def test_proportions_are_near_the_truth_with_intervals():
    spec = make_spec(attributes=ATTRIBUTES, rows=20_000)
    generator = np.random.Generator(np.random.PCG64(2))
    codes = {"night": (generator.random(20_000) < 0.3).astype(np.int16),
             "colour": generator.integers(3, size=20_000).astype(np.int16)}  # fmt: skip
    release = run(
        RandomizedResponse(), Records(clusters(20_000), codes), spec, Budget(5.0, 0.0), seeded_randomness(4)
    )
    found = {(p.attribute, p.value): p for p in release.proportions}
    assert len(found) == 5
    for (attribute, value), proportion in found.items():
        values = dict(ATTRIBUTES)[attribute]
        truth = (codes[attribute] == values.index(value)).mean()
        assert abs(proportion.estimate - truth) < 5 * proportion.standard_error
        low, high = proportion.chebyshev
        assert low <= proportion.normal[0] <= proportion.normal[1] <= high


def test_reports_hold_nothing_but_answers():
    spec = make_spec(attributes=ATTRIBUTES[:1])
    codes = {"night": np.zeros(1000, dtype=np.int16)}
    reports = RandomizedResponse().privatise(
        Records(clusters(), codes), spec, Budget(1.0, 0.0), seeded_randomness(1)
    )
    assert set(reports.columns) == {"cell", "a_night"}
    rows = LaplaceInput().privatise(Records(clusters(), codes), spec, Budget(1.0, 0.0), seeded_randomness(1))
    assert set(rows.columns) == {"y0", "y1", "a_night"}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("method", [name for name in LOCAL if name.endswith("_response")])
def test_no_records_give_empty_reports_of_the_same_columns(method, world):
    """And a fit to them is an error message."""
    spec, mechanism, budget = make_spec(rows=300, **WORLDS[world]), make_mechanism(method), Budget(1.0, 1e-6)
    nothing, some = (
        mechanism.privatise(_records(spec, rows), spec, budget, seeded_randomness(1)) for rows in (0, 100)
    )
    assert len(nothing) == 0
    assert list(nothing.events) == list(some.events)
    assert nothing.columns.keys() == some.columns.keys()
    with pytest.raises(UserError, match="no report"):
        mechanism.fit(nothing, spec, budget, seeded_randomness(1))


@pytest.mark.parametrize("method", LOCAL)
def test_tiny_data_gives_valid_mixtures(method):
    for points, epsilon in itertools.product([np.zeros((1, 2)), np.zeros((4, 2))], [0.01, 100.0]):
        spec = make_spec(rows=len(points))
        mixture = run(
            make_mechanism(method), Records(points), spec, Budget(epsilon, 1e-6), seeded_randomness(1)
        ).mixture
        assert np.isfinite(mixture.log_density(points)).all()


@pytest.mark.parametrize(
    ("method", "parameters", "sentence"),
    [
        ("dp_emm", {}, "did you mean 'dp_em'"),
        ("dp_em", {"noise": "lll"}, "noise = 'lll'"),
        ("dp_em", {"compositon": "linear"}, "did you mean 'composition'"),
        ("dp_em", {"iterations": 0}, "iterations = 0"),
        ("laplace_input", {"fit": "wise"}, "fit = 'wise'"),
        ("randomized_response", {"attribute_share": math.nan}, "attribute_share"),
    ],
)
def test_wrong_parameters_get_one_sentence(method, parameters, sentence):
    with pytest.raises(UserError, match=sentence):
        registry.build(method, parameters)
