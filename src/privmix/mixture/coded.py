"""Records with attributes, for passes over coordinates and attributes together: each has one combination of values.

The values of all attributes stand side by side in one table of T columns. A combination is one column of each
attribute. A pass adds Σ_a log θ_ka(c_a) to the log responsibility of component k, one number per component and
combination, and sums responsibilities by combination. The counts of the values follow from these sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privmix.mixture.mixed import Codes, MixedMixture
from privmix.mixture.model import split_patterns
from privmix.mixture.moments import IncompleteObservations, Observations, compress


@dataclass(frozen=True, eq=False)
class CodedObservations(Observations):
    """n weighted records with the combination of values of each.

    Only the first attributes decide about responsibilities (`deciding`; None for all). The others are only counted.
    """

    kinds: np.ndarray = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )  # (n,) rows of combinations
    combinations: np.ndarray = field(
        default_factory=lambda: np.empty((0, 0), dtype=np.int64)
    )  # (M, A) columns
    deciding: int | None = None


def observe_codes(
    points: np.ndarray, codes: Codes, sizes: Mapping[str, int], deciding: int | None = None
) -> CodedObservations:
    """Return records with their combinations, with equal records merged. `sizes`: values of each attribute."""
    return _merge(points, *_combinations(codes, sizes), deciding)


def observe_incomplete_codes(
    points: np.ndarray,
    codes: Codes,
    sizes: Mapping[str, int],
    absent: np.ndarray,
    deciding: int | None = None,
) -> IncompleteObservations:
    """Return records that lack the coordinates `absent`, (n, d). All parts have the same combinations."""
    kinds, combinations = _combinations(codes, sizes)
    return IncompleteObservations(
        tuple(
            (present, _merge(points[np.ix_(rows, present)], kinds[rows], combinations, deciding))
            for present, rows in split_patterns(absent)
        )
    )


def _combinations(codes: Codes, sizes: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the combination of each record, (n,), and all combinations, (M, A)."""
    first = np.append(0, np.cumsum(list(sizes.values())))[:-1]
    columns = np.column_stack(
        [codes[name].astype(np.int64) + begin for name, begin in zip(sizes, first, strict=True)]
    )
    combinations, kinds = np.unique(columns, axis=0, return_inverse=True)
    return kinds.reshape(-1).astype(np.int64), combinations


def _merge(
    points: np.ndarray, kinds: np.ndarray, combinations: np.ndarray, deciding: int | None
) -> CodedObservations:
    table = compress(Observations(np.column_stack([points, kinds]), np.ones(len(points))))
    places = np.ascontiguousarray(table.points[:, :-1])
    own = table.points[:, -1].astype(np.int64)
    return CodedObservations(places, table.weights, None, own, combinations, deciding)


def nothing_coded(place: np.ndarray, attributes: int) -> CodedObservations:
    """Return one record of weight zero, at the first value of each attribute."""
    return CodedObservations(
        place[None], np.zeros(1), None, np.zeros(1, dtype=np.int64), np.zeros((1, attributes), dtype=np.int64)
    )


def log_shares(mixture: MixedMixture, combinations: np.ndarray, deciding: int | None = None) -> np.ndarray:
    """Compute Σ_a log θ_ka(c_a) over the deciding attributes for each component and combination, (K, M), in order."""
    logs = np.log(side_by_side(mixture.shares))
    total = np.zeros((len(logs), len(combinations)))
    for column in combinations.T[:deciding]:
        total += logs[:, column]
    return total


def value_counts(by_kind: np.ndarray, combinations: np.ndarray, width: int) -> np.ndarray:
    """Return the counts of the values, (K, T), from sums of responsibilities by combination, (K, M)."""
    counts = np.zeros((len(by_kind), width))
    for column in combinations.T:
        for k, own in enumerate(by_kind):
            counts[k] += np.bincount(column, own, width)
    return counts


def side_by_side(shares: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the shares of all attributes as one table, (K, T)."""
    return np.concatenate(list(shares.values()), axis=1)
