"""Calibration: the least noise within a budget, for one or many measurements, under a composition theorem."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.errors import UserError
from privmix.privacy.accounting import THEOREMS, Budget, Composition, account, find_largest, gaussian_mu
from privmix.privacy.ledger import (
    Event,
    Gaussian,
    Laplace,
    SampledGaussian,
    check_member,
    check_positive,
    check_probability,
)

SHORTFALL = 5e-7  # share of the budget that a numerical calibration may leave unspent
MOST_TRIALS = 60
FARTHEST = 0.25  # largest step of ln σ towards a bracket: ln ε soon flattens beyond it


@dataclass(frozen=True)
class Share:
    """The noise of one measurement of each kind."""

    laplace_epsilon: float
    noise_multiplier: float

    def events(self, laplaces: int, gaussians: int) -> list[Event]:
        """Return the ledger of the given numbers of Laplace and Gaussian measurements."""
        events: list[Event] = [Laplace("", self.laplace_epsilon)] * laplaces
        return events + [Gaussian("", self.noise_multiplier)] * gaussians


def _share(size: float, gaussians: int, delta: float, composition: Composition) -> Share:
    """Return measurements of equal `size`: equal epsilon if the theorem composes epsilons, otherwise equal mu."""
    if composition in ("linear", "advanced"):
        part = delta if composition == "linear" else delta / 2
        return Share(size, 1 / gaussian_mu(size, part / gaussians) if gaussians else 1.0)
    return Share(size, 1 / size)


@functools.cache
def equal_shares(laplaces: int, gaussians: int, budget: Budget, composition: Composition) -> Share:
    """Return the least noise with which these numbers of Laplace and Gaussian measurements stay within the budget.

    The search brackets the size and bisects in log space, on the side within the budget. `account` of the
    measurements never exceeds the budget, and falls short of it by 1e-12 of their size (1e-6 if privacy-loss
    distributions are needed).
    """
    check_member(composition, THEOREMS, "calibration: composition")
    if laplaces < 0 or gaussians < 0 or laplaces + gaussians < 1:
        raise UserError(
            f"calibration: got {laplaces!r} Laplace and {gaussians!r} Gaussian measurements; "
            "neither number may be negative, and at least one must be positive."
        )
    if gaussians and budget.delta == 0:
        raise UserError("Gaussian noise needs delta > 0; set `delta`, for instance to 1e-6.")

    def affordable(size: float) -> bool:
        share = _share(size, gaussians, budget.delta, composition)
        return account(share.events(laplaces, gaussians), budget.delta, composition).epsilon <= budget.epsilon

    start = budget.epsilon / (laplaces + gaussians)
    # Privacy-loss distributions take seconds, closed forms no time.
    tolerance = 1e-6 if composition == "exact" and laplaces else 1e-12
    return _share(find_largest(affordable, start, tolerance), gaussians, budget.delta, composition)


def textbook_noise_multiplier(epsilon: float, delta: float) -> float:
    """Return σ/Δ = sqrt(2 ln(1.25/δ)) / ε of one Gaussian measurement (Dwork and Roth 2014, Theorem A.1).

    This variant is for comparison. It is proven for ε ≤ 1, and looser than `gaussian_mu` there. Above 1 it soon gives
    too little noise, so the function refuses ε > 1.
    """
    check_positive(epsilon, "textbook Gaussian noise: epsilon")
    check_probability(delta, "textbook Gaussian noise: delta")
    if epsilon > 1:
        raise UserError(
            f"textbook Gaussian noise is proven up to epsilon = 1, got epsilon = {epsilon!r}, where it can be too "
            "small; use the exact calibration, which holds for every epsilon."
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def noise_multipliers_by_share(shares: Sequence[float], budget: Budget) -> list[float]:
    """Return σ/Δ of Gaussian measurements that have these shares of μ² and compose exactly to the budget.

    μ² adds up (Dong, Roth, Su 2022, Corollary 2), so a measurement of share p has μ √p.
    """
    if budget.delta == 0:
        raise UserError("Gaussian noise needs delta > 0; set `delta`, for instance to 1e-6.")
    whole = sum(check_positive(share, "calibration: share of a measurement") for share in shares)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    return [1 / (mu * math.sqrt(share / whole)) for share in shares]


@functools.cache
def sampled_noise_multiplier(
    rate: float, steps: int, budget: Budget, beside: tuple[Gaussian, ...] = ()
) -> float:
    """Return the least σ/Δ with which `steps` sampled Gaussian measurements stay within the budget.

    Each measurement has its own sample at this rate. The measurements `beside` them spend from the same budget.

    The search is regula falsi (Illinois) on ln ε against ln σ, which is nearly a line; bisection would be slow, since
    a privacy-loss distribution takes a tenth of a second. `account` never exceeds the budget, and falls short of it by
    less than 1e-6 of it (by more if epsilon is in the hundreds). The search starts at the σ of the central limit,
    T q² (exp(1/σ²) - 1) = μ² (Bu, Dong, Long, Su 2020).
    """
    if steps < 1:
        raise UserError(f"calibration: steps = {steps!r} must be at least 1.")
    if budget.delta == 0:
        raise UserError("Gaussian noise needs delta > 0; set `delta`, for instance to 1e-6.")

    def excess(log_multiplier: float) -> float:
        """Return ln ε less the middle of the accepted interval, which ends at the budget."""
        events: list[Event] = [*beside, *[SampledGaussian("", math.exp(log_multiplier), rate)] * steps]
        epsilon = max(account(events, budget.delta, "exact").epsilon, 1e-300)
        return math.log(epsilon / budget.epsilon) + SHORTFALL / 2

    mu = gaussian_mu(budget.epsilon, budget.delta)
    left = mu**2 - sum(event.noise_multiplier**-2 for event in beside)
    if not left > 0:
        raise UserError(
            "calibration: the measurements beside the sampled ones leave nothing of the budget; "
            "raise epsilon or delta, or add more noise to them."
        )
    low = high = -0.5 * math.log(math.log1p(left / (steps * rate**2)))
    below = above = excess(high)
    slope = 1.0  # of ln ε, downwards: a guess at first, then the slope of the last step
    while above > 0:
        step = min(1.25 * above / slope + 1e-3, FARTHEST)
        low, below, high, above = high, above, high + step, excess(high + step)
        slope = max((below - above) / step, 0.5)
    while below <= 0:
        step = min(1e-3 - 1.25 * below / slope, FARTHEST)
        high, above, low, below = low, below, low - step, excess(low - step)
        slope = max((below - above) / step, 0.5)
    found = 0.0
    for _ in range(MOST_TRIALS):
        middle = low + (high - low) * below / (below - above)
        before, found = found, excess(middle)
        if abs(found) < SHORTFALL / 2:
            return math.exp(middle)
        again = found * before > 0  # same side as before
        if found <= 0:
            high, above, below = middle, found, below / 2 if again else below
        else:
            low, below, above = middle, found, above / 2 if again else above
    return math.exp(high)
