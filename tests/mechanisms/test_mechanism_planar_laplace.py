"""Planar Laplace: its loss at a distance in metres and over the box, its notes, and its fits."""

import itertools
import math

import numpy as np
import pytest
from making import RecordingNoise, clusters, make_domain
from scipy import stats

from privmix.artefacts.domain import Axis
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Randomness, Records, Spec, seeded_randomness
from privmix.mechanisms.local.planar_laplace import LONGEST_DEGREE, PlanarLaplaceInput, map_note
from privmix.mechanisms.run import MechanismJob, run
from privmix.privacy.accounting import Budget, account
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import PlanarLaplace

ALPHA = 1e-6  # false alarms of a goodness-of-fit test
NIGHT = (("night", ("no", "yes")),)


def geographic(latitudes=(44.9, 45.1), longitudes=(-93.35, -93.15), components=3, **options):
    """A spec on a map that is isotropic in metres at its middle latitude, as cleaning makes it."""
    middle = math.radians(sum(latitudes) / 2)
    half = math.hypot(latitudes[1] - latitudes[0], (longitudes[1] - longitudes[0]) * math.cos(middle)) / 2
    axes = tuple(
        Axis(
            name=kind[:3], description="", unit="degree", geographic=kind, lower=low, upper=high,
            resolution=5e-4, centre=(low + high) / 2, scale=ratio / half,
        )
        for kind, (low, high), ratio in (
            ("latitude", latitudes, 1.0), ("longitude", longitudes, math.cos(middle)),
        )
    )  # fmt: skip
    return Spec(make_domain(**options).model_copy(update={"axes": axes}), components)


def _degree(latitude):
    """Metres of a degree of latitude, and of longitude, at a latitude of the ellipsoid (WGS 84)."""
    angle = math.radians(latitude)
    north = 111_132.92 - 559.82 * math.cos(2 * angle) + 1.175 * math.cos(4 * angle)
    east = 111_412.84 * math.cos(angle) - 93.5 * math.cos(3 * angle) + 0.118 * math.cos(5 * angle)
    return north, east


def _asked(spec, epsilon=1.0, points=None, **parameters):
    source = RecordingNoise()
    points = np.zeros((5, 2)) if points is None else points
    mechanism = PlanarLaplaceInput(**{"within_m": 500.0, **parameters})
    codes = {a.name: np.zeros(len(points), dtype=np.int16) for a in spec.domain.attributes}
    reports = mechanism.privatise(
        Records(points, codes), spec, Budget(epsilon, 0.0), Randomness(source, None)
    )
    return source.asked[0][1], reports


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("latitudes", [(44.9, 45.1), (55.0, 69.0), (-60.0, 75.0), (-90.0, 90.0), (-5.0, 5.0)])
def test_two_places_within_the_distance_lose_at_most_epsilon(latitudes, epsilon):
    """North-south, east-west and diagonal, in true metres, over the box up to 70° of latitude: and it is reached."""
    spec = geographic(latitudes)
    scale, _ = _asked(spec, epsilon)
    losses = []
    for latitude in np.linspace(max(latitudes[0], -70), min(latitudes[1], 70), 29):
        north, east = _degree(latitude)
        place = np.array([latitude, -93.25])
        for angle in np.linspace(0, np.pi, 7):
            step = 500 * np.array([math.cos(angle) / north, math.sin(angle) / east])
            pair = spec.domain.normalise(np.array([place, place + step]))
            losses.append(np.linalg.norm(pair[0] - pair[1]) / scale)
    assert 0.985 * epsilon < max(losses) <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_whole_report_is_private_at_the_distance_and_its_worst_case_is_in_the_ledger(epsilon):
    """Place and attribute together, over a grid of places and reports: bounded, and reached."""
    spec = geographic(attributes=NIGHT)
    scale, reports = _asked(spec, epsilon)
    rows, columns = (
        np.linspace(low, high, 9) for low, high in zip(spec.domain.lower, spec.domain.upper, strict=True)
    )
    places = np.array(list(itertools.product(rows, columns)))
    seen = np.vstack([places, 20 * places])
    log_density = -np.linalg.norm(seen[:, None] - places, axis=-1) / scale
    place_loss = (log_density[:, :, None] - log_density[:, None]).max(axis=0)
    answer_loss = 0.2 * epsilon  # one attribute has the whole share, and randomised response reaches its ε
    apart = np.linalg.norm(places[:, None] - places, axis=-1) / PlanarLaplaceInput(within_m=500.0).within(
        spec.domain
    )
    assert (place_loss + answer_loss <= epsilon * (0.8 * apart + 0.2) + 1e-9).all()
    assert place_loss.max() + answer_loss == pytest.approx(account(reports.events, 0.0, "linear").epsilon)
    assert reports.claim.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert reports.claim.delta == 0.0
    place = next(event for event in reports.events if isinstance(event, PlanarLaplace))
    assert place.epsilon_within == pytest.approx(0.8 * epsilon)
    assert place.within_m == 500.0


