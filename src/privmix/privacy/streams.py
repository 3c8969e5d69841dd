"""Seeded streams of a benchmark: one for each purpose, never the same noise twice."""

import hashlib

import numpy as np


def stream(master_seed: int, *purpose: str | int | float) -> np.random.Generator:
    """The stream for exactly this purpose (dataset, mechanism, epsilon, replicate, ...).

    Two budgets must never share noise: s + a·z and s + b·z together give s back exactly.
    """
    text = "\x1f".join(repr(part) for part in purpose).encode()
    words = np.frombuffer(hashlib.blake2b(text, digest_size=32).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([master_seed, *words.tolist()])))


def fresh() -> np.random.Generator:
    """A stream that nobody can repeat, for what a release draws beside its noise."""
    return np.random.default_rng()
