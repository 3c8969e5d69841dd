"""What it would cost to publish several models of a dataset together, by their ledgers."""

import math

from privmix.artefacts.statement import Privacy
from privmix.privacy.ledger import KINDS, Event, SampledGaussian, from_rows
from privmix.privacy.together import Spent, summed
from privmix.report.guarantee import MEANINGLESS
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import count, listing, neighbours, odds, plain, rounded


def together(run: Run, dataset: str) -> tuple[str, ...]:
    """A sentence for one model of each mechanism at the reference ε, and one for every model behind the page.

    Of a single model there is nothing to add up.
    """
    outcomes = [outcome for outcome in run.of(dataset) if _counts(outcome)]
    once = [_spent(outcome.model.privacy) for outcome in outcomes if outcome.epsilon == run.reference_epsilon]
    every = [_spent(outcome.model.privacy) for outcome in outcomes for _ in outcome.model.models]
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


def _counts(outcome: Outcome) -> bool:
    """Whether the outcome has a ledger, for any two records."""
    made = outcome.model is not None and not outcome.model.failure
    return outcome.private and outcome.comparable and made


def _spent(privacy: Privacy) -> Spent:
    return Spent(privacy.relation, privacy.epsilon, privacy.delta, _events(privacy))


def _events(privacy: Privacy) -> tuple[Event, ...] | None:
    """The ledger, where it can be added up in no time; otherwise the claim counts, which is never too little.

    Releases on random samples have exact composition alone, which of hundreds of models would take minutes.
    """
    kinds = {row["kind"] for row in privacy.ledger}
    if not kinds <= set(KINDS) or SampledGaussian.kind in kinds:
        return None
    return tuple(from_rows(privacy.ledger))


def _sentence(what: str, releases: list[Spent], unit: str) -> str:
    """The sum, at the δ that all the claims need one after another."""
    found = summed(releases, math.fsum(release.delta for release in releases))
    relations = {release.relation for release in releases}
    added = math.fsum(release.epsilon for release in releases)
    tighter = rounded(found.epsilon) != rounded(added)
    less = f", less than the {rounded(added)} that their ε add up to" if tighter else ""
    return (
        f"{what} ({count(len(releases), 'model')}) would cost at most ε = {rounded(found.epsilon)}, "
        f"δ = {rounded(found.delta)} for {neighbours(unit, relations.pop() if len(relations) == 1 else 'replace_one')}"
        f"{less}. {_allowed(found.epsilon)}"
    )


def _allowed(epsilon: float) -> str:
    if epsilon > MEANINGLESS:
        return "That is no protection worth the name."
    return f"An observer's odds could change {odds(epsilon)}."
