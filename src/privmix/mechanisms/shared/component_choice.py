"""The choice of the number of components, for mechanisms that need the number before they measure anything.

If the configuration lists several numbers of components, one must be chosen. A mechanism that fits a mixture to its own
measurements or to reports chooses among its fits at no cost (`base.best_fit`). The other mechanisms need the number
before they measure anything. For them `choose_components` spends a part of the budget.

`choose_components` assigns the units (records, or persons with all their records) to blocks at random. A block fits
every candidate to one half of its records and scores it on the other half. The score is 1 minus the loss. The loss is
how far the log-density per record is below that of the best candidate, capped at LARGEST_LOSS. The scores of all blocks
are added up, and the exponential mechanism chooses.

Privacy. Give two neighbouring datasets the same draws for the units that they share (`noise.partition`). They differ in
one block, whether a unit is added, removed or replaced, and whatever its number of complete records (only these are
scored). A block uses only its own records, public values and randomness that is independent of the records. So only the
scores of one block change, each by at most 1. Scores are rounded to whole steps of a lattice that contains 0 and 1, and
are added as integers, so the rounding of a sum adds nothing. The sums therefore have sensitivity 1, and the choice is
ε-DP (`privacy.selection`; the scores are not monotonic). The number of blocks follows from public numbers: the largest
number that leaves each block enough records for the largest candidate, but at most MOST_BLOCKS.

A block is smaller than the dataset, so the choice tends to few components. Fewer components also mean less noise. With
few blocks the choice is nearly random, and the notes of the model say so.
"""

import math
from dataclasses import dataclass

import numpy as np

from privmix.mechanisms.base import Records, Spec
from privmix.mixture import em
from privmix.mixture.model import Mixture
from privmix.privacy import noise, selection
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

LARGEST_LOSS = 1.0  # nats per record; larger losses count the same
RECORDS_A_PARAMETER = 4  # in a block; half of them for the fit
MOST_BLOCKS = 200
STARTS, TOLERANCE, ITERATIONS = 2, 1e-3, 100  # a rough fit is enough to compare candidates


@dataclass(frozen=True)
class ComponentCount:
    """The chosen number of components, and notes about the choice for readers."""

    number: int
    notes: tuple[str, ...]


def block_count(spec: Spec) -> int:
    """Return the number of blocks, from public numbers."""
    d = len(spec.domain.axes)
    parameters = max(spec.candidates) * (1 + d + d * (d + 1) // 2)
    return max(1, min(MOST_BLOCKS, spec.domain.rows // (RECORDS_A_PARAMETER * parameters)))


def choose_components(
    view: Records,
    spec: Spec,
    neighbours: Neighbours,
    *,
    epsilon: float,
    source: noise.NoiseSource,
    search: np.random.Generator,
    ledger: Ledger,
) -> ComponentCount:
    """Choose one of the candidates by the exponential mechanism at this epsilon."""
    points, units = spec.inside(view.points), view.units(neighbours.unit)
    number = block_count(spec)
    block = noise.partition(int(units.max(initial=-1)) + 1, number, source=source)
    of_blocks = [
        score_candidates(points[block[units] == own], units[block[units] == own], spec, stream)
        for own, stream in zip(range(number), search.spawn(number), strict=True)
    ]
    scores = noise.exact_sum([(np.stack(of_blocks), None)], len(spec.candidates))
    option = selection.exponential(
        scores, sensitivity=1.0, epsilon=epsilon, source=source, ledger=ledger, label="number of Gaussians"
    )
    chosen = spec.candidates[option]
    notes = [spec.choice_note(chosen)]
    if expected_loss(spec, epsilon) > LARGEST_LOSS / 2:
        notes.append(
            f"This choice is nearly random: {number} {'block' if number == 1 else 'blocks'} of records cannot tell the "
            f"candidates apart at ε = {epsilon:g}."
        )
    return ComponentCount(chosen, tuple(notes))


def expected_loss(spec: Spec, epsilon: float) -> float:
    """Return an upper bound on the average loss of the choice: 2 ln(candidates) / ε over the number of blocks.

    In nats per record. Dwork and Roth 2014, Corollary 3.12 with t = 0, in units of the largest loss.
    """
    return 2 * math.log(len(spec.candidates)) / epsilon / block_count(spec) * LARGEST_LOSS


def score_candidates(
    points: np.ndarray, units: np.ndarray, spec: Spec, search: np.random.Generator
) -> np.ndarray:
    """Score each candidate on one block, in [0, 1]; 0 for a candidate that the block is too small to fit."""
    order = np.unique(units, return_inverse=True)[1]
    training, held_out = points[order % 2 == 0], points[order % 2 == 1]
    densities = np.full(len(spec.candidates), -np.inf)
    if len(held_out):
        for option, number in enumerate(spec.candidates):
            if number <= len(training):
                densities[option] = _fit_block(training, number, spec, search).log_density(held_out).mean()
    best = densities.max()
    if not np.isfinite(best):
        return np.zeros(len(densities))
    return 1.0 - np.minimum(best - densities, LARGEST_LOSS) / LARGEST_LOSS


def _fit_block(points: np.ndarray, number: int, spec: Spec, search: np.random.Generator) -> Mixture:
    return em.fit(
        points,
        number,
        floor=spec.floor,
        rng=search,
        starts=STARTS,
        relocations=0,
        tol=TOLERANCE,
        max_iter=ITERATIONS,
    ).mixture
