"""Attacks: what a model tells about its training records, and how much ε allows.

>>> import numpy as np
>>> from privmix.attacks import auc_ceiling, membership_attack
>>> round(auc_ceiling(epsilon=1.0, delta=0.0), 3)  # no test of one neighbouring dataset against the other exceeds it
0.731

`membership_attack(model, members, others)` runs the loss attack on any model with `score_samples`: a record that the
model finds likely is guessed to be in the training data. `auc_ceiling` and `tpr_ceiling` are the limits that (ε, δ)
sets to every test of two neighbouring datasets. `swap_auc_ceiling` is the limit if one record is swapped for another:
under relation "add_remove" a swap is two steps and costs up to twice ε.
"""

from typing import TYPE_CHECKING

from privmix import lazy_names

if TYPE_CHECKING:
    from privmix.attacks.limits import auc_ceiling, swap_auc_ceiling, tpr_ceiling
    from privmix.attacks.membership.loss import MembershipRisk, membership_attack

__all__ = ["MembershipRisk", "auc_ceiling", "membership_attack", "swap_auc_ceiling", "tpr_ceiling"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MembershipRisk": "membership.loss",
        "auc_ceiling": "limits",
        "membership_attack": "membership.loss",
        "swap_auc_ceiling": "limits",
        "tpr_ceiling": "limits",
    },
)
