"""The privacy cost of exact noise, by enumeration of the lattice: never more than the ledger says."""

import math

import numpy as np
import pytest
from making import RecordingNoise
from scipy import optimize, special, stats

from privmix.privacy import exact, noise
from privmix.privacy.exact import STEP, ExactNoise
from privmix.privacy.ledger import Laplace, Ledger


def _accounting() -> RecordingNoise:
    """Return a source that records the scales that the noise functions request of exact noise."""
    return RecordingNoise(rounding=ExactNoise().rounding)


def _largest_log_ratio(distance: int, scale: float) -> float:
    """Return the maximum over every output, and over ways to split the distance over two coordinates."""
    steps = np.arange(-2 * distance, 3 * distance + 1)

    def ratio(shift: int) -> float:
        law = stats.dlaplace(1 / scale)
        return np.abs(law.logpmf(steps) - law.logpmf(steps - shift)).max()

    return max(ratio(part) + ratio(distance - part) for part in (0, distance // 3, distance // 2))


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.0, 20.0])
@pytest.mark.parametrize(("sensitivity", "size"), [(1e-5, 1), (2e-4, 3), (1e-3, 40)])
def test_no_output_of_discrete_laplace_tells_neighbours_apart_by_more_than_epsilon(
    sensitivity, size, epsilon
):
    """Exact probabilities, enumerated on the farthest neighbours that the accounting allows."""
    source, ledger = _accounting(), Ledger()
    noise.laplace(
        np.zeros(size), sensitivity=sensitivity, epsilon=epsilon, source=source, ledger=ledger, label="x"
    )
    assert ledger.events == [Laplace("x", epsilon)]
    distance, scale = math.floor(sensitivity / STEP + size), exact.laplace_steps(source.asked[-1][1])
    assert _largest_log_ratio(distance, scale) <= epsilon * (1 + 1e-12)
    # The twins: a scale one tenth smaller fails, and so does a scale without rounding.
    assert _largest_log_ratio(distance, 0.9 * distance / epsilon) > epsilon
    assert _largest_log_ratio(distance, sensitivity / STEP / epsilon) > epsilon


def test_opendp_itself_agrees_with_the_epsilon_and_the_multiplier_of_the_ledger():
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance

    source, sensitivity, size = _accounting(), 1e-3, 10
    common = {"sensitivity": sensitivity, "source": source, "ledger": Ledger(), "label": "x"}
    noise.laplace(np.zeros(size), epsilon=0.3, **common)
    measurement = make_laplace(
        exact._integers(), l1_distance(T="i64"), float(exact.laplace_steps(source.asked[-1][1]))
    )
    assert measurement.map(math.floor(sensitivity / STEP + size)) <= 0.3
    noise.gaussian(np.zeros(size), noise_multiplier=2.5, **common)
    measurement = make_gaussian(
        exact._integers(), l2_distance(T="f64"), float(exact.sigma_steps(source.asked[-1][1]))
    )
    assert measurement.map(sensitivity / STEP + math.sqrt(size)) <= 1 / (2 * 2.5**2)


def _continuous_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    return math.exp(special.log_ndtr(-epsilon / mu + mu / 2)) - math.exp(
        epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
    )


