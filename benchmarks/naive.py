"""Attacks on releases that people make instead of a private model, and on private counts.

    python benchmarks/naive.py [reconstruction] [membership] [linkage] [tables] [block]

`reconstruction`: 400 people with a secret of probability 0.29, and 1,600 counts of subsets with every person with
probability 1/2; mean of 5 worlds. `membership`: who is in a pool of 223 MovieLens users, from the shares of the pool
that rated each film; mean of 40 splits. `linkage`: MovieLens users singled out by known ratings: film, exact rating and
day within two weeks; all users count the same. `tables`: every release of the catalog's tables with roles, and what
attacks on it disclose. `block`: the block of seven people.

Private counts have Laplace noise for a total ε. A person is in every one of the 1,600 counts or 9,066 films at most
once, so the sensitivity is that number. "must" is the requirement.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from cases import CATALOG

from privmix.attacks import differencing, homogeneity, linkage, reconstruction, seven_person_block
from privmix.attacks.aggregate import AggregateMembership, attack_by_shares, split_people
from privmix.attacks.finding import Finding, Result
from privmix.attacks.limits import auc_ceiling, guess_ceiling
from privmix.catalog.entry import load_entry
from privmix.catalog.readers.base import read_batches
from privmix.catalog.sources import acquire
from privmix.naive import k_anonymity, registry
from privmix.naive.records import Records, read_records
from privmix.naive.statistics import NoisyAnswers, count_table
from privmix.privacy import noise
from privmix.privacy.ledger import Ledger

FORTNIGHT = 14 * 86400
PEOPLE, COUNTS, WORLDS, SPLITS = 400, 1600, 5, 40


def load(name: str) -> Records:
    """Read a dataset of the catalog that needs no network."""
    entry = load_entry(CATALOG / f"{name}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        acquire(entry, raw)
        return read_records(read_batches(raw, entry), entry)


def make_private(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Add noise for a total ε to counts that one person changes by at most 1 each."""
    return noise.laplace(
        np.asarray(counts, dtype=float),
        sensitivity=len(counts),
        epsilon=epsilon,
        source=noise.SeededNoise(rng),
        ledger=Ledger(),
        label="counts",
    )


def show_reconstruction() -> None:
    """Print the share of secrets that are reconstructed."""
    print(
        "\n| counts of subsets | secrets right | base rate | must | ceiling of ε | seconds |\n|---|---|---|---|---|---|"
    )
    cases: dict[str, tuple[Callable, str, str]] = {
        "exact": (lambda counts, rng: counts, "≥ 0.99", ""),
        "Laplace, b = 5": (lambda counts, rng: NoisyAnswers(5).add_noise(counts, rng), "≥ 0.93", ""),
        "Laplace, b = 10": (lambda counts, rng: NoisyAnswers(10).add_noise(counts, rng), "≥ 0.78", ""),
        "total ε = 1": (
            lambda counts, rng: make_private(counts, 1.0, rng),
            "≤ base rate",
            f"{guess_ceiling(0.71, 1, 0):.3f}",
        ),
    }
    for name, (publish, must, ceiling) in cases.items():
        found, start = [], time.perf_counter()
        for seed in range(WORLDS):
            rng = np.random.default_rng(seed)
            secrets = (rng.random(PEOPLE) < 0.29).astype(int)
            queries = reconstruction.random_subsets(PEOPLE, COUNTS, rng)
            counts = publish(reconstruction.count_secrets(secrets, queries), rng)
            found.append(reconstruction.attack_by_subsets(secrets, queries, counts))
        rate, base = (np.mean([getattr(each, key) for each in found]) for key in ("rate", "baseline"))
        took = (time.perf_counter() - start) / WORLDS
        print(f"| {name} | {rate:.3f} | {base:.3f} | {must} | {ceiling} | {took:.1f} |", flush=True)


def show_membership() -> None:
    """Print the AUC of membership from shares of films."""
    frame = load("movielens").frame
    users, films = (pd.factorize(frame[name])[0] for name in ("userId", "movieId"))
    seen = np.zeros((users.max() + 1, films.max() + 1))
    seen[users, films] = 1
    publish: dict[str, tuple[Callable, str]] = {
        "exact": (lambda pool, rng: pool.mean(axis=0), "AUC ≥ 0.70; aim TPR ≥ 10 %"),
        "rounded to 1 %": (lambda pool, rng: pool.mean(axis=0).round(2), ""),
        "total ε = 1": (
            lambda pool, rng: make_private(pool.sum(axis=0), 1.0, rng) / len(pool),
            f"0.5 in interval; ceiling of a swap {auc_ceiling(2, 0):.3f}",
        ),
    }
    print("\n| shares of films | AUC, likelihood ratio | AUC, Homer | TPR at 1 % | 0.5 in interval | must |")
    print("|---|---|---|---|---|---|")
    for name, (make, must) in publish.items():
        rng, found = np.random.default_rng(0), []
        for _ in range(SPLITS):
            pool, reference, others = (seen[group] for group in split_people(len(seen), rng))
            result = attack_by_shares(make(pool, rng), reference, pool, others)
            assert isinstance(result, AggregateMembership)
            found.append(result)
        cells = []
        for key in ("likelihood_ratio", "homer"):
            values = np.array([getattr(each, key).auc for each in found])
            cells.append(f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / SPLITS**0.5:.3f}")
        hit = np.mean([each.true_positive_rate for each in found])
        inside = sum(each.likelihood_ratio.low <= 0.5 <= each.likelihood_ratio.high for each in found)
        print(f"| {name} | {cells[0]} | {cells[1]} | {hit:.1%} | {inside} of {SPLITS} | {must} |", flush=True)


