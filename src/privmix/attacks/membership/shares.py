"""Membership from the shares that a model implies: the attack on published shares (`attacks.aggregate`) on a mixture.

The attacker draws rows from the model and counts every value of a column and every pair of values of two columns, with
coordinates in public cells. These shares f are compared with the shares g of other people. The score of a record is
Σ x ln(f/g) + (1 - x) ln((1 - f)/(1 - g)), where x = 1 for the values and pairs that it has (Sankararaman et al. 2009).

Half of the held-out persons, at random, are the other people. The rest of them is compared with the members.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.artefacts.domain import Domain
from privmix.attacks.aggregate import bound_shares
from privmix.attacks.finding import LEAST_PEOPLE
from privmix.attacks.membership.loss import membership_metrics
from privmix.mixture.mixed import MixedMixture

CELLS = 20  # of a coordinate
ROWS = 100_000  # drawn from the model
TOO_FEW = f"membership from shares needs at least {2 * LEAST_PEOPLE} held-out people: half of them are the comparison"


def attack_by_model_shares(
    model: MixedMixture, clean: CleanData, rates: Sequence[float], rng: np.random.Generator
) -> dict[str, float] | None:
    """Return the metrics of the attack, or None if there are too few held-out people."""
    domain, whose = clean.info.domain, number_persons(clean.person)
    held_out = np.unique(whose[~clean.train])
    if len(held_out) < 2 * LEAST_PEOPLE:
        return None
    known = np.isin(whose, rng.permutation(held_out)[: len(held_out) // 2]) & ~clean.train
    others = ~clean.train & ~known
    points, codes = model.sample(ROWS, rng)
    of_model = cell_columns(points, codes, domain)
    of_records = cell_columns(clean.points, {name: clean.codes[name] for name in model.shares}, domain)
    score = np.zeros(len(clean.points))
    for drawn, cells in zip(_combine(of_model), _combine(of_records), strict=True):
        size = int(max(drawn.max(), cells.max())) + 1
        f = bound_shares(np.bincount(drawn, minlength=size) / ROWS, int(clean.train.sum()))
        g = bound_shares(np.bincount(cells[known], minlength=size) / known.sum(), int(known.sum()))
        score += (np.log(f / g) - np.log1p(-f) + np.log1p(-g))[cells]
    groups = [(whose[clean.train], whose[others])]
    return membership_metrics("shares", score[clean.train], score[others], groups, rates)


def cell_columns(
    points: np.ndarray, codes: Mapping[str, np.ndarray], domain: Domain
) -> list[tuple[np.ndarray, int]]:
    """Return the cell of each coordinate and the value of each attribute, with their numbers of different values.

    A record that lacks a coordinate has a cell of its own there.
    """
    width = np.maximum(domain.upper - domain.lower, 1e-300)
    cells = np.clip(np.floor((points - domain.lower) / width * CELLS), 0, CELLS - 1).astype(np.int64)
    cells[domain.absent(codes, len(points))] = CELLS
    sizes = {attribute.name: len(attribute.values) for attribute in domain.attributes}
    return [
        *((column, CELLS + 1) for column in cells.T),
        *((values.astype(np.int64), sizes[name]) for name, values in codes.items()),
    ]


def _combine(columns: list[tuple[np.ndarray, int]]) -> list[np.ndarray]:
    """Return the values of each column and of each pair of columns, as one number for each row."""
    pairs = itertools.combinations(columns, 2)
    return [
        *(values for values, _ in columns),
        *(first * size + second for (first, _), (second, size) in pairs),
    ]
