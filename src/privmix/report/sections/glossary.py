"""The glossary section: the mechanisms of the run, all methods, and the terms of the page."""

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
    methods: tuple[MethodCard, ...]
    unit: str | None  # what the models protect
    badges: dict[Verdict, str]
    meanings: dict[Verdict, str]


def build(run: RunResults) -> GlossarySection:
    """Build the section."""
    mechanisms, methods = tuple(mechanism_rows(run)), tuple(method_cards())
    return GlossarySection(mechanisms, methods, protected_unit(run), BADGES, MEANINGS)
