"""Audit of any function: run it on neighbouring datasets and bound ε from below.

Nothing is known about the function. An attacker learns from training runs to tell the two datasets apart by the
output, and then guesses in new runs. Whatever the attacker does, an (ε, δ)-DP function limits its success
(`audit.bounds`), so its success bounds ε from below. A bound above the claim disproves the claim. A bound below it
proves nothing: a better attacker, another pair of datasets or more runs may show more.
"""

import dataclasses
import math
import numbers
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmix.audit import bounds
from privmix.audit.learned_attacker import RunNumbers, flatten_numbers, train_attacker
from privmix.errors import UserError
from privmix.privacy.hypothesis_testing import PairedScores, auc
from privmix.privacy.noise import fresh_stream

TRAINING_SHARE = 0.25  # training runs for each judged run
THEOREMS = ("Clopper-Pearson", "AUC")
LARGEST = 1e100  # beyond, the square of a number would overflow


@dataclass(frozen=True)
class FunctionAudit:
    """The result of an audit: what the claim is, and what the attack shows."""

    epsilon: float  # claimed
    delta: float
    lower_bound: float  # the function is not (ε, δ)-DP for any ε below this, at the stated confidence
    confidence: float
    runs: int  # judged runs on each dataset
    pair: int  # index of the pair of datasets that shows most
    theorem: str
    auc: float  # of the attacker; 0.5 is guessing

    @property
    def violated(self) -> bool:
        """Whether the claim is disproved."""
        return self.lower_bound > self.epsilon

    def __str__(self) -> str:
        shown = (
            f"at {100 * self.confidence:g} % confidence ε is at least {self.lower_bound:.3g} "
            f"(δ = {self.delta:g}, {self.runs:,} runs)"
        )
        if self.violated:
            return f"The claim ε = {self.epsilon:g} is false: {shown}."
        return f"The claim ε = {self.epsilon:g} is not disproved: {shown}. This is no proof of the claim."


def audit_function(
    function: Callable[[Any], Any],
    neighbours: tuple[Any, Any] | Sequence[tuple[Any, Any]],
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 2000,
    confidence: float = 0.95,
) -> FunctionAudit:
    """Test the claim that `function` is (epsilon, delta)-differentially private.

    Parameters
    ----------
    function : callable
        Takes a dataset and returns everything that would be published: a number, text, an array, or a dict, list,
        tuple, DataFrame or dataclass of those. It draws new randomness in each call and does not change its input.
    neighbours : tuple of two datasets, or list of such tuples
        Neighbouring datasets. Choose the unit that changes as extreme as the claim allows.
    epsilon, delta : float
        The claim.
    runs : int, default=2000
        Judged runs on each dataset. More runs show more. Training takes a quarter as many, for each pair.
    confidence : float, default=0.95
        A true claim is called violated with probability at most 1 - confidence.

    Returns
    -------
    FunctionAudit
        `violated`, `lower_bound`, and a sentence by `str`.
    """
    for name, value in (("epsilon", epsilon), ("delta", delta), ("confidence", confidence)):
        if not isinstance(value, numbers.Real):
            raise UserError(f"{name} = {value!r} must be a number.")
    if not epsilon >= 0 or not 0 <= delta < 1:
        raise UserError(
            f"the claim needs epsilon >= 0 and 0 <= delta < 1, but has {epsilon!r} and {delta!r}."
        )
    if not 0 < confidence < 1:
        raise UserError(f"confidence = {confidence!r} must lie between 0 and 1.")
    fewest = math.ceil(bounds.FEWEST_RUNS / TRAINING_SHARE)
    if not isinstance(runs, numbers.Integral) or runs < fewest:
        raise UserError(f"runs = {runs!r} must be a whole number of at least {fewest}.")
    training = int(runs * TRAINING_SHARE)
    pairs = _as_pairs(neighbours)
    studied = [_observe(function, pair, training) for pair in pairs]
    best = max(range(len(pairs)), key=lambda number: _separation(*studied[number]))
    attacker = train_attacker(*studied[best])
    judged = _observe(function, pairs[best], runs)
    known, new = (
        PairedScores(*(np.array([attacker.log_odds(run) for run in side]) for side in sides))
        for sides in (studied[best], judged)
    )
    alpha = (1 - confidence) / len(THEOREMS)
    threshold = bounds.choose_threshold(known, len(new), delta, alpha)
    errors = bounds.error_counts(new, np.array([threshold]))
    found = {
        "Clopper-Pearson": float(bounds.clopper_pearson_bound(*errors, len(new), delta, alpha)[0]),
        "AUC": bounds.pure_epsilon_bound(bounds.auc_lower_bound(new, alpha), delta),
    }
    theorem = max(THEOREMS, key=found.__getitem__)
    return FunctionAudit(
        epsilon, delta, found[theorem], confidence, runs, best, theorem, auc(new.mine, new.other)
    )


