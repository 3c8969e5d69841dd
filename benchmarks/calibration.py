"""Noise multipliers of T Gaussian measurements: privmix, dp_accounting, OpenDP and the zCDP formula.

    python benchmarks/calibration.py

privmix uses the exact calibration. dp_accounting is calibrated through its accountant of privacy-loss distributions,
which composes the measurements one by one. OpenDP has no analytic Gaussian calibration: its Gaussian is measured in
zCDP and converted to (ε, δ) by its own conversion, which is tighter than the textbook one. All are valid; smaller is
better.
"""

import math
from collections.abc import Callable

from privmix.privacy.accounting import Budget, find_largest
from privmix.privacy.calibration import equal_shares

EPSILONS = (0.1, 1.0, 10.0)
RELEASES = (1, 10, 100)
DELTA = 1e-6


def ours(epsilon: float, releases: int) -> float:
    """Return the multiplier of the exact calibration."""
    return equal_shares(0, releases, Budget(epsilon, DELTA), "exact").noise_multiplier


def zcdp(epsilon: float, releases: int) -> float:
    """Solve ε = ρ + 2 sqrt(ρ ln(1/δ)) for ρ = T / 2σ² (Bun and Steinke 2016)."""
    root = math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))
    return math.sqrt(releases / 2) / root


def dp_accounting(epsilon: float, releases: int) -> float:
    """Find the smallest multiplier that its PLD accountant accepts, at an interval of 1/100 of a measurement's size."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    guess = ours(epsilon, releases)

    def spent(noise_multiplier: float) -> float:
        accountant = PLDAccountant(value_discretization_interval=1 / guess / 100)
        accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier), releases)
        return accountant.get_epsilon(DELTA)

    return 1 / find_largest(lambda mu: spent(1 / mu) <= epsilon, 1 / guess, tolerance=1e-6)


def opendp(epsilon: float, releases: int) -> float:
    """Find the smallest scale that its zCDP measurement and conversion accept; T measurements have distance √T."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def holds(mu: float) -> bool:
        gaussian = dp.m.make_gaussian(*space, scale=1 / mu)
        curve = dp.c.make_zCDP_to_approxDP(gaussian).map(math.sqrt(releases))
        return curve.epsilon(DELTA) <= epsilon

    return 1 / find_largest(holds, epsilon / releases, tolerance=1e-6)


METHODS: tuple[Callable[[float, int], float], ...] = (ours, dp_accounting, opendp, zcdp)


def main() -> None:
    """Print the table."""
    print(f"noise multiplier (σ / sensitivity) at delta = {DELTA:g}")
    print("| epsilon | releases |" + "".join(f" {method.__name__} |" for method in METHODS))
    print("|---" * (2 + len(METHODS)) + "|")
    for epsilon in EPSILONS:
        for releases in RELEASES:
            cells = "".join(f" {method(epsilon, releases):.5g} |" for method in METHODS)
            print(f"| {epsilon:g} | {releases} |{cells}")


if __name__ == "__main__":
    main()
