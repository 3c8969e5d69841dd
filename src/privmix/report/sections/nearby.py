"""The nearby section: mechanisms that hide a place among those nearby.

Their ε is for a distance, so they have a table of their own. Between any two records they are private at an ε that is
as many times larger as the public box is wider than the distance. That one, and not the ε of the sweep, stands beside
the ε of other mechanisms and limits an attacker who may compare any two records.
"""

from dataclasses import dataclass

from privmix.privacy.ledger import PlanarLaplace, from_rows
from privmix.report.format import distance, plus_minus, rate, three_digits
from privmix.report.guarantee import auc_ceiling
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.worst_record import broken_claims


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


@dataclass(frozen=True)
class NearbyModels:
    """Such models of one dataset."""

    name: str
    title: str
    person: str | None  # the most exposed one
    rows: tuple[NearbyRow, ...]


@dataclass(frozen=True)
class NearbySection(PageSection):
    """The datasets that have such models."""

    datasets: tuple[NearbyModels, ...]


def build(run: RunResults, results: Results) -> NearbySection | None:
    """The section; None where no mechanism hides places among nearby ones."""
    datasets = [
        NearbyModels(name, run.entries[name].title, run.worst_person(name), tuple(rows))
        for name in run.settings.datasets
        if (rows := nearby_rows(run, results, name))
    ]
    return NearbySection(tuple(datasets)) if datasets else None


def nearby_rows(run: RunResults, results: Results, dataset: str) -> list[NearbyRow]:
    """Every such model with a result."""
    return [
        _row(run, results, outcome)
        for outcome in run.of(dataset)
        if not outcome.comparable and outcome.failure is None
    ]


def _row(run: RunResults, results: Results, outcome: Outcome) -> NearbyRow:
    key = outcome.key
    privacy = outcome.model.privacy
    noise = next(event for event in from_rows(privacy.ledger) if isinstance(event, PlanarLaplace))
    worst = results.values(*key, "mia_worst_record_auc")
    return NearbyRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        within=distance(noise.within_m / 1000),
        radius=distance(noise.radius_m / 1000),
        anywhere=three_digits(outcome.limiting_epsilon),
        gap=plus_minus(results.estimate(*key, "holdout_gap")),
        auc=plus_minus(results.estimate(*key, "mia_loss_auc"), rate),
        worst=rate(worst[0]) if worst else "–",
        worst_ceiling=rate(auc_ceiling(results, outcome)),
        broken=bool(broken_claims(run, results, outcome)),
    )