def _as_pairs(neighbours: Any) -> list[tuple[Any, Any]]:
    """Return the pairs. A tuple is one pair of datasets; any other sequence holds pairs."""
    single = isinstance(neighbours, tuple)
    if (
        single
        and len(neighbours) == 2
        and all(isinstance(each, tuple) and len(each) == 2 for each in neighbours)
    ):
        raise UserError(
            "neighbours is a tuple of two tuples: give several pairs as a list of tuples, and datasets as lists or "
            "arrays."
        )
    pairs = [neighbours] if single else list(neighbours)
    if not pairs or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise UserError(
            "neighbours must be a pair of datasets, as a tuple (data, neighbour), or a list of such pairs."
        )
    return pairs


def _observe(
    function: Callable[[Any], Any], pair: tuple[Any, Any], runs: int
) -> tuple[list[RunNumbers], list[RunNumbers]]:
    """Return what the output of each run shows, for either dataset.

    The two datasets take turns in random order. Otherwise a function with a state, such as a counter, would tell the
    datasets apart by the time of the call.
    """
    sides: tuple[list[RunNumbers], list[RunNumbers]] = ([], [])
    for first in fresh_stream().integers(2, size=runs):
        for which in (int(first), 1 - int(first)):
            sides[which].append(describe_output(function(pair[which])))
    return sides


def describe_output(output: Any) -> RunNumbers:
    """Return everything an attacker can compare: all numbers, which are missing or infinite, and the structure.

    Numbers are cut at ±LARGEST, so that a huge one cannot hide another. Text and the structure (types, keys, lengths)
    are hashed to a number.
    """
    leaves: list[tuple[float, float]] = []
    structure = zlib.crc32(_walk(output, leaves).encode()) / 2**32
    numbers_seen, special = np.array(leaves, dtype=float).reshape(-1, 2).T
    return [np.clip(numbers_seen, -LARGEST, LARGEST), special, np.array([structure])]


def _walk(value: Any, leaves: list[tuple[float, float]]) -> str:
    """Append the numbers of a value to `leaves` and return its structure as text."""
    if isinstance(value, np.ma.MaskedArray):
        value = value.filled(np.nan) if value.dtype.kind == "f" else value.tolist()
    if hasattr(value, "to_numpy"):
        value = (
            {str(name): value[name].to_numpy() for name in value}
            if hasattr(value, "columns")
            else value.to_numpy()
        )
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biufc" and value.dtype.names is None:
            for part in (value.real, value.imag) if value.dtype.kind == "c" else (value,):
                leaves.extend(_leaf(float(each)) for each in np.ravel(part))
            return f"array{value.shape}"
        value = value.tolist()
    if value is None:
        return "none"
    if isinstance(value, str | bytes):
        leaves.extend(_leaf(float(each)) for each in flatten_numbers(str(value)))
        return "text"
    if isinstance(value, complex) and not isinstance(value, numbers.Real):
        leaves.extend((_leaf(value.real), _leaf(value.imag)))
        return "complex"
    if isinstance(value, numbers.Real):
        leaves.append(_leaf(float(value)))
        return "number"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key!r}:{_walk(part, leaves)}" for key, part in value.items()) + "}"
    if isinstance(value, Iterable):
        return "[" + ",".join(_walk(part, leaves) for part in value) + "]"
    if dataclasses.is_dataclass(value):
        return _walk({part.name: getattr(value, part.name) for part in dataclasses.fields(value)}, leaves)
    return _walk(vars(value), leaves) if hasattr(value, "__dict__") else _walk(repr(value), leaves)


def _leaf(number: float) -> tuple[float, float]:
    """Return a finite number, and 1, 2 or 3 in place of NaN, infinity or minus infinity."""
    if math.isfinite(number):
        return number, 0.0
    return 0.0, 1.0 if math.isnan(number) else 2.0 if number > 0 else 3.0


def _separation(mine: Sequence[RunNumbers], other: Sequence[RunNumbers]) -> float:
    """Return how well an attacker that learns from half of the runs tells the others apart."""
    half = len(mine) // 2
    attacker = train_attacker(mine[:half], other[:half])
    scores = [np.array([attacker.log_odds(run) for run in side[half:]]) for side in (mine, other)]
    return auc(*scores)
