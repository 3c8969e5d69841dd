"""The methods (description, guarantee and use of each), and the mechanisms of a run with their parameters."""

import inspect
import sys
from dataclasses import dataclass

from privmix.mechanisms import registry
from privmix.report.run import RunResults

# Guarantee and use of each method, as in the table of the README (a test compares them).
PROMISES = {
    "non_private": ("none", "the reference; its best fit is 100 %"),
    "noisy_tree": ("ε, or (ε, δ)", "up to 3 coordinates: the most accurate central method"),
    "tree_then_moments": ("(ε, δ)", "up to 3 coordinates, if you need accurate means and covariances"),
    "noisy_grid": ("ε", "up to 4 coordinates: a simple baseline; attributes without coordinates"),
    "noisy_moments": ("(ε, δ)", "4 to 30 coordinates, with 1,000 or more records per component"),
    "output_noise": (
        "(ε, δ)",
        "for comparison with textbook output perturbation; needs many records and a large ε",
    ),
    "dp_sgd": ("(ε, δ)", "for comparison with textbook gradient perturbation"),
    "posterior_sample": ("(ε, δ)", "if you must state the uncertainty of the means"),
    "dp_em": ("(ε, δ)", "to reproduce Park et al. 2017 (with corrections)"),
    "tree_response": ("ε", "up to 3 coordinates: the most accurate local method in one round"),
    "adaptive_tree_response": ("ε", "up to 3 coordinates, if you can ask persons in rounds"),
    "randomized_response": ("ε", "up to 4 coordinates: a simple baseline; attributes without coordinates"),
    "laplace_input": ("ε", "more than 3 coordinates, or for comparison with textbook input perturbation"),
    "gaussian_input": (
        "(ε, δ)",
        "more than 3 coordinates, or for comparison with textbook input perturbation",
    ),
    "planar_laplace": (
        "ε for two places within `within_m` metres, up to 70° latitude; for places farther apart, "
        "ε grows in proportion",
        "if reported places must stay near the true ones; do not compare its ε with other methods",
    ),
}


@dataclass(frozen=True)
class MethodCard:
    """A method of the registry."""

    method: str
    trust: str
    does: str
    guarantee: str
    use: str


def method_cards() -> list[MethodCard]:
    """Return every method, in the order of the README."""
    cards = []
    for method, (guarantee, use) in PROMISES.items():
        kind = registry.method_class(method)
        trust = kind.trust if kind.private else "–"
        cards.append(
            MethodCard(
                method, trust, _first_line(sys.modules[kind.__module__]), guarantee.replace("`", ""), use
            )
        )
    return cards


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism of the configuration, with all its parameters."""

    name: str
    trust: str
    private: bool
    method: str
    parameters: tuple[tuple[str, str], ...]
    does: str  # in one sentence
    means: str  # parameters in words


def mechanism_rows(run: RunResults) -> list[MechanismRow]:
    """Return every mechanism of the run, in the order of the configuration."""
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
                    (str(field.validation_alias or key), _setting(getattr(built, key)))
                    for key, field in vars(kind)["__pydantic_fields__"].items()
                ),
                does=_first_line(sys.modules[kind.__module__]),
                means=_first_line(kind),
            )
        )
    return rows


def _setting(value: object) -> str:
    return "not set" if value is None else str(value)


def _first_line(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0].replace("`", "")
