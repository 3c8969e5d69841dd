"""Success and cost of attacks: with shadow models on medical records, and on one isolated person.

    python benchmarks/attacks.py [medical] [time] [isolated] [--runs 20] [--shadows 64]

`medical`: every attack on `breast_cancer_30`, K = 4, without privacy: scikit-learn's mixture in standardised
coordinates, and this project's at the catalog's resolution and at finer ones. `time`: shadow models and all attacks on
50,000 records. `isolated`: the game on the isolated person of `checkins`, for each method of the registry at ε ≤ 1,
with the upper limit that ε sets. The non-private method uses all records, the private ones 2,000 of them.
"""

import os

from privmix.catalog.entry import load_entry

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import math
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from cases import CATALOG
from sklearn.mixture import GaussianMixture

from privmix.artefacts.clean import CleanData, CleanInfo, RowCounts, read_clean
from privmix.artefacts.domain import Axis, Domain
from privmix.attacks.limits import swap_auc_ceiling
from privmix.attacks.membership import shadow_attacks, shadows, worst_record
from privmix.catalog.sources import acquire
from privmix.clean.pipeline import clean
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms.base import Spec, seeded_randomness
from privmix.mechanisms.central.non_private import NonPrivate
from privmix.privacy.accounting import Budget
from privmix.privacy.hypothesis_testing import auc

NO_BUDGET = Budget(math.inf, 0.0)
ON_RECORDS = 2000
EPSILONS = (0.1, 1.0)


