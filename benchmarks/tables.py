"""Compare the correlation and the standard deviations of private tables with those of their records.

    python benchmarks/tables.py [--epsilons 0.1 1] [--replicates 5]

The records are `cases.city`: most of the public box is empty, so a few misplaced records change both. The synthetic
rows are drawn and clipped to the public box as a release draws them. A replicate is new data and a new run. A cell is
the mean absolute error over replicates with its standard error. "must" is the requirement at ε = 1; it is met if the
error minus one standard error is not above it.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse

import numpy as np
from cases import Case, city

from privmix.mechanisms import registry
from privmix.mechanisms.base import seeded_randomness
from privmix.mechanisms.run import run
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget

DELTA = 1e-6
ROWS = 200_000  # synthetic rows, so that their own sampling does not show
MECHANISMS = ("noisy_tree", "tree_then_moments", "noisy_moments", "non_private")
MUST = {"correlation": 0.08, "deviations": 0.12}


def errors(mixture: Mixture, case: Case, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the error of the correlation, the mean relative error of the deviations, and held-out nats per record."""
    made, records = case.spec.inside(mixture.sample(ROWS, rng)), case.records.points
    correlation = np.corrcoef(made.T)[0, 1] - np.corrcoef(records.T)[0, 1]
    deviations = made.std(axis=0) / records.std(axis=0) - 1
    return (
        abs(float(correlation)),
        float(np.abs(deviations).mean()),
        float(mixture.log_density(case.held_out).mean()),
    )


def main() -> None:
    """Print one table: a row for each mechanism and epsilon."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--replicates", type=int, default=5)
    given = parser.parse_args()
    must = ", ".join(f"{name} {limit}" for name, limit in MUST.items())
    print(f"\n**city**: errors of synthetic rows; must at ε = 1: {must}\n")
    print("| mechanism | ε | correlation | deviations | held-out nats | |")
    print("|---|---|---|---|---|---|", flush=True)
    cases = [city(seed=replicate) for replicate in range(given.replicates)]
    for name in given.mechanisms:
        for epsilon in given.epsilons:
            found = []
            for replicate, case in enumerate(cases):
                rng = seeded_randomness(replicate, case.name, name, epsilon)
                release = run(registry.build(name, {}), case.records, case.spec, Budget(epsilon, DELTA), rng)
                found.append(errors(release.mixture, case, np.random.default_rng(replicate)))
            mean = np.mean(found, axis=0)
            error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.zeros(3)
            met = all(mean[:2] - error[:2] <= list(MUST.values()))
            verdict = "" if epsilon != 1 or name == "non_private" else "met" if met else "NOT met"
            cells = [f"{value:.3f} ± {spread:.3f}" for value, spread in zip(mean, error, strict=True)]
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + f" | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
