"""Noise for releases: the exact law on the lattice, the cost of rounding, and no seed.

These tests have no seed either: each goodness-of-fit test fails by chance once in 1e6 runs, and has a twin that must
reject 2/3 and 3/2 of the scale.
"""

import inspect
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import RecordingNoise
from scipy import stats

import privmix
from privmix.errors import UserError
from privmix.privacy import exact, noise
from privmix.privacy.exact import STEP, ExactNoise, dequantise, quantise, quantised_sum
from privmix.privacy.ledger import Gaussian, Laplace, Ledger
from privmix.privacy.noise import SeededNoise, stream

ALPHA = 1e-6
DRAWS = 10_000


def _discrete(log_weight, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return integers and their exact probabilities; `reach` leaves out less than 1e-15."""
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(log_weight(steps.astype(float)))
    return steps, weights / weights.sum()


def _discrete_laplace(scale: float) -> tuple[np.ndarray, np.ndarray]:
    return _discrete(lambda k: -np.abs(k) / scale, math.ceil(37 * scale))


def _discrete_gaussian(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    return _discrete(lambda k: -(k**2) / (2 * sigma**2), math.ceil(12 * sigma))


def _fit(values: np.ndarray, law: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the p-value of χ² over bins of about 1/30 of the law each, in whole steps."""
    steps, masses = law
    bins = np.floor(30 * (np.cumsum(masses) - masses / 2)).clip(0, 29).astype(int)
    observed = np.bincount(bins[np.rint(values / STEP).astype(int) - steps[0]], minlength=30)
    expected = len(values) * np.bincount(bins, weights=masses, minlength=30)
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


@pytest.mark.parametrize(
    ("add", "law", "steps", "extra"),
    [
        (ExactNoise().add_laplace, _discrete_laplace, 6, 1),
        (ExactNoise().add_laplace, _discrete_laplace, 20_000, 1),
        (ExactNoise().add_gaussian, _discrete_gaussian, 120, 1),
        (ExactNoise().add_gaussian, _discrete_gaussian, 20_000, 1),
    ],
)
def test_exact_noise_has_the_law_of_its_scale_and_no_other(add, law, steps, extra):
    def drawn(factor: float) -> np.ndarray:
        return add(np.zeros(DRAWS), (steps - 0.5) * factor * STEP)

    assert _fit(drawn(1.0), law(steps + extra)) > ALPHA
    for factor in (2 / 3, 3 / 2):
        assert _fit(drawn(factor), law(steps + extra)) < ALPHA


@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize("norm", [1, 2])
def test_rounding_brings_neighbours_farther_apart_by_what_is_accounted_and_no_more(size, norm):
    """Pairs just beyond the middle between two steps, and random pairs."""
    generator = stream(1, "rounding", size, norm)
    middle = np.full(size, 0.5 + 1e-6) * STEP
    pairs = [(middle, -middle)] + [tuple(generator.normal(0, 2 * STEP, (2, size))) for _ in range(300)]
    reached, beyond = [], []
    for first, second in pairs:
        raw = np.linalg.norm(first - second, norm)
        rounded = np.linalg.norm(dequantise(quantise(first)) - dequantise(quantise(second)), norm)
        reached.append(rounded / (raw + ExactNoise().rounding(size, norm)))
        beyond.append(rounded / raw)
    assert max(reached) <= 1
    assert max(reached) > 0.99
    assert max(beyond) > 1.5


@pytest.mark.parametrize(("coordinates", "counted"), [(None, 12), (3, 3)])
def test_the_scale_is_that_of_the_sensitivity_and_the_rounding(coordinates, counted):
    source = RecordingNoise(rounding=ExactNoise().rounding)
    common = {"source": source, "ledger": Ledger(), "label": "x", "coordinates": coordinates}
    noise.laplace(np.zeros((4, 3)), sensitivity=1e-3, epsilon=0.5, **common)
    assert source.asked[-1][1] == pytest.approx((1e-3 + counted * STEP) / 0.5, rel=1e-12)
    noise.gaussian(np.zeros((4, 3)), sensitivity=1e-3, noise_multiplier=2.0, **common)
    assert source.asked[-1][1] == pytest.approx((1e-3 + math.sqrt(counted) * STEP) * 2.0, rel=1e-12)


@pytest.mark.parametrize("coordinates", [0, -1, 13])
def test_an_impossible_number_of_coordinates_is_refused(coordinates):
    with pytest.raises(UserError, match=rf"coordinates = {coordinates} must lie in 1 \.\.\. 12"):
        noise.laplace(
            np.zeros((4, 3)), sensitivity=1.0, epsilon=1.0, source=ExactNoise(), ledger=Ledger(), label="x",
            coordinates=coordinates,
        )  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.1, 3.3])
