"""All scores of one model file: likelihood, attacks and timing, with notes on what could not be measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.model import ModelFile
from privmix.attacks import attribute
from privmix.attacks.membership import worst_record
from privmix.attacks.membership.loss import loss_attack
from privmix.attacks.membership.shadow_attacks import attack_with_shadows
from privmix.evaluate.likelihood import likelihoods
from privmix.mechanisms.run import MechanismJob
from privmix.mixture.model import Mixture
from privmix.privacy.hypothesis_testing import roc_curve


@dataclass(frozen=True)
class Score:
    """One metric of one replicate."""

    replicate: int
    metric: str
    value: float


@dataclass(frozen=True)
class ModelScores:
    """The scores, the ROC of the loss attack (first replicate) and of LiRA, and notes on what was not measured."""

    values: tuple[Score, ...] = ()
    roc: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lira_roc: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Reruns:
    """How often attacks rerun the mechanism, and on how many records at most."""

    worst_record_runs: int
    worst_record_records: int
    shadows: int  # number of shadow models; 0 skips these attacks
    shadow_records: int


def score_model(
    model: ModelFile, clean: CleanData, false_positive_rates: Sequence[float], rng: np.random.Generator
) -> ModelScores:
    """Score every replicate on the training and the held-out records."""
    values: list[Score] = []
    curve: list[tuple[float, float]] = []
    held_out = int((~clean.train).sum())
    notes = [
        f"{held_out} held-out records are too few to measure a false-positive rate of {rate:g}"
        for rate in false_positive_rates
        if held_out * rate < 1
    ]
    for fitted in model.models:
        mixture = stored_mixture(fitted)
        members, others = (mixture.log_density(clean.points[side]) for side in (clean.train, ~clean.train))
        found = {"seconds_fit": fitted.seconds, **likelihoods(members, others, clean, model.privacy.unit)}
        found |= loss_attack(members, others, clean, false_positive_rates)
        if len(clean.isolated_rows):
            found |= worst_record.distance_metrics(mixture, clean)
        curve = curve or roc_curve(members, others)
        values += [Score(fitted.replicate, *each) for each in found.items()]
    if model.models:
        first, failure = model.models[0], attribute.reason_not_measured(clean)
        if failure is None:
            found = attribute.infer_attributes(stored_mixture(first), clean, rng).metrics()
            values += [Score(first.replicate, *each) for each in found.items()]
        else:
            notes.append(failure)
        if not len(clean.isolated_rows):
            notes.append(worst_record.NO_ISOLATED_PERSON)
    return ModelScores(tuple(values), curve, notes)


def rerun_attacks(
    job: MechanismJob, clean: CleanData, false_positive_rates: Sequence[float], reruns: Reruns
) -> ModelScores:
    """Attack the mechanism of a job: the game on the most isolated person, and attacks with shadow models."""
    domain = clean.info.domain
    metrics: dict[str, float] = {}
    notes: list[str] = []
    curve: list[tuple[float, float]] = []
    target = (job.mechanism, clean, job.spec(domain), job.budget)
    if len(clean.isolated_rows):
        runs, most = reruns.worst_record_runs, reruns.worst_record_records
        streams = partial(job.randomness, domain, "worst record")
        metrics |= worst_record.attack_worst_record(*target, runs, most, streams).metrics()
    if reruns.shadows:
        streams = partial(job.randomness, domain, "shadow")
        shadows, most = reruns.shadows, reruns.shadow_records
        found = attack_with_shadows(*target, shadows, most, false_positive_rates, streams)
        metrics, notes, curve = metrics | found.metrics, found.notes, found.roc
    return ModelScores(tuple(Score(0, *each) for each in metrics.items()), notes=notes, lira_roc=curve)


def stored_mixture(fitted: FittedModel) -> Mixture:
    """Return the mixture of a stored model."""
    return Mixture(*(np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances)))
