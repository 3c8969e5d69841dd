"""Parts of a release that must agree: weights, shares, counts of complete records, and all measurements together."""

import base64
import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from making import make_domain

from privmix.artefacts.domain import Attribute
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness
from privmix.mechanisms.shared import attribute_counts
from privmix.mechanisms.shared.joint_moments import MomentMeasurement, share_limits, share_step
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import STEP
from privmix.release import derived_values, noise_evidence, transcripts, verify
from privmix.release.public_plan import PublicPlan

BUDGET = Budget(1.0, 1e-6)
SEX = [("sex", ("f", "m"))]
STATES = ("given", "blank")
COUNTING = ["noisy_grid", "noisy_tree", "tree_then_moments", "posterior_sample"]


def make_plan(method, spec, budget=BUDGET, **parameters):
    if "searches" in registry.method_class(method).__dataclass_fields__:
        parameters = {"searches": 1, **parameters}
    mechanism = registry.build(method, parameters)
    attributes = attribute_counts.make_plan(mechanism, spec, budget)
    job = mechanism_run.MechanismJob(
        "made", method, parameters, mechanism, budget, (spec.n_components,), 0.1, 1, None
    )
    return PublicPlan(job, spec, attributes.left if attributes else budget, None, (), attributes)


def make_release(plan, rows, blank=0.0):
    """Release two clusters whose side depends on the sex; records lack each coordinate with a state at random."""
    rng, spec = np.random.default_rng(1), plan.spec
    side = rng.integers(2, size=rows)
    points = np.clip(0.25 * (2 * side[:, None] - 1) + rng.normal(0, 0.06, (rows, 2)), -0.5, 0.5)
    codes = {"sex": np.where(rng.random(rows) < 0.9, side, 1 - side)}
    for axis, state in spec.domain.states.items():
        codes[state.name] = (rng.random(rows) < blank).astype(int)
        points[codes[state.name] != 0, axis] = 0.0
    records = Records(points, codes, np.arange(rows, dtype=np.uint64))
    return mechanism_run.run(plan.mechanism, records, spec, plan.job.budget, exact_randomness())


def as_model(release, **changes):
    values = {
        "transcript": release.transcript, "normalised": release.mixture, "original": release.mixture,
        "shares": release.shares, "proportions": [], "notes": release.notes, "method": "noisy_moments",
        "local": False, "files": (), "privacy": SimpleNamespace(ledger=[]), "labels": None, "statistics": [],
    }  # fmt: skip
    return SimpleNamespace(**{**values, **changes})


@pytest.fixture(scope="module", params=["together", "after"])
def wide(request):
    """A release of `noisy_moments` whose last measurements start from a random search."""
    plan = make_plan(
        "noisy_moments", Spec(make_domain(rows=20_000, attributes=SEX), 2), attributes=request.param
    )
    schedule = plan.mechanism.schedule(plan.spec, plan.budget, plan.mechanism.relation(plan.spec))
    assert schedule.width > schedule.n_components
    return plan, make_release(plan, 20_000)


def test_the_weights_after_a_random_search_follow_from_the_last_measurements(wide):
    plan, release = wide
    assert derived_values.check_mixture(as_model(release), plan) == "weights"
    weights = release.mixture.weights + np.array([0.001, -0.001])
    forged = as_model(release, normalised=replace(release.mixture, weights=weights))
    with pytest.raises(UserError, match="the weights of the mixture do not follow"):
        derived_values.check_mixture(forged, plan)


def test_shares_after_a_random_search_are_near_the_last_measurements(wide):
    plan, release = wide
    derived_values.check_shares(as_model(release), plan)
    for shift in (0.05, -0.05):
        shares = {"sex": np.clip(release.shares["sex"] + [shift, -shift], 0, 1)}
        with pytest.raises(UserError, match="shares of attributes do not follow"):
            derived_values.check_shares(as_model(release, shares=shares), plan)


def test_verify_says_what_a_random_search_leaves_open(wide):
    plan, release = wide
    ledger = [{"label": plan.attributes.event.label if plan.attributes else "refining"}]
    model = as_model(release, privacy=SimpleNamespace(ledger=ledger))
    said = " ".join(verify.passed_checks(model, plan, "weights"))
    assert "The weights of the mixture follow from the transcript, up to six digits." in said
    assert "Not checked: the means and covariances of the mixture start from a random search" in said
    assert ("near those of the last measurements" in said) == (plan.attributes is None)


@pytest.mark.parametrize("deviation", [0.1, 3.0, 40.0])
def test_one_step_leads_into_the_limits_from_any_shares(deviation):
    """Brute force over starts, also from the edges; the radius is reached up to a third."""
    rng, counts = np.random.default_rng(4), np.array([300.0, 40.0, 5.0])
    values = np.maximum(rng.dirichlet(np.ones(4), 3) * counts[:, None] + rng.normal(0, deviation, (3, 4)), -5)
    released = MomentMeasurement(
        counts, np.zeros((3, 1)), np.zeros((3, 1, 1)), 1, 1, 1, values, value_deviation=deviation
    )
    places, radius = share_limits({"a": 4}, released, counts)["a"]
    ratios = []
    for _ in range(2000):
        old = rng.dirichlet(np.full(4, rng.choice([0.05, 1.0, 20.0])), 3)
        new = share_step({"a": old}, released, counts)["a"]
        ratios.append(np.linalg.norm(new - places, axis=1) / radius)
    assert np.max(ratios) <= 1 + 1e-9
    assert np.max(ratios) > 1 / 3


def with_states(axes, **domain):
    """Let records lack these coordinates, each with a state of its own."""
    plain = make_domain(attributes=SEX, **domain)
    states = tuple(
        Attribute(name=f"v{axis} is", description="", values=STATES, state_of=(f"v{axis}",)) for axis in axes
    )
    return plain.model_copy(update={"attributes": (*plain.attributes, *states)})


