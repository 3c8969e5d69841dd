"""Local mechanisms: what one record's report may tell, and what a fit recovers from the reports alone."""

import itertools
import math

import numpy as np
import pytest
from making import clusters, make_spec

from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded
from privmix.mechanisms.gaussian_input import GaussianInput
from privmix.mechanisms.grid import Grid, nearly_cubic
from privmix.mechanisms.laplace_input import LaplaceInput
from privmix.mechanisms.randomized_response import RandomizedResponse
from privmix.mechanisms.running import run
from privmix.privacy.accounting import Budget, gaussian_delta

LOCAL = [name for name in registry.METHODS if registry.method_class(name).trust == "local"]
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


@pytest.mark.parametrize("mechanism", [LaplaceInput(), GaussianInput(), RandomizedResponse()])
def test_claim_is_the_budget(mechanism):
    spec = make_spec(attributes=ATTRIBUTES)
    codes = {"night": np.zeros(1000, dtype=np.int16), "colour": np.ones(1000, dtype=np.int16)}
    reports = mechanism.privatise(Records(clusters(), codes), spec, Budget(2.0, 1e-6), seeded(1))
    assert reports.claim.epsilon == pytest.approx(2.0, rel=1e-9)
    assert reports.claim.delta == (1e-6 if isinstance(mechanism, GaussianInput) else 0.0)


@pytest.mark.parametrize("method", LOCAL)
def test_answers_of_one_record_add_up_to_the_budget(method):
    spec = make_spec(attributes=ATTRIBUTES)
    plan = registry.build(method, {"attribute_share": 0.3}).plan(spec, Budget(2.0, 1e-6))
    assert plan.budget.epsilon == pytest.approx(1.4)
    assert plan.attribute_epsilon == pytest.approx(0.3)
    without = registry.build(method, {"attribute_share": 0}).plan(spec, Budget(2.0, 1e-6))
    assert (without.budget.epsilon, without.attribute_epsilon) == (2.0, 0.0)


def test_grid_depends_on_public_values_alone():
    """The rule sees only N, epsilon and the box; more of either gives no fewer cells."""
    mechanism = RandomizedResponse()

    def cells(rows, epsilon):
        spec = make_spec(rows=rows)
        return mechanism.channel(spec, mechanism.plan(spec, Budget(epsilon, 0.0)))[0].cells

    table = [[cells(rows, epsilon) for epsilon in (0.1, 1.0, 10.0)] for rows in (100, 10_000, 1_000_000)]
    assert np.array_equal(table, np.sort(table, axis=0))
    assert np.array_equal(table, np.sort(table, axis=1))
    assert table[0][0] >= 2


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
    grid = nearly_cubic(np.zeros(2), np.array([2.0, 1.0]), 800)
    assert 600 <= grid.cells <= 800
    assert grid.shape[0] / grid.shape[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input"])
@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_knowing_the_noise_helps(method, epsilon):
    spec, points, held_out = make_spec(rows=5000), clusters(5000), clusters(2000)
    scores = {}
    for reading in ("naive", "aware"):
        mechanism = registry.build(method, {"fit": reading})
        release = run(mechanism, Records(points), spec, Budget(epsilon, 1e-6), seeded(1, method, epsilon))
        scores[reading] = release.mixture.log_density(held_out).mean()
    assert scores["aware"] > scores["naive"] + 0.1


def test_randomized_response_finds_the_clusters_when_epsilon_is_large():
    spec, points = make_spec(rows=20_000), clusters(20_000)
    release = run(RandomizedResponse(), Records(points), spec, Budget(8.0, 0.0), seeded(1))
    uniform = -np.log(np.prod(spec.domain.upper - spec.domain.lower))
    assert release.mixture.log_density(clusters(2000)).mean() > uniform + 1.0


def test_proportions_are_near_the_truth_with_intervals_that_say_how_near():
    spec = make_spec(attributes=ATTRIBUTES, rows=20_000)
    generator = np.random.Generator(np.random.PCG64(2))
    codes = {"night": (generator.random(20_000) < 0.3).astype(np.int16),
             "colour": generator.integers(3, size=20_000).astype(np.int16)}  # fmt: skip
    release = run(RandomizedResponse(), Records(clusters(20_000), codes), spec, Budget(5.0, 0.0), seeded(4))
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
    reports = RandomizedResponse().privatise(Records(clusters(), codes), spec, Budget(1.0, 0.0), seeded(1))
    assert set(reports.columns) == {"cell", "a_night"}
    rows = LaplaceInput().privatise(Records(clusters(), codes), spec, Budget(1.0, 0.0), seeded(1))
    assert set(rows.columns) == {"y0", "y1", "a_night"}


@pytest.mark.parametrize("mechanism", [LaplaceInput(), GaussianInput(), RandomizedResponse()])
def test_extreme_budgets_and_tiny_data_give_valid_mixtures(mechanism):
    for points, epsilon in itertools.product([np.zeros((4, 2)), clusters(60)], [0.01, 100.0]):
        spec = make_spec(rows=len(points))
        mixture = run(mechanism, Records(points), spec, Budget(epsilon, 1e-6), seeded(1)).mixture
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
