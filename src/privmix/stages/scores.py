"""All scores of one model file: likelihood, attacks on the model, and attacks that run its mechanism again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.artefacts.fitted import Fitted
from privmix.artefacts.model import ModelFile
from privmix.evaluate import attribute, worst_record
from privmix.evaluate.likelihood import likelihoods
from privmix.evaluate.loss import loss_attack
from privmix.evaluate.membership import roc
from privmix.evaluate.shadow_attacks import attack
from privmix.mixture.model import Mixture
from privmix.stages.job import Job


@dataclass(frozen=True)
class Score:
    """One number of one replicate."""

    replicate: int
    metric: str
    value: float


@dataclass(frozen=True)
class Scores:
    """The numbers, the ROC of the loss attack (first replicate) and of LiRA, and what could not be measured."""

    values: tuple[Score, ...] = ()
    roc: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lira_roc: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Reruns:
    """How often attacks run the mechanism again, and on how many records at most."""

    worst_record_runs: int
    worst_record_records: int
    shadows: int  # models; 0 leaves these attacks out
    shadow_records: int


def score(
    model: ModelFile, clean: CleanData, false_positive_rates: Sequence[float], rng: np.random.Generator
) -> Scores:
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
        mixture = mixture_of(fitted)
        members, others = (mixture.log_density(clean.points[side]) for side in (clean.train, ~clean.train))
        found = {"seconds_fit": fitted.seconds, **likelihoods(members, others, clean, model.privacy.unit)}
        found |= loss_attack(members, others, clean, false_positive_rates)
        if len(clean.isolated_rows):
            found |= worst_record.distance_metrics(mixture, clean)
        curve = curve or roc(members, others)
        values += [Score(fitted.replicate, *each) for each in found.items()]
    if model.models:
        first, failure = model.models[0], attribute.impossible(clean)
        if failure is None:
            found = attribute.attack(mixture_of(first), clean, rng).metrics()
            values += [Score(first.replicate, *each) for each in found.items()]
        else:
            notes.append(failure)
        if not len(clean.isolated_rows):
            notes.append(worst_record.NOBODY)
    return Scores(tuple(values), curve, notes)


def rerun_attacks(
    job: Job, clean: CleanData, false_positive_rates: Sequence[float], reruns: Reruns
) -> Scores:
    """Attacks on the mechanism of a job: the game on the most isolated person, and attacks with shadow models."""
    domain, metrics, notes, curve = clean.info.domain, {}, [], []
    target = (job.mechanism, clean, job.spec(domain), job.budget)
    if len(clean.isolated_rows):
        effort = (reruns.worst_record_runs, reruns.worst_record_records)
        streams = partial(job.randomness, domain, "worst record")
        metrics |= worst_record.attack(*target, *effort, streams).metrics()
    if reruns.shadows:
        effort = (reruns.shadows, reruns.shadow_records, false_positive_rates)
        found = attack(*target, *effort, partial(job.randomness, domain, "shadow"))
        metrics, notes, curve = metrics | found.metrics, found.notes, found.roc
    return Scores(tuple(Score(0, *each) for each in metrics.items()), notes=notes, lira_roc=curve)


def mixture_of(fitted: Fitted) -> Mixture:
    """The mixture that a model file holds."""
    return Mixture(*(np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances)))