def _enumerated_delta(epsilon: float, shift: tuple[int, ...], sigma: float) -> float:
    """Σ_k max(0, P(k) - e^ε P(k - shift)) over the whole lattice."""
    axes = [np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1.0) for _ in shift]
    grid = np.meshgrid(*axes, indexing="ij")
    weights = np.exp(-sum(k**2 for k in grid) / (2 * sigma**2))
    loss = sum((k - step) ** 2 - k**2 for k, step in zip(grid, shift, strict=True)) / (2 * sigma**2)
    return float((weights * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum() / weights.sum())


def _epsilons(mu: float) -> list[float]:
    """Return values of ε where the continuous δ runs from 1e-2 to 1e-12, and points close to them."""

    def at(delta: float) -> float:
        return optimize.brentq(lambda e: _continuous_delta(e, mu) - delta, 0, 12 * mu + mu**2, xtol=1e-14)

    reached = [delta for delta in (1e-2, 1e-6, 1e-12) if _continuous_delta(0, mu) > delta]
    return [at(delta) + phase * mu / 1000 for delta in reached for phase in range(0, 20, 3)]


def test_discrete_gaussian_spends_no_more_than_the_continuous_one():
    """The (ε, δ) profile by enumeration: below the continuous one with the added step, above it without."""
    excess = []
    for sigma in (exact.SMALLEST_SIGMA, 100, 1000):
        for shift in (max(1, round(mu * sigma)) for mu in (0.02, 0.1, 0.3, 1.0, 3.0)):
            for epsilon in _epsilons(shift / sigma):
                allowed = _continuous_delta(epsilon, shift / sigma)
                drawn = exact.sigma_steps((sigma - 1e-9) * STEP)
                assert _enumerated_delta(epsilon, (shift,), drawn) <= allowed
                excess.append(_enumerated_delta(epsilon, (shift,), sigma) / allowed - 1)
    assert 1e-5 < max(excess) < 1e-2


@pytest.mark.parametrize("shift", [(48, 64), (80, 1), (57, 57)])
def test_discrete_gaussian_spends_no_more_in_any_direction(shift):
    mu = math.hypot(*shift) / exact.SMALLEST_SIGMA
    for epsilon in _epsilons(mu)[::3]:
        drawn = exact.sigma_steps((exact.SMALLEST_SIGMA - 1e-9) * STEP)
        assert _enumerated_delta(epsilon, shift, drawn) <= _continuous_delta(epsilon, mu)


@pytest.mark.parametrize("order", [1.5, 2, 8, 64])
def test_discrete_gaussian_is_concentrated_as_the_theorem_says(order):
    """D_α = α Δ²/2σ² at most, by enumeration (Canonne, Kamath, Steinke 2020, Theorem 4)."""
    sigma = 64
    for shift in (1, 20, 64, 128):
        steps = np.arange(-20 * sigma - order * shift, 20 * sigma + order * shift + 1)
        logs = -(steps**2) / (2 * sigma**2)
        logs -= special.logsumexp(logs)
        other = -((steps - shift) ** 2) / (2 * sigma**2) - special.logsumexp(-(steps**2) / (2 * sigma**2))
        divergence = special.logsumexp(order * logs + (1 - order) * other) / (order - 1)
        assert divergence <= order * shift**2 / (2 * sigma**2) * (1 + 1e-9)


def _laplace_delta(epsilon: float, shift: int, scale: float) -> float:
    """Σ_k max(0, P(k) - e^ε P(k - shift)) of the discrete Laplace law on the lattice."""
    law, steps = (
        stats.dlaplace(1 / scale),
        np.arange(-math.ceil(40 * scale) - shift, math.ceil(40 * scale) + shift),
    )
    return float(np.maximum(law.pmf(steps) - math.exp(epsilon) * law.pmf(steps - shift), 0.0).sum())


def _continuous_laplace_delta(epsilon: float, spent: float) -> float:
    """Return max(0, 1 - exp((ε - ε₀)/2)) for one Laplace event of ε₀: the profile that compositions assume."""
    return max(0.0, -math.expm1((epsilon - spent) / 2))


@pytest.mark.parametrize("shift", [1, 2, 7, 60])
@pytest.mark.parametrize("spent", [0.05, 0.3, 1.0, 4.0])
def test_discrete_laplace_loses_no_more_than_the_continuous_law_that_compositions_assume(shift, spent):
    """At every ε of a grid. The twin without the extra step loses more."""
    asked = shift / spent
    grid = np.linspace(0, spent, 40)[:-1]
    assumed = np.array([_continuous_laplace_delta(epsilon, spent) for epsilon in grid])
    drawn = exact.laplace_steps(asked * STEP)
    assert (np.array([_laplace_delta(epsilon, shift, drawn) for epsilon in grid]) <= assumed + 1e-12).all()
    assert (np.array([_laplace_delta(epsilon, shift, asked) for epsilon in grid]) > assumed).any()
