"""The mechanisms of a run: what each is called, what it is made of, and what its method does."""

import inspect
import sys
from dataclasses import dataclass

from privmix.mechanisms import registry
from privmix.report.outcomes import Run


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism of the configuration, with all its parameters."""

    name: str
    trust: str
    private: bool
    method: str
    parameters: tuple[tuple[str, str], ...]
    does: str  # in one sentence
    means: str  # its parameters in words


def mechanism_rows(run: Run) -> list[MechanismRow]:
    """Every mechanism, in the order of the configuration."""
    rows = []
    for name, chosen in run.settings.mechanisms.items():
        built = registry.build(chosen.method, chosen.parameters, where=f"configuration: mechanisms.{name}")
        kind = type(built)
        rows.append(
            MechanismRow(
                name=name,
                trust=built.trust,
                private=built.private,
                method=chosen.method,
                parameters=tuple(
                    (str(field.validation_alias or key), str(getattr(built, key)))
                    for key, field in kind.__pydantic_fields__.items()
                ),
                does=_first_line(sys.modules[kind.__module__]),
                means=_first_line(kind),
            )
        )
    return rows


def _first_line(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0].replace("`", "")
