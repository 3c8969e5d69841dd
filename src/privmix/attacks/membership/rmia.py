"""The robust membership inference attack, RMIA (Zarifzadeh, Liu, Shokri 2024), on log densities.

The attack compares the ratio p(x | target) / p(x) of a record with that of records z of the population. The score is
the share of z whose ratio it reaches (γ = 1). p(x) is the average over shadow models, half of which are fitted to the
record. Here it is the average of log p: densities of a mixture span hundreds of orders of magnitude, so the largest
term dominates an average of p. The population is the pool itself: the attacker knows its records, but not which of
them the target was fitted to.
"""

import numpy as np

from privmix.attacks.membership.lira import shadow_statistics
from privmix.attacks.membership.shadows import ShadowModels
from privmix.privacy.hypothesis_testing import placements


def rmia_scores(shadows: ShadowModels) -> np.ndarray:
    """Compute the share of the pool whose ratio each record reaches in each target, (models, n)."""
    own = shadow_statistics(shadows)
    typical = np.repeat((own.inside + own.outside) / 2, 2, axis=0)
    return np.array([placements(ratio, ratio) for ratio in shadows.densities - typical])
