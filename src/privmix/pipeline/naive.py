"""Make the releases that people make instead of a private model, and attack each with every attack that applies."""

from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np
import pandas as pd

from privmix.artefacts.naive import Anonymity, AveragedAnswers, Kind, NaiveAttack, Uniqueness
from privmix.attacks import aggregate, differencing, homogeneity, linkage, reconstruction
from privmix.attacks.finding import NotMeasured, Result
from privmix.naive import k_anonymity
from privmix.naive.base import NaiveRelease
from privmix.naive.k_anonymity import KAnonymous
from privmix.naive.pseudonymised import Pseudonymised
from privmix.naive.records import Records
from privmix.naive.statistics import NoisyAnswers, Rounded, Suppressed, count_table

MOST_PEOPLE = 4000  # of a reconstruction from a table
POLLED = 200  # people of a reconstruction from answers
QUESTIONS = 4 * POLLED
ASKED = 40  # questions that are repeated
MOST_SHARES = 5000  # published shares that a membership attack uses


def measure_anonymity(table: pd.DataFrame, release: NaiveRelease, records: Records) -> Anonymity | None:
    """Measure k, l and t of published rows; None if the release publishes statistics."""
    if isinstance(release, Pseudonymised):
        known, rows = list(records.roles.quasi_identifiers), records.binned
        unique = k_anonymity.uniqueness(rows, known)
        grown = [
            Uniqueness(columns=each.columns, rows=each.unique_rows, share=each.unique_share)
            for each in unique.itertuples()
        ]
    elif isinstance(release, KAnonymous):
        known = [str(name) for name in table if name not in records.roles.sensitive]
        rows, grown = table, []
    else:
        return None
    found = k_anonymity.measure(rows, known, records.roles.sensitive)
    return Anonymity(
        k=found.k, distinct_l=found.distinct_l, entropy_l=found.entropy_l, t=found.t, uniqueness=grown
    )


def attack_release(
    release: NaiveRelease, table: pd.DataFrame, records: Records, rng: np.random.Generator
) -> list[NaiveAttack]:
    """Run every attack that applies to a release."""
    if isinstance(release, Pseudonymised | KAnonymous):
        found = _attack_rows(release, table, records, rng)
    elif isinstance(release, NoisyAnswers):
        found = _attack_answers(release, records, rng)
    else:
        found = _attack_statistics(release, table, records, rng)
    alone = len(np.unique(records.persons)) == len(records)
    named = isinstance(release, Pseudonymised)  # its rows show who belongs together
    return [each.model_copy(update={"counted": _counted(each.kind, alone, named)}) for each in found]


def _counted(kind: Kind, alone: bool, named: bool) -> str:
    """Return what the rates of an attack are shares of. `alone`: whether each row is another person."""
    if kind == "averaging":
        return "questions"
    return "people" if alone or kind == "membership" or (kind == "linkage" and named) else "rows"


def average_answers(
    release: NaiveRelease, records: Records, rng: np.random.Generator
) -> list[AveragedAnswers]:
    """Return the error of averages over growing numbers of answers, where the server remembers each wording."""
    if not isinstance(release, NoisyAnswers):
        return []
    server = release.open_server(rng, cached=True)
    done = differencing.attack_by_averaging(server, _questions(records, rng), differencing.reword)
    if isinstance(done, NotMeasured):
        return []
    return [AveragedAnswers(times=step.times, error=step.error) for step in done.steps]


def _attack_rows(
    release: NaiveRelease, table: pd.DataFrame, records: Records, rng: np.random.Generator
) -> Iterator[NaiveAttack]:
    known, sensitive = records.roles.quasi_identifiers, records.roles.sensitive
    people = records.persons
    if isinstance(release, Pseudonymised) and len(np.unique(people)) < len(people):
        own = records.binned.assign(person=people)
        # Not by the sensitive columns: an attacker wants to learn them and does not know them.
        yield from _written("linkage", linkage.link_by_rows(own, own, "person", rng, exact=known))
    else:
        published = records.binned if isinstance(release, Pseudonymised) else table
        yield from _written("linkage", linkage.link_by_columns(published, records.binned, known, rng))
    published = records.binned if isinstance(release, Pseudonymised) else table
    for column in sensitive:
        found = homogeneity.attack_by_homogeneity(published, known, column)
        yield from _written("homogeneity", [found.certain, found.guess])
        if isinstance(release, KAnonymous):
            other = k_anonymity.anonymise(
                records.binned, known[::-1], sensitive, min(release.k + 2, len(records)), release.l, release.t
            )
            both = homogeneity.attack_by_intersection([table, other], records.binned, column, rng)
            yield from _written("intersection", [both])


def _attack_statistics(
    release: NaiveRelease, table: pd.DataFrame, records: Records, rng: np.random.Generator
) -> Iterator[NaiveAttack]:
    column, value, secrets = _secret(records)
    yield from _written(
        "differencing",
        [differencing.attack_by_differencing(secrets.astype(float), _published_mean(release), 0.25, rng)],
    )
    chosen, others = _two_groups(records, rng)
    counted = release.make_table(chosen, rng)
    names = list(records.roles.quasi_identifiers)
    _, _, own = _secret(chosen, value)
    found = reconstruction.attack_by_table(
        chosen.binned[names], counted, column, value, own, (others.binned[names], count_table(others))
    )
    yield from _written("reconstruction", [found])
    yield _membership(records, release, rng)


