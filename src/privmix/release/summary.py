"""A release in a few lines for a terminal or a log: the claim, the unit it protects, and the spending so far."""

from collections.abc import Sequence
from pathlib import Path

from privmix.privacy.composition import TotalCost
from privmix.release import card
from privmix.release.account import SpendingLimit
from privmix.release.folder import PAGE, ReleasedModel
from privmix.report.format import SPACE, TRUST, count, neighbours, plain
from privmix.report.ledger import claim

Fact = tuple[str, str]  # a label and its value


def describe_release(model: ReleasedModel, folder: Path) -> list[Fact]:
    """Describe the model, its folder, its claim and the unit that the claim protects."""
    privacy = model.privacy
    protects = neighbours(privacy.unit, privacy.relation, privacy.within_m)
    facts = [
        ("Model", card.title(model)),
        ("Folder", f"{folder} ({count(len(model.files), 'file')} and checksums; open {PAGE} first)"),
        ("Claim", claim(privacy).rstrip(",")),
        ("Protects", f"{protects} ({privacy.unit} level, {privacy.relation})"),
        ("Trust", TRUST[privacy.trust]),
        ("Synthetic", count(model.synthetic.rows, "row")),
    ]
    return [(label, value.replace(SPACE, " ")) for label, value in facts]


def describe_spending(total: TotalCost, limit: SpendingLimit) -> list[Fact]:
    """Describe the cost of all releases of the same records, and the part of the limit that is left."""
    releases = count(total.releases, "release").replace(SPACE, " ")
    left = max(limit.epsilon - total.epsilon, 0.0)
    return [
        (
            "Spent",
            f"ε = {plain(total.epsilon)}, δ = {plain(total.delta)} by {releases} of these records so far",
        ),
        ("Left", f"ε = {plain(left)} of the limit ε = {plain(limit.epsilon)}, δ = {plain(limit.delta)}"),
    ]


def format_facts(facts: Sequence[Fact]) -> str:
    """Return one line per fact, for a log."""
    return "\n".join(f"{label}: {value}" for label, value in facts)
