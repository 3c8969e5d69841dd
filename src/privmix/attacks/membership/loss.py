"""The loss attack (Yeom et al. 2018): the score of a record is its log density under the model."""

from collections.abc import Sequence

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.privacy.hypothesis_testing import advantage, auc_with_interval, true_positive_rate


def loss_attack(
    members: np.ndarray, others: np.ndarray, clean: CleanData, rates: Sequence[float]
) -> dict[str, float]:
    """Compute the metrics of the attack from the log densities of training and held-out records.

    The interval treats the records of a person as one group, for any privacy unit.
    """
    whose = number_persons(clean.person)
    return membership_metrics("loss", members, others, [(whose[clean.train], whose[~clean.train])], rates)


def membership_metrics(
    attack: str,
    members: np.ndarray,
    others: np.ndarray,
    groups: Sequence[tuple[np.ndarray, np.ndarray]],
    rates: Sequence[float],
) -> dict[str, float]:
    """Compute the results of a membership attack, by metric. `groups` marks scores that depend on each other.

    A false-positive rate is left out if there are too few scores of others to measure it.
    """
    reached = auc_with_interval(members, others, groups)
    hits = {rate: true_positive_rate(members, others, rate) for rate in rates}
    return {
        f"mia_{attack}_auc": reached.auc,
        f"mia_{attack}_auc_low": reached.low,
        f"mia_{attack}_auc_high": reached.high,
        f"mia_{attack}_advantage": advantage(members, others),
        **{f"mia_{attack}_tpr_at_fpr_{rate:g}": hit for rate, hit in hits.items() if hit is not None},
    }
