"""The aim at the worst group: what it measures, what it costs, what it changes, and what it refuses."""

import base64

import numpy as np
import pytest
from making import Tape, make_domain
from scipy import stats

from privmix.audit import replay
from privmix.audit.crafted_worlds import crafted_pairs
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Randomness, Records, Spec, seeded_randomness
from privmix.mechanisms.shared import worst_group
from privmix.mixture import boxes
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget
from privmix.privacy.ledger import Laplace, Ledger
from privmix.privacy.noise import stream

METHODS = ["noisy_tree", "noisy_grid"]
LEVELS = [("record", 1, "add_remove"), ("record", 1, "replace_one")]
LEVELS += [("person", 4, "add_remove"), ("person", 4, "replace_one")]
BUDGET = Budget(1.0, 1e-6)
SMALL = 0.03  # share of the small group where the aim is tested
GROUPS = [("side", ("left", "right", "none")), ("other", ("no", "yes"))]


def build(method, **parameters):
    return registry.build(method, {"searches": 1, "worst_of": "side", **parameters})


def make_spec(unit="record", records=1, relation="replace_one", rows=2000, components=3):
    domain = make_domain(rows=rows, unit=unit, max_records=records, relation=relation, attributes=GROUPS)
    return Spec(domain, components)


def two_towns(rows=2000, small=0.1, seed=1):
    """A large group with six places on the left, and a small group with two places on the right."""
    rng = np.random.default_rng(seed)
    right = rng.random(rows) < small
    places = np.array([(-0.5, y) for y in np.linspace(-0.5, 0.5, 6)] + [(0.4, -0.3), (0.4, 0.3)])
    own = np.where(right, 6 + rng.integers(2, size=rows), rng.integers(6, size=rows))
    points = np.clip(places[own] + rng.normal(0, 0.02, (rows, 2)), -0.7, 0.7)
    codes = {"side": right.astype(int), "other": rng.integers(2, size=rows)}
    return Records(points, codes, np.arange(rows, dtype=np.uint64))


def with_unit(records, unit):
    return Records.concatenate([records, unit])


def a_unit(rng, size):
    """A person with up to `size` records, all in one cell of the table or in many."""
    held = size if rng.random() < 0.5 else int(rng.integers(1, size + 1))
    points = rng.uniform(-0.7, 0.7, (held, 2))
    side = rng.integers(3, size=held)
    if rng.random() < 0.7:
        points[:], side[:] = points[0], side[0]
    codes = {"side": side, "other": np.zeros(held, dtype=int)}
    return Records(points, codes, np.full(held, 10**6, dtype=np.uint64))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("unit", "records", "relation"), LEVELS)
def test_no_unit_moves_the_group_counts_further_than_the_noise_is_scaled_for(
    method, unit, records, relation, recording
):
    """Given a synopsis. Without noise the text holds the exact counts. The bound is reached."""
    mechanism, spec = build(method), make_spec(unit, records, relation)
    common, rng, worst = two_towns(300), np.random.default_rng(3), 0.0
    synopsis = mechanism.measure(common, spec, BUDGET, seeded_randomness(1).noise, Ledger())

    def counts(view):
        text = mechanism.measure_groups(view, synopsis, spec, 0.5, recording.noise, Ledger())
        return np.frombuffer(base64.b64decode(text))

    before = counts(common)
    assert before.sum() == 300
    for _ in range(60):
        changed = counts(with_unit(common, a_unit(rng, records)))
        second = counts(with_unit(common, a_unit(rng, records))) if relation == "replace_one" else before
        worst = max(worst, np.abs(changed - second).sum())
    bound = spec.neighbours.difference(1.0, opposed=True)
    assert worst == bound
    assert {(kind, scale) for kind, scale, _ in recording.noise.asked} == {("laplace", bound / 0.5)}