def test_displacements_have_the_stated_radius_and_half_the_noise_is_detected():
    spec, points = geographic(), np.zeros((4000, 2))
    reports = PlanarLaplaceInput(within_m=500.0).privatise(
        Records(points), spec, Budget(0.5, 0.0), seeded_randomness(1, "radius")
    )
    rows = np.column_stack([reports.columns["y0"], reports.columns["y1"]]).astype(float)
    metres = np.hypot(*rows.T) / spec.domain.axes[0].scale * LONGEST_DEGREE
    law, radius = stats.gamma(2, scale=reports.events[0].scale_m), reports.events[0].radius_m
    assert (
        1000 < law.kwds["scale"] < 1020
    )  # 500 m at ε = 1/2, a little more for the worst latitude and degree
    assert stats.kstest(metres, law.cdf).pvalue > ALPHA
    assert stats.kstest(metres / 2, law.cdf).pvalue < ALPHA
    assert radius == pytest.approx(law.ppf(0.95), rel=1e-6)
    assert abs((metres <= radius).mean() - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 4000)


def test_a_release_has_the_same_noise_on_the_lattice():
    spec = geographic()
    exact = Randomness(ExactNoise(), np.random.default_rng(0))
    reports = PlanarLaplaceInput(within_m=500.0).privatise(
        Records(np.zeros((500, 2))), spec, Budget(0.5, 0.0), exact
    )
    rows = np.column_stack([reports.columns["y0"], reports.columns["y1"]]).astype(float)
    metres = np.hypot(*rows.T) / spec.domain.axes[0].scale * LONGEST_DEGREE
    assert stats.kstest(metres, stats.gamma(2, scale=reports.events[0].scale_m).cdf).pvalue > ALPHA
    assert reports.claim.epsilon == pytest.approx(0.5, rel=1e-9)


def test_the_noise_and_the_columns_depend_on_no_record():
    spec = geographic()
    found = [_asked(spec, points=points) for points in (np.zeros((1, 2)), clusters(50), np.full((9, 2), 5.0))]
    assert len({scale for scale, _ in found}) == 1
    assert found[0][1].events == found[1][1].events
    for _, reports in found:
        assert set(reports.columns) == {"y0", "y1"}
        assert {values.dtype for values in reports.columns.values()} == {np.dtype(np.float32)}
    outside = np.column_stack(list(found[2][1].columns.values()))
    assert (
        outside <= spec.domain.upper + 1e-6
    ).all()  # the noise is silent here: records are clipped to the box


def test_a_note_states_the_guarantee_near_and_far():
    spec = geographic()
    release = run(
        PlanarLaplaceInput(within_m=500.0),
        Records(clusters(300)),
        spec,
        Budget(1.0, 0.0),
        seeded_randomness(1),
    )
    first = next(note for note in release.notes if "hides among" in note)
    assert "within 500 m (ε = 1)" in first
    assert f"within {release.events[0].radius_m:,.0f} m of the true one in 95 %" in first
    assert f"ε is up to {release.events[0].epsilon:,.4g}" in first


