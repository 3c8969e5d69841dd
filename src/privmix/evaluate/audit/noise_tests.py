"""Whether noise is what its law says: its scale, its shape, and that no number of it was there before.

All is asked of `scores`, which are independent standard normal numbers if the releases were drawn from their laws.
For each label, and for all labels together,

* the sum of squares is χ² distributed, too small and too large alike; also that of each turn (the first, second, ...
  release of the label in its run), and of each quarter of the numbers of a release, for one block may be wrong alone;
* the mean is normal;
* the empirical distribution is no farther from the normal one than the inequality of Dvoretzky, Kiefer and Wolfowitz
  allows with Massart's constant (1990): P(√n D > λ) ≤ 2 exp(-2λ²) for every n;
* numbers beside each other, releases after each other, and runs after each other are uncorrelated.

Correlations need no large numbers: let the odd numbers (releases, runs) be given. Each even one is then independent of
the sum w of its two neighbours, and Σ x·w is normal with variance Σ |w|². Where a law says of each report whether it
tells the truth, the number of true ones among those that were true in another run is binomial.

False alarms. Each of these questions gets an equal share of ALARM, and where it has several parts these share it
(Bonferroni): on correct code all together raise an alarm with probability at most ALARM, whatever their number.

Copies are looked for by themselves: WINDOW consecutive numbers that came before, up to a common factor. Each direction
(x, y) of two consecutive numbers is one of DIRECTIONS, so that among 10^5 independent numbers the chance of one such
window is below 10^-15; of noise on a lattice, with at least 64 steps to its scale, below 10^-6.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.privacy.laws import Channel, Law, normal_of_binomial

ALARM = 1e-4  # a sweep has hundreds of verdicts, and one false alarm in it is one too many
WINDOW = 8
DIRECTIONS = 20_000
QUARTERS = 4
FEWEST = 8  # numbers that a distribution is seen in
MOST = 1 << 17  # numbers of a run that copies are looked for among


@dataclass(frozen=True, eq=False)
class Drawn:
    """The noise of one release."""

    label: str
    run: int
    turn: int  # how many releases of this label came before it in its run
    law: Law
    scores: np.ndarray
    noise: np.ndarray


@dataclass(frozen=True)
class Question:
    """What was asked: the least probability of any of its parts, times their number, and a sentence if it is small."""

    chance: float
    sentence: str


def findings(drawn: Sequence[Drawn], rng: np.random.Generator, alarm: float = ALARM) -> list[str]:
    """A sentence for each thing that does not hold; on correct code there is one with probability `alarm` at most."""
    labels = {label: [each for each in drawn if each.label == label] for label in _labels(drawn)}
    questions = [question for label, own in labels.items() for question in _asked(label, own, rng)]
    if len(labels) > 1:
        questions += _of_all("all releases", [each.scores for each in drawn])
    return [
        *copies(drawn),
        *(each.sentence for each in questions if each.chance <= alarm / len(questions)),
    ]


def copies(drawn: Sequence[Drawn]) -> list[str]:
    """A sentence if so many consecutive numbers of the noise came before, up to a factor."""
    runs: dict[int, list[np.ndarray]] = {}
    for each in drawn:
        if each.noise.dtype != bool:
            runs.setdefault(each.run, []).append(each.noise)
    numbers = [np.concatenate(own)[:MOST] for own in runs.values()]
    rows = np.concatenate([np.empty(0, np.uint64), *map(windows, numbers)])
    repeated = len(rows) - len(np.unique(rows))
    if not repeated:
        return []
    return [
        f"the noise repeats itself: {repeated} of {len(rows)} rows of {WINDOW} consecutive numbers were drawn "
        "before, in this run or in another; each release needs fresh noise, or their difference shows the data."
    ]


def _labels(drawn: Iterable[Drawn]) -> list[str]:
    return list(dict.fromkeys(each.label for each in drawn))


def _asked(label: str, own: list[Drawn], rng: np.random.Generator) -> Iterator[Question]:
    scores = [each.scores for each in own]
    yield from _of_all(label, scores)
    parts = [*_turns(label, own), *_quarters(label, scores)]
    if parts:
        yield _scale(parts)
    if (within := _beside(scores)) is not None:
        yield _normal(within, f"{label}: numbers of the noise that stand beside each other are correlated")
    runs = _grouped(own, lambda each: each.run)
    if (after := _chained(_in_turn(some) for some in runs.values())) is not None:
        yield _normal(after, f"{label}: the noise of one release is correlated with that of the next")
    turns = _grouped(own, lambda each: each.turn)
    if (across := _across(turns.values(), rng)) is not None:
        yield _normal(across, f"{label}: the noise of one run is correlated with that of the next")


def _of_all(label: str, scores: Sequence[np.ndarray]) -> Iterator[Question]:
    numbers = np.concatenate(scores)
    if not len(numbers):
        return
    yield _scale([(label, numbers)])
    yield _normal(numbers.sum() / math.sqrt(len(numbers)), f"{label}: the mean of the noise is not its law's")
    if len(numbers) >= FEWEST:
        yield _shape(label, numbers)


def _scale(parts: Sequence[tuple[str, np.ndarray]]) -> Question:
    """χ² of each part, both sides."""
    from scipy.special import gammainc, gammaincc

    chances = []
    for _, numbers in parts:
        half, square = len(numbers) / 2, float(np.square(numbers).sum()) / 2
        chances.append(2 * min(gammainc(half, square), gammaincc(half, square)))
    worst = int(np.argmin(chances))
    label, numbers = parts[worst]
    size = math.sqrt(np.square(numbers).mean())
    return Question(
        chances[worst] * len(parts),
        f"{label}: the noise is too {'small' if size < 1 else 'large'}: its {len(numbers)} normal scores have a root "
        f"mean square of {size:.3g}, not of 1 (probability {_written(chances[worst] * len(parts))}); "
        "draw it at the scale that the ledger states.",
    )


def _shape(label: str, numbers: np.ndarray) -> Question:
    from scipy.special import ndtr

    ranks, n = np.arange(len(numbers)), len(numbers)
    below = ndtr(np.sort(numbers))
    distance = float(max((below - ranks / n).max(), ((ranks + 1) / n - below).max()))
    chance = min(2 * math.exp(-2 * n * distance**2), 1.0)
    return Question(
        chance,
        f"{label}: the distribution of the noise is {distance:.3g} away from its law's, by {n} numbers "
        f"(probability {_written(chance)}); draw it from the law that the ledger states.",
    )


def _normal(score: float, what: str) -> Question:
    """A standard normal number that is too far out."""
    chance = math.erfc(abs(score) / math.sqrt(2))
    return Question(
        chance, f"{what}: {score:.3g} standard deviations (probability {_written(chance)}); draw it anew."
    )


def _written(chance: float) -> str:
    return f"{chance:.1g}" if chance >= 1e-12 else "below 1e-12"


def _turns(label: str, own: list[Drawn]) -> list[tuple[str, np.ndarray]]:
    turns = _grouped(own, lambda each: each.turn)
    found = [
        (f"{label}, release {turn + 1}", np.concatenate([each.scores for each in some]))
        for turn, some in turns.items()
    ]
    return [(name, numbers) for name, numbers in found if len(numbers)] if len(turns) > 1 else []


def _quarters(label: str, scores: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    if min(map(len, scores)) < QUARTERS:
        return []
    divided = [np.array_split(each, QUARTERS) for each in scores]
    return [
        (f"{label}, quarter {part + 1} of its numbers", np.concatenate([each[part] for each in divided]))
        for part in range(QUARTERS)
    ]


def _grouped(own: Iterable[Drawn], key: Callable[[Drawn], int]) -> dict[int, list[Drawn]]:
    groups: dict[int, list[Drawn]] = {}
    for each in own:
        groups.setdefault(key(each), []).append(each)
    return groups


def _beside(scores: list[np.ndarray]) -> float | None:
    """Each even number against the sum of those before and after it in its release."""
    product = square = 0.0
    for each in scores:
        padded = np.concatenate([[0.0], each, [0.0]])
        beside = (padded[:-2] + padded[2:])[::2]
        product += float(each[::2] @ beside)
        square += float(beside @ beside)
    return product / math.sqrt(square) if square else None


def _in_turn(some: list[Drawn]) -> list[np.ndarray]:
    return [each.scores for each in some]


def _chained(chains: Iterable[Sequence[np.ndarray]]) -> float | None:
    """Of vectors after each other: Σ x·w / √Σ|w|², x being each even one and w the sum of its neighbours."""
    product = square = 0.0
    for chain in chains:
        for place in range(0, len(chain), 2):
            own = chain[place]
            beside = np.zeros(len(own))
            for other in (*chain[max(place - 1, 0) : place], *chain[place + 1 : place + 2]):
                common = min(len(own), len(other))
                beside[:common] += other[:common]
            product += float(own @ beside)
            square += float(beside @ beside)
    return product / math.sqrt(square) if square else None


def _across(turns: Iterable[list[Drawn]], rng: np.random.Generator) -> float | None:
    """The same releases of runs after each other."""
    turns = list(turns)
    told = [[each for each in some if isinstance(each.law, Channel)] for some in turns]
    if not any(told):
        return _chained(_in_turn(some) for some in turns)
    scores = [score for some in told for score in _agreement(some, rng)]
    return sum(scores) / math.sqrt(len(scores)) if scores else None


def _agreement(some: list[Drawn], rng: np.random.Generator) -> Iterator[float]:
    """Of every other run, how many reports are true among those that are in a run beside it, as a normal number."""
    for place in range(0, len(some), 2):
        beside = place + 1 if place + 1 < len(some) else place - 1
        if beside < 0:
            return
        own, other = some[place], some[beside]
        common = min(len(own.noise), len(other.noise))
        true = own.noise[:common][other.noise[:common]]
        if len(true):
            yield normal_of_binomial(np.count_nonzero(true), len(true), own.law.truth, rng)


def windows(numbers: np.ndarray) -> np.ndarray:
    """A hash of the directions in each row of consecutive numbers."""
    if len(numbers) < WINDOW:
        return np.empty(0, np.uint64)
    turn = np.arctan2(numbers[1:], numbers[:-1]) / np.pi
    direction = (np.rint(turn * DIRECTIONS) % DIRECTIONS).astype(np.uint64)
    rows = np.lib.stride_tricks.sliding_window_view(direction, WINDOW - 1)
    hashed = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        hashed = (hashed ^ (column + np.uint64(1))) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
    return hashed
