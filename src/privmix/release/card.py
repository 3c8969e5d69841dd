"""The model card: the guarantee of a release, its limits, its data and its use, for Markdown and for the page.

It follows Mitchell et al. 2019, "Model cards for model reporting". It is a function of `model.json`, so `privmix
verify` computes it again.
"""

import re
import sys
from dataclasses import dataclass

from privmix.artefacts.domain import Axis
from privmix.artefacts.fitted_model import CensoredLabels
from privmix.clean.normalisation import format_value
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.privacy.accounting import ATTRIBUTE_COUNTS
from privmix.release.account import LIMITS
from privmix.release.folder import (
    CHECKSUMS,
    MODEL,
    REPORTS,
    SIGNATURE,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    ReleasedModel,
)
from privmix.report import statistics
from privmix.report.format import TRUST, count, listing, neighbours, odds, percent, plain
from privmix.report.ledger import claim, group, theorem

HEADING = "Privacy. "  # start of the privacy argument in the docstring of a module


@dataclass(frozen=True)
class CardSection:
    """A heading and its lines."""

    title: str
    lines: tuple[str, ...]
    head: tuple[str, ...] = ()  # of a table after the lines, if there is one
    rows: tuple[tuple[str, ...], ...] = ()


def title(model: ReleasedModel) -> str:
    """Return the title of the release."""
    return f"{model.domain.title}: a private mixture of {count(len(model.original.weights), 'component')}"


def lead(model: ReleasedModel) -> str:
    """Return one sentence on what the release is and what it protects."""
    unit = "each single record" if model.privacy.unit == "record" else "each person"
    content = (
        "a statistical model, randomised reports and synthetic rows"
        if model.local
        else ("a statistical model and synthetic rows")
    )
    return f"This release holds {content}. Differential privacy protects {unit} in the data behind it."


def guarantee(model: ReleasedModel) -> str:
    """Return the formal statement of the guarantee."""
    privacy = model.privacy
    return (
        f"{claim(privacy).rstrip(',')}, for {neighbours(privacy.unit, privacy.relation, privacy.within_m)} "
        f"({privacy.unit} level, {privacy.relation})"
    )


def sections(model: ReleasedModel) -> tuple[CardSection, ...]:
    """Return all sections of the card. The first two, guarantee and limits, are the first screen of the page."""
    return (
        CardSection("What is promised", tuple(_guarantee(model))),
        CardSection("What it does not protect", tuple(_unprotected(model))),
        CardSection("Intended use", tuple(_use(model))),
        *([_statistics(model)] if model.statistics else []),
        CardSection("Data", tuple(_data(model))),
        CardSection("Mechanism", tuple(_mechanism(model))),
        CardSection("Ledger", tuple(_ledger(model))),
        CardSection("What was audited", tuple(_audited(model))),
        CardSection("Spending account of the curator", LIMITS),
        CardSection("Synthetic rows", tuple(_synthetic(model))),
        *([CardSection("Censored labels", tuple(_labels(model.labels)))] if model.labels else []),
        CardSection("Files", tuple(_files(model))),
    )


def markdown(model: ReleasedModel) -> str:
    """Return the card as the text of `MODEL_CARD.md`."""
    blocks = [f"# {title(model)}", lead(model), model.notice]
    for part in sections(model):
        blocks.append(f"## {part.title}")
        blocks.append("\n".join(f"- {line}" for line in part.lines))
        if part.rows:
            table = [part.head, ("---",) * len(part.head), *part.rows]
            blocks.append("\n".join(f"| {' | '.join(_escape(cell) for cell in row)} |" for row in table))
    return "\n\n".join(blocks).replace("<", "&lt;") + "\n"


def _escape(cell: str) -> str:
    """Return a text that does not end its cell of a Markdown table."""
    return cell.replace("|", "\\|")


def _statistics(model: ReleasedModel) -> CardSection:
    shown = statistics.lines(model.statistics, model.domain)
    share = 0.0 if model.statistics_share is None else model.statistics_share
    return CardSection(
        "Statistics",
        (
            f"Measured beside the model from the same budget: {percent(share)} of it pays for all statistics together, "
            "and the ledger lists each. They do not depend on the model.",
            "An interval covers the number of the data itself with 95 % probability over the noise. It says nothing "
            "about a larger population.",
        ),
        statistics.HEAD,
        tuple(line.cells for line in shown),
    )