def test_scales_are_rounded_up_past_every_rounding_of_the_arithmetic(epsilon):
    """Whole steps, never fewer than the exact rational value of sensitivity / epsilon in steps."""
    for steps in range(1, 500):
        sensitivity = steps * epsilon * STEP
        meant = Fraction(sensitivity) / Fraction(epsilon) * 2**20
        assert meant <= exact.whole_steps(sensitivity / epsilon) <= meant + 2


def test_scales_are_rounded_to_the_next_step():
    assert exact.whole_steps(1000.5 * STEP) == 1001
    assert exact.sigma_steps(1000.5 * STEP) == 1002


def test_sums_are_exact_in_any_order_and_change_by_one_record_alone():
    generator = stream(1, "sums")
    contributions = generator.uniform(-1, 1, (5000, 4))
    total = quantised_sum(contributions)
    assert total.dtype == np.int64
    assert total.tolist() == [sum(round(x * 2**20) for x in column) for column in contributions.T.tolist()]
    assert np.array_equal(total, quantised_sum(contributions[generator.permutation(5000)]))
    assert np.array_equal(quantise(dequantise(total)), total)
    for row in range(100):
        neighbour = contributions.copy()
        neighbour[row] = generator.uniform(-1, 1, 4)
        change = dequantise(quantised_sum(neighbour) - total)
        for norm in (1, 2):
            allowed = np.linalg.norm(neighbour[row] - contributions[row], norm)
            assert np.linalg.norm(change, norm) <= allowed + ExactNoise().rounding(4, norm)
    assert np.array_equal(quantised_sum(np.zeros((0, 4))), np.zeros(4))


def test_no_seed_can_be_given():
    assert not inspect.signature(ExactNoise).parameters
    for arguments, named in (((1,), {}), ((stream(1, "x"),), {}), ((), {"seed": 1}), ((), {"generator": 1})):
        with pytest.raises(TypeError):
            ExactNoise(*arguments, **named)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: ExactNoise().add_laplace(np.zeros(20), 1.0),
        lambda: ExactNoise().add_gaussian(np.zeros(20), 1.0),
        lambda: ExactNoise().uniform((20,)),
        lambda: ExactNoise().integers(2**60, (20,)),
    ],
)
def test_two_releases_differ_whatever_is_seeded(draw):
    drawn = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        drawn.append(draw())
    assert not np.intersect1d(*drawn).size


def test_only_a_release_pays_for_opendp():
    code = "import sys, privmix.privacy.exact, privmix.mechanisms.registry; print('opendp' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "False"
    package = Path(privmix.__file__).parent
    named = {p.name for p in package.rglob("*.py") if "opendp" in p.read_text() or "urandom" in p.read_text()}
    assert named == {"exact.py"}


@pytest.mark.parametrize("source", [SeededNoise(stream(1, "both")), ExactNoise()], ids=["seeded", "exact"])
def test_one_call_serves_both_sources(source):
    ledger = Ledger()
    common = {"sensitivity": 1.0, "source": source, "ledger": ledger}
    rows = noise.laplace(np.zeros((5, 2)), epsilon=1.0, label="rows", **common)
    vector = noise.gaussian(np.zeros(7), noise_multiplier=3.0, label="vector", **common)
    matrix = noise.gaussian_symmetric(np.eye(4), noise_multiplier=2.0, label="matrix", **common)
    assert (rows.shape, vector.shape, matrix.shape) == ((5, 2), (7,), (4, 4))
    assert np.array_equal(matrix, matrix.T)
    assert ledger.events == [Laplace("rows", 1.0), Gaussian("vector", 3.0), Gaussian("matrix", 2.0)]


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    scale=st.floats(1e-4, 1e6),
    value=st.floats(-1e6, 1e6),
    kind=st.sampled_from(["laplace", "gaussian"]),
)
def test_every_output_is_a_whole_number_of_steps(shape, scale, value, kind):
    released = getattr(ExactNoise(), f"add_{kind}")(np.full(shape, value), scale)
    assert released.shape == shape
    assert released.dtype == np.float64
    assert np.array_equal(released / STEP, np.rint(released / STEP))


