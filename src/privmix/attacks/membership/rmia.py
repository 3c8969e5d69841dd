"""The robust membership inference attack, RMIA (Zarifzadeh, Liu, Shokri 2024), on log densities.

A record's ratio p(x | target) / p(x) is compared with that of records z of the population; the score is the share of z
whose ratio it reaches (γ = 1). p(x) is what shadow models say on average, half of them fitted to the record. Here the
average is of log p: densities of a mixture span hundreds of orders of magnitude, so an average of p is that of its
largest term. The population is the pool itself: the attacker knows its records, and not who is in the target.
"""

import numpy as np

from privmix.attacks.membership.lira import shadow_statistics
from privmix.attacks.membership.shadows import ShadowModels
from privmix.privacy.hypothesis_testing import placements


def rmia_scores(shadows: ShadowModels) -> np.ndarray:
    """The share of the pool that each record's ratio beats in each target, (models, n)."""
    own = shadow_statistics(shadows)
    typical = np.repeat((own.inside + own.outside) / 2, 2, axis=0)
    return np.array([placements(ratio, ratio) for ratio in shadows.densities - typical])
