"""The loss attack (Yeom et al. 2018): the score of a record is its log density under the model.

If the model has attributes, the density is that of coordinates and attributes together: the guarantee covers the whole
record, and a leak through the attributes alone must show. The attack on the coordinates alone is reported beside it
(`mia_loss_coordinates_*`). Neither is always stronger: values of attributes that tell nothing about membership only add
spread. The larger of two estimates would be too large by chance, so no metric takes the maximum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privmix.artefacts.clean import CleanData, number_persons
from privmix.errors import UserError
from privmix.privacy.hypothesis_testing import advantage, auc_with_interval, true_positive_rate


class ScoresSamples(Protocol):
    """A density model with the interface of scikit-learn."""

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """Return the log density of each row."""


@dataclass(frozen=True)
class MembershipRisk:
    """How well the loss attack tells training records from others."""

    auc: float  # 0.5 is guessing
    auc_interval: tuple[float, float]  # 95 %
    advantage: float  # true-positive rate minus false-positive rate, at best
    tpr_at_fpr: Mapping[float, float]  # true-positive rate at small false-positive rates


def membership_attack(
    model: ScoresSamples,
    members: np.ndarray,
    others: np.ndarray,
    *,
    false_positive_rates: Sequence[float] = (0.001, 0.01),
) -> MembershipRisk:
    """Run the loss attack (Yeom et al. 2018) on a fitted model.

    Parameters
    ----------
    model : object with `score_samples`
        For instance a `PrivateGaussianMixture`, or scikit-learn's `GaussianMixture` or `KernelDensity`.
    members, others : array-like of shape (n, n_features)
        Records that the model was trained on, and records of the same population that it was not.
    false_positive_rates : sequence of float
        Where to report the true-positive rate. Rates that the number of others is too small for are left out.
    """
    if not all(0 < rate < 1 for rate in false_positive_rates):
        raise UserError(f"false_positive_rates = {false_positive_rates!r} must lie between 0 and 1.")
    scores = [np.asarray(model.score_samples(part), dtype=np.float64) for part in (members, others)]
    if any(len(part) < 2 for part in scores):
        raise UserError("a membership attack needs at least two members and two other records.")
    own = (
        np.arange(len(scores[0])),
        len(scores[0]) + np.arange(len(scores[1])),
    )  # every record is its own person
    metrics = membership_metrics("loss", scores[0], scores[1], [own], false_positive_rates)
    hits = {rate: metrics.get(f"mia_loss_tpr_at_fpr_{rate:g}") for rate in false_positive_rates}
    return MembershipRisk(
        metrics["mia_loss_auc"],
        (metrics["mia_loss_auc_low"], metrics["mia_loss_auc_high"]),
        metrics["mia_loss_advantage"],
        {rate: hit for rate, hit in hits.items() if hit is not None},
    )


def loss_attack(
    members: np.ndarray, others: np.ndarray, clean: CleanData, rates: Sequence[float], name: str = "loss"
) -> dict[str, float]:
    """Compute the metrics of the attack from the log densities of training and held-out records.

    The interval treats the records of a person as one group, for any privacy unit.
    """
    whose = number_persons(clean.person)
    return membership_metrics(name, members, others, [(whose[clean.train], whose[~clean.train])], rates)


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
