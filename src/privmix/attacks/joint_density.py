"""The joint density of coordinates and attributes: what attacks use if a model has shares of the attributes' values.

Noisy shares are often exactly 0. A record with such a value has density 0, whatever its coordinates are, and all these
records tie. The attacker therefore replaces shares below `SMALLEST_SHARE`, and coordinates decide again.
"""

from collections.abc import Mapping

import numpy as np

from privmix.mixture.mixed import Codes, MixedMixture
from privmix.mixture.model import Mixture

SMALLEST_SHARE = 1e-6
BLOCK = 2**15  # records per step, which limits memory


def attacked_model(mixture: Mixture, shares: Mapping[str, np.ndarray]) -> MixedMixture:
    """Return the model as the attacker uses it: without shares below `SMALLEST_SHARE`."""
    raised = {name: np.maximum(values, SMALLEST_SHARE) for name, values in shares.items()}
    return MixedMixture(
        mixture, {name: each / each.sum(axis=1, keepdims=True) for name, each in raised.items()}
    )


def joint_log_density(model: MixedMixture, points: np.ndarray, codes: Codes) -> np.ndarray:
    """Compute log p(x, c) of each record, (n,), over all attributes of the model."""
    density = np.empty(len(points))
    for first in range(0, len(points), BLOCK):
        part = slice(first, first + BLOCK)
        density[part] = model.log_density(points[part], {name: codes[name][part] for name in model.shares})
    return density
