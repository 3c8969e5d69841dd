"""Randomized response on a grid: what a report may reveal, that files return reports, and what a fit recovers.

A comparison fails by chance with a probability below 1e-6 over seeds (5 standard errors are 5.7e-7).
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from making import clusters, make_domain, make_spec

from privmix.artefacts.private import PrivateInfo, private_writer, read_private
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.local.base import CoordinateReports, decode_reports
from privmix.mechanisms.local.randomized_response import RandomizedResponse, component_numbers
from privmix.mechanisms.run import MechanismJob, run
from privmix.privacy.accounting import Budget, Claim
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise, stream
from privmix.privacy.oracles import BY_NAME, best_for, small_for

ORACLES = ["auto", *BY_NAME]


def asked(oracle="auto", epsilon=1.0, rows=2000, dimensions=2, mechanism=None):
    """Return a mechanism, its public values, and the plan, grid and oracle that follow from them."""
    mechanism, spec = (
        mechanism or RandomizedResponse(oracle=oracle),
        make_spec(rows=rows, dimensions=dimensions),
    )
    plan = mechanism.plan(spec, Budget(epsilon, 0.0))
    return mechanism, spec, plan, *mechanism.channel(spec, plan)


def answered(mechanism, spec, plan, points, seed=1):
    source = SeededNoise(stream(seed, "answers", mechanism.oracle))
    return mechanism.answer(points, spec, plan, source, Ledger())


def supports_as_stated(oracle, support, own, people):
    """Whether the own cell is supported with the oracle's p, and every other with its q, within 5 deviations."""
    chance = np.full(oracle.categories, oracle.other)
    chance[own] = oracle.truth
    return bool(
        (np.abs(support - people * chance) < 5 * np.sqrt(people * chance * (1 - chance)) + 1e-9).all()
    )


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_report_has_the_law_of_its_oracle_and_of_no_other_budget(name, epsilon):
    """People in one cell, through the whole of `answer`: with the place's ε, and not with 2/3 or 3/2 of it."""
    mechanism, spec, plan, grid, _ = asked(name, epsilon, rows=1500)
    oracle = BY_NAME[name](grid.cells, epsilon)
    people, own = 100_000, grid.cells // 2
    lower, upper = grid.boxes()
    answers = answered(mechanism, spec, plan, np.tile((lower[own] + upper[own]) / 2, (people, 1)))
    reports = decode_reports(answers.columns["cell"], oracle.report)
    assert supports_as_stated(oracle, oracle.support(reports), own, people)
    for factor in (2 / 3, 3 / 2):
        other = BY_NAME[name](oracle.categories, factor * epsilon)
        if other.report == oracle.report and getattr(other, "buckets", 0) == getattr(oracle, "buckets", 0):
            assert not supports_as_stated(other, oracle.support(reports), own, people)


@pytest.mark.parametrize("name", ["grr", "oue", "subset", "hadamard"])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_no_two_cells_differ_by_more_than_epsilon_in_any_report(name, epsilon):
    """The exact table over all cells and reports on the grid that few people get; and the bound is reached."""
    _, _, plan, grid, oracle = asked(name, epsilon, rows=30)
    assert grid.cells <= 12
    table = oracle.probability_table()
    worst = math.log((table.max(axis=0) / table.min(axis=0)).max())
    assert worst == pytest.approx(plan.budget.epsilon, rel=1e-9)
    assert plan.budget.epsilon == epsilon


def test_no_two_cells_differ_by_more_than_epsilon_for_any_hash():
    _, _, plan, _, oracle = asked("olh", 1.5, rows=30)
    tables = [oracle.probability_table(a, b) for a in (0, 1, 7, 31_000) for b in (0, 5, 20_000)]
    worst = max(math.log((table.max(axis=0) / table.min(axis=0)).max()) for table in tables)
    assert worst == pytest.approx(plan.budget.epsilon, rel=1e-9)


@pytest.mark.parametrize("name", ORACLES)
def test_the_ledger_has_one_response_at_the_budget(name):
    spec = make_spec()
    reports = RandomizedResponse(oracle=name).privatise(
        Records(clusters()), spec, Budget(0.7, 0.0), seeded_randomness(1)
    )
    assert [(event.kind, event.label, event.epsilon) for event in reports.events] == [
        ("randomized_response", "cell", 0.7)
    ]
    assert reports.claim == Claim(0.7, 0.0)


@pytest.mark.parametrize("name", ORACLES)
def test_the_questions_do_not_depend_on_the_records(name):
    mechanism, spec, plan, _, oracle = asked(name, rows=300)
    alike = [
        answered(mechanism, spec, plan, points).columns["cell"]
        for points in (np.zeros((7, 2)), clusters(300))
    ]
    assert [reports.dtype for reports in alike] == [oracle.report.base] * 2
    assert [reports.shape[1:] for reports in alike] == [oracle.report.shape] * 2


