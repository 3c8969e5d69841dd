"""Differencing and averaging: what repeated answers say about one person, or about the exact number.

Differencing. The mean of n people is μ. One more person with value x joins, and it becomes μ′ = (nμ + x)/(n + 1). So
x = (n + 1)μ′ - nμ. Two polls are the same with yes and no: 70 of 90 people say yes, next week 71 of 91, so the new
person says yes.

Averaging. The mean of t answers with independent Laplace noise of scale b has standard deviation √2 b/√t. A cache that
gives the same answer to the same wording does not help: other wordings ask the same.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privmix.attacks.finding import LEAST_PEOPLE, NotMeasured, Result, compare, too_few

TARGETS = 200
TIMES = (1, 4, 16, 64, 256)


def difference(before: float, after: float, people: int) -> float:
    """Return the value of the person who joined `people` others, from the mean before and after."""
    return (people + 1) * after - people * before


def compare_polls(yes_before: float, yes_after: float) -> bool | None:
    """Return the answer of the one person who joined between two polls; None if the numbers do not fit one person."""
    joined = yes_after - yes_before
    return bool(joined) if joined in (0, 1) else None


def attack_by_differencing(
    values: np.ndarray,
    publish: Callable[[np.ndarray], float],
    tolerance: float,
    rng: np.random.Generator,
) -> Result:
    """Find single values from the published mean with and without each of some people.

    `publish` makes the published mean from exact values: exactly, rounded, or with noise. The attacker knows the
    smallest and the largest value and guesses nothing beyond them. A guess is right if it is within `tolerance`. The
    baseline guesses the same value for everyone, the one that is right most often.
    """
    values = np.asarray(values, dtype=float)
    problem = too_few("differencing", len(values))
    if problem is not None:
        return problem
    if np.ptp(values) <= 2 * tolerance:
        return NotMeasured(
            "differencing", "All values are equal within the tolerance, so the population says everything."
        )
    targets = rng.permutation(len(values))[:TARGETS]
    guesses = [
        difference(publish(np.delete(values, target)), publish(values), len(values) - 1) for target in targets
    ]
    hits = np.abs(np.clip(guesses, values.min(), values.max()) - values[targets]) <= tolerance * (1 + 1e-9)
    common = np.abs(values[targets] - _common_value(values, tolerance)) <= tolerance * (1 + 1e-9)
    return compare("differencing", hits, common, len(values))


def _common_value(values: np.ndarray, tolerance: float) -> float:
    """Return the guess that is within the tolerance of most values."""
    ordered = np.sort(values)
    ends = np.searchsorted(ordered, ordered + 2 * tolerance * (1 + 1e-12), side="right")
    return float(ordered[np.argmax(ends - np.arange(len(ordered)))] + tolerance)


class Server(Protocol):
    """Something that answers questions about numbers of rows."""

    def ask(self, wording: str, rows: np.ndarray) -> float:
        """Return the published number of the rows (a mask) that the wording describes."""
        ...


@dataclass(frozen=True, eq=False)
class Question:
    """A question about a number of rows, and what someone who knows the population only would answer."""

    wording: str
    rows: np.ndarray  # a mask
    guess: float


Ask = Callable[[Server, Question, int], float]  # (server, question, number of the try) -> an answer


def repeat(server: Server, question: Question, number: int) -> float:
    """Ask the same question in the same words."""
    return server.ask(question.wording, question.rows)


def reword(server: Server, question: Question, number: int) -> float:
    """Ask the same question in other words: a condition that always holds is added."""
    return server.ask(f"{question.wording} and {number} = {number}", question.rows)


def split(server: Server, question: Question, number: int) -> float:
    """Ask for two parts of the rows and add the answers. Even a cache by sets of rows does not know these parts."""
    part = np.random.default_rng(number).random(len(question.rows)) < 0.5
    inside, outside = question.rows & part, question.rows & ~part
    first = server.ask(f"{question.wording} in part {number}", inside)
    return first + server.ask(f"{question.wording} not in part {number}", outside)


@dataclass(frozen=True)
class AveragingStep:
    """The result of asking each question `times` times."""

    times: int
    error: float  # root mean square of average minus exact number
    exact: Result  # questions whose rounded average is the exact number


@dataclass(frozen=True)
class Averaging:
    """The result of averaging for growing numbers of answers."""

    steps: list[AveragingStep]
    guess_error: float  # root mean square error of someone who knows the population only

    @property
    def slope(self) -> float | None:
        """The exponent of the error as a function of the number of answers: -1/2 for independent noise, 0 for none."""
        errors = [step.error for step in self.steps]
        if len(errors) < 2 or min(errors) == 0:
            return None
        return float(np.polyfit(np.log([step.times for step in self.steps]), np.log(errors), 1)[0])


def attack_by_averaging(
    server: Server, questions: Sequence[Question], ask: Ask, times: Sequence[int] = TIMES
) -> Averaging | NotMeasured:
    """Ask each question many times and average the answers. `ask` is `repeat`, `reword` or `split`.

    The interval of each share is over questions.
    """
    if len(questions) < LEAST_PEOPLE:
        return NotMeasured(
            "averaging", f"This attack needs at least {LEAST_PEOPLE} questions; there are {len(questions)}."
        )
    exact = np.array([np.count_nonzero(question.rows) for question in questions], dtype=float)
    guesses = np.array([question.guess for question in questions])
    answers = np.array([[ask(server, each, number) for number in range(max(times))] for each in questions])
    right = np.round(guesses) == exact
    steps = []
    for number in times:
        means = answers[:, :number].mean(axis=1)
        found = compare(f"averaging of {number} answers", np.round(means) == exact, right)
        steps.append(AveragingStep(number, math.sqrt(np.square(means - exact).mean()), found))
    return Averaging(steps, math.sqrt(np.square(guesses - exact).mean()))