@pytest.mark.parametrize("method", METHODS)
def test_the_noise_of_the_group_counts_is_not_three_percent_too_small(method):
    """The mean size of Laplace noise over many cells, at 1e-6; noise of 0.97 of the scale is detected."""
    mechanism, spec, sizes = build(method), make_spec(rows=50_000), []
    empty = Records(np.zeros((0, 2)), {name: np.zeros(0, dtype=int) for name, _ in GROUPS})
    synopsis = mechanism.measure(empty, spec, BUDGET, seeded_randomness(1).noise, Ledger())
    for run in range(500):
        source = seeded_randomness(run, method).noise
        text = mechanism.measure_groups(empty, synopsis, spec, 1.0, source, Ledger())
        sizes += np.abs(np.frombuffer(base64.b64decode(text))).tolist()
    assert len(sizes) > 40_000
    for scale, wrong in ((2.0, False), (2.0 / 0.97, True), (2.0 / 1.03, True)):
        chance = stats.gamma(len(sizes), scale=scale).cdf(np.sum(sizes))
        assert (min(chance, 1 - chance) < 1e-6) == wrong


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("group_share", [0.2, 0.5])
def test_the_groups_are_paid_by_the_table_of_attributes_alone(method, group_share):
    """The synopsis has the same ε as without groups, the whole run has the budget."""
    spec, records = make_spec(), two_towns()
    events = {}
    for name in ("side", None):
        mechanism = build(method, worst_of=name, group_share=group_share)
        release = mechanism_run.run(mechanism, records, spec, Budget(1.0, 0.0), seeded_randomness(2))
        assert release.claim.epsilon == pytest.approx(1.0, rel=1e-12)
        events[name] = {event.label: event.epsilon for event in release.events}
        assert sum(events[name].values()) == pytest.approx(1.0, rel=1e-12)
    assert events["side"].pop(worst_group.LABEL) == pytest.approx(0.2 * group_share)
    assert events["side"].pop(ATTRIBUTE_COUNTS) == pytest.approx(0.2 * (1 - group_share))
    assert events[None].pop(ATTRIBUTE_COUNTS) == pytest.approx(0.2)
    assert events["side"] == pytest.approx(events[None])


@pytest.mark.parametrize("method", METHODS)
def test_every_record_is_in_one_cell_and_the_table_is_statistic_plus_noise(method):
    mechanism, spec, records = build(method), make_spec(), two_towns()
    tape = Tape(seeded_randomness(4).noise)
    release = mechanism.fit(records, spec, BUDGET, Randomness(tape, stream(1, "search")))
    synopsis_text, groups_text = release.transcript
    assert set(groups_text) == {"groups"}
    noisy = np.frombuffer(base64.b64decode(groups_text["groups"]))
    scale, noise = tape.drawn[-1]
    exact = noisy - noise
    assert exact == pytest.approx(np.rint(exact), abs=1e-6)
    assert exact.sum() == pytest.approx(len(records))
    for_synopsis, for_groups = mechanism.split_groups(BUDGET)
    assert scale == pytest.approx(2.0 / for_groups)
    assert release.events[-1] == Laplace(worst_group.LABEL, for_groups)
    synopsis = mechanism.replay(synopsis_text, spec, for_synopsis)
    by_group = exact.reshape(-1, 3).sum(axis=0)
    assert by_group == pytest.approx(np.bincount(records.codes["side"], minlength=3))
    regions = mechanism.group_shape(synopsis, spec, for_groups)[0]
    region = worst_group.cut_regions(synopsis.lower, synopsis.upper, synopsis.weights(), regions)
    inside = [
        ((records.points >= low) & (records.points < high)).all(axis=1).sum()
        for low, high in zip(synopsis.lower, synopsis.upper, strict=True)
    ]
    assert exact.reshape(-1, 3).sum(axis=1) == pytest.approx(np.bincount(region, inside))


def test_a_group_without_records_is_not_heard():
    """The noise of empty cells has mean zero, but its non-negative part does not."""
    rng = np.random.default_rng(3)
    table = np.stack([np.full(64, 500.0), np.full(64, 400.0), np.zeros(64)], axis=1)
    table = table + rng.laplace(0, 30.0, table.shape)
    groups = worst_group.Groups(
        "side", ("left", "right", "none"), np.arange(64), table, 30.0 * np.sqrt(2), np.full(64, 900.0)
    )
    assert groups.heard.tolist() == [0, 1]


