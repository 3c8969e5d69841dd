"""A release in a few lines for a terminal or a log: the claim, the unit it protects, and the spending so far."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from privmix.artefacts.clean import RowCounts
from privmix.errors import printable
from privmix.release import card, charges
from privmix.release.account import Booking
from privmix.release.charges import SpendingLimit
from privmix.release.folder import PAGE, ReleasedModel
from privmix.report import statistics
from privmix.report.format import TRUST, count, listing, neighbours
from privmix.report.ledger import claim

Fact = tuple[str, str]  # a label and its value
FEW_LINES = 4  # of statistics
FEW = 100  # records: below this, no mechanism here finds more than noise at a useful ε


def describe_release(model: ReleasedModel, folder: Path) -> list[Fact]:
    """Describe the model, its folder, its claim and the unit that the claim protects."""
    privacy = model.privacy
    protects = neighbours(privacy.unit, privacy.relation, privacy.within_m)
    facts = [
        ("Model", card.title(model)),
        ("Folder", f"{printable(str(folder))} ({len(model.files) + 2} files; open {PAGE} first)"),
        ("Claim", claim(privacy).rstrip(",")),
        ("Protects", f"{protects} ({privacy.unit} level, {privacy.relation})"),
        ("Trust", TRUST[privacy.trust]),
        ("Synthetic", f"{count(model.synthetic.rows, 'row')} of {listing(model.synthetic.columns)}"),
    ]
    if model.statistics:
        shown = statistics.lines(model.statistics, model.domain)
        said = [f"{line.name} {line.value} ({line.accuracy or 'as before'})" for line in shown[:FEW_LINES]]
        rest = [f"and {len(shown) - FEW_LINES} more"] if len(shown) > FEW_LINES else []
        facts.append(("Statistics", f"with 95 % probability: {'; '.join([*said, *rest])}"))
    if model.synthetic.left_out:
        facts.append(
            ("Left out", f"{listing(model.synthetic.left_out)}: the release holds nothing about this")
        )
    if model.domain.rows < FEW:
        facts.append(
            ("Warning", f"{count(model.domain.rows, 'record')} are too few: this model is mostly noise")
        )
    return [(label, value if label == "Folder" else join_blanks(value)) for label, value in facts]


def describe_rows(counts: RowCounts) -> list[Fact]:
    """Describe the rows of the source that are not in the release. Nothing if all are."""
    if not counts.dropped:
        return []
    reasons = listing([f"{number:,} {reason}" for reason, number in sorted(counts.dropped.items())])
    return [
        (
            "Rows left out",
            f"{counts.read - counts.kept:,} of {counts.read:,}: {reasons}. The release describes the other rows only. "
            "No noise protects these numbers: do not publish them",
        )
    ]


def join_blanks(text: str) -> str:
    """Replace each run of blanks by one. A long run in a name could look like the end of a line on a terminal."""
    return re.sub(r"[^\S\r]+", " ", text)


def describe_spending(booking: Booking, limit: SpendingLimit) -> list[Fact]:
    """Describe the sum of all releases that share records or persons, and the largest further release of this kind.

    With ids, a further release of the same file can protect records or persons, and both are described.
    """
    sums = charges.statements(booking.earlier, booking.cost)
    spent, cost = [*booking.earlier, booking.cost], booking.cost
    kinds = [cost] if cost.most is None else [replace(cost, unit="record"), replace(cost, unit="person")]
    left = "; ".join(charges.describe_largest(spent, each, limit) for each in kinds)
    return [
        *((f"Spent per {each.unit}", "; ".join(each.lines())) for each in sums),
        ("Left", f"{left} ({charges.describe_limit(limit)})"),
    ]


def format_facts(facts: Sequence[Fact]) -> str:
    """Return one line per fact, for a log."""
    return "\n".join(f"{label}: {value}" for label, value in facts)
