"""The plan of a run: a mechanism has no jobs on a dataset with more coordinates than it can fit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from making import make_spec

from privmix.artefacts.domain import Attribute
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.shared.statistics.requests import read_requests
from privmix.pipeline.plan import RunPlan, make_plan
from privmix.pipeline.results import list_left_out
from privmix.privacy.accounting import Budget

ROOT = Path(__file__).parents[2]
LIMITS = {
    "noisy_tree": 3,
    "tree_then_moments": 3,
    "noisy_grid": 4,
    "tree_response": 3,
    "adaptive_tree_response": 3,
    "randomized_response": 4,
}
TREES = ["noisy_tree", "tree_then_moments", "randomized_response", "tree_response"]  # of the default run


@pytest.fixture
def default(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The default configuration."""
    monkeypatch.chdir(ROOT)
    return yaml.safe_load((ROOT / "config/config.yaml").read_text())


def pairs(planned: RunPlan) -> set[tuple[str, str]]:
    return {(job.dataset, job.mechanism) for job in planned.jobs()}


def test_every_method_declares_its_limit():
    declared = {method: registry.method_class(method).max_coordinates for method in registry.METHODS}
    assert {method: most for method, most in declared.items() if most is not None} == LIMITS


def test_a_pair_beyond_the_limit_has_no_job_of_any_stage(default):
    planned = make_plan(default)
    missing = {("breast_cancer", mechanism) for mechanism in TREES}
    every = {(dataset, mechanism) for dataset in default["datasets"] for mechanism in default["mechanisms"]}
    assert pairs(planned) == every - missing
    assert len(planned.jobs()) == 84 - 4 * 3
    for stage in ("privatise", "fit", "evaluate"):
        assert not [path for path in planned.benchmark_paths(stage) if "breast_cancer/noisy_tree" in path]
        assert not [path for path in planned.benchmark_paths(stage) if "breast_cancer/tree_response" in path]
    assert [planned.left_out(dataset) for dataset in default["datasets"]] == [[], [], TREES]


def test_what_is_left_out_is_told_to_the_report_with_its_limit(default):
    told = [
        (each.dataset, each.mechanism, each.max_coordinates) for each in list_left_out(make_plan(default))
    ]
    assert told == [
        ("breast_cancer", "noisy_tree", 3),
        ("breast_cancer", "tree_then_moments", 3),
        ("breast_cancer", "randomized_response", 4),
        ("breast_cancer", "tree_response", 3),
    ]


def test_a_mechanism_that_fits_no_dataset_is_not_audited(default):
    planned = make_plan({**default, "datasets": ["breast_cancer"], "components": 3})
    audits = planned.benchmark_paths("audit")
    assert len(audits) == 5 * 3
    assert not any("tree" in path for path in audits)


def test_a_dataset_that_no_mechanism_can_fit_is_refused_with_what_to_do(default):
    only = {name: default["mechanisms"][name] for name in TREES}
    broken = {**default, "datasets": ["checkins", "breast_cancer"], "mechanisms": only}
    broken["evaluation"] = {}
    with pytest.raises(
        UserError, match=r"no mechanism can fit the 6 coordinates of breast_cancer .*at most 4"
    ):
        make_plan(broken)


@pytest.mark.parametrize(("method", "most"), LIMITS.items())
def test_the_limit_is_the_one_at_which_the_mechanism_itself_refuses(method, most):
    spec, mechanism = make_spec(rows=50, dimensions=most + 1), registry.build(method, {})
    records = Records(np.zeros((50, most + 1)))
    call = mechanism.privatise if mechanism.randomises_records else mechanism.fit
    with pytest.raises(MechanismFailure, match=f"up to {most} coordinates"):
        call(records, spec, Budget(1.0, 1e-6), seeded_randomness(1, method))


