"""Records that lack coordinates in central mechanisms: sensitivity, exact sums, cost, replay, and the release plan."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from making import PRIVATE, RecordingNoise, make_domain

from privmix.artefacts.domain import Attribute
from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Randomness, Records, Spec, exact_randomness, seeded_randomness
from privmix.mechanisms.central.noisy_moments import NoisyMoments
from privmix.mechanisms.shared import attribute_counts
from privmix.mechanisms.shared.joint_moments import (
    exact_weighted_vector,
    mixed_vector,
    scheme,
    weighted_vector,
)
from privmix.mixture.coded import observe_incomplete_codes
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.mixture.moments import observe_incomplete
from privmix.mixture.standardised_moments import completed_pass
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget
from privmix.privacy.noise import stream
from privmix.privacy.sensitivity import Neighbours
from privmix.release import derived_values, transcripts
from privmix.release.public_plan import PublicPlan, mechanism_events

CENTRAL = [method for method in PRIVATE if registry.method_class(method).trust == "central"]
LOCAL = [method for method in PRIVATE if registry.method_class(method).trust != "central"]
RELATIONS = ["add_remove", "replace_one"]
LEVELS = [("record", 1), ("person", 3)]
STATES = ("there", "blank", "none")
BUDGET = Budget(1.0, 1e-6)


def with_states(domain, axes):
    """Let records lack these axes. Their states come after all other attributes."""
    states = tuple(
        Attribute(name=f"s{axis}", description="", values=STATES, state_of=(f"v{axis}",)) for axis in axes
    )
    return domain.model_copy(update={"attributes": (*domain.attributes, *states)})


def make_spec(axes=(1,), components=3, **domain):
    attributes = [("sex", ("f", "m"))]
    return Spec(with_states(make_domain(attributes=attributes, **domain), axes), components)


def make_records(spec, rows, seed=1, placeholder=0.0, blank=0.4):
    """Make two clusters whose records lack coordinates at random, with this placeholder."""
    rng, d = np.random.default_rng(seed), len(spec.domain.axes)
    side = rng.integers(2, size=rows)
    points = np.clip(0.25 * (2 * side[:, None] - 1) + rng.normal(0, 0.06, (rows, d)), -0.5, 0.5)
    codes = {"sex": np.where(rng.random(rows) < 0.8, side, 1 - side)}
    for axis, state in spec.domain.states.items():
        codes[state.name] = np.where(rng.random(rows) < blank, rng.integers(1, 3, size=rows), 0)
        points[codes[state.name] != 0, axis] = placeholder
    return Records(points, codes, np.arange(rows, dtype=np.uint64))


def build(method, **parameters):
    if "searches" in registry.method_class(method).__dataclass_fields__:
        parameters = {"searches": 1, **parameters}
    if method == "planar_laplace":
        parameters = {"within_m": 50_000, **parameters}
    return registry.build(method, parameters)


def turned_mixture(dimensions, components=2, width=0.02):
    """Make components of any direction, far apart, so that a record belongs to one of them."""
    rng = np.random.default_rng(5)
    factors = rng.normal(size=(components, dimensions, dimensions)) * width
    covariances = factors @ factors.transpose(0, 2, 1) + 1e-5 * np.eye(dimensions)
    means = np.linspace(-0.4, 0.4, components)[:, None] * np.ones(dimensions)
    return Mixture(np.full(components, 1 / components), means, covariances)


def exact_or_fast(observations, mixture, shape, exact):
    if exact:
        return exact_weighted_vector(observations, mixture, shape)
    return weighted_vector(completed_pass(observations, mixture, shape.radius), shape)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("lacking", [(1,), (0, 1), (0, 1, 2)])
def test_no_unit_moves_the_measurement_further_than_its_sensitivity(unit, held, relation, exact, lacking):
    """Units of any pattern. Those at the ends of two components come within a few percent of the bound."""
    d, q, rng = 3, len(lacking), np.random.default_rng(3)
    shape, mixture = scheme(d, absent=q), turned_mixture(d)
    bound, farthest = shape.sensitivity(Neighbours(unit, relation, held)), 0.0
    patterns = [np.array([axis in lacking[:number] for axis in range(d)]) for number in range(q + 1)]
    for trial in range(120):
        moved = 0.0
        for sign, end in ((1, -0.9), (-1, 0.9))[: 1 + (relation == "replace_one")]:
            number = held if trial % 3 else int(rng.integers(1, held + 1))
            points = np.full((number, d), end) if trial % 2 else rng.uniform(-0.6, 0.6, (number, d))
            absent = np.tile(patterns[int(rng.integers(q + 1))], (number, 1))
            moved = moved + sign * exact_or_fast(observe_incomplete(points, absent), mixture, shape, exact)
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert 0.97 * bound <= farthest <= bound + (1e-4 if exact else 1e-9)


def test_the_bound_without_absent_coordinates_is_too_small():
    """The power twin: a record that lacks a coordinate moves the sum further than a complete one can."""
    d, mixture = 2, turned_mixture(2)
    shape, one = scheme(d, absent=1), observe_incomplete(np.full((1, d), -0.9), np.array([[False, True]]))
    moved = np.linalg.norm(exact_or_fast(one, mixture, shape, exact=False))
    add = Neighbours("record", "add_remove")
    assert scheme(d).sensitivity(add) * 1.003 < moved <= shape.sensitivity(add)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "held"), LEVELS)
@pytest.mark.parametrize("exact", [False, True])
def test_attributes_and_absent_coordinates_together_stay_within_the_sensitivity(unit, held, relation, exact):
    spec, rng = make_spec((0, 1)), np.random.default_rng(3)
    sizes = {each.name: len(each.values) for each in spec.domain.attributes}
    shares = {name: rng.dirichlet(np.ones(size), size=2) for name, size in sizes.items()}
    mixture, shape = MixedMixture(turned_mixture(2), shares), scheme(2, 3, 0.2, 2)
    bound, farthest = shape.sensitivity(Neighbours(unit, relation, held)), 0.0
    for trial in range(100):
        moved = 0.0
        for sign, end in ((1, -0.9), (-1, 0.9))[: 1 + (relation == "replace_one")]:
            number = held if trial % 3 else int(rng.integers(1, held + 1))
            points = np.full((number, 2), end) if trial % 2 else rng.uniform(-0.6, 0.6, (number, 2))
            states = [0, 1] if end < 0 else [1, 0]
            codes = {
                "sex": np.full(number, int(end > 0)),
                "s0": np.full(number, states[0]),
                "s1": np.full(number, states[1]),
            }
            if not trial % 2:
                codes = {name: rng.integers(size, size=number) for name, size in sizes.items()}
            absent = spec.domain.absent(codes, number)
            data = observe_incomplete_codes(points, codes, sizes, absent)
            moved = moved + sign * mixed_vector(data, mixture, shape, exact=exact)
        farthest = max(farthest, float(np.linalg.norm(moved)))
    assert 0.97 * bound <= farthest <= bound + (1e-4 if exact else 1e-9)


def test_attributes_have_their_share_of_the_squared_norm_with_absent_coordinates():
    shape, add = scheme(3, 2, 0.2, 2), Neighbours("record", "add_remove")
    assert 2 * shape.value**2 == pytest.approx(0.2 * shape.sensitivity(add) ** 2)


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_exact_contributions_do_not_depend_on_the_other_records(dimensions):
    spec = make_spec(range(dimensions), dimensions=dimensions)
    records, shape = make_records(spec, 301), scheme(dimensions, absent=dimensions)
    mixed_shape = scheme(dimensions, dimensions + 1, 0.3, dimensions)
    sizes = {each.name: len(each.values) for each in spec.domain.attributes}
    mixture, rng = turned_mixture(dimensions, width=0.2), np.random.default_rng(1)
    mixed = MixedMixture(mixture, {name: rng.dirichlet(np.ones(size), 2) for name, size in sizes.items()})

    def vectors(rows):
        some = records.select(rows)
        absent = spec.absent(some)
        coded = observe_incomplete_codes(some.points, some.codes, sizes, absent)
        plain = exact_weighted_vector(observe_incomplete(some.points, absent), mixture, shape)
        return np.concatenate([plain, mixed_vector(coded, mixed, mixed_shape, exact=True)])

    everyone = vectors(np.arange(301))
    for row in range(0, 301, 23):
        rest = np.delete(np.arange(301), row)
        assert (everyone - vectors(rng.permutation(rest)) == vectors(np.array([row]))).all()
    absent = spec.absent(records)
    fast = weighted_vector(
        completed_pass(observe_incomplete(records.points, absent), mixture, shape.radius), shape
    )
    assert everyone[: len(fast)] == pytest.approx(fast, abs=301 * 2.0**-20)


@pytest.mark.parametrize("exact", [False, True])
def test_the_table_counts_every_record_by_what_is_there(exact):
    spec = make_spec((0, 1), rows=500)
    records, mixture = make_records(spec, 500), turned_mixture(2, width=0.3)
    table = attribute_counts.count_table(records, mixture, spec, exact=exact)
    assert table.sum() == pytest.approx(3 * 500, abs=1e-3)
    shares = np.stack(
        [
            mixture.marginal(~lacks).responsibilities(point[~lacks][None])[0]
            if not lacks.all()
            else mixture.weights
            for point, lacks in zip(records.points, spec.absent(records), strict=True)
        ]
    )
    expected = [np.bincount(records.codes["sex"], own, 2) for own in shares.T]
    assert table[:, :2] == pytest.approx(np.array(expected), abs=1e-3)


@pytest.mark.parametrize("method", [*CENTRAL, "non_private"])
def test_placeholders_do_not_matter(method):
    spec = make_spec((0, 1), rows=400)
    one, other = (make_records(spec, 400, placeholder=value) for value in (0.0, 0.45))
    releases = [
        mechanism_run.run(build(method), records, spec, BUDGET, seeded_randomness(3, method))
        for records in (one, other)
    ]
    assert releases[0].transcript == releases[1].transcript
    assert np.array_equal(releases[0].mixture.means, releases[1].mixture.means)
    assert all(np.array_equal(releases[0].shares[name], releases[1].shares[name]) for name in ("sex", "s1"))


@pytest.mark.parametrize("attributes", ["together", "after"])
def test_noisy_moments_do_not_read_placeholders(attributes):
    spec, mechanism = make_spec(rows=400), NoisyMoments(attributes=attributes)
    seen = [
        mechanism_run.run(
            mechanism, make_records(spec, 400, placeholder=value), spec, BUDGET, seeded_randomness(3)
        ).transcript
        for value in (0.0, 0.45)
    ]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_central_mechanism_runs_within_its_budget(method, relation):
    spec = make_spec((0, 1), rows=400, relation=relation)
    for rows, blank in ((400, 0.4), (400, 1.0), (0, 0.4)):
        records = make_records(spec, rows, blank=blank)
        release = mechanism_run.run(build(method), records, spec, BUDGET, seeded_randomness(2, method))
        assert 0.99 < release.claim.epsilon <= 1 + 1e-9
        assert set(release.shares) == {"sex", "s0", "s1"}


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_replay_finds_nothing(method, unit, relation):
    mechanism = build(method)
    pairs = crafted_pairs(mechanism, unit, relation, blanks=True)
    assert [pair.name for pair in pairs[-3:-1]] == ["with and without coordinates", "without coordinates"]
    found = replay.replay_audit(
        mechanism, pairs[-3:], BUDGET, lambda run: seeded_randomness(9, method, unit, relation, run), runs=3
    )
    assert list(found.findings) == []


def test_replay_finds_nothing_in_moments_without_the_attributes():
    mechanism = NoisyMoments(attributes="after")
    pairs = crafted_pairs(mechanism, "record", "replace_one", blanks=True)
    found = replay.replay_audit(mechanism, pairs, BUDGET, lambda run: seeded_randomness(9, run), runs=6)
    assert list(found.findings) == []


def _replay(mechanism):
    pairs = crafted_pairs(mechanism, "record", "replace_one", blanks=True)
    found = replay.replay_audit(mechanism, pairs[-3:], BUDGET, lambda run: seeded_randomness(9, run), runs=3)
    return " ".join(found.findings)


@pytest.mark.parametrize("method", ["noisy_grid", "dp_em"])
def test_replay_finds_the_exact_number_of_complete_records(method, monkeypatch):
    """If the number of complete records is used as if it was public, the noise or the output depends on a record."""
    honest = type(build(method)).fit

    def wrong(self, view, spec, budget, rng):
        return honest(self, view, replace(spec, all_counted=True).with_rows(len(view)), budget, rng)

    monkeypatch.setattr(type(build(method)), "fit", wrong)
    assert "record" in _replay(build(method))


def test_replay_finds_states_without_noise(monkeypatch):
    """A transcript with the exact number of complete records, and a table of states that is not measured."""
    honest = mechanism_run._fit_then_count

    def wrong(mechanism, view, spec, budget, rng):
        release = honest(mechanism, view, spec, budget, rng)
        complete = len(view.complete(spec.domain))
        return replace(release, transcript=[*release.transcript, {"complete": complete}])

    monkeypatch.setattr(mechanism_run, "_fit_then_count", wrong)
    assert "changes the transcript" in _replay(build("noisy_grid"))


def test_the_number_of_complete_records_is_private_and_that_of_all_records_is_not():
    spec = make_spec()
    for method in CENTRAL:
        mechanism = build(method)
        own = mechanism.mixture_spec(spec)
        assert mechanism.relation(spec).size_is_public
        assert mechanism.relation(own).size_is_public == (method == "noisy_moments")
        assert mechanism.mixture_spec(Spec(make_domain(), 3)).all_counted
    for method in LOCAL:
        assert build(method).mixture_spec(spec).all_counted


@pytest.mark.parametrize("method", [each for each in CENTRAL if each != "noisy_moments"])
def test_the_mixture_is_that_of_the_complete_records(method):
    """Without noise, and with incomplete records at the other end of the box, which would move it."""
    spec = make_spec(rows=600, components=1)
    records = make_records(spec, 600, blank=0.5, placeholder=0.5)
    lacking = spec.absent(records).any(axis=1)
    places = np.where(lacking[:, None], records.points, 0.25 + 0.2 * records.points)
    records = replace(records, points=places)
    rng = Randomness(RecordingNoise(), stream(1, "search"))
    found = mechanism_run.run(build(method), records, spec, Budget(500.0, 1e-6), rng).mixture
    assert found.weights @ found.means[:, 1] == pytest.approx(places[~lacking, 1].mean(), abs=0.03)


def test_candidates_are_scored_by_complete_records(monkeypatch):
    spec = replace(make_spec(rows=2000), n_components=4, candidates=(1, 2, 4))
    seen = []
    honest = mechanism_run.component_choice.choose_components

    def watched(view, *arguments, **options):
        seen.append(view)
        return honest(view, *arguments, **options)

    monkeypatch.setattr(mechanism_run.component_choice, "choose_components", watched)
    release = mechanism_run.run(build("dp_em"), make_records(spec, 2000), spec, BUDGET, seeded_randomness(1))
    assert not spec.absent(seen[0]).any()
    assert 0.99 < release.claim.epsilon <= 1 + 1e-9


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_has_the_transcript_and_the_mixture_of_its_plan(method, relation):
    """What `privmix verify` checks. False alarm: less than 1e-9 for each run."""
    mechanism, spec = build(method), make_spec((0, 1), rows=400, relation=relation)
    job = mechanism_run.MechanismJob("made", method, {}, mechanism, BUDGET, (3,), 0.1, 1, None)
    attributes = attribute_counts.make_plan(mechanism, spec, BUDGET)
    left = attributes.left if attributes else BUDGET
    plan = PublicPlan(job, spec, left, None, (), attributes)
    release = mechanism_run.run(mechanism, make_records(spec, 400), spec, BUDGET, exact_randomness())
    events = [event for event in release.events if event.label != ATTRIBUTE_COUNTS]
    assert mechanism_events(mechanism, plan.mixture_spec, left) == events
    transcripts.check_transcript(release.transcript, plan)
    model = SimpleNamespace(
        transcript=release.transcript, normalised=release.mixture, original=release.mixture, notes=release.notes,
        shares=release.shares, domain=spec.domain, components=(3,),
    )  # fmt: skip
    derived_values.check_mixture(model, plan)
    derived_values.check_shares(model, plan)
    derived_values.check_notes(model, plan)


@pytest.mark.parametrize("method", LOCAL)
def test_local_mechanisms_report_the_state_like_any_attribute(method):
    spec = make_spec(rows=300)
    release = mechanism_run.run(build(method), make_records(spec, 300), spec, BUDGET, seeded_randomness(1))
    assert {each.attribute for each in release.proportions} == {"sex", "s1"}


def test_moments_are_better_than_complete_records_where_blanks_depend_on_a_coordinate():
    """v1 is mostly blank where v0 is high. Complete records alone have a mean that is too low on both axes."""
    spec = make_spec(rows=40_000, components=1)
    rng = np.random.default_rng(7)
    base = rng.normal(0, 0.15, 40_000)
    points = np.column_stack([base, 0.8 * base + rng.normal(0, 0.05, 40_000)])
    blank = rng.random(40_000) < 1 / (1 + np.exp(-20 * base))
    codes = {"sex": rng.integers(2, size=40_000), "s1": blank.astype(int)}
    records = Records(np.where(blank[:, None] & [False, True], 0.5, points).clip(-0.7, 0.7), codes)
    found = {
        method: mechanism_run.run(
            build(method), records, spec, Budget(2.0, 1e-6), seeded_randomness(4)
        ).mixture
        for method in ("noisy_moments", "posterior_sample")
    }
    assert found["noisy_moments"].means[0] == pytest.approx([0, 0], abs=0.01)
    assert found["noisy_moments"].covariances[0] == pytest.approx(np.cov(points.T), rel=0.1)
    assert found["posterior_sample"].means[0, 0] < -0.05
