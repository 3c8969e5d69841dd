"""What a claim promises, to whom, and what it does not promise to a person with many records."""

from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import count, neighbours, plain


def guarantee(run: Run, best: Outcome) -> str | None:
    """The claim in words, with what is left of it for a person with many records."""
    if best.model is None:
        return None
    privacy = best.model.privacy
    releases = count(sum(row.get("count", 1) for row in privacy.ledger), "noisy release")
    sentence = (
        f"The guarantee: ε = {plain(privacy.epsilon)}, δ = {plain(privacy.delta)} for "
        f"{neighbours(privacy.unit, privacy.relation)}, from a ledger of {releases}"
        f"{' per record' if best.trust != 'central' else ''}."
    )
    less = _many_records(run, best)
    return f"{sentence} {less}" if less else sentence


def protected_unit(run: Run) -> str | None:
    """Whom the models of this run protect, in a few words; None where nothing is private."""
    units = {o.model.privacy.unit for o in run.outcomes if o.private and o.model and not o.model.failure}
    if units == {"record"}:
        return "one record, not one person"
    if units == {"person"}:
        return "all records of one person"
    return "one record, or all records of one person where the ledger says so" if units else None


def _many_records(run: Run, best: Outcome) -> str | None:
    """What group privacy leaves to a person with many records: k records cost kε (Dwork and Roth 2014, Theorem 2.2)."""
    material = run.materials.get(best.dataset)
    if material is None or material.protects_people or material.most_records == 1:
        return None
    start = "A person with many records is protected less: their ε adds up"
    if material.most_records is None:
        return f"{start} with every record."
    privacy = best.model.privacy
    whole = plain(privacy.epsilon * material.most_records)
    grows = ", and δ grows too" if privacy.delta else ""
    return f"{start}, to {whole} for the {count(material.most_records, 'record')} that one person has here{grows}."
