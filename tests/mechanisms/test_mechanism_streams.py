"""A job's noise is its own: nothing about a job can change without changing its stream."""

import dataclasses

import numpy as np
import pytest
from making import make_domain, make_spec

from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.accounting import Budget, Claim
from privmix.privacy.ledger import RandomizedResponse

JOB = MechanismJob(
    "a", "laplace_input", {}, registry.build("laplace_input", {}), Budget(1.0, 1e-6), (3,), 0.0, 2, 7
)


def _first(job: MechanismJob, domain=None, purpose=("fit", 0)) -> float:
    randomness = job.randomness(domain or make_domain(), *purpose)
    return float(randomness.noise.uniform((1,))[0])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "b"},
        {"method": "gaussian_input"},
        {"parameters": {"fit": "naive"}},
        {"budget": Budget(3.0, 1e-6)},
        {"budget": Budget(1.0, 1e-5)},
        {"components": (4,)},
        {"components": (3, 4)},
        {"choice_share": 0.1},
        {"seed": 8},
    ],
    ids=str,
)
def test_another_job_draws_other_noise(change):
    assert _first(dataclasses.replace(JOB, **change)) != _first(JOB)


def test_datasets_stages_replicates_and_worlds_draw_other_noise():
    others = [
        make_domain().model_copy(update={"dataset": "other"}),
        make_domain(relation="add_remove"),
        make_domain(unit="person"),
        make_domain(max_records=2),
        make_domain(rows=999),
    ]
    purposes = [
        ("fit", 0),
        ("fit", 1),
        ("privatise", 0),
        ("worst record", "in", 0),
        ("worst record", "out", 0),
    ]
    draws = [_first(JOB, purpose=purpose) for purpose in purposes] + [_first(JOB, other) for other in others]
    assert len(set(draws)) == len(draws)
    assert _first(JOB) == _first(JOB)


def test_the_search_does_not_see_the_noise():
    randomness = seeded_randomness(7, "x")
    assert not np.array_equal(randomness.search.random(8), randomness.noise.uniform((8,)))


def test_a_local_file_claims_replacement_of_one_report_whatever_the_catalog_asks():
    domain = make_domain(relation="add_remove")
    privacy = JOB.privacy_statement(domain, Claim(1.0, 0.0), [RandomizedResponse("cell", 1.0)])
    assert (privacy.relation, privacy.unit) == ("replace_one", "record")
    central = dataclasses.replace(JOB, method="dp_em", mechanism=registry.build("dp_em", {}))
    assert central.privacy_statement(domain, Claim(1.0, 1e-6), []).relation == "add_remove"


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input"])
def test_rows_outside_the_box_are_clipped_before_the_noise(method):
    spec = make_spec(rows=20)
    far, edge = np.full((20, 2), 9.0), np.tile(spec.domain.upper, (20, 1))
    mechanism = registry.build(method, {})
    reports = [
        mechanism.privatise(Records(x), spec, Budget(1.0, 1e-6), seeded_randomness(1)) for x in (far, edge)
    ]
    assert np.array_equal(reports[0].columns["y0"], reports[1].columns["y0"])