@pytest.mark.parametrize("number", [1, 2, 7, 30, 99])
def test_regions_join_whole_boxes_and_none_is_empty(number):
    rng = np.random.default_rng(1)
    lower = rng.random((30, 2))
    region = worst_group.cut_regions(lower, lower + 0.1, rng.random(30), number)
    assert np.array_equal(np.unique(region), np.arange(min(number, 30)))


def test_regions_have_similar_weights():
    rng = np.random.default_rng(1)
    lower, weights = rng.random((4000, 2)), rng.random(4000)
    region = worst_group.cut_regions(lower, lower, weights, 16)
    assert np.bincount(region, weights) * 16 / weights.sum() == pytest.approx(np.ones(16), abs=0.05)


def _exact_groups(members):
    """Groups with known members of each of the parts."""
    members = np.asarray(members, dtype=float)
    parts = np.arange(len(members))
    return worst_group.Groups("side", ("left", "right"), parts, members, 1e-9, members.sum(axis=1))


def test_without_noise_the_members_of_a_region_are_the_counts():
    members = [[30.0, 10.0], [0.0, 50.0], [7.0, 0.0]]
    groups = _exact_groups(members)
    np.testing.assert_allclose(groups.members, members, atol=1e-6)
    np.testing.assert_allclose(groups.weights(np.log([1.0, 0.5])), [35.0, 25.0, 7.0], rtol=1e-6)


def test_a_group_that_is_not_heard_has_the_mean_weight():
    groups = worst_group.Groups(
        "side",
        ("left", "right", "none"),
        np.zeros(1, dtype=int),
        np.array([[300.0, 100.0, 2.0]]),
        5.0,
        np.array([402.0]),
    )
    assert groups.heard.tolist() == [0, 1]
    members = groups.members[0]
    mean = (members[0] * 1.0 + members[1] * 0.25) / members[:2].sum()
    assert groups.weights(np.log([1.0, 0.25]))[0] == pytest.approx(members @ [1.0, 0.25, mean])
    assert groups.notes() == [
        "The mixture aims at the worst of these groups of side: left, right. The noise hides 1 other."
    ]


def _score(release, records, group):
    own = records.codes["side"] == group
    return release.mixture.log_density(records.points[own]).mean()


def _pair(**more):
    """The same mechanism with and without the aim, at a large ε, with too few components for all places."""
    spec, records = make_spec(rows=6000, components=4), two_towns(6000, SMALL)
    return [
        mechanism_run.run(
            build("noisy_tree", worst_of=name, searches=4, **more),
            records,
            spec,
            Budget(20.0, 0.0),
            seeded_randomness(5),
        )
        for name in (None, "side")
    ]


def test_the_aim_helps_the_group_that_loses_most_and_costs_the_average():
    """The places of the large group take three of the four components of the average."""
    plain, aimed = _pair()
    fresh = two_towns(20_000, SMALL, seed=9)
    gains = [_score(aimed, fresh, group) - _score(plain, fresh, group) for group in (0, 1)]
    assert gains[1] > 0.5
    assert gains[0] < 0
    mean = [each.mixture.log_density(fresh.points).mean() for each in (plain, aimed)]
    assert mean[1] < mean[0] - 0.01
    assert "left, right" in " ".join(aimed.notes)


def test_the_mixture_stays_a_model_of_all_records():
    """The right has the share of its records in the density, whatever the weights of the fit were."""
    for release in _pair():
        right = release.mixture.weights[release.mixture.means[:, 0] > 0].sum()
        assert right == pytest.approx(SMALL, abs=0.006)


