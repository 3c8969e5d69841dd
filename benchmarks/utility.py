"""Cost of privacy: gap to the best non-private mixture in held-out nats per record, for each mechanism and ε.

    python benchmarks/utility.py [CASE ...] [--mechanisms ID ...] [--epsilons E ...] [--replicates 5] [--gowalla FOLDER]

The ceiling is the best of several searches on the same records, by training likelihood, with the same public
resolution. A cell is the mean gap over replicates with its 95 % interval (Student's t). A replicate is a new run of the
mechanism and, for simulated tables, also new data. Guarantees are for one record (or person, if the case says so) added
or removed, with δ = 1e-6; `breast_cancer` and the row `dp_em (replace)` are for one record replaced. `time` is the CPU
time of the last run divided by that of one non-private fit on the same records. Local mechanisms protect one record or
person replaced by any other.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cases import Case, makers
from scipy import stats

from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms.base import seeded_randomness
from privmix.mechanisms.run import run
from privmix.mixture import em
from privmix.privacy.accounting import Budget

DELTA = 1e-6
SEARCHES = 8
PERSON_LIMIT = 8
# Grouped by trust: a curator; local with one answer per record, all at once; local in rounds.
CENTRAL = {
    "noisy_tree": {"method": "noisy_tree"},
    "noisy_tree (gaussian)": {"method": "noisy_tree", "noise": "gaussian"},
    "tree_then_moments": {"method": "tree_then_moments"},
    "noisy_grid": {"method": "noisy_grid"},
    "noisy_moments": {"method": "noisy_moments"},
    "output_noise": {"method": "output_noise"},
    "posterior_sample": {"method": "posterior_sample"},
    "dp_sgd": {"method": "dp_sgd"},
    "dp_em": {"method": "dp_em"},
    "dp_em (replace)": {"method": "dp_em"},
    "one Gaussian": {"method": "noisy_moments"},
}
LOCAL = {
    "laplace_input (naive)": {"method": "laplace_input", "fit": "naive"},
    "laplace_input (aware)": {"method": "laplace_input", "fit": "aware"},
    "gaussian_input (naive)": {"method": "gaussian_input", "fit": "naive"},
    "gaussian_input (aware)": {"method": "gaussian_input", "fit": "aware"},
    "randomized_response": {"method": "randomized_response"},
    "tree_response": {"method": "tree_response"},
}
INTERACTIVE = {"adaptive_tree_response": {"method": "adaptive_tree_response"}}
# Not ε-LDP: ε covers places within the distance only.
DISTANCE = {
    f"planar_laplace {distance // 1000} km ({fit})": {
        "method": "planar_laplace", "within_m": distance, "fit": fit,
    }
    for distance in (1_000, 10_000, 100_000)
    for fit in ("naive", "aware")
}  # fmt: skip
TRUST = {"central": CENTRAL, "local": LOCAL, "local, in rounds": INTERACTIVE, "distance": DISTANCE}
MECHANISMS = {name: chosen for group in TRUST.values() for name, chosen in group.items()}
# Requirements: the largest allowed gap of the best of these mechanisms.
MUST = {
    "gowalla_200k": [
        ("central", list(CENTRAL), {0.1: 0.10, 1: 0.05, 10: 0.05}),
        ("local", list(LOCAL), {1: 1.9, 3: 0.55, 10: 0.40}),
        ("local, in rounds", list(INTERACTIVE), {1: 1.0, 3: 0.4, 10: 0.25}),
    ],
    "gowalla_1m": [
        ("central", list(CENTRAL), {0.1: 0.06, 1: 0.05, 10: 0.05}),
        ("local of any kind", [*LOCAL, *INTERACTIVE], {1: 0.5, 3: 0.25, 10: 0.2}),
    ],
    "mpls_stops": [("central", list(CENTRAL), {0.1: 0.20, 1: 0.06, 10: 0.03})],
    "tabular": [("central", list(CENTRAL), {1: 0.7, 10: 0.3})],
    "gowalla_muc_people": [("central", list(CENTRAL), {1: 0.35, 10: 0.20})],
    "gowalla_world": [("dp_em (replace)", ["dp_em (replace)"], {0.1: 2.96, 1: 2.25, 10: 1.85})],
}


@dataclass(frozen=True)
class Ceiling:
    """Score and CPU time of a non-private fit."""

    score: float
    seconds: float


def ceiling(case: Case, seed: int) -> Ceiling:
    """Fit several times, and return the best by training likelihood."""
    fits, seconds = [], []
    for search in range(SEARCHES):
        began = time.process_time()
        fits.append(
            em.fit(
                case.records.points,
                case.spec.n_components,
                floor=case.spec.floor,
                rng=np.random.default_rng([seed, search]),
            )
        )
        seconds.append(time.process_time() - began)
    best = max(fits, key=lambda fit: fit.log_likelihood)
    return Ceiling(float(best.mixture.log_density(case.held_out).mean()), min(seconds))


def gap(name: str, case: Case, epsilon: float, replicate: int, top: Ceiling) -> tuple[float, float]:
    """Return held-out nats above the ceiling, and the time relative to a non-private fit."""
    chosen = dict(MECHANISMS[name])
    mechanism = registry.build(chosen.pop("method"), chosen)
    if name == "dp_em (replace)":
        case = case.under(relation="replace_one", rows=len(case.records))
    spec = case.spec.with_components(1) if name == "one Gaussian" else case.spec
    rng = seeded_randomness(replicate, case.name, name, epsilon)
    began = time.process_time()
    release = run(mechanism, case.records, spec, Budget(epsilon, DELTA), rng)
    seconds = time.process_time() - began
    return float(release.mixture.log_density(case.held_out).mean()) - top.score, seconds / top.seconds


def interval(values: list[float]) -> str:
    """Return the mean and half the width of its 95 % interval."""
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:+.3f} ± {half:.3f}"


def table(name: str, make, mechanisms: list[str], epsilons: list[float], replicates: int) -> None:
    """Print the table of one case: a row for each mechanism, a column for each epsilon."""
    fresh = name == "tabular"
    data = [make(seed=1 + replicate) for replicate in range(replicates if fresh else 1)]
    tops = [ceiling(case, number) for number, case in enumerate(data)]
    spec, records = data[0].spec, data[0].records
    print(
        f"\n**{name}**: {len(records):,} records, unit {spec.domain.unit}, d = {len(spec.domain.axes)}, "
        f"K = {spec.n_components}; non-private {np.mean([top.score for top in tops]):.3f} nats, "
        f"{tops[0].seconds:.2f} s\n"
    )
    print("| mechanism | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " | time |")
    print("|---|" + "---|" * (len(epsilons) + 1), flush=True)
    means: dict[str, list[float]] = {}
    for mechanism in mechanisms:
        cells, ratio = [], float("nan")
        try:
            for epsilon in epsilons:
                results = [
                    gap(
                        mechanism,
                        data[replicate % len(data)],
                        epsilon,
                        replicate,
                        tops[replicate % len(data)],
                    )
                    for replicate in range(replicates)
                ]
                gaps, ratio = [value for value, _ in results], results[-1][1]
                means.setdefault(mechanism, []).append(float(np.mean(gaps)))
                cells.append(interval(gaps))
        except MechanismFailure as failure:
            print(f"| {mechanism} | {failure} |")
            continue
        print(f"| {mechanism} | " + " | ".join(cells) + f" | {ratio:.1f}x |", flush=True)
    for label, members, must in MUST.get(name, []):
        tried = [means[member] for member in members if member in means]
        if tried:
            best = [max(values) for values in zip(*tried, strict=True)]
            words = [
                f"{value:+.3f}" + (f" (must {-must[epsilon]:+.2f})" if epsilon in must else "")
                for epsilon, value in zip(epsilons, best, strict=True)
            ]
            print(f"| **best: {label}** | " + " | ".join(words) + " | |", flush=True)
    for mechanism in means:
        aware = mechanism.replace("(naive)", "(aware)")
        if mechanism != aware and aware in means:
            differences = np.subtract(means[aware], means[mechanism])
            print(
                f"| **{mechanism.replace('naive', 'aware minus naive')}** | "
                + " | ".join(f"{value:+.3f}" for value in differences)
                + " | |",
                flush=True,
            )


def main() -> None:
    """Print the tables of all cases, or of the given ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--mechanisms", nargs="+", choices=list(MECHANISMS), default=[])
    parser.add_argument(
        "--trust", nargs="+", choices=list(TRUST), default=[], help="all mechanisms of these groups"
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1, 10])
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--gowalla", type=Path, help="folder of the extracts")
    given = parser.parse_args()
    chosen = given.mechanisms + [name for trust in given.trust for name in TRUST[trust]]
    made = makers(given.gowalla, PERSON_LIMIT)
    for name in given.cases or made:
        if name not in made:
            parser.error(f"unknown case {name!r}; choose from {', '.join(made)}")
        table(name, made[name], chosen or list(MECHANISMS), given.epsilons, given.replicates)


if __name__ == "__main__":
    main()