def catalogued(name: str) -> CleanData:
    """Clean a dataset that needs no network, as the pipeline does."""
    entry = load_entry(CATALOG / f"{name}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        raw, output = Path(folder, "raw"), Path(folder, "clean.parquet")
        acquire(entry, raw)
        clean(entry, raw, output, master_seed=20180318, key=bytes(32))
        return read_clean(output)


def medical(number: int) -> None:
    """Run every attack on models of the same halves."""
    data = catalogued("breast_cancer_30")
    pool = shadows.draw_pool(data, 10**6, np.random.default_rng(0))
    print(
        f"\n**breast_cancer_30**, K = 4, {number} shadow models of {pool.size // 2} of {pool.size} records each\n"
    )
    print(
        "| model | "
        + " | ".join(["loss", *shadow_attacks.ATTACKS])
        + " | LiRA: TPR at 0.1 % FPR | worst record |"
    )
    print("|---" * (len(shadow_attacks.ATTACKS) + 4) + "|")
    for regularisation in (1e-6, 1e-3):
        _row(f"scikit-learn, reg_covar {regularisation:g}", _scikit_learn(pool, number, regularisation))
    for finer in (1, 10, 100):
        axes = [
            axis.model_copy(update={"resolution": axis.resolution / finer}) for axis in data.info.domain.axes
        ]
        domain = data.info.domain.model_copy(update={"axes": tuple(axes)})
        found = shadows.fit_shadows(
            NonPrivate(),
            pool,
            Spec(domain, 4),
            NO_BUDGET,
            number,
            lambda i: seeded_randomness(0, i),
            np.random.default_rng(0),
        )
        _row("non_private" + (f", resolution / {finer}" if finer > 1 else ""), found)


def _scikit_learn(pool: shadows.ShadowPool, number: int, regularisation: float) -> shadows.ShadowModels:
    points = pool.records.points
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    inside = shadows.random_halves(pool.size, number // 2, np.random.default_rng(0))[:, pool.units]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            GaussianMixture(4, reg_covar=regularisation, random_state=model).fit(points[mask])
            for model, mask in enumerate(inside)
        ]
    return shadows.ShadowModels(np.array([fit.score_samples(points) for fit in fits]), inside, pool.units)


def _row(name: str, found: shadows.ShadowModels) -> None:
    reached = shadow_attacks.measure_attacks(found, (0.001,), np.random.default_rng(0)).metrics
    loss = auc(found.densities[found.inside], found.densities[~found.inside])
    areas = [
        f"{reached[f'mia_{attack}_auc']:.3f} [{reached[f'mia_{attack}_auc_low']:.3f}, "
        f"{reached[f'mia_{attack}_auc_high']:.3f}]"
        for attack in shadow_attacks.ATTACKS
    ]
    print(
        f"| {name} | {loss:.3f} | {' | '.join(areas)} | {reached['mia_lira_tpr_at_fpr_0.001']:.1%} | "
        f"{reached['mia_lira_worst_record_auc']:.3f} |",
        flush=True,
    )


def timed(number: int, rows: int = 50_000, components: int = 10) -> None:
    """Measure the time of shadow models in two dimensions, and of all attacks."""
    rng = np.random.default_rng(1)
    means, label = rng.uniform(-0.6, 0.6, (components, 2)), rng.integers(components, size=rows)
    points = np.clip(
        means[label] + rng.normal(size=(rows, 2)) * rng.uniform(0.02, 0.1, (components, 1))[label], -1, 1
    )
    axes = [
        Axis(name=name, description="", unit="", geographic=None, lower=-1, upper=1, resolution=1e-3, centre=0.0,
             scale=1.0)
        for name in ("x", "y")
    ]  # fmt: skip
    domain = Domain(
        dataset="made", title="", axes=tuple(axes), attributes=(), unit="record", relation="replace_one",
        max_records_per_person=1, visibility="synthetic", rows=rows // 2,
    )  # fmt: skip
    counts = RowCounts(
        read=rows, kept=rows, dropped={}, clipped={}, persons=rows, train=rows // 2, holdout=rows // 2
    )
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    data = CleanData(info, points, {}, np.arange(rows, dtype=np.uint64), np.arange(rows) % 2 == 0)
    print(f"\n**{number} shadow models and all attacks**, N = {rows:,}, d = 2, K = {components}\n")
    print("| part | CPU s |\n|---|---|")
    start = time.process_time()
    pool = shadows.draw_pool(data, rows, rng)
    found = shadows.fit_shadows(
        NonPrivate(),
        pool,
        Spec(domain, components),
        NO_BUDGET,
        number,
        lambda i: seeded_randomness(0, i),
        rng,
    )
    fitted = time.process_time()
    shadow_attacks.measure_attacks(found, (0.001, 0.01), rng)
    ended = time.process_time()
    print(f"| fits and densities | {fitted - start:.1f} |\n| attacks | {ended - fitted:.1f} |")
    print(f"| **together** (must 60 on two cores, aim 15) | {ended - start:.1f} |")


def isolated(runs: int) -> None:
    """Play the game on the isolated person, with `runs` models of each world."""
    data = catalogued("checkins")
    print(f"\n**The isolated person of checkins**, K = 13, {runs} models with them and {runs} without\n")
    print("| method | ε | AUC [95 %] | ceiling | CPU s |\n|---|---|---|---|---|")
    for searches in (1, 4):
        _game(data, "non_private", math.inf, runs, 10**9, searches)
    for method in registry.METHODS:
        private = registry.method_class(method).private
        for epsilon in EPSILONS if private else (math.inf,):
            _game(data, method, epsilon, runs, ON_RECORDS)


def _game(data: CleanData, method: str, epsilon: float, runs: int, most: int, searches: int = 1) -> None:
    chosen = registry.method_class(method)
    known = {"searches": searches, "within_m": 100_000}
    given = {key: value for key, value in known.items() if key in chosen.__dataclass_fields__}
    mechanism, spec = registry.build(method, given), Spec(data.info.domain, 13)
    start = time.process_time()
    try:
        found = worst_record.attack_worst_record(
            mechanism,
            data,
            spec,
            Budget(epsilon, 1e-6),
            runs,
            most,
            lambda *purpose: seeded_randomness(1, method, epsilon, *purpose),
        )
    except MechanismFailure as error:
        print(f"| {method} | {epsilon:g} | {error} | | |", flush=True)
        return
    relation = mechanism.relation(spec).relation
    limit = "" if math.isinf(epsilon) else f"{swap_auc_ceiling(epsilon, 1e-6, relation):.3f}"
    words = "for places within 100 km" if chosen.trust == "distance" else limit
    everything = f" (all records, best of {searches} searches)" if most > len(data.points) else ""
    print(
        f"| {method}{everything} | {epsilon:g} | {found.auc:.3f} [{found.low:.3f}, {found.high:.3f}] | {words} | "
        f"{time.process_time() - start:.1f} |",
        flush=True,
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=["medical", "time", "isolated"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--shadows", type=int, default=64)
    options = parser.parse_args()
    if "medical" in options.tables:
        medical(options.shadows)
    if "time" in options.tables:
        timed(options.shadows)
    if "isolated" in options.tables:
        isolated(options.runs)


if __name__ == "__main__":
    main()
