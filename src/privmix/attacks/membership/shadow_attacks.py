"""All attacks with shadow models, by name: their success on average and on the worst record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from privmix.artefacts.clean import CleanData
from privmix.attacks.membership import learned, lira, rmia
from privmix.attacks.membership.loss import membership_metrics
from privmix.attacks.membership.shadows import (
    LEAST_PAIRS,
    LEAST_UNITS,
    ShadowModels,
    ShadowPool,
    draw_pool,
    fit_shadows,
)
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Mechanism, Randomness, Spec
from privmix.privacy.accounting import Budget
from privmix.privacy.hypothesis_testing import roc_curve

MOST_SCORES = (
    500_000  # over all models; more do not narrow the interval, which depends on the number of models
)
# Each attack returns a score for each record, with each model as the target, (models, n).
ATTACKS: dict[str, Callable[[ShadowModels, np.random.Generator], np.ndarray]] = {
    "lira": lambda shadows, rng: lira.online_scores(shadows),
    "lira_offline": lambda shadows, rng: lira.offline_scores(shadows),
    "rmia": lambda shadows, rng: rmia.rmia_scores(shadows),
    "learned": learned.learned_scores,
}


@dataclass(frozen=True)
class ShadowAttackScores:
    """The results of attacks with shadow models: numbers by metric, the ROC curve of LiRA, and notes."""

    metrics: dict[str, float] = field(default_factory=dict)
    roc: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def attack_with_shadows(
    mechanism: Mechanism,
    clean: CleanData,
    spec: Spec,
    budget: Budget,
    number: int,
    most: int,
    rates: Sequence[float],
    randomness: Callable[..., Randomness],
) -> ShadowAttackScores:
    """Fit `number` shadow models to halves of a pool of at most `most` records, and attack each of them.

    `randomness` returns the random stream of a purpose. The purpose of a shadow model is its number.
    """
    choices = randomness("pool").search
    pool = draw_pool(clean, most, choices)
    refusal = reason_not_measured(pool, number)
    if refusal:
        return ShadowAttackScores(notes=[refusal])
    try:
        shadows = fit_shadows(mechanism, pool, spec, budget, number, randomness, choices)
    except MechanismFailure as error:
        return ShadowAttackScores(notes=[f"no shadow model could be fitted: {str(error).rstrip('.')}"])
    found = measure_attacks(shadows, rates, choices)
    return replace(found, notes=[_basis_note(shadows, clean), *found.notes])


def _basis_note(shadows: ShadowModels, clean: CleanData) -> str:
    """Describe the data behind the numbers in a note."""
    models, records = 2 * shadows.pairs, shadows.densities.shape[1]
    words = (
        f"attacks with shadow models use {models} models, each fitted to half of {records} of the "
        f"{len(clean.points)} records; the AUC of a single record uses {shadows.pairs} models with it and "
        f"{shadows.pairs} without"
    )
    fewer = records / 2 < clean.train.sum() / 2
    return f"{words}; a model of fewer records leaks more about each record" if fewer else words


def reason_not_measured(pool: ShadowPool, number: int) -> str | None:
    """Return a sentence that says why `number` shadow models or this pool are too few, or None if they are enough."""
    if number < 2 * LEAST_PAIRS:
        models = "1 shadow model is" if number == 1 else f"{number} shadow models are"
        return (
            f"{models} too few to measure an attack; set evaluation.shadows to {2 * LEAST_PAIRS} or more, "
            "or to 0 to skip these attacks"
        )
    if pool.size < LEAST_UNITS:
        return (
            f"a pool of {pool.size} is too small for attacks with shadow models, which need {LEAST_UNITS}; "
            "raise evaluation.shadow_records, or use more data"
        )
    return None


def measure_attacks(
    shadows: ShadowModels, rates: Sequence[float], rng: np.random.Generator
) -> ShadowAttackScores:
    """Measure every attack, and LiRA also on the coordinates alone if the models have attributes.

    Averages use at most `MOST_SCORES` scores; the worst record is that of the whole pool.
    """
    found: dict[str, float] = {}
    curve: list[tuple[float, float]] = []
    each = record_aucs(shadows)
    found |= {
        "mia_lira_worst_record_auc": float(each.max()),
        "mia_lira_p99_record_auc": float(np.quantile(each, 0.99)),
        "mia_lira_worst_record_chance": worst_auc_without_leak(shadows.pairs, len(each)),
    }
    shadows = shadows.of(rng.permutation(len(each))[: MOST_SCORES // len(shadows.inside)])
    mask, models = shadows.inside, np.arange(len(shadows.inside))[:, None]
    units = np.broadcast_to(shadows.units, mask.shape)
    pair = np.broadcast_to(models // 2, mask.shape)
    groups = [(units[mask], units[~mask]), (pair[mask], pair[~mask])]
    for name, attack in ATTACKS.items():
        scores = attack(shadows, rng)
        members, others = scores[mask], scores[~mask]
        found |= membership_metrics(name, members, others, groups, rates)
        if name == "lira":
            curve = roc_curve(members, others)
    alone = shadows.of_coordinates()
    if alone is not None:
        scores = lira.online_scores(alone)
        found |= membership_metrics("lira_coordinates", scores[mask], scores[~mask], groups, rates)
    outside = int((~mask).sum())
    notes = [
        f"{outside} scores of records outside shadow models are too few to measure a false-positive rate of {rate:g}"
        for rate in rates
        if outside * rate < 1
    ]
    return ShadowAttackScores(found, curve, notes)


def record_aucs(shadows: ShadowModels) -> np.ndarray:
    """Compute, for each record, how well its log density tells models fitted to it from the others, (n,).

    Each record has its own threshold, so this is LiRA on one record. Each side has as many models as there are pairs.
    """
    above = sum(
        ((known > shadows.unknown) + (known == shadows.unknown) / 2).sum(axis=0) for known in shadows.known
    )
    return above / shadows.pairs**2


def worst_auc_without_leak(pairs: int, records: int) -> float:
    """Compute a bound that the AUC of the worst record stays below in 95 % of cases if the models leak nothing.

    It takes the Mann-Whitney statistic as normal with variance (2m + 1) / (12 m²), and all records as independent
    (Bonferroni).
    """
    spread = ((2 * pairs + 1) / (12 * pairs**2)) ** 0.5
    return min(1.0, 0.5 + spread * NormalDist().inv_cdf(1 - 0.05 / max(records, 1)))
