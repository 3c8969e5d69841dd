"""Noisy tree: halves the public box repeatedly where many records lie, then fits a mixture to the noisy counts.

Privacy. Cuts, roots, depth, threshold and noise scales are functions of public values (box, resolution, the catalog's
number of records, ε). First `privacy.privtree.decompose` measures the shape of the tree with `shape_share` of ε. Its
docstring has the proof (PrivTree, Zhang, Xiao, Xie 2016), for a record added or removed, replaced, and for persons.
Given the shape, the leaves are a partition. So the counts of records in them are a histogram of sensitivity
`privacy.sensitivity.counts` (a record is in one leaf; the records of a person are in at most m). They are measured with
Laplace noise (Dwork, McSherry, Nissim, Smith 2006) at the rest of ε, for all leaves, including empty ones. The shape is
an earlier measurement, so this is adaptive basic composition of two pure measurements: ε in all, δ = 0. With `noise:
gaussian` the counts are one Gaussian measurement at the rest of ε and all of δ (Balle, Wang 2018), and the same
composition gives (ε, δ). Everything after it is post-processing: non-negative counts (`allocate_downwards`), the fit to
boxes, its searches. If all records contribute and replace-one makes N public, the counts are made to add up to it.
Otherwise nothing uses N but the catalog's number.

When to use it: for up to three coordinates and any ε. It is the most accurate mechanism here for places. For more
coordinates use `noisy_moments`: a tree has too many boxes there. Laplace noise is smaller in all settings here, because
one unit can put all its records into one leaf. The Gaussian variant is for comparison.

Approximations. Records are taken to be spread within their leaf as `mixture.boxes` describes. The expected records of a
root and the halving of single axes were chosen by held-out likelihood on the Gowalla and Minneapolis data.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms.base import Records, Spec, mechanism_dataclass
from privmix.mechanisms.shared.partitions import Bisection, bisect_to_resolution
from privmix.mechanisms.shared.synopsis_mechanism import SynopsisMechanism
from privmix.privacy import noise, sensitivity
from privmix.privacy.accounting import Budget, gaussian_mu
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.privtree import TreeShape, count_within, decompose, path_loss
from privmix.privacy.sensitivity import Neighbours

MOST_DIMENSIONS = 3
# More roots are more empty leaves, and each empty leaf can keep some of its noise. Chosen on simulated mixtures at
# ε = 1: held-out scores of 3 to 8 levels are equal within an interval, the error of the covariance is least at 3 to 5.
MOST_ROOT_LEVELS = 5
RECORDS_PER_ROOT = 16.0  # expected records of a root, in units of the noise scale of its score
LEAST_PART = 50_000  # a part with less than this fraction (1 / LEAST_PART) of the records is not split


@mechanism_dataclass
class NoisyTree(SynopsisMechanism):
    """`shape_share`: the part of ε for the shape. The other parameters are those of `SynopsisMechanism`."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS

    noise: Literal["laplace", "gaussian"] = "laplace"
    shape_share: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def measure_counts(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Measure the shape of the tree first, then the noisy count of each leaf."""
        neighbours = self.relation(spec)
        halving = _bisection(spec)
        for_shape, for_counts = self.split(budget)
        ordered = np.sort(halving.codes(spec.inside(view.points)))
        shape = decompose(
            ordered,
            depth=halving.depth,
            first=root_levels(spec, neighbours, for_shape, halving.depth),
            threshold=spec.domain.rows // LEAST_PART,
            neighbours=neighbours,
            epsilon=for_shape,
            source=source,
            ledger=ledger,
            label="tree",
        )
        counts = count_within(ordered, halving.depth, *shape.leaves())
        reach = sensitivity.counts(neighbours)
        common: dict[str, Any] = {
            "source": source,
            "ledger": ledger,
            "label": "leaf counts",
            "coordinates": min(len(counts), round(reach.l1)),
        }
        if self.noise == "laplace":
            noisy = noise.laplace(counts, sensitivity=reach.l1, epsilon=for_counts, **common)
        else:
            noise_multiplier = 1 / gaussian_mu(for_counts, budget.delta)
            noisy = noise.gaussian(counts, sensitivity=reach.l2, noise_multiplier=noise_multiplier, **common)
        return {"roots": shape.first, "splits": shape.packed()}, noisy

    def boxes(self, released: dict[str, Any], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of the leaves."""
        return _bisection(spec).boxes(*self.shape(released).leaves())

    def locate(self, released: dict[str, Any], spec: Spec, points: np.ndarray) -> np.ndarray:
        """Return the leaf of each point, in the order of the counts."""
        halving = _bisection(spec)
        codes, depths = self.shape(released).leaves()
        first = codes << (halving.depth - depths)
        order = np.argsort(first)
        found = np.searchsorted(first[order], halving.codes(spec.inside(points)), side="right")
        return np.asarray(order[found - 1])

    def shape(self, released: dict[str, Any]) -> TreeShape:
        """Return the tree of such a partition."""
        return TreeShape.unpacked(released["roots"], released["splits"])

    def split(self, budget: Budget) -> tuple[float, float]:
        """Return the ε of the shape and the ε of the counts."""
        if self.noise == "gaussian" and budget.delta == 0:
            raise UserError(
                "noisy_tree: `noise: gaussian` needs delta > 0; set `delta`, for example to 1e-6."
            )
        for_shape = self.shape_share * budget.epsilon
        return for_shape, budget.epsilon - for_shape

    def deviation(self, neighbours: Neighbours, budget: Budget) -> float:
        """Return the standard deviation of the noise in one count."""
        reach, epsilon = sensitivity.counts(neighbours), self.split(budget)[1]
        if self.noise == "laplace":
            return math.sqrt(2) * reach.l1 / epsilon
        return reach.l2 / gaussian_mu(epsilon, budget.delta)


def root_levels(spec: Spec, neighbours: Neighbours, epsilon: float, depth: int) -> int:
    """Return the number of levels that are always split: at equal counts, a root would still be split."""
    roots = spec.domain.rows / (RECORDS_PER_ROOT * path_loss(neighbours) / epsilon)
    return int(np.clip(math.floor(math.log2(max(roots, 1.0))), 0, min(MOST_ROOT_LEVELS, depth)))


def _bisection(spec: Spec) -> Bisection:
    dimensions = len(spec.domain.axes)
    if dimensions > MOST_DIMENSIONS:
        raise MechanismFailure(
            f"a private tree works for up to {MOST_DIMENSIONS} coordinates, but {spec.domain.dataset} has "
            f"{dimensions}; use `noisy_moments` instead."
        )
    return bisect_to_resolution(spec.domain.lower, spec.domain.upper, spec.domain.resolution)
