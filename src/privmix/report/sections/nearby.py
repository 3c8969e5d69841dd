"""The nearby section: mechanisms that hide a place among nearby places.

Their ε holds within a distance, so they have their own table. Between any two records, ε is larger by the ratio of the
width of the public box to this distance. Only this larger ε compares with the ε of other mechanisms and limits an
attacker who compares any two records.
"""

from dataclasses import dataclass

from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.privacy.ledger import PlanarLaplace, from_rows
from privmix.report.format import distance, plus_minus, rate, three_digits
from privmix.report.guarantee import auc_ceiling
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.worst_record import broken_claims


@dataclass(frozen=True)
class NearbyRow:
    """One mechanism at one ε: its ε near and far, its utility and the attacks on it."""

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
    """The models of one dataset that hide places."""

    name: str
    title: str
    person: str | None  # the most exposed person
    rows: tuple[NearbyRow, ...]


@dataclass(frozen=True)
class NearbySection(PageSection):
    """The datasets with models that hide places."""

    datasets: tuple[NearbyModels, ...]


def build(run: RunResults, results: Results) -> NearbySection | None:
    """Build the section; None if no mechanism hides places among nearby places."""
    datasets = [
        NearbyModels(name, run.entries[name].title, run.worst_person(name), tuple(rows))
        for name in run.settings.datasets
        if (rows := nearby_rows(run, results, name))
    ]
    return NearbySection(tuple(datasets)) if datasets else None


def nearby_rows(run: RunResults, results: Results, dataset: str) -> list[NearbyRow]:
    """Return a row for every model that hides places and has a result."""
    return [
        _row(run, results, outcome, outcome.model.privacy)
        for outcome in run.of(dataset)
        if not outcome.comparable and outcome.failure is None and outcome.model
    ]


def _row(run: RunResults, results: Results, outcome: Outcome, privacy: PrivacyStatement) -> NearbyRow:
    key = outcome.key
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
