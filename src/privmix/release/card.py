"""The model card: all that whoever gets a release should know of it, in sections for Markdown and for the page.

(Mitchell et al. 2019, "Model cards for model reporting".) Only public and released values enter.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.catalog.entry import Entry
from privmix.mechanisms import registry
from privmix.release.folder import CHECKSUMS, MODEL, REPORTS, SYNTHETIC_CSV, SYNTHETIC_PARQUET, ReleasedModel
from privmix.report.format import TRUST, count, listing, neighbours, odds, plain
from privmix.report.ledger import claim, group, theorem

HEADING = "Privacy. "  # how the argument begins in the text of a module


@dataclass(frozen=True)
class CardSection:
    """A heading and what stands under it."""

    title: str
    lines: tuple[str, ...]


def title(model: ReleasedModel) -> str:
    """What the release is called."""
    return f"{model.domain.title}: a private mixture of {count(len(model.original.weights), 'Gaussian')}"


def guarantee(model: ReleasedModel) -> str:
    """The statement that can be signed."""
    privacy = model.privacy
    return (
        f"{claim(privacy).rstrip(',')}, for {neighbours(privacy.unit, privacy.relation, privacy.within_m)} "
        f"({privacy.unit} level, {privacy.relation})"
    )


def sections(model: ReleasedModel, entry: Entry) -> tuple[CardSection, ...]:
    """The whole card."""
    return (
        CardSection("Guarantee", tuple(_guarantee(model))),
        CardSection("Data", tuple(_data(model, entry))),
        CardSection("Mechanism", tuple(_mechanism(model))),
        CardSection("Ledger", tuple(_ledger(model))),
        CardSection("What was audited", tuple(_audited(model))),
        CardSection("What it does not protect", tuple(_unprotected(model, entry))),
        CardSection("Intended use", tuple(_use(model))),
        CardSection("Synthetic data", tuple(_synthetic(model))),
        CardSection("Files", tuple(_files(model))),
    )


def markdown(model: ReleasedModel, parts: Sequence[CardSection]) -> str:
    """The card as `MODEL_CARD.md`."""
    blocks = [f"# {title(model)}", model.notice]
    for part in parts:
        blocks.append(f"## {part.title}")
        blocks.append("\n".join(f"- {line}" for line in part.lines))
    return "\n\n".join(blocks) + "\n"


def _guarantee(model: ReleasedModel) -> list[str]:
    privacy = model.privacy
    # The ε of nearby places speaks of those alone; what holds for everybody is the ε between any two records.
    anywhere = privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere
    lines = [
        f"{guarantee(model)}.",
        f"Whatever anybody knows beside this release, it changes their odds about one {privacy.unit} by a factor of at "
        f"most {odds(anywhere)}"
        + (f", but for a chance of δ = {plain(privacy.delta)}." if privacy.delta else "."),
        f"The budget was ε = {plain(privacy.budget_epsilon)}, δ = {plain(privacy.budget_delta)}.",
        TRUST[privacy.trust],
    ]
    if privacy.unit == "person":
        most = model.domain.max_records_per_person
        lines.append(
            f"A person counts with at most {count(most, 'record')}, chosen by a rule that does not look at them."
        )
    return lines


def _data(model: ReleasedModel, entry: Entry) -> list[str]:
    public = "public" if entry.privacy.rows_are_public else "as publicly expected; the true number is private"
    if model.local:
        public = "as publicly expected; whoever has the reports can count them"
    lines = [
        entry.description,
        f"{count(model.domain.rows, 'record')} ({public}), all of them used.",
        f"Licence of the data: {entry.licence.spdx}{f' ({entry.licence.url})' if entry.licence.url else ''}.",
    ]
    lines += [f"Cite: {entry.citation}"] if entry.citation else []
    lines += [f"Homepage: {entry.homepage}"] if entry.homepage else []
    for axis, column in zip(model.domain.axes, map(entry.column, entry.coordinates), strict=True):
        unit = f" {axis.unit}" if axis.unit else ""
        lines.append(
            f"`{axis.name}`: {column.description} Public bounds {axis.lower:g} to {axis.upper:g}{unit}, beyond which "
            f"values count as at the bound ({column.bound_reason.rstrip('.')}); resolution {axis.resolution:g}{unit}."
        )
    return [*lines, *entry.caveats]


def _mechanism(model: ReleasedModel) -> list[str]:
    settings = ", ".join(f"{key} = {value}" for key, value in model.parameters.items())
    lines = [f"`{model.method}`{f' ({settings})' if settings else ''}, as `{model.mechanism}`."]
    lines += [f"Why it is private: {argument}" for argument in proof_paragraphs(model.method)]
    lines.append(f"How releases add up: {theorem(model.privacy) or model.privacy.accountant}")
    lines += [note[0].upper() + note[1:].rstrip(".") + "." for note in model.notes]
    return lines


def proof_paragraphs(method: str) -> list[str]:
    """The theorem of a method as its module states it, and before it what all local methods rest on."""
    chosen = registry.method_class(method)
    documents = [sys.modules[kind.__module__].__doc__ or "" for kind in reversed(chosen.__mro__[:-1])]
    found = [
        re.sub(
            r":$",
            f" (a table in `{registry.module_of(method)}`).",
            _join_lines(paragraph.removeprefix(HEADING)),
        )
        for document in documents
        for paragraph in document.split("\n\n")
        if paragraph.startswith(HEADING)
    ]
    return list(dict.fromkeys(found))


def _join_lines(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _ledger(model: ReleasedModel) -> list[str]:
    each = " per record" if model.local else ""
    return [
        f"{release.label}: {release.kind.lower()}, {release.noise}, {count(release.count, 'time')}{each}."
        for release in group(model.privacy.ledger)
    ]


def _audited(model: ReleasedModel) -> list[str]:
    exact = (
        "Noise came from the operating system's entropy by exact samplers on a lattice of 2^-20, sums over records "
        "were taken in whole numbers, and rounding is part of the sensitivity."
    )
    watched = (
        "Runs of the same channels on some of the records were replayed with one unit changed"
        if model.local
        else "The run itself was watched and replayed with one unit changed"
    )
    return [
        exact,
        f"{watched}: no noisy number rested on more of one {model.privacy.unit} than its line in the ledger states, "
        "nothing else got out, and the noise had the size and shape that it claims. What was seen is forgotten.",
        "All released noisy numbers were found to lie on the lattice, so that their low bits tell nothing.",
        "`privmix verify` computes the claim from the ledger again, by two accountants.",
    ]


def _unprotected(model: ReleasedModel, entry: Entry) -> list[str]:
    privacy = model.privacy
    lines = [
        "What holds for many: whoever learns it from the model learns it of all, of those too who are not in the data.",
        "Further releases of the same records: their ε adds up with this one.",
    ]
    if privacy.unit == "record":
        lines.append(
            "A person with several records is protected for each of them, and less for all together: k records, k ε."
        )
    if privacy.relation == "replace_one":
        lines.append(f"That somebody is among the records, and how many {privacy.unit}s there are.")
    if privacy.within_m is not None:
        lines.append("Whether a record is here or far away: only places nearby are hidden among each other.")
    if not privacy.randomises_records:
        lines.append("Anything from the curator, who holds the records.")
    return [*lines, *([entry.privacy.note] if entry.privacy.note else [])]


def _use(model: ReleasedModel) -> list[str]:
    return [
        f"Density, clusters and shares of {listing([axis.name for axis in model.domain.axes])}; test data of the right "
        "form; teaching.",
        "Not for decisions about single people, and not for what happens below the resolution or at the bounds.",
        "Noise has moved every number. A component of little weight may be noise alone.",
    ]


def _synthetic(model: ReleasedModel) -> list[str]:
    made = model.synthetic
    lines = [
        f"{count(made.rows, 'row')} drawn from the model, which costs no privacy, in the columns "
        f"{listing([f'`{name}`' for name in made.columns])} and units of the source, drawn in to the public bounds."
    ]
    attributes = [attribute.name for attribute in model.domain.attributes if attribute.name in made.columns]
    if attributes:
        lines.append(
            f"{listing([f'`{name}`' for name in attributes])}: drawn by released shares, independently of the place "
            "and of each other; what they have to do with each other is not in the data."
        )
    if made.left_out:
        lines.append(
            f"{listing([f'`{name}`' for name in made.left_out])}: left out, because the release knows nothing of it."
        )
    return lines


def _files(model: ReleasedModel) -> list[str]:
    lines = [
        f"`{MODEL}`: the mixture in original units and in the unit ball, with claim, ledger and all noisy numbers. "
        "`privmix.release.folder.read_release(folder).original.mixture.to_sklearn()` is a scikit-learn estimator.",
        f"`{SYNTHETIC_PARQUET}`, `{SYNTHETIC_CSV}`: the same synthetic rows.",
        f"`{CHECKSUMS}`: `sha256sum --check {CHECKSUMS}`.",
    ]
    if model.local:
        lines.insert(1, f"`{REPORTS}`: the randomised reports, in no order, and nothing else of the records.")
    return [*lines, f"Made by Privmix {model.version} on {model.made.isoformat()}."]