def test_weights_follow_the_counts_of_all_records():
    """Brute force over a grid of weights: the likelihood of the counts is largest at the estimate."""
    lower = np.array([[-0.5, 0.0], [-0.3, 0.0], [0.1, 0.0]])
    upper, counts = lower + 0.2, np.array([10.0, 20.0, 70.0])
    mixture = Mixture(
        np.array([0.5, 0.5]), np.array([[-0.3, 0.1], [0.2, 0.1]]), np.array([np.eye(2) * 0.02] * 2)
    )
    found = boxes.estimate_weights(lower, upper, counts, mixture, 4)
    rows, _ = boxes.cut_boxes(lower, upper, counts, 4)
    shares = np.linspace(0.001, 0.999, 999)
    likelihoods = [
        rows.weights
        @ Mixture(np.array([s, 1 - s]), mixture.means, mixture.covariances).log_density(rows.points)
        for s in shares
    ]
    assert found.weights[0] == pytest.approx(shares[np.argmax(likelihoods)], abs=2e-3)
    assert np.array_equal(found.means, mixture.means)


@pytest.mark.parametrize(("epsilon", "number"), [(0.05, 3), (20.0, 6)])
def test_more_components_need_records_beside_the_noise(epsilon, number):
    """`finer` with an aim: the number is the largest that the noise supports, and a note says so."""
    spec = make_spec(rows=6000)
    mechanism = build("noisy_tree", finer=2)
    release = mechanism_run.run(mechanism, two_towns(6000), spec, Budget(epsilon, 0.0), seeded_randomness(3))
    assert release.mixture.n_components <= number
    assert any(f"components ({number}) was chosen among 3, 6" in note for note in release.notes)


@pytest.mark.parametrize("method", METHODS)
def test_groups_that_the_noise_hides_change_nothing(method):
    """The mixture is that of the fit to all records from the same synopsis, and a note says so."""
    spec, records = make_spec(), two_towns()
    mechanism = build(method)
    tiny = Budget(0.01, 0.0)
    release = mechanism.fit(records, spec, tiny, seeded_randomness(3))
    synopsis = mechanism.replay(release.transcript[0], spec, mechanism.split_groups(tiny)[0])
    same, _ = synopsis.fit(spec, rng=seeded_randomness(3).search, searches=1)
    assert np.array_equal(release.mixture.means, same.mixture.means)
    assert "no two groups of side stand out from the noise" in " ".join(release.notes)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1000.0])
def test_any_budget_and_any_data_give_a_valid_mixture(method, rows, epsilon):
    spec = make_spec(rows=max(rows, 1), relation="add_remove")
    records = two_towns(40).select(np.arange(rows))
    release = build(method).fit(records, spec, Budget(epsilon, 0.0), seeded_randomness(1))
    assert np.isfinite(release.mixture.log_density(two_towns(20).points)).all()


@pytest.mark.parametrize("method", METHODS)
def test_refusals_say_what_is_wrong(method):
    spec, records = make_spec(), two_towns(50)
    with pytest.raises(
        MechanismFailure, match=r"`worst_of: sid` is no attribute of made; did you mean 'side'\?"
    ):
        build(method, worst_of="sid").fit(records, spec, BUDGET, seeded_randomness(1))
    with pytest.raises(UserError, match="a part of `attribute_share`, which is 0"):
        build(method, attribute_share=0.0).fit(records, spec, BUDGET, seeded_randomness(1))
    if method == "noisy_grid":
        flat = Spec(make_domain(dimensions=1, attributes=GROUPS).model_copy(update={"axes": ()}), 2)
        with pytest.raises(MechanismFailure, match="moves components in space, but made has no coordinates"):
            build(method).fit(
                Records(np.zeros((5, 0)), {name: np.zeros(5, dtype=int) for name, _ in GROUPS}),
                flat,
                BUDGET,
                seeded_randomness(1),
            )


@pytest.mark.parametrize("other", [name for name in registry.CENTRAL if name not in METHODS])
def test_other_mechanisms_do_not_have_the_option(other):
    with pytest.raises(UserError, match="unknown key 'worst_of'"):
        registry.build(other, {"worst_of": "side"})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("blanks", [False, True])
def test_replay_finds_nothing(method, unit, relation, blanks):
    mechanism = build(method)
    pairs = crafted_pairs(mechanism, unit, relation, blanks=blanks)
    found = replay.replay_audit(
        mechanism, pairs, BUDGET, lambda run: seeded_randomness(9, method, unit, relation, run), runs=3
    )
    assert list(found.findings) == []
