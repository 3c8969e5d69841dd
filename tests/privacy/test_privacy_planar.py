"""Planar Laplace noise: its law in the plane and on the lattice, its loss at a distance, and its ledger event.

Goodness-of-fit tests fail by chance once in 1e6 runs; each has a twin that must reject 2/3 and 3/2 of the scale.
"""

import itertools
import math

import numpy as np
import pytest
from making import RecordingNoise
from scipy import stats

from privmix.errors import UserError
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, Claim, account, claim, compose_ledgers, nearby_events
from privmix.privacy.exact import STEP, ExactNoise, laplace_steps
from privmix.privacy.ledger import Laplace, Ledger, PlanarLaplace, RandomizedResponse
from privmix.privacy.noise import SeededNoise, stream

ALPHA = 1e-6
DRAWS = 20_000


def _planar(places, source, epsilon=0.5, within=0.1, diameter=2.0):
    ledger = Ledger()
    rows = noise.planar_laplace(
        places, epsilon=epsilon, within=within, within_m=700.0, metre=within / 700, diameter=diameter, source=source,
        ledger=ledger, label="place",
    )  # fmt: skip
    return rows, ledger.events


def _asked(**options):
    source = RecordingNoise()
    _, events = _planar(np.zeros((3, 2)), source, **options)
    return source.asked[0][1], events[0]


