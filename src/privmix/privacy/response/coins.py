"""Coins whose finite precision adds noise and never takes any away.

A source's uniform numbers are multiples of 2^-53, so that `uniform < t` has the chance t rounded up to the next
multiple. Whoever asks for the event that protects (a lie, a stray bit) gets it at least as often as promised.
"""

import numpy as np

from privmix.privacy.noise import NoiseSource

# More than the rounding errors of a probability computed from epsilon in a handful of operations.
ROUNDED_UP = 1 + 2.0**-50
SMALLEST = 2.0**-53  # the chance of a uniform number that is 0


def lies(probability: float, shape: tuple[int, ...], source: NoiseSource) -> np.ndarray:
    """Independent events with at least this probability, above it by less than 2^-49 of it or by 2^-53."""
    return source.uniform(shape) < max(probability * ROUNDED_UP, SMALLEST)


def respond(codes: np.ndarray, categories: int, lie: float, source: NoiseSource) -> np.ndarray:
    """Each code, or with the probability `lie` one of the other codes uniformly."""
    lying = lies(lie, codes.shape, source)
    shift = 1 + source.integers(categories - 1, codes.shape)
    answers = codes + np.where(lying, shift, 0)
    return np.where(answers >= categories, answers - categories, answers)
