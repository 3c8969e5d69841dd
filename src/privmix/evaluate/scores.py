"""All scores of one model file: likelihood, the loss attack, attribute inference, the worst record's place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.fitted import Fitted
from privmix.artefacts.model import ModelFile
from privmix.evaluate import attribute, membership, worst_record
from privmix.evaluate.delong import area
from privmix.evaluate.likelihood import mean_log_likelihood
from privmix.evaluate.people import numbered
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


def score(
    model: ModelFile, clean: CleanData, false_positive_rates: Sequence[float], rng: np.random.Generator
) -> Scores:
    """Score every replicate on the training and the held-out records."""
    values: list[Score] = []
    roc: list[tuple[float, float]] = []
    held_out = int((~clean.train).sum())
    notes = [
        f"{held_out} held-out records are too few to measure a false-positive rate of {rate:g}"
        for rate in false_positive_rates
        if held_out * rate < 1
    ]
    for fitted in model.models:
        mixture = mixture_of(fitted)
        members = mixture.log_density(clean.points[clean.train])
        others = mixture.log_density(clean.points[~clean.train])
        found = {"seconds_fit": fitted.seconds, **_likelihood(members, others, clean, model.privacy.unit)}
        found |= _loss_attack(members, others, clean, false_positive_rates) | _place(mixture, clean)
        roc = roc or membership.roc(members, others)
        values += [Score(fitted.replicate, name, value) for name, value in found.items()]
    if model.models:
        first, failure = model.models[0], attribute.impossible(clean)
        if failure is None:
            found = attribute.attack(mixture_of(first), clean, rng).metrics()
            values += [Score(first.replicate, name, value) for name, value in found.items()]
        else:
            notes.append(failure)
        if not len(clean.isolated_rows):
            notes.append(worst_record.NOBODY)
    return Scores(tuple(values), roc, notes)


def mixture_of(fitted: Fitted) -> Mixture:
    """The mixture that a model file holds."""
    return Mixture(*(np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances)))


def _likelihood(members: np.ndarray, others: np.ndarray, clean: CleanData, unit: str) -> dict[str, float]:
    mine, theirs = (
        (clean.person[clean.train], clean.person[~clean.train]) if unit == "person" else (None, None)
    )
    return {
        "holdout_loglik": mean_log_likelihood(others, theirs),
        "train_loglik": mean_log_likelihood(members, mine),
    }


def _loss_attack(
    members: np.ndarray, others: np.ndarray, clean: CleanData, rates: Sequence[float]
) -> dict[str, float]:
    """The records of one person belong together, whatever the unit."""
    whose = numbered(clean.person)
    reached = area(members, others, [(whose[clean.train], whose[~clean.train])])
    found = {
        "mia_loss_auc": reached.auc,
        "mia_loss_auc_low": reached.low,
        "mia_loss_auc_high": reached.high,
        "mia_loss_advantage": membership.advantage(members, others),
    }
    hits = {rate: membership.true_positive_rate(members, others, rate) for rate in rates}
    return found | {f"mia_loss_tpr_at_fpr_{rate:g}": hit for rate, hit in hits.items() if hit is not None}


def _place(mixture: Mixture, clean: CleanData) -> dict[str, float]:
    """How near the model comes to the first isolated person's place; of sensitive data nothing is told.

    Distances from the centres of a few models are a place: three circles meet there.
    """
    if not len(clean.isolated_rows) or clean.info.domain.visibility == "sensitive":
        return {}
    place, domain = clean.points[clean.isolated_rows[0]], clean.info.domain
    away = worst_record.distance_km(mixture, place, domain)
    if away is None:
        return {
            "worst_record_distance_resolutions": worst_record.distance_in_resolutions(mixture, place, domain)
        }
    return {"worst_record_distance_km": away}