@pytest.mark.parametrize("part", ["radius", "angle"])
def test_seeded_noise_has_the_stated_radius_and_every_direction_alike(part):
    def fits(factor):
        rows, _ = _planar(np.zeros((DRAWS, 2)), SeededNoise(stream(1, "planar")), within=0.1 * factor)
        if part == "angle":
            return stats.kstest(np.arctan2(*rows.T), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue
        return stats.kstest(np.hypot(*rows.T), stats.gamma(2, scale=0.1 / 0.5).cdf).pvalue

    assert fits(1.0) > ALPHA
    if part == "radius":
        assert fits(2 / 3) < ALPHA
        assert fits(3 / 2) < ALPHA


def test_the_direction_of_seeded_noise_tells_nothing_of_its_length():
    """Reports on a spiral would have every radius and every angle, but reveal the place."""
    rows, _ = _planar(np.zeros((DRAWS, 2)), SeededNoise(stream(3, "planar")))
    radius, angle = np.hypot(*rows.T), np.arctan2(*rows.T)
    table, _, _ = np.histogram2d(
        np.argsort(np.argsort(radius)), np.argsort(np.argsort(angle)), bins=8, range=[(0, DRAWS)] * 2
    )
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_seeded_noise_is_added_to_the_places():
    places = np.arange(8.0).reshape(4, 2)
    moved, _ = _planar(places, SeededNoise(stream(2, "x")))
    still, _ = _planar(np.zeros((4, 2)), SeededNoise(stream(2, "x")))
    np.testing.assert_allclose(moved - places, still, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_density_ratio_is_bounded_by_the_distance_and_over_the_box_by_the_ledger(epsilon):
    """For places on a grid of the box, and reports inside and far outside: the bounds hold and are reached."""
    scale, event = _asked(epsilon=epsilon, within=0.5, diameter=math.hypot(2, 1))
    places = np.array(list(itertools.product(np.linspace(-1, 1, 9), np.linspace(-0.5, 0.5, 5))))
    far = np.array(list(itertools.product((-30.0, 0.0, 30.0), repeat=2)))
    reports = np.vstack([places, far])
    log_density = -np.linalg.norm(reports[:, None] - places, axis=-1) / scale
    loss = (log_density[:, :, None] - log_density[:, None]).max(axis=0)
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    assert (loss <= apart / 0.5 * epsilon + 1e-9).all()
    near = apart <= 0.5
    assert loss[near].max() == pytest.approx(event.epsilon_within) == pytest.approx(epsilon)
    assert loss.max() == pytest.approx(event.epsilon)
    assert event.epsilon == pytest.approx(epsilon * math.hypot(2, 1) / 0.5)
    assert event.within_m == 700.0


def test_half_the_noise_would_break_the_claim():
    scale, event = _asked(epsilon=1.0, within=0.5)
    assert 0.5 / scale == pytest.approx(event.epsilon_within)
    assert 0.5 / (scale / 2) > 1.5 * event.epsilon_within


def test_rounding_is_paid_for_at_every_distance():
    source = RecordingNoise(rounding=ExactNoise().rounding)
    _, events = _planar(np.zeros((1, 2)), source, epsilon=2.0, within=8 * STEP, diameter=64 * STEP)
    scale = source.asked[0][1]
    apart = math.sqrt(2) * STEP
    assert scale == pytest.approx((8 * STEP + apart) / 2.0)
    assert events[0].epsilon == pytest.approx((64 * STEP + apart) / scale)


def test_the_ledger_has_the_scale_that_was_drawn():
    """On the lattice it is larger than requested, by much if the distance is a few steps."""
    _, [event] = _planar(np.zeros((1, 2)), ExactNoise(), epsilon=1.0, within=8 * STEP, diameter=640 * STEP)
    drawn = laplace_steps(8 * STEP + math.sqrt(2) * STEP) * STEP
    assert event.scale_m == pytest.approx(drawn / (8 * STEP) * 700)
    assert event.radius_m == pytest.approx(stats.gamma(2, scale=event.scale_m).ppf(0.95))
    assert event.epsilon == pytest.approx((640 + math.sqrt(2)) * STEP / drawn)


def test_the_claim_is_at_the_distance_and_every_total_is_of_the_worst_case():
    events = [PlanarLaplace("place", 40.0, 500.0, 1.0, 500.0), RandomizedResponse("a_night", 0.25)]
    assert claim(events, Budget(1.25, 0.0), "linear") == Claim(1.25, 0.0)
    with pytest.raises(UserError, match=r"spends epsilon = 1\.25, more than the budget 1\.2"):
        claim(events, Budget(1.2, 0.0), "linear")
    assert account(events, 0.0, "linear").epsilon == 40.25
    assert compose_ledgers([events, [Laplace("x", 1.0)]], 0.0).epsilon == 41.25
    assert nearby_events(events)[1] == events[1]
    assert account([events[0]], 1e-6, "rdp").epsilon > 30


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: _asked(within=3.0), "within = 3.0 must be at most the diameter 2.0"),
        (lambda: _asked(within=0.0), "within = 0.0 must be a finite number"),
        (lambda: _asked(epsilon=math.nan), "epsilon = nan must be a finite number"),
        (lambda: _planar(np.zeros((3, 3)), RecordingNoise()), r"shape \(3, 3\)"),
        (lambda: PlanarLaplace("x", 1.0, 0.0, 0.5, 9.0), "within_m of 'x' = 0.0"),
        (lambda: PlanarLaplace("x", 1.0, 10.0, 2.0, 9.0), "epsilon_within of 'x' = 2.0"),
    ],
)
def test_impossible_distances_are_refused_with_the_value(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def _lattice(steps: int, reach: int) -> np.ndarray:
    """P(i, j) ∝ exp(-‖(i, j)‖ / steps) for |i|, |j| <= reach."""
    line = np.arange(-reach, reach + 1)
    masses = np.exp(-np.hypot(line[:, None], line) / steps)
    return masses / masses.sum()


def test_exact_noise_has_the_law_of_the_lattice_and_no_other():
    """χ² over single points of the lattice; points with fewer than ten expected draws form one class."""
    steps, reach = 3, 120
    masses = _lattice(steps, reach).ravel()

    def fits(factor):
        # laplace_steps rounds up and adds one, so this asks for `steps` of them
        rows = ExactNoise().add_planar_laplace(np.zeros((DRAWS, 2)), (steps * factor - 1.5) * STEP)
        i, j = np.rint(rows / STEP).astype(int).T + reach
        counts = np.bincount(i * (2 * reach + 1) + j, minlength=len(masses))
        common = DRAWS * masses >= 10
        observed = [*counts[common], counts[~common].sum()]
        expected = [*DRAWS * masses[common], DRAWS * masses[~common].sum()]
        return stats.chisquare(observed, expected).pvalue

    assert laplace_steps((steps - 1.5) * STEP) == steps
    assert fits(1.0) > ALPHA
    assert fits(2 / 3) < ALPHA
    assert fits(3 / 2) < ALPHA


def test_exact_noise_of_many_steps_has_the_radius_of_the_plane():
    scale = 20_000 * STEP
    rows = ExactNoise().add_planar_laplace(np.full((4000, 2), 0.3), scale)
    assert np.array_equal(rows / STEP, np.rint(rows / STEP))
    radius = np.hypot(*(rows - np.rint(0.3 / STEP) * STEP).T)
    assert stats.kstest(radius, stats.gamma(2, scale=scale).cdf).pvalue > ALPHA
    assert stats.kstest(radius, stats.gamma(2, scale=1.5 * scale).cdf).pvalue < ALPHA


def test_no_output_of_the_lattice_tells_places_apart_by_more_than_their_distance():
    """The law is the same around every centre, so the test compares shifted copies of one table."""
    steps, reach = 2, 40
    log_mass = np.log(_lattice(steps, reach))
    for shift in ((1, 0), (3, 4), (0, 7), (5, 5)):
        inner = log_mass[10:-10, 10:-10]
        moved = log_mass[
            10 + shift[0] : len(log_mass) - 10 + shift[0], 10 + shift[1] : len(log_mass) - 10 + shift[1]
        ]
        assert np.abs(inner - moved).max() <= math.hypot(*shift) / steps + 1e-9