@pytest.mark.parametrize("name", ORACLES)
def test_counts_are_unbiased_with_the_stated_deviation(name):
    mechanism, spec, plan, grid, oracle = asked(name, 1.0, rows=2000)
    points = clusters(2000)
    truth = np.bincount(grid.locate(points), minlength=grid.cells)
    runs = [
        mechanism.synopsis(answered(mechanism, spec, plan, points, seed), spec, plan) for seed in range(40)
    ]
    off = np.array([run.counts - truth for run in runs]) / runs[0].deviation
    spread = np.sqrt([oracle.variance(1, share) / oracle.variance(1, 0.0) for share in truth / 2000])
    scores = off.mean(axis=0) / spread * math.sqrt(len(runs))
    assert np.abs(scores).max() < 5.5  # of all cells together
    empty = off[:, truth == 0]
    assert np.mean(empty**2) == pytest.approx(1.0, abs=5 * math.sqrt(4 / empty.size))


def private_file(path, columns):
    """Write a private file of these columns; return its size and its content."""
    job = MechanismJob(
        "a", "laplace_input", {}, registry.build("laplace_input", {}), Budget(1.0, 0.0), (3,), 0.0, 1, 7
    )
    domain = make_domain()
    with private_writer(path) as writer:
        writer.write(columns)
        writer.info = PrivateInfo(
            **job.header(domain, Claim(1.0, 0.0), ()),
            reports=[len(columns["cell"])],
            asked=[{}],
            seconds=[],
        )
    return path.stat().st_size, read_private(path)[1][0]["cell"]


# But for marks that are hardly ever set: with OUE at ε = 7 most of a report is zeros.
@pytest.mark.parametrize("cells", [5, 60, 300, 1000, 40_000])
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [(name, epsilon) for name in BY_NAME for epsilon in (0.5, 3.0, 7.0) if (name, epsilon) != ("oue", 7.0)],
)
def test_a_file_gives_back_what_an_oracle_made_in_few_bytes(tmp_path, name, cells, epsilon):
    """At most half as large again as the entropy of a report in whole bytes; besides 6 kB that any file has."""
    wide = name in ("oue", "subset") and cells > 60
    people = 10_000_000 // cells if wide else 50_000
    oracle = BY_NAME[name](cells, epsilon)
    codes = np.random.Generator(np.random.PCG64(3)).integers(cells, size=people)
    source = SeededNoise(stream(1, name, cells))
    reports = oracle.perturb(codes, source=source, ledger=Ledger(), label="cell")
    size, column = private_file(tmp_path / "private.parquet", {"cell": reports})
    back = decode_reports(column, oracle.report)
    assert back.dtype == reports.dtype
    assert np.array_equal(back, reports)
    assert np.array_equal(oracle.support(back[:50]), oracle.support(reports[:50]))
    assert size <= 6000 + 1.5 * people * math.ceil(entropy(oracle) / 8)


def entropy(oracle):
    """Return the bits of a report of uniform answers."""
    kind = type(oracle).__name__
    if kind == "GeneralizedResponse":
        return math.log2(oracle.categories)
    if kind == "HadamardResponse":
        return math.log2(2 * (oracle.columns - 1))
    if kind == "LocalHashing":
        return 2 * math.log2(oracle.prime) + math.log2(oracle.buckets)
    if kind == "UnaryEncoding":
        q = oracle.other
        return 1 - (oracle.categories - 1) * (q * math.log2(q) + (1 - q) * math.log2(1 - q))
    return math.log2(math.comb(oracle.categories, oracle.size))


def test_an_empty_file_of_reports_is_read_back():
    for kind in BY_NAME.values():
        oracle = kind(40, 1.0)
        assert oracle.support(decode_reports(np.empty(0, oracle.report), oracle.report)).sum() == 0


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.4, 1.0, 2.0, 3.4, 5.9, 8.0, 12.0, 60.0])
def test_auto_keeps_reports_small_and_loses_little(epsilon):
    for cells in {2, 7, 64, 96, 97, 129, 257, 1000, *np.geomspace(100, 65536, 30).astype(int)}:
        chosen, best = small_for(cells, epsilon), best_for(cells, epsilon)
        assert chosen.report.itemsize <= 12
        between = 3 < cells / math.exp(epsilon) < 10
        most = 1 + 1e-9 if cells <= 96 else 1.21 if between else 1.06
        assert chosen.variance(1, 0.0) <= most * best.variance(1, 0.0)


def test_auto_has_the_least_variance_of_the_oracles_on_a_small_grid():
    *_, grid, oracle = asked("auto", 1.0, rows=500)
    assert grid.cells <= 96
    assert (
        oracle.variance(1, 0.0)
        <= min(k(grid.cells, 1.0).variance(1, 0.0) for k in BY_NAME.values()) * 1.000001
    )


