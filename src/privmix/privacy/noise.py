"""The only place where privacy noise is drawn: each function adds the noise and writes the ledger at once."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Gaussian, Laplace, Ledger


class NoiseSource(Protocol):
    """Where random numbers for privacy come from."""

    def laplace(self, scale: float, shape: tuple[int, ...]) -> np.ndarray: ...
    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray: ...
    def uniform(self, shape: tuple[int, ...]) -> np.ndarray: ...
    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray: ...


@dataclass(frozen=True)
class SeededNoise:
    """Reproducible noise for benchmarks. What it makes must not be published."""

    generator: np.random.Generator

    def laplace(self, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        """Independent Laplace(scale) numbers."""
        return self.generator.laplace(0.0, scale, shape)

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """Independent N(0, sigma²) numbers."""
        return self.generator.normal(0.0, sigma, shape)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform numbers in [0, 1)."""
        return self.generator.random(shape)

    def integers(self, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """Independent uniform integers in [0, high)."""
        return self.generator.integers(high, size=shape)


def _check(value: float, name: str) -> float:
    if not (np.isfinite(value) and value > 0):
        raise UserError(f"noise: {name} = {value!r} must be a finite number greater than 0.")
    return float(value)


def laplace(
    values: np.ndarray, *, sensitivity: float, epsilon: float, source: NoiseSource, ledger: Ledger, label: str
) -> np.ndarray:
    """`values` plus Laplace(sensitivity / epsilon) noise: epsilon-DP for an L1 sensitivity.

    Dwork, McSherry, Nissim, Smith 2006, Theorem 1.
    """
    scale = _check(sensitivity, "sensitivity") / _check(epsilon, "epsilon")
    ledger.append(Laplace(label, epsilon))
    return values + source.laplace(scale, np.shape(values))


def gaussian(
    values: np.ndarray,
    *,
    sensitivity: float,
    multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> np.ndarray:
    """`values` plus N(0, (multiplier · sensitivity)²) noise: (1/multiplier)-GDP for an L2 sensitivity.

    Dong, Roth, Su 2022, Theorem 1; the (epsilon, delta) of it is Balle and Wang 2018, Theorem 8.
    """
    sigma = _check(multiplier, "multiplier") * _check(sensitivity, "sensitivity")
    ledger.append(Gaussian(label, multiplier))
    return values + source.gaussian(sigma, np.shape(values))


def gaussian_symmetric(
    matrix: np.ndarray,
    *,
    sensitivity: float,
    multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
) -> np.ndarray:
    """A symmetric matrix with Gaussian noise on its upper triangle, copied below the diagonal.

    The released numbers are the d(d+1)/2 upper entries; their L2 sensitivity is at most the Frobenius
    sensitivity given here. Dwork, Talwar, Thakurta, Zhang 2014 (Analyze Gauss), Theorem 5.
    """
    upper = np.triu_indices(len(matrix))
    released = gaussian(
        matrix[upper],
        sensitivity=sensitivity,
        multiplier=multiplier,
        source=source,
        ledger=ledger,
        label=label,
    )
    noisy = np.zeros_like(matrix)
    noisy[upper] = released
    return noisy + np.triu(noisy, 1).T
