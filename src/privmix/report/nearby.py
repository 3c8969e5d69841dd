"""Mechanisms that hide a place among those nearby: their ε is for a distance, so they have a table of their own.

Between any two records they are private at an ε that is as many times larger as the public box is wider than the
distance. That one, and not the ε of the sweep, stands beside the ε of other mechanisms and limits an attacker who may
compare any two records.
"""

from dataclasses import dataclass

from privmix.evaluate.limits import swap_ceiling
from privmix.privacy.ledger import PlanarLaplace, from_rows
from privmix.report.alarm import broken_claims
from privmix.report.frames import Scores
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import distance, plus_minus, rate, rounded


@dataclass(frozen=True)
class NearbyRow:
    """One mechanism at one ε: near and far, what it costs and what attackers reach."""

    mechanism: str
    epsilon: float
    within: str
    radius: str
    anywhere: str
    gap: str
    auc: str
    worst: str
    worst_ceiling: str
    broken: bool


def nearby_rows(run: Run, scores: Scores, dataset: str) -> list[NearbyRow]:
    """Every such model with a result."""
    return [
        _row(run, scores, outcome)
        for outcome in run.of(dataset)
        if not outcome.comparable and outcome.failure is None
    ]


def _row(run: Run, scores: Scores, outcome: Outcome) -> NearbyRow:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)
    privacy = outcome.model.privacy
    noise = next(event for event in from_rows(privacy.ledger) if isinstance(event, PlanarLaplace))
    worst = scores.values(*key, "mia_worst_record_auc")
    return NearbyRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        within=distance(noise.within_m / 1000),
        radius=distance(noise.radius_m / 1000),
        anywhere=rounded(outcome.limiting_epsilon),
        gap=plus_minus(scores.estimate(*key, "holdout_gap")),
        auc=plus_minus(scores.estimate(*key, "mia_loss_auc"), rate),
        worst=rate(worst[0]) if worst else "–",
        worst_ceiling=rate(swap_ceiling(outcome.limiting_epsilon, privacy.delta, privacy.relation)),
        broken=bool(broken_claims(run, scores, outcome)),
    )
