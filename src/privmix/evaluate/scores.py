"""All scores of one model file: likelihood, membership inference, and the worst record."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmix.artefacts import CleanData, ModelFile
from privmix.evaluate import membership, worst_record
from privmix.evaluate.likelihood import mean_log_likelihood
from privmix.mixture.model import Mixture


@dataclass(frozen=True)
class Score:
    """One number of one replicate."""

    replicate: int
    metric: str
    value: float


@dataclass(frozen=True)
class Scores:
    """The numbers, the first replicate's ROC, and what could not be measured, in sentences."""

    values: tuple[Score, ...]
    roc: list[tuple[float, float]]
    notes: list[str]


def score(model: ModelFile, clean: CleanData, false_positive_rates: Sequence[float]) -> Scores:
    """Score every replicate on the training and the held-out records."""
    values: list[Score] = []
    roc: list[tuple[float, float]] = []
    person = clean.person if model.privacy.unit == "person" else None
    for fitted in model.models:
        mixture = Mixture(*(np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances)))
        members = mixture.log_density(clean.points[clean.train])
        others = mixture.log_density(clean.points[~clean.train])
        found = {
            "holdout_loglik": mean_log_likelihood(others, None if person is None else person[~clean.train]),
            "train_loglik": mean_log_likelihood(members, None if person is None else person[clean.train]),
            "mia_loss_auc": membership.auc(members, others),
            "worst_record_distance_km": _distance(mixture, clean),
            "seconds_fit": fitted.seconds,
        }
        for rate in false_positive_rates:
            found[f"mia_loss_tpr_at_fpr_{rate:g}"] = membership.true_positive_rate(members, others, rate)
        roc = roc or membership.roc(members, others)
        values += [Score(fitted.replicate, name, value) for name, value in found.items() if value is not None]
    held_out = int((~clean.train).sum())
    notes = [
        f"{held_out} held-out records are too few to measure a false-positive rate of {rate:g}"
        for rate in false_positive_rates
        if held_out * rate < 1
    ]
    return Scores(tuple(values), roc, notes)


def _distance(mixture: Mixture, clean: CleanData) -> float | None:
    if not len(clean.isolated_rows):
        return None
    return worst_record.distance_km(mixture, clean.points[clean.isolated_rows[0]], clean.info.domain)