def test_the_plan_of_the_default_run_loads_no_numerical_library():
    code = (
        "import sys, yaml; from privmix.pipeline.plan import make_plan;"
        "planned = make_plan(yaml.safe_load(open('config/config.yaml'))); planned.jobs();"
        "heavy = {'numba', 'scipy', 'pandas', 'matplotlib', 'sklearn'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_goal_table_gives_mechanisms_their_parameters_for_tables(default):
    default["mechanisms"]["own"] = {"method": "noisy_tree", "finer": 2}
    by_goal = {goal: make_plan({**default, "goal": goal}) for goal in ("density", "table")}
    for goal, finer, share in (("density", 1, 0.0), ("table", 4, 0.2)):
        mechanisms = by_goal[goal].mechanisms
        assert mechanisms["noisy_tree"].finer == mechanisms["non_private"].finer == finer
        assert mechanisms["noisy_moments"].marginal_share == share
        assert mechanisms["own"].finer == 2
    assert '"marginal_share": 0.2' in by_goal["table"].parameters("noisy_moments").replace(":", ": ")
    default["mechanisms"]["typo"] = {"method": "noisy_treee"}
    with pytest.raises(UserError, match="unknown method 'noisy_treee'"):
        make_plan({**default, "goal": "table"})


def test_a_dataset_without_coordinates_has_jobs_of_mechanisms_that_need_none(default, tmp_path):
    entry = {
        "name": "survey", "title": "t", "description": "d", "licence": {"spdx": "CC0-1.0"},
        "source": {"kind": "synthetic", "generator": "checkins", "seed": 1, "rows": 10}, "reader": {"format": "csv"},
        "columns": [{"name": "dog", "type": "boolean", "description": "d"}], "coordinates": [], "attributes": ["dog"],
    }  # fmt: skip
    (tmp_path / "survey.yaml").write_text(yaml.safe_dump(entry))
    mechanisms = {
        name: {"method": name} for name in ("non_private", "noisy_grid", "noisy_moments", "tree_response")
    }
    config = {
        "datasets": ["survey"],
        "catalog_dirs": [str(tmp_path)],
        "mechanisms": mechanisms,
        "epsilons": [1],
    }
    planned = make_plan(config)
    assert pairs(planned) == {("survey", "non_private"), ("survey", "noisy_grid")}
    assert [(each.mechanism, each.min_coordinates) for each in list_left_out(planned)] == [
        ("noisy_moments", 1),
        ("tree_response", 1),
    ]
    del mechanisms["non_private"], mechanisms["noisy_grid"]
    with pytest.raises(UserError, match=r"survey, which has attributes but no coordinates; add `noisy_grid`"):
        make_plan(config)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mean": "latt"}, "no coordinate or attribute 'latt'; did you mean 'lat'"),
        ({"mean": "race"}, "'race' is a category and has no mean; ask for `histogram: race`"),
        ({"quantile": "race", "q": 0.5}, "has no quantile"),
        ({"quantile": "lat", "q": 0.0001}, "must lie between 0.000977 and 0.999"),
        ({"histogram": "lat"}, "needs public bins"),
        ({"histogram": "race", "bins": 3}, "each value has its own count; remove `bins`"),
        ({"histogram": "lat", "bins": 20_000}, "must lie between 1 and 10,000"),
        ({"top": "lat", "by": "exponential"}, "is a number"),
        ({"count": {"race": "Martian"}}, "has no value 'Martian'; its public values are Asian, Black"),
        ({"count": {"lat": 45}}, "is a number"),
    ],
    ids=str,
)
def test_a_statistic_that_a_dataset_cannot_have_is_refused_at_once(default, asked, said):
    with pytest.raises(UserError) as error:
        make_plan(default | {"statistics": {"mpls_stops": [asked]}})
    assert said in str(error.value)
    assert "statistics of mpls_stops" in str(error.value)


def test_statistics_of_a_plan_are_those_of_its_dataset(default):
    asked = [{"count": "all"}, {"mean": "lat"}, {"histogram": "race"}]
    planned = make_plan(default | {"statistics": {"mpls_stops": asked}})
    assert [each.name for each in planned.statistics("mpls_stops")] == [
        "number of records",
        "mean of lat",
        "histogram of race",
    ]
    assert planned.statistics("checkins") == ()
    with pytest.raises(UserError, match="mean of lat is listed twice"):
        make_plan(default | {"statistics": {"mpls_stops": [*asked, {"mean": "lat"}]}})
    with pytest.raises(UserError, match="101 statistics are too many"):
        make_plan(default | {"statistics": {"mpls_stops": [{"count": "all"}] * 101}})


def test_yaml_spellings_of_a_value_mean_the_listed_value():
    attributes = (
        Attribute(name="smoker", description="", values=("false", "true"), boolean=True),
        Attribute(name="dog", description="", values=("no", "yes")),
        Attribute(name="size", description="", values=("1", "2")),
    )
    asked = [{"count": {"smoker": True}}, {"count": {"dog": True}}, {"count": {"size": 2}}]
    found = read_requests(asked, (), attributes, "here")
    assert [each.value for each in found] == ["true", "yes", "2"]


def test_a_missing_local_file_does_not_show_a_password(default):
    default["sources"] = {"checkins": "http:/me:s3cret@h/rows.csv"}
    with pytest.raises(
        UserError, match=r"there is no file .*http:/\*\*\*@h/rows.csv; correct the path"
    ) as raised:
        make_plan(default)
    assert "s3cret" not in str(raised.value)
