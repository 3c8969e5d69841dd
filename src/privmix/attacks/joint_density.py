"""The joint density of coordinates and attributes: what attacks use if a model has shares of the attributes' values.

Noisy shares are often exactly 0. A record with such a value has density 0, whatever its coordinates are, and all these
records tie. The attacker therefore replaces shares below `SMALLEST_SHARE`, and coordinates decide again.

A record that lacks coordinates has the density of the others. Each that it lacks counts as one of uniform density on
the public box, so that densities of all records are comparable, and the uniform distribution is a common baseline.
"""

from collections.abc import Mapping

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.mixture.mixed import Codes, MixedMixture
from privmix.mixture.model import BLOCK, Mixture

SMALLEST_SHARE = 1e-6


def attacked_model(mixture: Mixture, shares: Mapping[str, np.ndarray]) -> MixedMixture:
    """Return the model as the attacker uses it: without shares below `SMALLEST_SHARE`."""
    raised = {name: np.maximum(values, SMALLEST_SHARE) for name, values in shares.items()}
    return MixedMixture(
        mixture, {name: each / each.sum(axis=1, keepdims=True) for name, each in raised.items()}
    )


def log_densities(
    model: MixedMixture, points: np.ndarray, codes: Codes, domain: Domain
) -> tuple[np.ndarray, np.ndarray]:
    """Compute log p(x) and log p(x, c) of each record, (n,) each, over all attributes of the model.

    Both take one pass over the components. Of complete records, the first equals `Mixture.log_density`, and the second
    `MixedMixture.log_density`.
    """
    absent = domain.absent(codes, len(points)) if domain.states else None
    logs = {name: np.log(shares) for name, shares in model.shares.items()}
    coordinates, both = np.empty(len(points)), np.empty(len(points))
    for first in range(0, len(points), BLOCK):
        part = slice(first, first + BLOCK)
        joint = np.ascontiguousarray(
            model.gaussians.log_joint(points[part], None if absent is None else absent[part]).T
        )
        coordinates[part] = _log_sum(joint)
        for name, values in logs.items():
            joint += values[:, codes[name][part]]
        both[part] = _log_sum(joint) if logs else coordinates[part]
    if absent is not None:
        uniform = absent @ -np.log(domain.upper - domain.lower)
        return coordinates + uniform, both + uniform
    return coordinates, both


def _log_sum(joint: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the sum over components, (K, n) to (n,)."""
    peak = joint.max(axis=0)
    peak[peak == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(joint - peak).sum(axis=0)))
