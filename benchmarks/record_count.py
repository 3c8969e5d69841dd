"""Compare shares of ε for the noisy number of records (`privmix.estimator.COUNT_SHARE`) on simulated mixtures.

    python benchmarks/record_count.py [repetitions]

Each row is the held-out log-likelihood, in nats per record, minus that with a known number of records.
"""

import sys
import warnings

import numpy as np

from privmix import PrivacyWarning, PrivateGaussianMixture, estimator

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1)
CASES = [(2, "noisy_tree"), (5, "noisy_moments")]
COMPONENTS = 6


def simulate(rows: int, dimensions: int, seed: int) -> np.ndarray:
    """Return records of a random mixture inside [-1, 1]^d."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(COMPONENTS))
    means = rng.uniform(-0.7, 0.7, (COMPONENTS, dimensions))
    spreads = rng.uniform(0.03, 0.2, (COMPONENTS, dimensions))
    labels = rng.choice(COMPONENTS, rows, p=weights)
    return np.clip(rng.normal(means[labels], spreads[labels]), -1, 1)


def score(
    share: float | None, rows: int, dimensions: int, mechanism: str, epsilon: float, seed: int
) -> float:
    """Return the held-out score of one fit; without a share the number of records is known."""
    points = simulate(2 * rows, dimensions, seed)
    if share is not None:
        estimator.COUNT_SHARE = share
    model = PrivateGaussianMixture(
        COMPONENTS,
        epsilon=epsilon,
        bounds=(-1, 1),
        mechanism=mechanism,
        relation="add_remove",
        expected_rows=rows if share is None else None,
        random_state=seed,
    )
    return model.fit(points[:rows]).score(points[rows:])


def main() -> None:
    """Print a table of all cases, and the mean of each share."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    warnings.simplefilter("ignore", PrivacyWarning)
    print("| coordinates, mechanism, records, ε |", *(f"{share:g} |" for share in SHARES))
    print("|---|" + "---|" * len(SHARES))
    lost = []
    for dimensions, mechanism in CASES:
        for rows in (1000, 10_000):
            for epsilon in (0.1, 1.0):
                known, *shared = (
                    np.mean(
                        [score(share, rows, dimensions, mechanism, epsilon, n) for n in range(repetitions)]
                    )
                    for share in (None, *SHARES)
                )
                lost.append([value - known for value in shared])
                print(
                    f"| {dimensions}, {mechanism}, {rows}, {epsilon:g} |", *(f"{x:.3f} |" for x in lost[-1])
                )
    print("| mean |", *(f"{value:.3f} |" for value in np.mean(lost, axis=0)))


if __name__ == "__main__":
    main()
