"""Parity criteria: predict a declared outcome from a model's joint density, and compare the groups of records.

Of a truth Y, a prediction Ŷ and a group S:

- statistical parity, Ŷ ⊥ S: every group is selected (Ŷ = 1) at the same rate;
- error parity, Ŷ ⊥ S | Y (equalized odds, Hardt, Price, Srebro 2016): true-positive and false-positive rates are equal;
- sufficiency, Y ⊥ S | Ŷ: a prediction means the same in every group, so the predictive values are equal.

If base rates differ between groups, error parity and sufficiency cannot both hold, unless prediction is perfect
(Chouldechova 2017; Kleinberg, Mullainathan, Raghavan 2016).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from privmix.evaluate.groups import GroupValues, ratios
from privmix.mixture.mixed import Codes, MixedMixture

RATES = ("base_rate", "selection_rate", "tpr", "fpr", "ppv", "npv")
FEWEST_CASES = 30  # records behind a rate of a group


def predict_outcome(
    model: MixedMixture, outcome: str, points: np.ndarray, codes: Codes, absent: np.ndarray | None = None
) -> np.ndarray:
    """Return the most probable value of the outcome given all other columns of each record, (n,)."""
    known = {name: values for name, values in codes.items() if name in model.shares}
    return np.asarray(model.conditional(outcome, points, known, absent).argmax(axis=1))


def group_rates(
    truth: np.ndarray,
    predicted: Sequence[np.ndarray],
    groups: np.ndarray,
    number: int,
    weights: np.ndarray | None = None,
    units: np.ndarray | None = None,
) -> dict[str, GroupValues]:
    """Compute the rates of each group by name (`RATES`), for the predictions of each replicate; all arrays are 0 or 1.

    A rate without records behind it is nan.
    """
    weights = np.ones(len(truth)) if weights is None else weights
    units = np.arange(len(truth)) if units is None else units
    right, wrong = truth.astype(float), 1.0 - truth
    chosen = [np.asarray(each, dtype=float) for each in predicted]
    sides: Mapping[str, tuple[list[np.ndarray], list[np.ndarray]]] = {
        "base_rate": ([right for _ in chosen], [np.ones(len(truth)) for _ in chosen]),
        "selection_rate": (chosen, [np.ones(len(truth)) for _ in chosen]),
        "tpr": ([each * right for each in chosen], [right for _ in chosen]),
        "fpr": ([each * wrong for each in chosen], [wrong for _ in chosen]),
        "ppv": ([each * right for each in chosen], chosen),
        "npv": ([(1 - each) * wrong for each in chosen], [1 - each for each in chosen]),
    }
    return {
        name: ratios([weights * t for t in tops], [weights * b for b in bottoms], groups, units, number)
        for name, (tops, bottoms) in sides.items()
    }


def cases(
    truth: np.ndarray, predicted: Sequence[np.ndarray], groups: np.ndarray, number: int
) -> dict[str, np.ndarray]:
    """Return the number of records behind each rate of each group: the smallest of all replicates."""
    inside = groups >= 0

    def smallest(parts: Sequence[np.ndarray]) -> np.ndarray:
        counts = [np.bincount(groups[inside], part[inside].astype(float), number) for part in parts]
        return np.asarray(np.min(counts, axis=0))

    all_records = smallest([np.ones(len(truth))])
    return {
        "base_rate": all_records,
        "selection_rate": all_records,
        "tpr": smallest([truth]),
        "fpr": smallest([1 - truth]),
        "ppv": smallest(list(predicted)),
        "npv": smallest([1 - each for each in predicted]),
    }


def largest_gap(rates: np.ndarray) -> float:
    """Return the largest difference of a rate between two groups."""
    return float(np.max(rates) - np.min(rates))


def parity_criteria(rates: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the criteria from the rates of the groups: differences (0 is parity), and a ratio (1 is parity).

    They equal Fairlearn's `demographic_parity_difference` and `_ratio`, `equalized_odds_difference`, and the
    difference of a `MetricFrame` of precision.
    """
    selection = rates["selection_rate"]
    highest = float(np.max(selection))
    return {
        "statistical_parity_difference": largest_gap(selection),
        "statistical_parity_ratio": float(np.min(selection)) / highest if highest else float("nan"),
        "equalized_odds_difference": max(largest_gap(rates["tpr"]), largest_gap(rates["fpr"])),
        "ppv_difference": largest_gap(rates["ppv"]),
        "npv_difference": largest_gap(rates["npv"]),
    }