def _guarantee(model: ReleasedModel) -> list[str]:
    privacy = model.privacy
    # The claim may hold for nearby places only; ε between any two records holds for everyone.
    anywhere = privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere
    unless = f", except with a probability of about δ = {plain(privacy.delta)}" if privacy.delta else ""
    unit = (
        "one record (one row of the data)"
        if privacy.unit == "record"
        else "one person, with all their records"
    )
    lines = [
        f"The release limits what anyone can learn from it about one {privacy.unit}. Whatever they already know, it "
        f"changes their odds about that {privacy.unit} by a factor of at most {odds(anywhere).lstrip('×')}{unless}.",
        f"The protected unit is {unit}.",
        TRUST[privacy.trust],
        f"Formal statement: {guarantee(model)}.",
        f"The budget was ε = {plain(privacy.budget_epsilon)}, δ = {plain(privacy.budget_delta)}; "
        "the guarantee does not exceed it.",
    ]
    if privacy.unit == "person":
        most = model.domain.max_records_per_person
        lines.insert(
            2,
            f"At most {count(most, 'record')} of each person are used, chosen without looking at their values.",
        )
    return lines


def _rows_are_public(model: ReleasedModel) -> bool:
    return model.domain.unit == "record" and model.domain.relation == "replace_one"


def _data(model: ReleasedModel) -> list[str]:
    about, domain = model.about, model.domain
    public = "public number" if _rows_are_public(model) else "publicly expected; the true number is private"
    if model.local:
        public = "publicly expected; anyone with the reports can count them"
    lines = [
        about.description,
        f"{count(domain.rows, 'record')} ({public}). {_uses(model)}",
        f"Licence of the data: {about.licence}{f' ({about.licence_url})' if about.licence_url else ''}.",
    ]
    lines += [f"Cite: {about.citation}"] if about.citation else []
    lines += [f"Homepage: {about.homepage}"] if about.homepage else []
    for axis, reason in zip(domain.axes, about.bound_reasons, strict=True):
        unit = f" {axis.unit}" if axis.unit else ""
        about_it = f"`{axis.name}`: {axis.description.rstrip('.')}."
        if axis.kind == "ordinal":
            lines.append(f"{about_it} Public values, in their order: {listing(axis.labels)}.")
            continue
        lower, upper = (format_value(axis, value) for value in axis.values)
        kind = {"integer": " Whole numbers.", "date": " Days."}.get(axis.kind, "")
        lines.append(
            f"{about_it} Public bounds: {lower} to {upper}{unit} "
            f"({reason.rstrip('.')}); {_outside(axis)}.{kind} "
            f"Resolution: {axis.resolution:g}{unit or (' day' if axis.kind == 'date' else '')}."
        )
    for attribute in domain.attributes:
        about_it = attribute.description.rstrip(".")
        lines.append(f"`{attribute.name}`: {about_it}. Public values: {listing(attribute.values)}.")
    return [*lines, *about.caveats]


def _outside(axis: Axis) -> str:
    """Say what happens to values outside the bounds. Atoms are values of their own, inside or outside."""
    lower, upper = axis.values
    beyond = [format_value(axis, atom) for atom in axis.atoms if not lower <= atom <= upper]
    if not beyond:
        return "values outside are clipped"
    share = "which has a share of its own" if len(beyond) == 1 else "which have shares of their own"
    return f"values outside are clipped, except {listing(beyond)}, {share}"


def _uses(model: ReleasedModel) -> str:
    """Say which records the release uses, if some may lack coordinates."""
    if not model.domain.states or registry.method_class(model.method).completes_records:
        return "The release uses all records."
    if model.local:
        return (
            "The release uses all reports. A record that lacks a number reports the middle of the bounds, or its atom, "
            "in place of it, so the mixture has a component there."
        )
    return (
        "The mixture uses the records that have all numbers; how many these are is private. The attributes are those "
        "of all records."
    )


