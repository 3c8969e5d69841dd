"""Audit of any function: run it on neighbouring datasets and bound ε from below.

Nothing is known about the function. An attacker learns from training runs to tell the two datasets apart by the
output, and then guesses in new runs. Whatever the attacker does, an (ε, δ)-DP function limits its success
(`audit.bounds`), so its success bounds ε from below. A bound above the claim disproves the claim. A bound below it
proves nothing: a better attacker, another pair of datasets or more runs may show more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmix.audit import bounds
from privmix.audit.learned_attacker import RunNumbers, flatten_numbers, train_attacker
from privmix.errors import UserError
from privmix.privacy.hypothesis_testing import PairedScores, auc

TRAINING_SHARE = 0.25  # training runs for each judged run
THEOREMS = ("Clopper-Pearson", "AUC")


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
            f"at {self.confidence:.0%} confidence ε is at least {self.lower_bound:.3g} "
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
        tuple or dataclass of those. It draws new randomness in each call.
    neighbours : pair of datasets, or sequence of pairs
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
    if not epsilon >= 0 or not 0 <= delta < 1:
        raise UserError(
            f"the claim needs epsilon >= 0 and 0 <= delta < 1, but has {epsilon!r} and {delta!r}."
        )
    if not 0 < confidence < 1:
        raise UserError(f"confidence = {confidence!r} must lie between 0 and 1.")
    training = int(runs * TRAINING_SHARE)
    if training < bounds.FEWEST_RUNS:
        raise UserError(f"runs = {runs!r} is too few for a bound; use at least {4 * bounds.FEWEST_RUNS}.")
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
    pairs = [neighbours] if isinstance(neighbours, tuple) else list(neighbours)
    if not pairs or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise UserError(
            "neighbours must be a pair of datasets, as a tuple (data, neighbour), or a list of such pairs."
        )
    return pairs


def _observe(
    function: Callable[[Any], Any], pair: tuple[Any, Any], runs: int
) -> tuple[list[RunNumbers], list[RunNumbers]]:
    """Return the numbers in the output of each run, on either dataset."""
    mine: list[RunNumbers] = [[flatten_numbers(function(pair[0]))] for _ in range(runs)]
    other: list[RunNumbers] = [[flatten_numbers(function(pair[1]))] for _ in range(runs)]
    return mine, other


def _separation(mine: Sequence[RunNumbers], other: Sequence[RunNumbers]) -> float:
    """Return how well an attacker that learns from half of the runs tells the others apart."""
    half = len(mine) // 2
    attacker = train_attacker(mine[:half], other[:half])
    scores = [np.array([attacker.log_odds(run) for run in side[half:]]) for side in (mine, other)]
    return auc(*scores)
