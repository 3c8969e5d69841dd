"""The glossary section: the mechanisms of the run, all methods, and the terms of the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from privmix.report.guarantee import protected_unit
from privmix.report.knowledge import BADGES, MEANINGS, Verdict
from privmix.report.methods import MechanismRow, MethodCard, mechanism_rows, method_cards
from privmix.report.run import RunResults
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class GlossarySection(PageSection):
    """Mechanisms, methods and terms."""

    mechanisms: tuple[MechanismRow, ...]
    differences: dict[str, str]  # by mechanism: the parameters that differ from others of the same method
    methods: tuple[MethodCard, ...]
    unit: str | None  # what the models protect
    badges: dict[Verdict, str]
    meanings: dict[Verdict, str]


def build(run: RunResults) -> GlossarySection:
    """Build the section."""
    mechanisms, methods = tuple(mechanism_rows(run)), tuple(method_cards())
    return GlossarySection(
        mechanisms, differences(mechanisms), methods, protected_unit(run), BADGES, MEANINGS
    )


def differences(mechanisms: Sequence[MechanismRow]) -> dict[str, str]:
    """Return, for each mechanism, the parameters that differ between the mechanisms of its method."""
    found = {}
    for row in mechanisms:
        others = [dict(other.parameters) for other in mechanisms if other.method == row.method]
        parts = [
            f"{key} = {value}"
            for key, value in row.parameters
            if any(other[key] != value for other in others)
        ]
        found[row.name] = ", ".join(parts)
    return found