@pytest.mark.parametrize("name", ORACLES)
def test_more_reports_or_more_budget_give_no_fewer_cells(name):
    cells = [
        [asked(name, epsilon, rows)[3].cells for epsilon in (0.01, 0.1, 1.0, 3.0, 10.0, 100.0)]
        for rows in (1, 100, 10_000, 1_000_000)
    ]
    assert np.array_equal(cells, np.sort(cells, axis=0))
    assert np.array_equal(cells, np.sort(cells, axis=1))
    assert cells[0][0] == 2
    assert cells[-1][-1] <= 65536


def test_no_cell_is_smaller_than_the_resolution():
    domain = make_domain(rows=10**6)
    coarse = domain.model_copy(
        update={"axes": tuple(axis.model_copy(update={"resolution": 0.2}) for axis in domain.axes)}
    )
    mechanism, spec = RandomizedResponse(), replace(make_spec(), domain=coarse)
    grid, _ = mechanism.channel(spec, mechanism.plan(spec, Budget(50.0, 0.0)))
    assert grid.cells == math.ceil(math.sqrt(2) / 0.2) ** 2


@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_finds_the_clusters(name):
    spec = make_spec(rows=20_000)
    release = run(
        RandomizedResponse(oracle=name),
        Records(clusters(20_000)),
        spec,
        Budget(3.0, 0.0),
        seeded_randomness(1, name),
    )
    uniform = -np.log(np.prod(spec.domain.upper - spec.domain.lower))
    assert release.mixture.log_density(clusters(2000)).mean() > uniform + (0.5 if name == "hadamard" else 1.0)
    assert not any("noise" in note for note in release.notes)


@pytest.mark.parametrize("epsilon", [0.01, 100.0])
@pytest.mark.parametrize("name", ORACLES)
def test_the_smallest_and_largest_budgets_give_valid_mixtures(name, epsilon):
    for points in (np.zeros((1, 2)), np.zeros((40, 2)), clusters(60)):
        spec = make_spec(rows=len(points), n_components=5)
        release = run(
            RandomizedResponse(oracle=name), Records(points), spec, Budget(epsilon, 0.0), seeded_randomness(2)
        )
        mixture = release.mixture
        assert np.isfinite(mixture.log_density(points)).all()
        assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()
        assert (mixture.means >= spec.domain.lower - 1e-9).all()
        assert (mixture.means <= spec.domain.upper + 1e-9).all()


def test_no_more_components_than_the_reports_support():
    """Three clusters, ten components requested: at least three if much is known, one if nearly nothing is."""
    spec, records = make_spec(rows=5000, n_components=10), Records(clusters(5000))
    used = {}
    for epsilon in (0.02, 6.0):
        release = run(
            RandomizedResponse(), records, spec, Budget(epsilon, 0.0), seeded_randomness(3, epsilon)
        )
        used[epsilon] = release.mixture.n_components
        said = f"support {used[epsilon]} of the 10 requested components"
        assert any(said in note for note in release.notes) == (used[epsilon] < 10)
    assert used[0.02] == 1
    assert used[6.0] >= 3
    assert component_numbers(1) == [1]
    assert component_numbers(8) == [1, 2, 4, 8]
    assert component_numbers(10) == [1, 2, 4, 8, 10]


def test_the_number_of_components_can_be_chosen_among_candidates():
    spec = replace(make_spec(rows=5000), candidates=(1, 3, 6))
    release = run(RandomizedResponse(), Records(clusters(5000)), spec, Budget(8.0, 0.0), seeded_randomness(1))
    assert release.mixture.n_components in (3, 6)
    assert any("chosen among 1, 3, 6" in note for note in release.notes)


def test_a_note_says_if_the_mixture_is_mostly_noise():
    spec = make_spec(rows=500)
    release = run(RandomizedResponse(), Records(clusters(500)), spec, Budget(0.02, 0.0), seeded_randomness(1))
    assert any("mostly noise" in note for note in release.notes)


def test_too_many_coordinates_for_a_grid_are_an_error_message():
    spec = make_spec(rows=2000, dimensions=5)
    with pytest.raises(MechanismFailure, match="up to 4 coordinates, but made has 5"):
        run(RandomizedResponse(), Records(clusters(2000, 5)), spec, Budget(2.0, 0.0), seeded_randomness(1))


def test_reports_of_another_oracle_are_refused():
    mechanism, spec, plan, *_ = asked("grr")
    with pytest.raises(UserError, match="not reports of"):
        mechanism.model(
            CoordinateReports({"cell": np.full(5, 250, np.uint64) ** 3}), spec, plan, np.random.default_rng(1)
        )


def test_an_unknown_oracle_gets_one_sentence():
    with pytest.raises(UserError, match="oracle = 'rappor'"):
        registry.build("randomized_response", {"oracle": "rappor"})
