"""The ledger section: the measurements of each mechanism, and the joint cost of publishing several models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.privacy.composition import ReleaseCost, TotalCost, same_relation, total_cost
from privmix.privacy.ledger import KINDS, Event, SampledGaussian, from_rows
from privmix.report.format import count, listing, neighbours, odds, plain, three_digits
from privmix.report.guarantee import MEANINGLESS
from privmix.report.ledger import MeasurementGroup, claim, exceeds_budget, group, split, theorem
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class LedgerView:
    """One mechanism's ledger at one epsilon."""

    mechanism: str
    method: str
    epsilon: float
    parameters: tuple[tuple[str, str], ...]
    measurements: tuple[MeasurementGroup, ...]
    total: int
    budget: str
    claim: str
    exceeded: bool
    accountant: str
    theorem: str | None
    protects: str
    trust: str
    split: str | None  # how ε is split between coordinates and attributes


@dataclass(frozen=True)
class JointCost:
    """The cost of publishing several models of one dataset together."""

    short: str  # two sentences
    details: tuple[str, ...]


@dataclass(frozen=True)
class DatasetLedgers:
    """The ledgers of one dataset."""

    title: str
    views: tuple[LedgerView, ...]
    joint_cost: JointCost | None


@dataclass(frozen=True)
class LedgerSection(PageSection):
    """The ledgers of every dataset."""

    datasets: tuple[DatasetLedgers, ...]


def build(run: RunResults) -> LedgerSection:
    """Build the section."""
    datasets = []
    for name in run.settings.datasets:
        views = [ledger_view(outcome) for outcome in run.of(name)]
        shown = tuple(view for view in views if view)
        datasets.append(DatasetLedgers(run.entries[name].title, shown, joint_cost(run, name)))
    return LedgerSection(tuple(datasets))


def ledger_view(outcome: Outcome) -> LedgerView | None:
    """Return the ledger of one outcome, or None if it spent nothing."""
    if outcome.model is None or outcome.model.failure or not outcome.private:
        return None
    privacy = outcome.model.privacy
    measurements = group(privacy.ledger)
    return LedgerView(
        mechanism=outcome.mechanism,
        method=outcome.model.method,
        epsilon=outcome.epsilon,
        parameters=tuple((key, str(value)) for key, value in outcome.model.parameters.items()),
        measurements=measurements,
        total=sum(measurement.count for measurement in measurements),
        budget=f"ε = {plain(privacy.budget_epsilon)}, δ = {plain(privacy.budget_delta)}",
        claim=claim(privacy),
        exceeded=exceeds_budget(privacy),
        accountant=privacy.accountant,
        theorem=theorem(privacy),
        protects=neighbours(privacy.unit, privacy.relation, privacy.within_m),
        trust=privacy.trust,
        split=split(outcome.model),
    )


def joint_cost(run: RunResults, dataset: str) -> JointCost | None:
    """Compute the cost of one model per mechanism at the reference ε, and of every model behind the page.

    None if there is at most one model.
    """
    models = [
        (outcome.epsilon, outcome.model)
        for outcome in run.of(dataset)
        if outcome.private and outcome.comparable and outcome.model and not outcome.model.failure
    ]
    reference = run.reference_epsilon or math.nan
    once = [model.privacy for epsilon, model in models if epsilon == reference]
    every = [model.privacy for _, model in models for _ in model.models]
    short, details = [], []
    if len(once) > 1:
        total = _total(once)
        what = f"One model per mechanism at ε = {plain(reference)} ({count(len(once), 'model')})"
        short.append(f"{what} would cost ε = {three_digits(total.epsilon)} in total.")
        details.append(_sentence(what, once, total))
    if len(every) > max(len(once), 1):
        total = _total(every)
        what = f"All models behind this page, of every mechanism, ε and replicate ({count(len(every), 'model')}),"
        weak = " That is no meaningful protection." if total.epsilon > MEANINGLESS else ""
        short.append(
            f"All {count(len(every), 'model')} of this run would cost ε = {three_digits(total.epsilon)}.{weak}"
        )
        details.append(_sentence(what, every, total))
    if not short:
        return None
    details.append(
        "These costs hold for new models with secret noise. The files of this run have no such limit, because their "
        "seed is known."
    )
    nearby = list(dict.fromkeys(o.mechanism for o in run.of(dataset) if o.private and not o.comparable))
    if nearby:
        details.append(
            f"{listing(nearby)} {'is' if len(nearby) == 1 else 'are'} not included: an ε for nearby places cannot be "
            "added to an ε for any two records."
        )
    return JointCost(" ".join(short), tuple(details))


def _costs(statements: Sequence[PrivacyStatement]) -> list[ReleaseCost]:
    """Return the cost of each model, all in the same relation."""
    return same_relation(
        [ReleaseCost(each.relation, each.epsilon, each.delta, _events(each)) for each in statements]
    )


def _total(statements: Sequence[PrivacyStatement]) -> TotalCost:
    """Compose the models, at the sum of their δ; if conversion to one relation needs more δ, at that sum."""
    costs = _costs(statements)
    total = total_cost(costs, math.fsum(each.delta for each in statements))
    return (
        total if math.isfinite(total.epsilon) else total_cost(costs, math.fsum(cost.delta for cost in costs))
    )


def _events(privacy: PrivacyStatement) -> tuple[Event, ...] | None:
    """Return the ledger if its composition is fast; otherwise None, and the claim counts, which is an upper bound.

    Measurements on random samples have only exact composition, which takes minutes for hundreds of models.
    """
    kinds = {row["kind"] for row in privacy.ledger}
    if not kinds <= set(KINDS) or SampledGaussian.kind in kinds:
        return None
    return tuple(from_rows(privacy.ledger))


def _sentence(what: str, statements: Sequence[PrivacyStatement], total: TotalCost) -> str:
    relations = {each.relation for each in statements}
    relation = relations.pop() if len(relations) == 1 else "replace_one"
    protects = neighbours(statements[0].unit, relation)
    meaning = (
        "That is no meaningful protection."
        if total.epsilon > MEANINGLESS
        else f"An observer's odds can change by up to {odds(total.epsilon)}."
    )
    return (
        f"{what} would cost at most ε = {three_digits(total.epsilon)}, δ = {three_digits(total.delta)} for {protects}"
        f"{_comparison(statements, relation, total)}. {meaning}"
    )


def _comparison(statements: Sequence[PrivacyStatement], relation: str, total: TotalCost) -> str:
    """Compare the total with the sum of ε in the same relation, and state how many ε doubled to get there."""
    added = three_digits(math.fsum(cost.epsilon for cost in _costs(statements)))
    converted = sum(each.relation != relation for each in statements)
    if not converted:
        return f" (the sum of their ε is {added})" if added != three_digits(total.epsilon) else ""
    are, other = "is" if converted == 1 else "are", neighbours(statements[0].unit, "add_remove")
    return f" ({converted} of them {are} for {other}, which doubles their ε here; the sum of all ε is then {added})"
