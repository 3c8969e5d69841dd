"""The guarantee in words: the claim, the unit that it protects, and its limits for a person with many records."""

import math

from privmix.attacks.limits import swap_auc_ceiling
from privmix.report.format import count, neighbours, plain
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults

MEANINGLESS = 20.0  # at this ε, odds may change by a factor of more than a hundred million


def describe_guarantee(best: Outcome) -> str | None:
    """Describe the claim."""
    if best.model is None:
        return None
    privacy = best.model.privacy
    measurements = count(sum(row.get("count", 1) for row in privacy.ledger), "measurement")
    return (
        f"Claim: ε = {plain(privacy.epsilon)}, δ = {plain(privacy.delta)} for "
        f"{neighbours(privacy.unit, privacy.relation)}, from a ledger of {measurements}"
        f"{' per record' if best.randomises_records else ''}."
    )


def auc_ceiling(results: Results, outcome: Outcome) -> float:
    """Return the AUC that no attack on one protected unit exceeds in expectation."""
    return swap_auc_ceiling(outcome.limiting_epsilon, outcome.claimed_delta, results.relation(*outcome.key))


def _units(run: RunResults) -> set[str]:
    return {o.model.privacy.unit for o in run.outcomes if o.private and o.model and not o.model.failure}


def protected_noun(run: RunResults) -> str:
    """Return the unit that the models of this run protect, as a noun for a sentence."""
    units = _units(run)
    return "one person" if units == {"person"} else "one record or person" if len(units) > 1 else "one record"


def protected_unit(run: RunResults) -> str | None:
    """Describe the unit that the models of this run protect; None if no model is private."""
    units = _units(run)
    if units == {"record"}:
        return "one record, not one person"
    if units == {"person"}:
        return "all records of one person"
    return "one record, or all records of one person where the ledger says so" if units else None


def group_privacy(run: RunResults, best: Outcome) -> str | None:
    """Describe the guarantee for a person with many records; None if the unit covers all records of a person.

    k records cost (kε, k e^((k-1)ε) δ) (Dwork and Roth 2014, Theorem 2.2; Vadhan 2017, Lemma 2.2).
    """
    material = run.materials.get(best.dataset)
    if best.model is None or material is None or material.protects_people or material.most_records == 1:
        return None
    start = "The guarantee protects one record, not one person. For a person with several records, the ε values add up."
    if material.most_records is None:
        return start
    privacy, most = best.model.privacy, material.most_records
    whole = privacy.epsilon * most
    person = f"person with the most records ({most:,})"
    if privacy.delta and math.log(most * privacy.delta) + (most - 1) * privacy.epsilon >= 0:
        return f"{start} For the {person}, there is no guarantee: δ grows beyond 1."
    weak = ", which is almost no protection" if whole > MEANINGLESS else ""
    return f"{start} The {person} has ε = {plain(whole)}{weak}."


def why_unlimited(run: RunResults, dataset: str) -> str | None:
    """Explain why the guarantee does not limit the average attack; None if it does, or without records to tell."""
    if dataset not in run.materials or run.materials[dataset].protects_people:
        return None
    sentence = (
        "ε protects one record. Persons here have several records, so ε hardly limits an attack on all records of a "
        "person"
    )
    person = run.worst_person(dataset)
    return f"{sentence}; the limit on one record is shown for {person}." if person else f"{sentence}."
