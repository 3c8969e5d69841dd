"""Records without coordinates: the table of all combinations of their values, and latent classes fitted to it.

A dataset may have attributes only. Its mixture is a latent class model: a class has shares of the values of each
attribute, and given the class the attributes are independent. All that it says about records is in the table of counts
by combination of values, one cell per combination. If the table is small, it is the best measurement: a record is in
one cell, so it costs as much as a single count, and the classes are fitted to it without a further measurement.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Spec
from privmix.mixture import mixed_em
from privmix.mixture.mixed import Codes
from privmix.mixture.mixed_em import MixedFit


def table_shape(domain: Domain, most: int) -> tuple[int, ...]:
    """Return the number of values of each attribute: the shape of the table, which has at most `most` cells."""
    shape = tuple(len(each.values) for each in domain.attributes)
    if math.prod(shape) > most:
        raise MechanismFailure(
            f"{domain.dataset} has no coordinates and {math.prod(shape):,} combinations of values, but a table has at "
            f"most {most:,} cells; leave out attributes, or merge values."
        )
    return shape


def find_cells(codes: Mapping[str, np.ndarray], domain: Domain) -> np.ndarray:
    """Return the cell of each record, (n,): the last attribute varies fastest."""
    shape = tuple(len(each.values) for each in domain.attributes)
    return np.ravel_multi_index([codes[each.name].astype(np.int64) for each in domain.attributes], shape)


def cell_codes(cells: np.ndarray, domain: Domain) -> dict[str, np.ndarray]:
    """Return the codes of the values of these cells."""
    shape = tuple(len(each.values) for each in domain.attributes)
    return {
        each.name: codes
        for each, codes in zip(domain.attributes, np.unravel_index(cells, shape), strict=True)
    }


def fit_classes(
    codes: Codes,
    counts: np.ndarray,
    spec: Spec,
    *,
    records: float,
    rng: np.random.Generator,
    searches: int,
) -> MixedFit:
    """Fit latent classes to combinations of values with positive counts: as many as requested, or the best candidate.

    The criterion is that of `base.best_fit`, which also says what `records` is. There are no more classes than
    combinations.
    """
    sizes = {each.name: len(each.values) for each in spec.domain.attributes}
    penalty = max(math.log(max(records, 1.0)) / 2, 1.0)

    def fit(number: int) -> MixedFit:
        found = (
            mixed_em.fit(
                np.empty((len(counts), 0)), codes, sizes, min(number, len(counts)), rng=rng, weights=counts
            )
            for _ in range(searches)
        )
        return max(found, key=lambda each: each.objective)

    def criterion(found: MixedFit) -> float:
        number = parameters(found.mixture.n_components, spec.domain)
        return records * found.log_likelihood - penalty * number

    if not spec.candidates:
        return fit(spec.n_components)
    best = max((fit(number) for number in spec.candidates), key=criterion)
    return replace(best, notes=(*best.notes, spec.choice_note(best.mixture.n_components)))


def parameters(classes: int, domain: Domain) -> int:
    """Return the number of free parameters of a latent class model."""
    return classes - 1 + classes * sum(len(each.values) - 1 for each in domain.attributes)