@pytest.mark.parametrize(
    ("latitudes", "longitudes", "words"),
    [
        ((44.9, 45.1), (-93.4, -93.2), []),
        ((30.0, 75.0), (-20.0, 40.0), ["beyond 70° of latitude"]),
        ((30.0, 60.0), (-180.0, 180.0), ["antimeridian"]),
        ((-90.0, 90.0), (-180.0, 180.0), ["beyond 70° of latitude", "antimeridian"]),
    ],
)
def test_a_model_and_a_file_say_where_the_map_is_wrong(latitudes, longitudes, words):
    spec = geographic(latitudes, longitudes)
    notes = map_note(spec.domain)
    assert all(word in notes[0] for word in words) if words else notes == []
    _, reports = _asked(spec)
    mechanism = PlanarLaplaceInput(within_m=500.0)
    remarks = mechanism.remarks(reports.events, spec, mechanism.plan(spec, Budget(1.0, 0.0)))
    assert remarks[1:] == notes
    assert "hides among the places within 500 m" in remarks[0]


def test_two_persons_are_protected_if_all_their_places_are_near():
    spec = geographic(unit="person", max_records=3, rows=300)
    records = Records(clusters(300), {}, np.arange(300) // 3)
    reports = PlanarLaplaceInput(within_m=500.0).privatise(
        records, spec, Budget(1.0, 0.0), seeded_randomness(1)
    )
    assert len(reports.columns["y0"]) == 100
    assert reports.claim.epsilon == pytest.approx(1.0, rel=1e-9)


def test_a_file_says_the_distance_and_the_epsilon_of_any_two_records():
    spec = geographic(attributes=NIGHT)
    mechanism = PlanarLaplaceInput(within_m=500.0)
    _, reports = _asked(spec)
    job = MechanismJob(
        "near", "planar_laplace", {"within_m": 500.0}, mechanism, Budget(1.0, 0.0), (3,), 0.0, 1, 1
    )
    privacy = job.privacy_statement(spec.domain, reports.claim, reports.events)
    assert privacy.trust == "distance"
    assert privacy.epsilon == pytest.approx(1.0)
    assert privacy.within_m == 500.0
    assert privacy.epsilon_anywhere == pytest.approx(account(reports.events, 0.0, "linear").epsilon)
    assert privacy.epsilon_anywhere > 10


@pytest.mark.parametrize("metres", [500.0, 1000.0])
def test_knowing_the_noise_helps(metres):
    spec, points, held_out = geographic(rows=5000), clusters(5000), clusters(2000, seed=0)
    scores = {}
    for reading in ("naive", "aware"):
        mechanism = registry.build("planar_laplace", {"within_m": metres, "fit": reading})
        release = run(mechanism, Records(points), spec, Budget(1.0, 0.0), seeded_randomness(1, metres))
        scores[reading] = release.mixture.log_density(held_out).mean()
    assert scores["aware"] > scores["naive"] + 0.05


@pytest.mark.parametrize("reading", ["naive", "aware"])
@pytest.mark.parametrize("epsilon", [0.01, 100.0])
def test_extreme_budgets_and_tiny_data_give_valid_mixtures(reading, epsilon):
    mechanism = registry.build("planar_laplace", {"within_m": 1000.0, "fit": reading})
    for points in (np.zeros((4, 2)), clusters(60)):
        spec = geographic(rows=len(points))
        mixture = run(mechanism, Records(points), spec, Budget(epsilon, 0.0), seeded_randomness(1)).mixture
        assert np.isfinite(mixture.log_density(points)).all()
        assert (np.linalg.eigvalsh(mixture.covariances) >= spec.floor.min() * (1 - 1e-9)).all()


def test_other_coordinates_and_distances_beyond_the_box_are_refused_with_an_alternative():
    mechanism = PlanarLaplaceInput(within_m=500.0)
    for domain in (make_domain(dimensions=1), make_domain(dimensions=3)):
        with pytest.raises(
            MechanismFailure, match=r"needs a latitude and a longitude and no other.*laplace_input"
        ):
            mechanism.privatise(
                Records(np.zeros((4, len(domain.axes)))),
                Spec(domain, 1),
                Budget(1.0, 0.0),
                seeded_randomness(1),
            )
    with pytest.raises(
        MechanismFailure, match=r"within_m = 50000 is not smaller than .* 27,\d+ m from corner"
    ):
        _asked(geographic(), within_m=50_000.0)


@pytest.mark.parametrize(
    "given", [{}, {"within_m": 0}, {"within_m": math.inf}, {"within_m": 5, "fit": "wise"}]
)
def test_wrong_parameters_get_one_sentence(given):
    with pytest.raises(UserError, match=r"within_m|fit"):
        registry.build("planar_laplace", given)
