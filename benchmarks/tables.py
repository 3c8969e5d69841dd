"""Compare the correlation and the standard deviations of private tables with those of their records.

    python benchmarks/tables.py [--tables city nafld blanks cost mpls_stops] [--epsilons 0.1 1] [--replicates 5]
        [--components 10 40] [--attribute-shares 0.2 0.5] [--goal table] [--peers FOLDER --peer-python PATH]

With `--goal table`, mechanisms have the parameters that a run with this goal gives them (`Mechanism.for_table`).

The records are `cases.city`: most of the public box is empty, so a few misplaced records change both. The synthetic
rows are drawn and clipped to the public box as a release draws them. A replicate is new data and a new run. A cell is
the mean absolute error over replicates with its standard error. "must" is the requirement at ε = 1; it is met if the
error minus one standard error is not above it.

A second table is about categories: the correlation ratio of sex and height in synthetic rows of `cases.nafld`, as a
part of that of the records, which all replicates share.

A third table is about all columns of the catalog's nafld, where weight, height and body mass index have blanks: the TV
of each column between the records and synthetic rows in the types of the source. A column has at most 16 public bins
(`evaluate.table`), and one more for blanks; "age, each year" has a bin for each year. "sex and height" is the kept part
of their correlation ratio. "must" at ε = 1 is that no column is above 0.05.

A fourth table is the change of the held-out log-density of the coordinates of mpls_stops when two of its attributes are
added, with K = 10. "must" at ε = 1 is that it is not below -0.02 by more than one standard error.

A fifth table is about places and categories together: the total variation distance (TV) between the records of
mpls_stops and synthetic rows, on race by cell. The cells are a public grid of 15 by 9 over the public box: 1.33 km by
1.31 km, or 1.75 km², the size of a neighbourhood (the city has 87 in 151 km²). "race given cell" is the mean TV of the
race shares of a cell, weighted by its records: the distance of race by cell is at most this plus that of the cells. The
records are those that were fitted, not the held-out ones: 2,600 held-out records in 1,080 values differ from any
other sample by so much that the mechanisms would look alike, and (ε, δ) leaves no room to fit single records. "real
sample" is as many records, drawn again with replacement. With `--peers`, which needs a folder with `synthesize.py` and
the interpreter of its environment, other programs get the same records, public domain, ε and δ, for a record added or
removed; they use their default settings. The last column is the difference to AIM in race by cell, replicate by
replicate. "must" is that it is not above 0 by more than one standard error.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
from cases import Case, city, nafld, of_catalog
from peers import Peers

from privmix.evaluate.table import Table
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism, Records, Spec, seeded_randomness
from privmix.mechanisms.run import run
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.pipeline.usefulness import points_table, synthetic_table, table_columns
from privmix.privacy.accounting import Budget

DELTA = 1e-6
ROWS = 200_000  # synthetic rows, so that their own sampling does not show
MECHANISMS = ("noisy_tree", "tree_then_moments", "noisy_moments", "non_private")
MUST = {"correlation": 0.08, "deviations": 0.12}
RATIO = 0.9  # must, of the correlation ratio
COLUMN = 0.05  # must, of the total variation distance of each column
TABLES = ("city", "nafld", "blanks", "cost", "mpls_stops")
COST = 0.02  # must, in nats per held-out record: what two attributes cost the coordinates
DISTANCES = ("race × cell", "cell", "race given cell", "race", "race × gender × problem")
GRID = (15, 9)  # cells of mpls_stops, by latitude and by longitude


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


def correlation_ratio(codes: np.ndarray, values: np.ndarray) -> float:
    """Return the correlation ratio η of a category and a number: η² is the share of variance between the values."""
    counts = np.bincount(codes)
    means = np.bincount(codes, values) / np.maximum(counts, 1)
    return float(np.sqrt(counts @ (means - values.mean()) ** 2 / len(values)) / values.std())


def build(name: str, goal: str, **settings: object) -> Mechanism:
    """Build a mechanism with the parameters that it has for the goal."""
    return registry.build(
        name, {**(registry.method_class(name).for_table if goal == "table" else {}), **settings}
    )


def print_categories(mechanisms: list[str], epsilons: list[float], replicates: int, goal: str) -> None:
    """Print the kept part of the correlation ratio of sex and height."""
    case = nafld()
    truth = correlation_ratio(case.records.codes["male"], case.records.points[:, 2])
    print(f"\n**nafld**: correlation ratio of sex and height, of {truth:.3f}; must at ε = 1: {RATIO}\n")
    print("| mechanism | ε | kept |\n|---|---|---|", flush=True)
    for name in mechanisms:
        for epsilon in epsilons:
            kept = []
            for replicate in range(replicates):
                rng = seeded_randomness(replicate, case.name, name, epsilon)
                release = run(build(name, goal), case.records, case.spec, Budget(epsilon, DELTA), rng)
                mixed = MixedMixture(release.mixture, release.shares)
                points, codes = mixed.sample(ROWS, np.random.default_rng(replicate))
                kept.append(correlation_ratio(codes["male"], case.spec.inside(points)[:, 2]) / truth)
            error = np.std(kept, ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else 0.0
            print(f"| {name} | {epsilon:g} | {np.mean(kept):.3f} ± {error:.3f} |", flush=True)


def column_shares(table: Table, name: str, *, width: float | None = None) -> np.ndarray:
    """Return the share of each bin of a column, then that of blanks; `width` replaces the width of the bins."""
    column = next(column for column in table.columns if column.name == name)
    values, given = table.values[name], table.given(name)
    if width is None:
        counts = np.bincount(column.bin_numbers(values[given]), minlength=column.bins)
    else:
        edges = np.arange(column.lower - width / 2, column.upper + width, width)
        counts = np.histogram(values[given], edges)[0]
    return np.append(counts, (~given).sum()) / len(values)


def column_distances(made: Table, real: Table) -> list[float]:
    """Return the total variation distance of each column, of age by years, and the kept part of sex and height."""
    names = [(column.name, None) for column in real.columns] + [("age", 1.0)]
    found = [
        float(np.abs(column_shares(made, n, width=w) - column_shares(real, n, width=w)).sum() / 2)
        for n, w in names
    ]
    kept = []
    for table in (made, real):
        given = table.given("height")
        kept.append(correlation_ratio(table.values["male"][given], table.values["height"][given]))
    return [*found, kept[0] / kept[1]]


def print_blanks(mechanisms: list[str], epsilons: list[float], replicates: int, goal: str) -> None:
    """Print the distances of the columns of a table with blanks."""
    case = of_catalog("nafld", 10, relation="replace_one", seed=0)
    domain = case.spec.domain
    columns = table_columns(domain, {attribute.name for attribute in domain.attributes})
    real = points_table(domain, case.records.points, case.records.codes, columns)
    print(f"\n**nafld with blanks**: total variation distance of each column; must at ε = 1: {COLUMN}\n")
    names = ["mechanism", "ε", *(column.name for column in columns), "age, each year", "sex and height"]
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|", flush=True)
    for name, epsilon in product(mechanisms, epsilons):
        if (registry.method_class(name).max_coordinates or 99) < len(domain.axes):
            continue
        found = []
        for replicate in range(replicates):
            rng = seeded_randomness(replicate, "blanks", name, epsilon)
            release = run(build(name, goal), case.records, case.spec, Budget(epsilon, DELTA), rng)
            fitted = release.to_artefact(replicate, 0.0)
            made = synthetic_table(domain, fitted, ROWS, columns, np.random.default_rng(replicate))
            found.append(column_distances(made, real))
        error = (
            np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if replicates > 1 else np.zeros(len(found[0]))
        )
        cells = [f"{value:.3f} ± {own:.3f}" for value, own in zip(np.mean(found, axis=0), error, strict=True)]
        print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def print_cost(mechanisms: list[str], epsilons: list[float], replicates: int, goal: str) -> None:
    """Print what two attributes cost the coordinates."""
    cases = [of_catalog("mpls_stops", 10, relation="replace_one", seed=seed) for seed in range(replicates)]
    print(
        f"\n**mpls_stops**: nats per held-out record with two attributes, minus without; must at ε = 1: -{COST}\n"
    )
    print("| mechanism | ε | nats |\n|---|---|---|", flush=True)
    for name, epsilon in product(mechanisms, epsilons):
        found = []
        for seed, case in enumerate(cases):
            scores = []
            for number in (0, 2):
                attributes = case.spec.domain.attributes[:number]
                spec = Spec(case.spec.domain.model_copy(update={"attributes": attributes}), 10)
                codes = {each.name: case.records.codes[each.name] for each in attributes}
                rng = seeded_randomness(seed, "cost", name, epsilon)
                records = Records(case.records.points, codes)
                release = run(build(name, goal), records, spec, Budget(epsilon, DELTA), rng)
                scores.append(float(release.mixture.log_density(case.held_out).mean()))
            found.append(scores[1] - scores[0])
        error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
        print(f"| {name} | {epsilon:g} | {np.mean(found):+.4f} ± {error:.4f} |", flush=True)


def cells(points: np.ndarray, spec: Spec) -> np.ndarray:
    """Return the number of the cell of each point, (n,)."""
    parts = (points - spec.domain.lower) / (spec.domain.upper - spec.domain.lower)
    row, column = np.clip((parts * GRID).astype(int), 0, np.array(GRID) - 1).T
    return row * GRID[1] + column


def distances(made: Records, case: Case) -> list[float]:
    """Return the total variation distances `DISTANCES` between synthetic rows and records."""
    sizes = {each.name: len(each.values) for each in case.spec.domain.attributes} | {
        "cell": GRID[0] * GRID[1]
    }

    def shares(records: Records, *names: str) -> np.ndarray:
        codes = {**records.codes, "cell": cells(records.points, case.spec)}
        shape = [sizes[name] for name in names]
        joint = np.ravel_multi_index([codes[name] for name in names], shape)
        return np.bincount(joint, minlength=int(np.prod(shape))).reshape(shape) / len(records)

    def distance(*names: str) -> float:
        return float(np.abs(shares(made, *names) - shares(case.records, *names)).sum() / 2)

    real, other = shares(case.records, "cell", "race"), shares(made, "cell", "race")
    filled = other.sum(axis=1, keepdims=True) > 0
    given = np.where(filled, other / np.maximum(other.sum(axis=1, keepdims=True), 1e-300), other.sum(axis=0))
    conditional = float(np.abs(real - given * real.sum(axis=1, keepdims=True)).sum() / 2)
    return [
        distance("cell", "race"),
        distance("cell"),
        conditional,
        distance("race"),
        distance("race", "gender", "problem"),
    ]


def print_stops(given: argparse.Namespace, peers: Peers | None) -> None:
    """Print the distances of places and categories of mpls_stops."""
    cases = [
        of_catalog("mpls_stops", 1, relation="add_remove", seed=seed) for seed in range(given.replicates)
    ]
    print(
        "\n**mpls_stops**: total variation distance to the records; must at ε = 1: race × cell not above AIM\n"
    )
    names = ["rows from", "ε", "K", *DISTANCES, "CPU s", "race × cell - AIM"]
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|", flush=True)
    found = []
    for seed, case in enumerate(cases):
        again = np.random.default_rng(seed).integers(len(case.records), size=len(case.records))
        found.append(distances(case.records.select(again), case))
    print_distances(["real sample", "", ""], found, "", None)
    for epsilon in given.epsilons:
        aim = None
        for method in given.peer_methods if peers else ():
            found, seconds = [], 0.0
            for seed, case in enumerate(cases):
                made, spent = peers.synthesize(
                    case, method, epsilon=epsilon, delta=DELTA, rows=ROWS, seed=seed
                )
                found.append(distances(made, case))
                seconds += spent / len(cases)
            print_distances([method.upper(), f"{epsilon:g}", ""], found, f"{seconds:.0f}", aim)
            aim = np.array(found)[:, 0] if method == "aim" else aim
        for name, numbers, share in product(given.mechanisms, given.components, given.attribute_shares):
            settings = {} if name == "non_private" else {"attribute_share": share}
            found, used, seconds = [], [], 0.0
            for seed, case in enumerate(cases):
                spec = Spec(case.spec.domain, max(numbers), numbers if len(numbers) > 1 else ())
                rng = seeded_randomness(seed, case.name, name, *numbers, share, epsilon)
                mechanism, began = build(name, given.goal, **settings), time.process_time()
                release = run(mechanism, case.records, spec, Budget(epsilon, DELTA), rng)
                seconds += (time.process_time() - began) / len(cases)
                used.append(release.mixture.n_components)
                mixed = MixedMixture(release.mixture, release.shares)
                points, codes = mixed.sample(ROWS, np.random.default_rng(seed))
                found.append(distances(Records(spec.inside(points), codes), case))
            label = name + (f", s = {share:g}" if settings and share != 0.2 else "")
            chosen = f"{np.mean(used):.3g}" + (" (chosen)" if len(numbers) > 1 else "")
            print_distances([label, f"{epsilon:g}", chosen], found, f"{seconds:.0f}", aim)


def print_distances(
    labels: list[str], found: list[list[float]], seconds: str, aim: np.ndarray | None
) -> None:
    """Print a row of distances, (replicates, distances), and the difference of the first to that of AIM."""
    values, root = np.array(found), np.sqrt(len(found))

    def spread(numbers: np.ndarray) -> np.ndarray:
        return numbers.std(axis=0, ddof=1) / root if len(found) > 1 else np.zeros(numbers.shape[1:])

    pairs = zip(values.mean(axis=0), spread(values), strict=True)
    verdict = ""
    if aim is not None:
        apart = values[:, 0] - aim
        mean, error = apart.mean(), float(spread(apart))
        word = "better" if mean < -error else "worse" if mean > error else "tie"
        verdict = f"{mean:+.3f} ± {error:.3f}, {word}"
    texts = [*labels, *(f"{mean:.3f} ± {error:.3f}" for mean, error in pairs), seconds, verdict]
    print("| " + " | ".join(texts) + " |", flush=True)


def print_city(mechanisms: list[str], epsilons: list[float], replicates: int, goal: str) -> None:
    """Print the errors of the correlation and of the deviations."""
    must = ", ".join(f"{name} {limit}" for name, limit in MUST.items())
    print(f"\n**city**: errors of synthetic rows; must at ε = 1: {must}\n")
    print("| mechanism | ε | correlation | deviations | held-out nats | |")
    print("|---|---|---|---|---|---|", flush=True)
    cases = [city(seed=replicate) for replicate in range(replicates)]
    for name in mechanisms:
        for epsilon in epsilons:
            found = []
            for replicate, case in enumerate(cases):
                rng = seeded_randomness(replicate, case.name, name, epsilon)
                release = run(build(name, goal), case.records, case.spec, Budget(epsilon, DELTA), rng)
                found.append(errors(release.mixture, case, np.random.default_rng(replicate)))
            mean = np.mean(found, axis=0)
            error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.zeros(3)
            met = all(mean[:2] - error[:2] <= list(MUST.values()))
            verdict = "" if epsilon != 1 or name == "non_private" else "met" if met else "NOT met"
            cells = [f"{value:.3f} ± {spread:.3f}" for value, spread in zip(mean, error, strict=True)]
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + f" | {verdict} |", flush=True)


def numbers_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 10,20,40."""
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    """Print the tables: a row for each mechanism and epsilon."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument(
        "--components", nargs="+", type=numbers_of, default=[(10,)],
        help="K for mpls_stops, or candidates such as 10,20,40, of which each mechanism chooses",
    )  # fmt: skip
    parser.add_argument("--attribute-shares", nargs="+", type=float, default=[0.2], help="s, for mpls_stops")
    parser.add_argument("--goal", choices=["density", "table"], default="density")
    parser.add_argument("--peers", type=Path, help="folder with `synthesize.py`")
    parser.add_argument("--peer-python", type=Path, help="interpreter of the environment of the peers")
    parser.add_argument("--peer-methods", nargs="+", default=["aim", "mst"])
    given = parser.parse_args()
    if (given.peers is None) != (given.peer_python is None):
        parser.error("--peers and --peer-python need each other.")
    if "city" in given.tables:
        print_city(given.mechanisms, given.epsilons, given.replicates, given.goal)
    if "nafld" in given.tables:
        print_categories(given.mechanisms, given.epsilons, given.replicates, given.goal)
    if "blanks" in given.tables:
        print_blanks(given.mechanisms, given.epsilons, given.replicates, given.goal)
    if "cost" in given.tables:
        print_cost(given.mechanisms, given.epsilons, given.replicates, given.goal)
    if "mpls_stops" in given.tables:
        print_stops(given, Peers(given.peer_python, given.peers / "synthesize.py") if given.peers else None)


if __name__ == "__main__":
    main()
