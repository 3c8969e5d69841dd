"""Make a release from a test entropy source, to compare two versions of the code byte by byte. Never publish it.

    python benchmarks/repeatable_release.py PROJECT DATASET MECHANISM FOLDER [--epsilon 1] [--rows 2000]

PROJECT is a checkout with a finished default run. Its configuration, catalog and clean files are copied, so the script
changes nothing in it and spends no budget there. The noise has its usual distribution and lattice, but comes from
a seeded generator instead of the operating system; so do the searches. Everything else is the code of `privmix
release`, including its replay and checks. The script prints the digest of every file of the release.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from privmix import cli
from privmix.privacy import exact

COPIED = ("config", "data/catalog", "data/clean", "data/raw")


def inject_entropy(seed: int) -> None:
    """Replace all sources of randomness of a release with one seeded generator."""
    generator, default_rng = np.random.default_rng(seed), np.random.default_rng

    def noise(distribution: str, steps: Callable[[float], int]) -> Callable[..., np.ndarray]:
        def add(self: exact.ExactNoise, values: np.ndarray, scale: float) -> np.ndarray:
            rounded = exact.quantise(values)
            drawn = getattr(generator, distribution)(0.0, steps(scale), rounded.shape)
            return exact.dequantise(rounded + np.rint(drawn).astype(np.int64))

        return add

    exact.ExactNoise.add_laplace = noise("laplace", exact.laplace_steps)
    exact.ExactNoise.add_gaussian = noise("normal", exact.sigma_steps)

    def stream(seed: int | None = None) -> np.random.Generator:
        """Make a stream without a seed repeatable, but only if this package requests it."""
        own = sys._getframe(1).f_globals["__name__"].startswith("privmix.")
        return default_rng(generator.integers(2**63) if own and seed is None else seed)

    exact.os = SimpleNamespace(urandom=generator.bytes)
    np.random.default_rng = stream


def main() -> None:
    """Make the release and print its digests."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("project", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("mechanism", help="its id in the configuration; planar noise is not supported")
    parser.add_argument("folder", type=Path, help="where the release is copied to")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--rows", default="2000", help="rows of synthetic data")
    given = parser.parse_args()
    folder = given.folder.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        for name in COPIED:
            shutil.copytree(given.project / name, Path(scratch, name))
        os.chdir(scratch)
        inject_entropy(seed=1)
        where = ("--out", "out", "--synthetic", given.rows)
        cli.main(
            ["release", given.dataset, "--mechanism", given.mechanism, "--epsilon", given.epsilon, *where]
        )
        shutil.copytree("out", folder)
    for path in sorted(folder.iterdir()):
        print(hashlib.sha256(path.read_bytes()).hexdigest()[:16], path.name)
    print("This release has a known seed. Do not publish it.", file=sys.stderr)


if __name__ == "__main__":
    main()
