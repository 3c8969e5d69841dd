"""The ledger section: what each mechanism released, and what it costs to publish several models together."""

import math
from dataclasses import dataclass

from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.privacy.composition import ReleaseCost, total_cost
from privmix.privacy.ledger import KINDS, Event, SampledGaussian, from_rows
from privmix.report.format import count, listing, neighbours, odds, plain, three_digits
from privmix.report.guarantee import MEANINGLESS
from privmix.report.ledger import ReleaseGroup, claim, exceeds_budget, group, split, theorem
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class LedgerView:
    """One mechanism's ledger at one epsilon."""

    mechanism: str
    method: str
    epsilon: float
    parameters: tuple[tuple[str, str], ...]
    releases: tuple[ReleaseGroup, ...]
    total: int
    budget: str
    claim: str
    exceeded: bool
    accountant: str
    theorem: str | None
    protects: str
    trust: str
    split: str | None  # how ε is shared between the coordinates and the answers about attributes


@dataclass(frozen=True)
class DatasetLedgers:
    """The ledgers of one dataset."""

    title: str
    views: tuple[LedgerView, ...]
    joint_cost: tuple[str, ...]


@dataclass(frozen=True)
class LedgerSection(PageSection):
    """The ledgers of every dataset."""

    datasets: tuple[DatasetLedgers, ...]


def build(run: RunResults) -> LedgerSection:
    """The section."""
    datasets = []
    for name in run.settings.datasets:
        views = [ledger_view(outcome) for outcome in run.of(name)]
        shown = tuple(view for view in views if view)
        datasets.append(DatasetLedgers(run.entries[name].title, shown, joint_cost(run, name)))
    return LedgerSection(tuple(datasets))


def ledger_view(outcome: Outcome) -> LedgerView | None:
    """The ledger of one outcome, or None where nothing was spent."""
    if outcome.model is None or outcome.model.failure or not outcome.private:
        return None
    privacy = outcome.model.privacy
    releases = group(privacy.ledger)
    return LedgerView(
        mechanism=outcome.mechanism,
        method=outcome.model.method,
        epsilon=outcome.epsilon,
        parameters=tuple((key, str(value)) for key, value in outcome.model.parameters.items()),
        releases=releases,
        total=sum(release.count for release in releases),
        budget=f"ε = {plain(privacy.budget_epsilon)}, δ = {plain(privacy.budget_delta)}",
        claim=claim(privacy),
        exceeded=exceeds_budget(privacy),
        accountant=privacy.accountant,
        theorem=theorem(privacy),
        protects=neighbours(privacy.unit, privacy.relation, privacy.within_m),
        trust=privacy.trust,
        split=split(outcome.model),
    )


def joint_cost(run: RunResults, dataset: str) -> tuple[str, ...]:
    """A sentence for one model of each mechanism at the reference ε, and one for every model behind the page.

    Of a single model there is nothing to add up.
    """
    outcomes = [outcome for outcome in run.of(dataset) if _adds_up(outcome)]
    once = [
        _spending(outcome.model.privacy) for outcome in outcomes if outcome.epsilon == run.reference_epsilon
    ]
    every = [_spending(outcome.model.privacy) for outcome in outcomes for _ in outcome.model.models]
    said = []
    if len(once) > 1:
        at = plain(run.reference_epsilon)
        what = f"Made anew with secret noise and published, one model of each mechanism at ε = {at}"
        said.append(_sentence(what, once, outcomes[0].model.privacy.unit))
    if len(every) > max(len(once), 1):
        what = "Models like all those behind this page, of every mechanism, ε and replicate"
        said.append(_sentence(what, every, outcomes[0].model.privacy.unit))
    if said:
        said.append("The files of this run have no such limit: their seed is known.")
    nearby = list(dict.fromkeys(o.mechanism for o in run.of(dataset) if o.private and not o.comparable))
    if said and nearby:
        said.append(
            f"{listing(nearby)} {'does' if len(nearby) == 1 else 'do'} not count here: an ε for nearby places does not "
            "add up with one for any two records."
        )
    return tuple(said)


def _adds_up(outcome: Outcome) -> bool:
    """Whether the outcome has a ledger, for any two records."""
    made = outcome.model is not None and not outcome.model.failure
    return outcome.private and outcome.comparable and made


def _spending(privacy: PrivacyStatement) -> ReleaseCost:
    return ReleaseCost(privacy.relation, privacy.epsilon, privacy.delta, _events(privacy))


def _events(privacy: PrivacyStatement) -> tuple[Event, ...] | None:
    """The ledger, where it can be added up in no time; otherwise the claim counts, which is never too little.

    Releases on random samples have exact composition alone, which of hundreds of models would take minutes.
    """
    kinds = {row["kind"] for row in privacy.ledger}
    if not kinds <= set(KINDS) or SampledGaussian.kind in kinds:
        return None
    return tuple(from_rows(privacy.ledger))


def _sentence(what: str, releases: list[ReleaseCost], unit: str) -> str:
    """The sum, at the δ that all the claims need one after another."""
    found = total_cost(releases, math.fsum(release.delta for release in releases))
    relations = {release.relation for release in releases}
    added = math.fsum(release.epsilon for release in releases)
    tighter = three_digits(found.epsilon) != three_digits(added)
    less = f", less than the {three_digits(added)} that their ε add up to" if tighter else ""
    protects = neighbours(unit, relations.pop() if len(relations) == 1 else "replace_one")
    return (
        f"{what} ({count(len(releases), 'model')}) would cost at most ε = {three_digits(found.epsilon)}, "
        f"δ = {three_digits(found.delta)} for {protects}{less}. {_odds_sentence(found.epsilon)}"
    )


def _odds_sentence(epsilon: float) -> str:
    if epsilon > MEANINGLESS:
        return "That is no protection worth the name."
    return f"An observer's odds could change {odds(epsilon)}."