@given(steps=st.lists(st.integers(-(2**53), 2**53), max_size=5))
def test_whole_numbers_of_steps_come_back(steps):
    assert quantise(dequantise(np.array(steps, dtype=np.int64))).tolist() == steps


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
def test_values_that_are_no_numbers_are_refused_and_nothing_is_recorded(bad):
    ledger, common = Ledger(), {"sensitivity": 1.0, "source": ExactNoise(), "label": "x"}
    with pytest.raises(UserError, match="NaN or infinite"):
        noise.laplace(np.array([0.0, bad]), epsilon=1.0, ledger=ledger, **common)
    with pytest.raises(UserError, match="NaN or infinite"):
        noise.gaussian(np.array([0.0, bad]), noise_multiplier=1.0, ledger=ledger, **common)
    with pytest.raises(UserError, match="NaN or infinite"):
        quantised_sum(np.array([0.0, bad]))
    assert ledger.events == []


def test_values_beyond_the_lattice_are_refused_without_telling_them():
    with pytest.raises(UserError, match="outside ±8589934592") as refusal:
        ExactNoise().add_laplace(np.array([9.87654321e9]), 1.0)
    assert "9.87" not in str(refusal.value)
    with pytest.raises(UserError, match="sum of 3 contributions may leave"):
        quantised_sum(np.full(3, 8e9))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 8589934592.0])
def test_impossible_scales_are_refused_with_their_value(bad):
    for add in (ExactNoise().add_laplace, ExactNoise().add_gaussian):
        with pytest.raises(UserError, match=f"scale {bad!r} must lie between 0 and 8589934592"):
            add(np.zeros(2), bad)


def test_a_gaussian_too_narrow_for_its_accounting_is_refused_with_a_way_out():
    ledger = Ledger()
    with pytest.raises(UserError, match=r"less than 64 steps .* measure sums instead of means"):
        noise.gaussian(
            np.zeros(2), sensitivity=1e-5, noise_multiplier=1.0, source=ExactNoise(), ledger=ledger, label="x"
        )
    assert ledger.events == []
    ExactNoise().add_gaussian(np.zeros(2), 63.5 * STEP)


def test_uniform_numbers_are_uniform_multiples_of_their_precision():
    drawn = ExactNoise().uniform((200, 500))
    assert drawn.shape == (200, 500)
    assert ((drawn >= 0) & (drawn < 1)).all()
    assert np.array_equal(drawn * 2.0**53, np.rint(drawn * 2.0**53))
    assert (drawn * 2.0**53 % 2 == 1).mean() == pytest.approx(0.5, abs=0.01)
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > ALPHA


def _thirds(drawn: np.ndarray, high: int) -> float:
    """Return the p-value of equal counts in the three thirds of [0, high)."""
    return stats.chisquare(np.bincount(drawn // (high // 3), minlength=3)).pvalue


@pytest.mark.parametrize("high", [3, 3 * 2**61])
def test_integers_are_uniform_without_bias(high):
    drawn = ExactNoise().integers(high, (100, 300))
    assert drawn.shape == (100, 300)
    assert drawn.min() >= 0
    assert drawn.max() < high
    assert _thirds(drawn.ravel(), high) > ALPHA
    # The twin: without redrawing, words modulo 3·2^61 fall into the first two thirds too often.
    if high > 2**32:
        assert _thirds((exact._words(30_000) % np.uint64(high)).astype(np.int64), high) < ALPHA


@pytest.mark.parametrize("bad", [0, -1, 2**63 + 1])
def test_impossible_bounds_of_integers_are_refused_with_their_value(bad):
    with pytest.raises(UserError, match=f"cannot draw integers below {bad};"):
        ExactNoise().integers(bad, (3,))


def test_integers_reach_every_allowed_bound():
    assert ExactNoise().integers(1, (5,)).tolist() == [0] * 5
    assert ExactNoise().integers(2**63, (1000,)).min() >= 0
    assert ExactNoise().integers(7, ()).shape == ()