def scaled_counts(transcript, factor):
    """Multiply the counts of records. Low digits and noise stay plausible."""
    entries = copy.deepcopy(transcript)
    for entry in entries:
        value = entry.get("counts")
        if isinstance(value, str):
            counts = np.frombuffer(base64.b64decode(value), dtype="<f8")
            counts = counts + np.rint((factor - 1) * np.maximum(counts, 0.0)) + 0.0
            entry["counts"] = base64.b64encode(counts.astype("<f8").tobytes()).decode()
    return entries


@pytest.mark.parametrize("method", ["noisy_grid", "noisy_tree"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("axes", [(1,), (0, 1)])
@pytest.mark.parametrize("factor", [1.0, 0.4, 1.7])
def test_counts_of_complete_records_fit_the_table_of_states(method, relation, axes, factor):
    """40 % of the records lack a coordinate. Counts of more or fewer records are refused, honest ones pass."""
    spec = Spec(with_states(axes, rows=20_000, relation=relation), 2)
    plan = make_plan(method, spec, Budget(10.0, 1e-6))
    transcript = scaled_counts(make_release(plan, 20_000, blank=0.4 / len(axes)).transcript, factor)
    if factor == 1:
        transcripts.check_transcript(transcript, plan)
        return
    with pytest.raises(
        UserError, match=r"as many complete records|more than the 20,000 records|do not have the noise"
    ):
        transcripts.check_transcript(transcript, plan)


@pytest.mark.parametrize("method", COUNTING)
def test_complete_records_are_no_more_than_all_records(method):
    """No table of attributes here: the public number of records is the only bound."""
    spec = Spec(with_states((1,), rows=20_000), 2)
    plan = make_plan(method, spec, Budget(10.0, 1e-6), attribute_share=0.0)
    assert plan.attributes is None
    release = make_release(plan, 20_000, blank=0.1)
    transcripts.check_transcript(release.transcript, plan)
    found = list(transcripts._noisy_numbers(plan.entries(release.transcript), plan))
    noise_evidence.check_total(found, 20_000, "model.json", at_most=True)
    with pytest.raises(UserError, match="add up to more than the 15,000 records"):
        noise_evidence.check_total(found, 15_000, "model.json", at_most=True)
    assert max(each.most for each in found if each.kind.endswith("counts")) <= 20_000


def test_many_small_shifts_are_noticed_together():
    """Each count is moved by three deviations of its sum at most, so that no measurement fails on its own."""
    plan = make_plan("noisy_moments", Spec(make_domain(rows=20_000), 2))
    release = make_release(plan, 20_000)
    transcripts.check_transcript(release.transcript, plan)
    scheme = transcripts.moment_scheme(plan.mechanism, plan.spec)
    [sigma] = {
        each.scale
        for each in transcripts._noisy_numbers(plan.entries(release.transcript), plan)
        if each.kind == "counts"
    }
    for sign in (1, -1):
        moved = copy.deepcopy(release.transcript)
        for entry in moved:
            shift = sign * 3 * sigma / np.sqrt(len(entry["counts"]))
            steps = np.rint((np.array(entry["counts"]) * scheme.count + shift) / STEP)
            entry["counts"] = (steps * STEP / scheme.count).tolist()
        found = list(transcripts._noisy_numbers(plan.entries(moved), plan))
        noise_evidence.check_total(found, 20_000, "model.json")
        with pytest.raises(UserError, match="numbers of one set of records"):
            transcripts.check_transcript(moved, plan)


def test_deviates_are_standard_normal_for_noise_and_not_for_more():
    """The covariance of the deviates is the unit matrix, from the noise of their definition."""
    deviations = np.array([2.0, 5.0, 1.0])
    rng, zero = np.random.default_rng(2), np.zeros(3)
    sizes = np.array([700.0, 300.0])
    drawn = [
        noise_evidence.standard_deviates(
            sizes[:, None] + rng.normal(0, deviations, (2, 3)), deviations, zero, 1000
        )
        for _ in range(4000)
    ]
    values = np.array([each.values for each in drawn])
    assert values.shape[1] == 2 * 2 + 1
    assert np.abs(np.cov(values.T) - np.eye(5)).max() < 0.12
    assert np.abs(values.mean(axis=0)).max() < 0.08
    assert noise_evidence.are_standard(drawn)
    assert not noise_evidence.are_standard([replace(each, values=1.3 * each.values) for each in drawn])
    assert not noise_evidence.are_standard([replace(each, values=each.values + 0.2) for each in drawn])
    assert noise_evidence.are_standard([])


@pytest.mark.parametrize(
    ("method", "axes", "relation", "share", "said"),
    [
        ("noisy_grid", (), "replace_one", 0.1, "add up to the public number of records"),
        ("noisy_grid", (), "add_remove", 0.1, "Not checked: the number of records, which is private"),
        ("noisy_tree", (1,), "replace_one", 0.1, "table of blanks and atoms gives, and are no more than all"),
        ("noisy_tree", (1,), "add_remove", 0.1, "table of blanks and atoms gives, up to their noise"),
        ("noisy_tree", (1,), "replace_one", 0.0, "no other part of the release counts them"),
        (
            "dp_sgd",
            (),
            "replace_one",
            0.1,
            "Not checked: whether the transcript is of the stated number of records",
        ),
    ],
)
def test_verify_says_with_what_counts_were_compared(method, axes, relation, share, said):
    plan = make_plan(
        method, Spec(with_states(axes, rows=20_000, relation=relation), 2), attribute_share=share
    )
    assert said in verify._count_check(SimpleNamespace(method=method), plan)