def _attack_answers(
    release: NoisyAnswers, records: Records, rng: np.random.Generator
) -> Iterator[NaiveAttack]:
    _, _, secrets = _secret(records)
    polled = secrets[rng.permutation(len(secrets))[:POLLED]]
    queries = reconstruction.random_subsets(len(polled), QUESTIONS, rng)
    answers = release.add_noise(reconstruction.count_secrets(polled, queries), rng)
    yield from _written("reconstruction", [reconstruction.attack_by_subsets(polled, queries, answers)])
    for attack, cached, ask in (
        ("the same words", False, differencing.repeat),
        ("other words, because of a cache", True, differencing.reword),
    ):
        server = release.open_server(rng, cached=cached)
        done = differencing.attack_by_averaging(server, _questions(records, rng), ask)
        found: Result = done if isinstance(done, NotMeasured) else done.steps[-1].exact
        each = _write("averaging", found)
        yield each.model_copy(update={"attack": f"{each.attack}, in {attack}"})


def _membership(records: Records, release: NaiveRelease, rng: np.random.Generator) -> NaiveAttack:
    """Guess who is among the people of published shares: those of all values and pairs of values."""
    matrix = _memberships(records, rng)
    pool, reference, held_out = aggregate.split_people(len(matrix), rng)
    counts = matrix[pool].sum(axis=0)
    if isinstance(release, Rounded):
        counts = release.round(counts)
    elif isinstance(release, Suppressed):
        counts = np.where(counts >= release.below, counts, 0)
    found = aggregate.attack_by_shares(
        counts / max(len(pool), 1), matrix[reference], matrix[pool], matrix[held_out]
    )
    if isinstance(found, NotMeasured):
        return NaiveAttack(kind="membership", attack=found.attack, reason=found.reason)
    best = found.likelihood_ratio
    return NaiveAttack(
        kind="membership",
        attack=f"membership from {found.shares:,} published shares",
        people=found.members,
        population=found.members,
        rate=best.auc,
        low=best.low,
        high=best.high,
        baseline=0.5,
        gain_low=best.low - 0.5,
        gain_high=best.high - 0.5,
    )


def _memberships(records: Records, rng: np.random.Generator) -> np.ndarray:
    """Return which published counts include each person, (people, counts) of 0 and 1: at most `MOST_SHARES`."""
    persons = records.persons
    number = int(persons.max(initial=-1)) + 1
    columns = [records.binned[name].cat for name in records.roles.columns]
    single = [each.codes.to_numpy().astype(np.int64) for each in columns]
    sizes = [len(each.categories) for each in columns]
    sets = [(codes, size) for codes, size in zip(single, sizes, strict=True)]
    for first in range(len(single)):
        for second in range(first):
            sets.append((single[first] * sizes[second] + single[second], sizes[first] * sizes[second]))
    parts, left = [], MOST_SHARES
    for codes, _ in sets:
        values, place = np.unique(codes, return_inverse=True)
        common = np.argsort(-np.bincount(place), kind="stable")[:left]
        rank = np.full(len(values), -1)
        rank[common] = np.arange(len(common))
        inside = rank[place] >= 0
        matrix = np.zeros((number, len(common)))
        matrix[persons[inside], rank[place[inside]]] = 1
        parts.append(matrix)
        left -= len(common)
        if left <= 0:
            break
    return np.concatenate(parts, axis=1)


def _secret(records: Records, value: str | None = None) -> tuple[str, str, np.ndarray]:
    """Return the first sensitive column, a value that is neither rare nor usual, and who has it, (n,)."""
    column = records.roles.sensitive[0]
    values = records.binned[column].astype(str)
    if value is None:
        shares = values.value_counts(normalize=True)
        value = str((shares - 0.3).abs().idxmin())
    return column, value, (values == value).to_numpy().astype(int)


def _two_groups(records: Records, rng: np.random.Generator) -> tuple[Records, Records]:
    """Return two disjoint groups of rows of at most `MOST_PEOPLE` each."""
    order, size = rng.permutation(len(records)), min(MOST_PEOPLE, len(records) // 2)
    return records.select(order[:size]), records.select(order[size : 2 * size])


def _published_mean(release: NaiveRelease) -> Callable[[np.ndarray], float]:
    def publish(values: np.ndarray) -> float:
        count = np.array([values.sum()])
        if isinstance(release, Rounded):
            count = release.round(count)
        elif isinstance(release, Suppressed) and count[0] < release.below:
            count = np.zeros(1)
        return float(count[0]) / len(values)

    return publish


def _questions(records: Records, rng: np.random.Generator) -> list[differencing.Question]:
    """Ask for the number of people with the secret among those with two values of quasi-identifiers."""
    _, _, secrets = _secret(records)
    names = records.roles.quasi_identifiers
    asked = []
    for row in rng.permutation(len(records))[:ASKED]:
        chosen = [names[place] for place in rng.permutation(len(names))[:2]]
        rows = np.ones(len(records), dtype=bool)
        for name in chosen:
            codes = records.binned[name].cat.codes.to_numpy()
            rows &= codes == codes[row]
        guess = float(secrets.mean() * rows.sum())
        asked.append(
            differencing.Question(f"people like row {row} with the secret", rows & (secrets == 1), guess)
        )
    return asked


def _written(kind: Kind, found: list[Result]) -> Iterator[NaiveAttack]:
    return (_write(kind, each) for each in found)


def _write(kind: Kind, found: Result) -> NaiveAttack:
    return NaiveAttack(kind=kind, **asdict(found))