def _mechanism(model: ReleasedModel) -> list[str]:
    settings = ", ".join(f"{key} = {value}" for key, value in model.parameters.items())
    lines = [
        f"Method `{model.method}`{f' ({settings})' if settings else ''}, configured as `{model.mechanism}`."
    ]
    lines += [f"Why it is private: {argument}" for argument in proof_paragraphs(model.method)]
    measured_after = any(row["label"] == ATTRIBUTE_COUNTS for row in model.privacy.ledger)
    if model.shares and not measured_after:
        lines += proof_paragraphs(model.method, "Attributes. ")
    if model.domain.states:
        lines += proof_paragraphs(model.method, "Records that lack coordinates. ")
    if not model.domain.axes:
        lines += proof_paragraphs(model.method, "Without coordinates. ")
    if model.parameters.get("worst_of"):
        lines += proof_paragraphs(model.method, "Groups. ")
    if measured_after:
        lines.append(
            "The attributes were measured after the mixture: one noisy table of components by values, with its own "
            "part of the budget. A record adds at most 1 for each attribute."
        )
    lines.append(f"How the costs add up: {theorem(model.privacy) or model.privacy.accountant}")
    lines += [note[0].upper() + note[1:].rstrip(".") + "." for note in model.notes]
    return lines


def proof_paragraphs(method: str, heading: str = HEADING) -> list[str]:
    """Return the paragraphs of this heading about a method from its module, after those that all local methods share.

    By default they are the privacy argument.
    """
    chosen = registry.method_class(method)
    if sys.flags.optimize > 1:
        raise UserError("the model card quotes docstrings; run Python without -OO (PYTHONOPTIMIZE=2).")
    documents = [sys.modules[kind.__module__].__doc__ or "" for kind in reversed(chosen.__mro__[:-1])]
    found = [
        re.sub(
            r":$",
            f" (a table in `{registry.module_of(method)}`).",
            _join_lines(paragraph.removeprefix(heading)),
        )
        for document in documents
        for paragraph in document.split("\n\n")
        if paragraph.startswith(heading)
    ]
    return list(dict.fromkeys(found))


