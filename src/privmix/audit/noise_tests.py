"""Tests of noise: whether it has the scale and shape of its distribution, and whether any of it repeats.

All tests use `scores`, which are independent standard normal numbers if the noise has its stated distribution. For each
label, and for all labels together,

* the sum of squares is χ² distributed, too small and too large alike; also that of each turn (the first, second, ...
  measurement of the label in its run), and of each quarter of the numbers of a measurement, because one block may be
  wrong alone;
* the mean is normal;
* the empirical distribution is no farther from the normal one than the inequality of Dvoretzky, Kiefer and Wolfowitz
  allows with Massart's constant (1990): P(√n D > λ) ≤ 2 exp(-2λ²) for every n;
* adjacent numbers, consecutive measurements, and consecutive runs are uncorrelated.

Correlations need no large numbers. Let the odd numbers (measurements, runs) be given. Each even one is then independent
of the sum w of its two neighbours, and Σ x·w is normal with variance Σ |w|². If a distribution tells of each report
whether it is true, the number of true reports among those that were true in another run is binomial.

False alarms. Each of these tests gets an equal share of ALARM, and the parts of a test share it equally (Bonferroni).
On correct code all tests together raise an alarm with probability at most ALARM, whatever their number.

Copies are tested separately: WINDOW consecutive numbers that occurred before, up to a common factor. Each direction (x,
y) of two consecutive numbers is one of DIRECTIONS. So among 10^5 independent numbers the probability of one such window
is below 10^-15; for noise on a lattice, with at least 64 steps to its scale, below 10^-6.

Low bits. A double that is a value plus floating-point noise lies on a set that depends on the value (Mironov 2012): its
bits can reveal the value. So a number that may be published lies on the public lattice of `privacy.exact`, for any
value. Numbers of a seeded run do not, which is one reason why they must not be published.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.audit.recording import Recording
from privmix.privacy.exact import STEP
from privmix.privacy.noise_distributions import (
    GaussianNoise,
    LaplaceNoise,
    NoiseDistribution,
    OracleNoise,
    PlanarLaplaceNoise,
    SampledGaussianNoise,
    binomial_to_normal,
)

ALARM = 1e-4  # small, because a sweep has hundreds of verdicts
WINDOW = 8
DIRECTIONS = 20_000
QUARTERS = 4
FEWEST_NUMBERS = 8  # needed to test a distribution
MOST_NUMBERS = 1 << 17  # numbers of a run that are searched for copies


@dataclass(frozen=True, eq=False)
class NoiseDraw:
    """The noise of one measurement."""

    label: str
    run: int
    turn: int  # number of earlier measurements of this label in the run
    law: NoiseDistribution
    scores: np.ndarray
    noise: np.ndarray


@dataclass(frozen=True)
class NoiseTest:
    """The result of a test: the smallest probability of its parts times their number, and a sentence for an alarm."""

    p_value: float
    sentence: str


def noise_findings(drawn: Sequence[NoiseDraw], rng: np.random.Generator, alarm: float = ALARM) -> list[str]:
    """Return a sentence for each failed test. On correct code there is one with probability `alarm` at most."""
    labels = {label: [each for each in drawn if each.label == label] for label in _labels(drawn)}
    questions = [question for label, own in labels.items() for question in _tests_of_label(label, own, rng)]
    if len(labels) > 1:
        questions += _tests_of_numbers("all measurements", [each.scores for each in drawn])
    return [
        *find_copies(drawn),
        *(each.sentence for each in questions if each.p_value <= alarm / len(questions)),
    ]


def find_copies(drawn: Sequence[NoiseDraw]) -> list[str]:
    """Return a sentence if WINDOW consecutive numbers of the noise occurred before, up to a factor."""
    runs: dict[int, list[np.ndarray]] = {}
    for each in drawn:
        if each.noise.dtype != bool:
            runs.setdefault(each.run, []).append(each.noise)
    numbers = [np.concatenate(own)[:MOST_NUMBERS] for own in runs.values()]
    rows = np.concatenate([np.empty(0, np.uint64), *map(window_hashes, numbers)])
    repeated = len(rows) - len(np.unique(rows))
    if not repeated:
        return []
    return [
        f"the noise is reused: {repeated} of {len(rows)} windows of {WINDOW} consecutive numbers were drawn before, "
        "in this run or in another, so differences reveal the data; draw fresh noise for each measurement."
    ]


def _labels(drawn: Iterable[NoiseDraw]) -> list[str]:
    return list(dict.fromkeys(each.label for each in drawn))


def _tests_of_label(label: str, own: list[NoiseDraw], rng: np.random.Generator) -> Iterator[NoiseTest]:
    scores = [each.scores for each in own]
    yield from _tests_of_numbers(label, scores)
    parts = [*_turns(label, own), *_quarters(label, scores)]
    if parts:
        yield _scale_test(parts)
    if (within := _adjacent_correlation(scores)) is not None:
        yield _normal_test(within, f"{label}: adjacent numbers of the noise are correlated")
    runs = _group(own, lambda each: each.run)
    if (after := _chain_correlation(_scores_in_order(some) for some in runs.values())) is not None:
        yield _normal_test(
            after, f"{label}: the noise of one measurement is correlated with that of the next"
        )
    turns = _group(own, lambda each: each.turn)
    if (across := _run_correlation(turns.values(), rng)) is not None:
        yield _normal_test(across, f"{label}: the noise of one run is correlated with that of the next")


def _tests_of_numbers(label: str, scores: Sequence[np.ndarray]) -> Iterator[NoiseTest]:
    numbers = np.concatenate(scores)
    if not len(numbers):
        return
    yield _scale_test([(label, numbers)])
    yield _normal_test(
        numbers.sum() / math.sqrt(len(numbers)),
        f"{label}: the mean of the noise is not that of its distribution",
    )
    if len(numbers) >= FEWEST_NUMBERS:
        yield _shape_test(label, numbers)


def _scale_test(parts: Sequence[tuple[str, np.ndarray]]) -> NoiseTest:
    """Test χ² of each part, on both sides."""
    from scipy.special import gammainc, gammaincc

    chances = []
    for _, numbers in parts:
        half, square = len(numbers) / 2, float(np.square(numbers).sum()) / 2
        chances.append(2 * min(gammainc(half, square), gammaincc(half, square)))
    worst = int(np.argmin(chances))
    label, numbers = parts[worst]
    size = math.sqrt(np.square(numbers).mean())
    return NoiseTest(
        chances[worst] * len(parts),
        f"{label}: the noise is too {'small' if size < 1 else 'large'}: its {len(numbers)} normal scores have a root "
        f"mean square of {size:.3g} instead of 1 (probability {_format_probability(chances[worst] * len(parts))}); "
        "draw it at the scale that the ledger states.",
    )


def _shape_test(label: str, numbers: np.ndarray) -> NoiseTest:
    from scipy.special import ndtr

    ranks, n = np.arange(len(numbers)), len(numbers)
    below = ndtr(np.sort(numbers))
    distance = float(max((below - ranks / n).max(), ((ranks + 1) / n - below).max()))
    chance = min(2 * math.exp(-2 * n * distance**2), 1.0)
    return NoiseTest(
        chance,
        f"{label}: the distribution of {n} noise values is {distance:.3g} away from the stated one "
        f"(probability {_format_probability(chance)}); draw it from the distribution that the ledger states.",
    )


def _normal_test(score: float, what: str) -> NoiseTest:
    """Test whether a standard normal number is too far out."""
    chance = math.erfc(abs(score) / math.sqrt(2))
    return NoiseTest(
        chance,
        f"{what}: {score:.3g} standard deviations (probability {_format_probability(chance)}); draw fresh noise.",
    )


def _format_probability(chance: float) -> str:
    return f"{chance:.1g}" if chance >= 1e-12 else "below 1e-12"


def _turns(label: str, own: list[NoiseDraw]) -> list[tuple[str, np.ndarray]]:
    turns = _group(own, lambda each: each.turn)
    found = [
        (f"{label}, measurement {turn + 1}", np.concatenate([each.scores for each in some]))
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


def _group(own: Iterable[NoiseDraw], key: Callable[[NoiseDraw], int]) -> dict[int, list[NoiseDraw]]:
    groups: dict[int, list[NoiseDraw]] = {}
    for each in own:
        groups.setdefault(key(each), []).append(each)
    return groups


def _adjacent_correlation(scores: list[np.ndarray]) -> float | None:
    """Correlate each even number with the sum of the numbers before and after it in its measurement."""
    product = square = 0.0
    for each in scores:
        padded = np.concatenate([[0.0], each, [0.0]])
        beside = (padded[:-2] + padded[2:])[::2]
        product += float(each[::2] @ beside)
        square += float(beside @ beside)
    return product / math.sqrt(square) if square else None


def _scores_in_order(some: list[NoiseDraw]) -> list[np.ndarray]:
    return [each.scores for each in some]


def _chain_correlation(chains: Iterable[Sequence[np.ndarray]]) -> float | None:
    """Correlate consecutive vectors: Σ x·w / √Σ|w|², where x is each even one and w the sum of its neighbours."""
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


def _run_correlation(turns: Iterable[list[NoiseDraw]], rng: np.random.Generator) -> float | None:
    """Correlate the same measurements of consecutive runs."""
    turns = list(turns)
    told = [[each for each in some if isinstance(each.law, OracleNoise)] for some in turns]
    if not any(told):
        return _chain_correlation(_scores_in_order(some) for some in turns)
    scores = [score for some in told for score in _agreement_scores(some, rng)]
    return sum(scores) / math.sqrt(len(scores)) if scores else None


def _agreement_scores(some: list[NoiseDraw], rng: np.random.Generator) -> Iterator[float]:
    """Yield, for every other run, how many reports are true among those true in the next run, as a normal number."""
    for place in range(0, len(some), 2):
        beside = place + 1 if place + 1 < len(some) else place - 1
        if beside < 0:
            return
        own, other = some[place], some[beside]
        common = min(len(own.noise), len(other.noise))
        true = own.noise[:common][other.noise[:common]]
        if len(true):
            assert isinstance(own.law, OracleNoise)
            yield binomial_to_normal(int(np.count_nonzero(true)), len(true), own.law.truth, rng)


def window_hashes(numbers: np.ndarray) -> np.ndarray:
    """Return a hash of the directions in each window of consecutive numbers."""
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


CONTINUOUS_NOISE = (LaplaceNoise, GaussianNoise, PlanarLaplaceNoise, SampledGaussianNoise)


def low_bit_findings(tape: Recording) -> list[str]:
    """Return a sentence for each kind of measurement whose numbers are not whole steps of the lattice."""
    found: dict[str, int] = {}
    for entry in tape.entries:
        if isinstance(entry.law, CONTINUOUS_NOISE):
            steps = np.asarray(entry.released) / STEP
            off = int(np.count_nonzero(steps != np.rint(steps)))
            if off:
                found[entry.event.label] = found.get(entry.event.label, 0) + off
    return [
        f"{label}: {off} measured numbers are not whole steps of 2^-20, so their low bits reveal the exact value; "
        "draw the noise of a release from exact noise."
        for label, off in found.items()
    ]