def show_linkage() -> None:
    """Print the share of users that known ratings single out."""
    frame = load("movielens").frame
    print("\n| known | ratings | singled out | 95 % interval | must |\n|---|---|---|---|---|")
    for label, exact in (
        ("film, rating, day ± 14", ["movieId", "rating"]),
        ("film, day ± 14", ["movieId"]),
    ):
        found = linkage.link_by_rows(
            frame, frame, "userId", np.random.default_rng(0), exact=exact, about={"timestamp": FORTNIGHT}
        )
        for number, each in zip(linkage.FACTS, found, strict=True):
            assert isinstance(each, Finding)
            must = "95 % ± 1" if (number, len(exact)) == (2, 2) else ""
            print(
                f"| {label} | {number} | {each.rate:.1%} | {each.low:.1%} to {each.high:.1%} | {must} |",
                flush=True,
            )


def show_block() -> None:
    """Print the solutions of the block of seven people."""
    start = time.perf_counter()
    found = seven_person_block.solve_block()
    print(
        f"\nblock of seven people: {len(found)} solution in {time.perf_counter() - start:.2f} s (must: exactly 1)"
    )
    for person in found[0]:
        married = "married" if person.married else "single"
        print(f"  {person.age} {person.sex} {person.race} {married}")


def show_tables() -> None:
    """Print what attacks on each release of the tables with roles disclose."""
    for name, value in (("covid_testing", "positive"), ("mpls_stops", "suspicious")):
        records = load(name)
        print(f"\n**{name}**: {len(records):,} records\n")
        print("| release | attack | rate | population only | gain, 95 % interval | people | seconds |")
        print("|---|---|---|---|---|---|---|")
        for release, found, took in attack_tables(records, value):
            if isinstance(found, Finding):
                gain = f"{found.gain_low:+.1%} to {found.gain_high:+.1%}"
                numbers = f"{found.rate:.1%} | {found.baseline:.1%} | {gain} | {found.disclosed:,}"
            else:
                numbers = f"{found.reason} | | |"
            print(f"| {release} | {found.attack} | {numbers} | {took:.1f} |", flush=True)


def attack_tables(records: Records, value: str) -> list[tuple[str, Result, float]]:
    """Make and attack every release of one dataset."""
    rng, rows = np.random.default_rng(0), []
    known, sensitive = records.roles.quasi_identifiers, records.roles.sensitive[0]

    def note(release: str, attack: Callable[[], Result | list[Result]]) -> None:
        start = time.perf_counter()
        found = attack()
        took = time.perf_counter() - start
        rows.extend((release, each, took) for each in (found if isinstance(found, list) else [found]))

    persons = records.persons
    note(
        "pseudonymised",
        lambda: linkage.link_by_columns(
            records.binned, records.binned, known, rng, persons=persons, owners=persons
        ),
    )
    for parameters in ({"k": 5}, {"k": 5, "l": 2}, {"k": 5, "t": 0.2}):
        label = ", ".join(f"{key} = {number}" for key, number in parameters.items())
        table = registry.build("k_anonymous", parameters, "benchmark").make_table(records, rng)
        note(
            label, lambda t=table: linkage.link_by_columns(t, records.binned, known, rng, facts=[len(known)])
        )
        note(label, lambda t=table: homogeneity.attack_by_homogeneity(t, known, sensitive).certain)
    two = [k_anonymity.anonymise(records.binned, part, [sensitive], 5) for part in (known[:2], known[2:])]
    note("two tables, k = 5", lambda: homogeneity.attack_by_intersection(two, records.binned, sensitive, rng))
    order = rng.permutation(len(records))
    mine, other = (records.select(part) for part in np.array_split(order, 2))
    secrets = (mine.binned[sensitive] == value).to_numpy()
    beside = (other.binned[list(known)], count_table(other))
    for name in ("exact_statistics", "rounded", "suppressed", "noisy_answers"):
        table = registry.build(name, {}, "benchmark").make_table(mine, rng)
        note(
            f"{name} (half of the records)",
            lambda t=table: reconstruction.attack_by_table(
                mine.binned[list(known)], t, sensitive, value, secrets, beside
            ),
        )
    number = next(name for name in known if records.columns[name].type == "number")
    values, tolerance = records.frame[number].to_numpy(), records.columns[number].resolution / 2
    note(
        f"exact means of {number}",
        lambda: differencing.attack_by_differencing(values, np.mean, tolerance, rng),
    )
    return rows


PARTS = {
    "block": show_block,
    "linkage": show_linkage,
    "membership": show_membership,
    "reconstruction": show_reconstruction,
    "tables": show_tables,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to print, by default everything")
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()