def _join_lines(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _ledger(model: ReleasedModel) -> list[str]:
    each = " per record" if model.local else ""
    return [
        f"{event.label}: {event.kind}, {event.noise}, {count(event.count, 'time')}{each}."
        for event in group(model.privacy.ledger)
    ]


def _audited(model: ReleasedModel) -> list[str]:
    replayed = (
        "Other runs of the same randomizer on some of the records were replayed with one unit changed."
        if model.local
        else "The run itself was recorded and replayed with one unit changed."
    )
    return [
        "The noise comes from the entropy of the operating system through exact samplers on a lattice of 2^-20. Sums "
        "over records are computed in whole numbers, and rounding is part of the sensitivity.",
        f"{replayed} No noisy number depended on one {model.privacy.unit} by more than the ledger states, nothing "
        "else left the mechanism, and the noise had the claimed size and shape. The recording is deleted.",
        "All noisy numbers were rounded to the lattice before anything was computed from them.",
        "`privmix verify` computes the claim again from the ledger, with two independent accountants, and compares "
        "the ledger with the public plan of the mechanism.",
    ]


def _unprotected(model: ReleasedModel) -> list[str]:
    privacy = model.privacy
    lines = [
        "Facts about the whole population. The model shows what holds for many people, and such a fact can be applied "
        "to anyone, also to people who are not in the data.",
        "Several releases together. Each further release of the same records adds its own ε to this one. The spending "
        "account of the curator limits their sum, but does not notice everything (see below).",
    ]
    if privacy.unit == "record":
        lines.append(
            "A person with several records. The guarantee covers each record on its own; for k records together, ε is "
            "up to k times as large."
        )
    if privacy.relation == "replace_one":
        lines.append(f"The number of {privacy.unit}s, and the fact that someone is in the data.")
    if model.local or _rows_are_public(model):
        lines.append(
            "Whether a row was readable. Rows with invalid values, or with blanks that are no values of the model, are "
            "left out, so the public number of "
            f"{'reports' if model.local else 'records'} shows how many were readable."
        )
    if privacy.within_m is not None:
        lines.append("The rough area of a record. Only nearby places are hidden among each other.")
    if not privacy.randomises_records:
        lines.append("Anything from the curator. The curator holds the original records and must be trusted.")
    return [*lines, *([model.about.privacy_note] if model.about.privacy_note else [])]


def _main_columns(model: ReleasedModel) -> str:
    """Return the names of the coordinates, or of the attributes if there are no coordinates."""
    return listing([each.name for each in model.domain.axes or model.domain.attributes])


def _use(model: ReleasedModel) -> list[str]:
    return [
        f"Use it for the density, clusters and shares of {_main_columns(model)}, for "
        "test data with a realistic form, and for teaching.",
        "Do not use it for decisions about individual people, or for detail below the resolution or at the bounds.",
        "Every number includes noise. A component with little weight may be noise only.",
    ]


def _synthetic(model: ReleasedModel) -> list[str]:
    made = model.synthetic
    lines = [
        f"{count(made.rows, 'row')} drawn from the model, with the columns "
        f"{listing([f'`{name}`' for name in made.columns])} in the units of the source, clipped to the public "
        "bounds, with atoms as declared. "
        "Drawing them costs no privacy, and no row is copied from the data. They follow from the model and the "
        f"published seed `{made.seed}`, so anyone can draw the same rows again."
    ]
    attributes = [attribute.name for attribute in model.domain.attributes if attribute.name in made.columns]
    if attributes:
        lines.append(
            f"{listing([f'`{name}`' for name in attributes])}: drawn from the released shares of each component. They "
            f"depend on {'the coordinates and on ' if model.domain.axes else ''}each other only as far as the "
            "components tell them apart."
        )
    states = [
        f"`{model.domain.axes[number].name}`"
        for number, state in model.domain.states.items()
        if state.name in model.shares
    ]
    if states:
        lines.append(
            f"{listing(states)}: blanks, and values with a share of their own, are drawn from the released shares of "
            "each component. They depend on other values only as far as the components tell them apart."
        )
    elif model.domain.states:
        lines.append("No row has a blank or an atom, because the release holds nothing about them.")
    if made.left_out:
        lines.append(
            f"{listing([f'`{name}`' for name in made.left_out])}: left out, because the release holds nothing about "
            f"{'it' if len(made.left_out) == 1 else 'them'}."
        )
    return lines


def _labels(labels: CensoredLabels) -> list[str]:
    told = [
        f"{each.limit:g} nats about `{each.attribute}` (wanted: at most {each.at_most:g})"
        for each in labels.limits
    ]
    return [
        f"A label of a record is its component with probability {labels.kept:g}, and otherwise a component drawn from "
        "the weights. `PrivateGaussianMixture.from_release(folder).sample_labels(X)` draws labels of new records. The "
        "release holds no label of its own records.",
        f"With 95 % confidence, a label of the records of this release tells at most {listing(told)}. The limits "
        "follow from the published noisy table of components by values, so they cost no further privacy.",
        "A limit holds for one label of each record and for each attribute on its own. Several labels of one record, "
        "or of several records of one person, tell more. So does a label together with other facts about the record.",
    ]


def _files(model: ReleasedModel) -> list[str]:
    described = (
        f"`{MODEL}`: the mixture in original units and in the unit ball, the claim, the ledger and the published "
        "noisy numbers. `privmix.release.folder.read_release(folder).original.mixture.to_sklearn()` returns a "
        "scikit-learn estimator."
    )
    if not model.domain.axes:
        described = (
            f"`{MODEL}`: the weights of the components, their shares of the values of each attribute, the claim, the "
            "ledger and the published noisy numbers."
        )
    lines = [
        described,
        f"`{SYNTHETIC_PARQUET}` and `{SYNTHETIC_CSV}`: the same synthetic rows.",
        f"`{CHECKSUMS}`: checksums of all files; check them with `sha256sum --check {CHECKSUMS}`.",
        f"`{SIGNATURE}`: the curator's signature of the checksums; check it with `privmix verify --signer KEY`.",
    ]
    if model.local:
        lines.insert(
            1, f"`{REPORTS}`: the randomised reports in random order, and nothing else of the records."
        )
    return [*lines, f"Made by Privmix {model.version} on {model.made.isoformat()}."]
