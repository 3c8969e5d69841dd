"""Shadow models: the mechanism runs again on random halves of a pool of records, so that an attacker can see how a
model looks with a record and without it (Shokri et al. 2017; Carlini et al. 2022).

The pool has training and held-out units (records, or people with all their records). Models come in pairs: one gets a
random half of the units, the other gets the rest. So every unit is in exactly half of the models, and every model has
half of the units, as a relation that keeps their number requires. Each model is the target once. Its shadows are the
models of all other pairs, which were fitted to halves that were drawn independently of the target's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec
from privmix.mechanisms.run import run_many
from privmix.privacy.accounting import Budget

LEAST_PAIRS = 6  # fewer tell nothing of a variance, least of all when the learned attack halves them
LEAST_UNITS = 20


@dataclass(frozen=True, eq=False)
class ShadowPool:
    """The records that shadow models are fitted to, and whose each is."""

    records: Records
    units: np.ndarray  # (n,) number of the unit, from 0
    share: float  # the units of a shadow model over those of the training data

    @property
    def size(self) -> int:
        """The number of units, which is even."""
        return int(self.units.max(initial=-1)) + 1


def sample_units(units: np.ndarray, most: int, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Units with at most so many records between them, (m,): those of the first rows, then others at random.

    `units` has the number of the unit of each row.
    """
    holdings = np.bincount(units)
    order = rng.permutation(len(holdings))
    wanted = np.isin(order, units[first])
    order = np.concatenate([order[wanted], order[~wanted]])
    return order[: int((np.cumsum(holdings[order]) <= most).sum())]


def resize_domain(domain: Domain, records: int, share: float) -> Domain:
    """The public numbers for a part of the units: exact where a record is the unit, else in proportion."""
    if domain.unit == "record":
        return domain.model_copy(update={"rows": records})
    persons = None if domain.persons is None else max(1, round(domain.persons * share))
    return domain.model_copy(update={"rows": max(1, round(domain.rows * share)), "persons": persons})


def draw_pool(clean: CleanData, most: int, rng: np.random.Generator) -> ShadowPool:
    """An even number of units of the whole clean data, isolated people first, the others at random."""
    everything = Records(clean.points, clean.codes, clean.person)
    units = everything.units(clean.info.domain.unit)
    taken = sample_units(units, most, clean.isolated_rows, rng)
    taken = taken[: len(taken) // 2 * 2]
    rows = np.flatnonzero(np.isin(units, taken))
    training = len(np.unique(units[clean.train]))
    return ShadowPool(
        everything.select(rows),
        np.unique(units[rows], return_inverse=True)[1],
        len(taken) / 2 / max(training, 1),
    )


def random_halves(units: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Which units each of twice as many models gets, (2 pairs, units): a half, then the other half."""
    chosen = np.zeros((2 * pairs, units), dtype=bool)
    for pair in range(pairs):
        chosen[2 * pair, rng.permutation(units)[: units // 2]] = True
        chosen[2 * pair + 1] = ~chosen[2 * pair]
    return chosen


@dataclass(frozen=True, eq=False)
class ShadowModels:
    """The log densities of the pool's records under every model, and which models were fitted to them.

    Rows 2p and 2p + 1 are a pair: of each column one is inside and the other is not.
    """

    densities: np.ndarray  # (models, n), finite
    inside: np.ndarray  # (models, n) bool
    units: np.ndarray  # (n,)

    @cached_property
    def known(self) -> np.ndarray:
        """Log density in that model of each pair which was fitted to the record, (pairs, n)."""
        return np.where(self.inside[0::2], self.densities[0::2], self.densities[1::2])

    @cached_property
    def unknown(self) -> np.ndarray:
        """The same of the model that was not, (pairs, n)."""
        return np.where(self.inside[0::2], self.densities[1::2], self.densities[0::2])

    def of(self, records: np.ndarray) -> Self:
        """The same of these records alone."""
        return ShadowModels(self.densities[:, records], self.inside[:, records], self.units[records])

    @property
    def pairs(self) -> int:
        """Half the number of models."""
        return len(self.densities) // 2


def fit_shadows(
    mechanism: Mechanism,
    pool: ShadowPool,
    spec: Spec,
    budget: Budget,
    number: int,
    randomness: Callable[[int], Randomness],
    rng: np.random.Generator,
) -> ShadowModels:
    """So many shadow models, each by the code of the real fit with a random stream of its own."""
    inside = random_halves(pool.size, number // 2, rng)[:, pool.units]
    public = replace(spec, domain=resize_domain(spec.domain, pool.size // 2, pool.share))
    rngs = [randomness(model) for model in range(len(inside))]
    releases = run_many(mechanism, pool.records, list(inside), public, budget, rngs)
    densities = np.array([release.mixture.log_density(pool.records.points) for release in releases])
    return ShadowModels(replace_underflow(densities), inside, pool.units)


def replace_underflow(densities: np.ndarray) -> np.ndarray:
    """A density that underflows to nothing counts as the smallest that does not."""
    lowest = densities[np.isfinite(densities)].min(initial=0.0)
    return np.where(np.isfinite(densities), densities, lowest)
