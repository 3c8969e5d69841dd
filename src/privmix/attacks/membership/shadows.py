"""Shadow models: the mechanism runs again on random halves of a pool of records.

They show an attacker how a model differs with and without a record (Shokri et al. 2017; Carlini et al. 2022).

The pool has training and held-out units (records, or persons with all their records). Models come in pairs: one gets a
random half of the units, the other gets the rest. So every unit is in exactly half of the models, and every model has
half of the units, as a relation with a fixed number of units requires. Each model is the target once. Its shadows are
the models of all other pairs, whose halves are drawn independently of the half of the target.

If the mechanism measures attributes, attacks use the joint density of coordinates and attributes (`loss` says why).
LiRA also runs on the coordinates alone, for comparison.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.domain import Domain
from privmix.attacks.joint_density import attacked_model, log_densities
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec
from privmix.mechanisms.run import run_many
from privmix.privacy.accounting import Budget

LEAST_PAIRS = 6  # fewer are not enough to estimate a variance, especially when the learned attack halves them
LEAST_UNITS = 20


@dataclass(frozen=True, eq=False)
class ShadowPool:
    """The records that shadow models are fitted to, and the unit of each record."""

    records: Records
    units: np.ndarray  # (n,) number of the unit, from 0
    share: float  # number of units of a shadow model divided by that of the training data

    @property
    def size(self) -> int:
        """Number of units, which is even."""
        return int(self.units.max(initial=-1)) + 1


def sample_units(units: np.ndarray, most: int, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw units with at most `most` records in total, (m,): the units of the rows `first`, then random others.

    `units` has the number of the unit of each row.
    """
    holdings = np.bincount(units)
    order = rng.permutation(len(holdings))
    wanted = np.isin(order, units[first])
    order = np.concatenate([order[wanted], order[~wanted]])
    return order[: int((np.cumsum(holdings[order]) <= most).sum())]


def resize_domain(domain: Domain, records: int, share: float) -> Domain:
    """Scale the public numbers to a part of the units: exactly if the unit is a record, else in proportion."""
    if domain.unit == "record":
        return domain.model_copy(update={"rows": records})
    persons = None if domain.persons is None else max(1, round(domain.persons * share))
    return domain.model_copy(update={"rows": max(1, round(domain.rows * share)), "persons": persons})


def draw_pool(clean: CleanData, most: int, rng: np.random.Generator) -> ShadowPool:
    """Draw an even number of units from all clean data: isolated persons first, then random others."""
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
    """Draw the units of each model, (2 pairs, units): a random half, then the other half."""
    chosen = np.zeros((2 * pairs, units), dtype=bool)
    for pair in range(pairs):
        chosen[2 * pair, rng.permutation(units)[: units // 2]] = True
        chosen[2 * pair + 1] = ~chosen[2 * pair]
    return chosen


@dataclass(frozen=True, eq=False)
class ShadowModels:
    """The log densities of the records of the pool under every model, and which models were fitted to them.

    Rows 2p and 2p + 1 are a pair: each record is inside one of the two models.
    """

    densities: np.ndarray  # (models, n), finite
    inside: np.ndarray  # (models, n) bool
    units: np.ndarray  # (n,)
    # The same as `densities` for the coordinates alone; None if the models have no attributes.
    coordinates: np.ndarray | None = None

    @cached_property
    def known(self) -> np.ndarray:
        """Log density in the model of each pair that was fitted to the record, (pairs, n)."""
        return np.where(self.inside[0::2], self.densities[0::2], self.densities[1::2])

    @cached_property
    def unknown(self) -> np.ndarray:
        """Log density in the model of each pair that was not fitted to the record, (pairs, n)."""
        return np.where(self.inside[0::2], self.densities[1::2], self.densities[0::2])

    def of(self, records: np.ndarray) -> "ShadowModels":
        """Select these records."""
        alone = None if self.coordinates is None else self.coordinates[:, records]
        return ShadowModels(self.densities[:, records], self.inside[:, records], self.units[records], alone)

    def of_coordinates(self) -> "ShadowModels | None":
        """Return the same models with the densities of the coordinates alone; None if they have no attributes."""
        if self.coordinates is None:
            return None
        return ShadowModels(self.coordinates, self.inside, self.units)

    @property
    def pairs(self) -> int:
        """Number of pairs of models."""
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
    """Fit `number` shadow models with the code of the real fit. Each has its own random stream."""
    inside = random_halves(pool.size, number // 2, rng)[:, pool.units]
    public = replace(spec, domain=resize_domain(spec.domain, pool.size // 2, pool.share))
    rngs = [randomness(model) for model in range(len(inside))]
    releases = run_many(mechanism, pool.records, list(inside), public, budget, rngs)
    models = [attacked_model(release.mixture, release.shares) for release in releases]
    found = [log_densities(model, pool.records.points, pool.records.codes, spec.domain) for model in models]
    coordinates, joint = (replace_underflow(np.array(each)) for each in zip(*found, strict=True))
    with_attributes = all(release.shares for release in releases)
    return ShadowModels(joint, inside, pool.units, coordinates if with_attributes else None)


def replace_underflow(densities: np.ndarray) -> np.ndarray:
    """Replace densities that underflow to zero by the smallest density that does not."""
    lowest = densities[np.isfinite(densities)].min(initial=0.0)
    return np.where(np.isfinite(densities), densities, lowest)
