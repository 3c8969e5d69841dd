"""A ledger in words: equal measurements in one line, the noise of each, and the claim."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.privacy.accounting import ATTRIBUTE_COUNTS
from privmix.privacy.ledger import STATISTIC
from privmix.report.format import distance, listing, plain, three_digits

ANSWER = "a_"  # label prefix of randomized response about an attribute
KINDS = {
    "gaussian": "Gaussian noise",
    "sampled_gaussian": "Gaussian noise on a random sample",
    "laplace": "Laplace noise",
    "randomized_response": "Randomized response",
    "selection": "Private choice",
    "noisy_maximum": "Largest of noisy counts",
    "record_count": "Laplace noise on the number of records",
    "decomposition": "Shape of a private tree",
    "planar_laplace": "Planar Laplace noise",
}
THEOREMS = {
    "linear": "Basic composition: the ε of all measurements add up, and so do the δ.",
    "advanced": "Advanced composition (Kairouz, Oh, Viswanath 2015): ε grows with the root of the number of "
    "measurements.",
    "zcdp": "Zero-concentrated privacy (Bun, Steinke 2016): ρ adds up, then one conversion to (ε, δ).",
    "rdp": "Rényi privacy, the moments accountant (Mironov 2017): divergences add up order by order.",
    "exact": "Exact composition: Gaussian measurements are one Gaussian (Dong, Roth, Su 2022); "
    "mixed kinds, and measurements on random samples, use privacy-loss distributions.",
    "split": "The ε of pure measurements add up; Gaussian measurements are one Gaussian (Dong, Roth, Su 2022); "
    "and the two parts add up.",
}


@dataclass(frozen=True)
class MeasurementGroup:
    """Measurements of one kind and purpose."""

    kind: str
    label: str
    count: int
    noise: str


def claim(privacy: PrivacyStatement) -> str:
    """Return the claim in words; for a claim within a distance, also the ε between any two records."""
    words = f"ε = {plain(privacy.epsilon)}, δ = {plain(privacy.delta)}"
    if privacy.epsilon_anywhere is None or privacy.within_m is None:
        return words
    within = distance(privacy.within_m / 1000)
    return f"{words} within {within}, ε = {three_digits(privacy.epsilon_anywhere)} between any two records"


def theorem(privacy: PrivacyStatement) -> str | None:
    """Describe in words how the measurements compose."""
    words = THEOREMS.get(privacy.accountant)
    if words is None:
        return None
    own = [row for row in privacy.ledger if not row["label"].startswith(STATISTIC)]
    if any(row["kind"] == "selection" for row in own):
        words += " The ε of the private choice is added."
    kinds = {row["kind"] for row in own}
    tables = [row for row in privacy.ledger if row["label"] == ATTRIBUTE_COUNTS]
    if tables and (privacy.accountant != "exact" or kinds != {"gaussian"}):
        words += " The cost of the attribute counts is added."
    if any(row["kind"] != "gaussian" for row in privacy.ledger if row["label"].startswith(STATISTIC)):
        words += " The ε of the statistics is added."
    return words


def split(model: ModelFile) -> str | None:
    """Describe how the budget is split between coordinates and attributes; None without attributes."""
    spent: dict[str, float] = {}
    for row in model.privacy.ledger:
        if row["label"].startswith(ANSWER):
            name = f"“{row['label'].removeprefix(ANSWER).replace('_', ' ')}”"
            spent[name] = spent.get(name, 0.0) + row["count"] * row["epsilon"]
        elif row["label"] == ATTRIBUTE_COUNTS and row["kind"] == "laplace":
            spent["the attributes"] = row["epsilon"]
    if not spent:
        return None
    whole, place = model.privacy.epsilon, "place" if _is_geographic(model) else "coordinates"
    first = f"Of ε = {three_digits(whole)}, {three_digits(whole - sum(spent.values()))} is for the {place}"
    if len(spent) > 1 and len({three_digits(epsilon) for epsilon in spent.values()}) == 1:
        return f"{first} and {three_digits(max(spent.values()))} for each of {listing(list(spent))}."
    each = [f"{three_digits(epsilon)} for {name}" for name, epsilon in spent.items()]
    return f"{first}{' and ' if len(each) == 1 else ', '}{listing(each)}."


def _is_geographic(model: ModelFile) -> bool:
    return all(axis.geographic for axis in model.domain.axes)


def exceeds_budget(privacy: PrivacyStatement) -> bool:
    """Tell whether a claim exceeds its budget by more than rounding."""
    rounding = 1 + 1e-9
    return (
        privacy.epsilon > privacy.budget_epsilon * rounding or privacy.delta > privacy.budget_delta * rounding
    )


def group(ledger: tuple[dict[str, Any], ...]) -> tuple[MeasurementGroup, ...]:
    """Group measurements whose labels differ only in numbers (iteration, component)."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in ledger:
        stem = re.sub(r"\d+", "#", row["label"])
        groups.setdefault((row["kind"], stem), []).append(row)
    return tuple(
        MeasurementGroup(
            kind=KINDS.get(kind, kind.replace("_", " ")),
            label=_label(rows[0]["label"] if len(rows) == 1 else stem),
            count=sum(row.get("count", 1) for row in rows),
            noise=_noise(kind, rows),
        )
        for (kind, stem), rows in groups.items()
    )


def _noise(kind: str, rows: list[dict[str, Any]]) -> str:
    if kind == "gaussian":
        return f"σ = {_span(rows, 'noise_multiplier')} Δ₂"
    if kind == "sampled_gaussian":
        sigma, rate = _span(rows, "noise_multiplier"), _span(rows, "rate")
        return f"σ = {sigma} Δ₂, each unit in the sample with probability {rate}"
    if kind in ("laplace", "record_count"):
        return f"scale = Δ₁ / {_span(rows, 'epsilon')}"
    if kind in ("randomized_response", "decomposition"):
        return f"ε = {_span(rows, 'epsilon', three_digits)}"
    if kind == "planar_laplace":
        metres = [row["scale_m"] / 1000 for row in rows]
        return f"density ∝ exp(−‖e‖ / {distance(max(metres))})"
    names = [key for key in rows[0] if key not in ("kind", "label", "count")]
    return ", ".join(f"{name} = {_span(rows, name)}" for name in names)


def _label(label: str) -> str:
    """Return the name of a report column in words."""
    return f"answer: {label.removeprefix(ANSWER).replace('_', ' ')}" if label.startswith(ANSWER) else label


def _span(rows: list[dict[str, Any]], key: str, form: Callable[[float], str] = plain) -> str:
    """Return the value if all rows share it, otherwise the range."""
    values = [row[key] for row in rows]
    if not all(isinstance(value, (int, float)) for value in values):
        return ", ".join(sorted({str(value) for value in values}))
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"
