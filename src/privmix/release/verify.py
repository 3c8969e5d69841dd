"""`privmix verify`: check that a folder is a complete release that agrees with itself and with its public plan.

Anyone who gets the release can run it without the records. Everything in the folder that follows from something else is
computed again and compared: the ledger from the public plan of the mechanism, the claim from the ledger, the synthetic
rows from the model and their seed, the card and the page from the model, shares from reports. Everything else has a
closed form without room for more.

What remains are noisy numbers, texts of the catalog, and mixtures that a random search has found. A forger who
invents these consistently is not noticed without the key of the curator. With `signer`, the signature of the folder
must be of that key: then the folder is as its holder made it.
"""

import datetime
import importlib.metadata
import io
import math
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, RELEASE_NOTICE
from privmix.errors import UserError, printable
from privmix.privacy.accounting import (
    ATTRIBUTE_COUNTS,
    Claim,
    account,
    claim_distance,
    compose_run,
    nearby_events,
)
from privmix.privacy.ledger import from_rows, to_rows
from privmix.release import card, page, second_accountant, signing, summary, synthetic
from privmix.release.closed_files import check_regular, is_same_file, open_parquet, read_text
from privmix.release.derived_values import (
    Derived,
    check_labels,
    check_mixture,
    check_notes,
    check_shares,
    check_statistics,
)
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    COMMON_FILES,
    MEASURED,
    MODEL,
    MOST_BYTES,
    PAGE,
    REPORTS,
    SIGNATURE,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    TIMESTAMP,
    ReleasedModel,
    checksums,
    model_text,
    read_release,
)
from privmix.release.model_form import check_domain, check_mixtures, check_texts
from privmix.release.public_plan import PublicPlan, make_plan
from privmix.release.report_files import check_reports
from privmix.release.traces import check_traces
from privmix.release.transcripts import check_transcript

SAME = 1e-6  # relative to ε: two computations of the same number agree to this
CALIBRATED = 1e-5  # relative: the search for the least noise ends within 1e-6 of ε
NOT_PROVEN = "internally consistent; origin not proven"
MOST_FILES = 16
COUNTING = (
    "noisy_grid",
    "noisy_tree",
    "tree_then_moments",
    "noisy_moments",
    "posterior_sample",
)  # count records
FIRST_DAY = datetime.date(2020, 1, 1)  # before the first release
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
# Keys of benchmark files. The seed of the synthetic rows is public: see `release.synthetic`.
SECRET_KEYS = {
    "seed",
    "master_seed",
    "witness",
    "statistic",
    "seconds",
    "replay",
    "person",
    "raw_sha256",
    "key",
}


@dataclass(frozen=True)
class Verdict:
    """The model of a verified release, who signed it, and the checks that passed."""

    model: ReleasedModel
    signed_by: str  # the public key in the folder
    origin_proven: bool  # whether this is the key that the caller trusts
    checks: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        if self.origin_proven:
            return f"internally consistent, and signed by {self.signed_by}"
        return NOT_PROVEN


def verify(folder: Path, signer: str | None = None, *, rehearsal: bool = False) -> ReleasedModel:
    """Verify a release folder and return its model. Raise a UserError for the first check that fails."""
    return inspect(folder, signer, rehearsal=rehearsal).model


def inspect(folder: Path, signer: str | None = None, *, rehearsal: bool = False) -> Verdict:
    """Verify a release folder. `signer` is the trusted public key, in hexadecimal digits or as a file.

    A rehearsal has reports of a few made-up records, so their number is not checked.
    """
    trusted = None if signer is None else signing.read_signer(signer)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hostile numbers overflow
            return _inspect(Path(folder), trusted, rehearsal)
    except UserError as error:
        raise UserError(_as_line(str(error), str(Path(folder)))) from error
    except OSError as error:
        raise UserError(
            f"{printable(str(folder))} cannot be read ({error.strerror or 'damaged file'}); get the release again."
        ) from error
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
        AssertionError,
    ) as error:
        raise UserError(
            f"{printable(str(folder))} holds values that no release has ({type(error).__name__}); do not publish it."
        ) from error


def _as_line(sentence: str, folder: str) -> str:
    """Return an error as one line: without runs of blanks in texts of a release, and with all letters visible."""
    parts = (printable(summary.join_blanks(part)) for part in sentence.split(folder))
    return printable(folder).join(parts)


def _inspect(folder: Path, trusted: str | None, rehearsal: bool) -> Verdict:
    _refuse_benchmark(folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give a folder that `privmix release` has written.")
    _check_listing(folder)
    names = _check_files(folder)
    signed_by = signing.check_signature(folder)
    if trusted is not None and signed_by != trusted:
        raise UserError(
            f"{folder} is signed by {signed_by}, not by the given key: it does not come from the signer that you trust."
        )
    model = read_release(folder)
    if model.local != (REPORTS in names):
        said = "is missing; get the release again" if model.local else "is not part of the release; remove it"
        raise UserError(f"{folder / REPORTS} {said}.")
    _check_form(folder, model)
    plan = make_plan(model)
    _check_ledger(model, plan)
    _check_claim(model)
    check_transcript(model.transcript, plan, any_number=rehearsal)
    check_mixtures(model, plan.mechanism.most_components(plan.spec))
    derived = check_mixture(model, plan)
    check_shares(model, plan)
    check_labels(model, plan)
    check_statistics(model, plan)
    check_notes(model, plan)
    _check_synthetic(folder, model)
    if model.local:
        check_reports(folder, model, plan, any_number=rehearsal)
    _check_texts(folder, model)
    checks = passed_checks(model, plan, derived)
    if trusted is not None:
        checks = (f"The signature is of the key {trusted}.", *checks)
    return Verdict(model, signed_by, trusted is not None, checks)


def _refuse_benchmark(folder: Path) -> None:
    """Refuse benchmark files. They carry a notice, so they are recognised under any name."""
    candidates = [folder] if folder.is_file() else [folder / MODEL, folder / REPORTS]
    for path in candidates:
        if path.is_file() and _holds(path, BENCHMARK_NOTICE.encode()):
            raise UserError(
                f"{path} is a benchmark file: its noise comes from a known seed, so anyone can remove it. "
                "It must not be published; make a release with `privmix release`."
            )
    if folder.is_file():
        raise UserError(f"{folder} is a file; give a folder that `privmix release` has written.")


def _holds(path: Path, words: bytes) -> bool:
    """Return whether the end of a file contains these words. The notice of a Parquet file is at its end."""
    with path.open("rb") as stream:
        size = path.stat().st_size
        stream.seek(max(size - MOST_BYTES[MODEL], 0))
        return words in stream.read(min(size, MOST_BYTES[MODEL]))


def _check_listing(folder: Path) -> None:
    """Refuse links, devices, unknown names and oversized files before anything is read."""
    for number, entry in enumerate(folder.iterdir()):
        if entry.name == TIMESTAMP and check_regular(entry, MOST_BYTES[MODEL]) == 0:
            continue
        if entry.name not in MOST_BYTES or number > MOST_FILES:
            raise UserError(f"{entry} is not part of the release; remove it.")
        check_regular(entry, MOST_BYTES[entry.name])


def _check_files(folder: Path) -> tuple[str, ...]:
    """Check all files against the checksums, before any of them is parsed. Return their names."""
    check_regular(folder / MODEL, MOST_BYTES[MODEL])
    if not (folder / CHECKSUMS).is_file():
        raise UserError(f"{folder} has no file {CHECKSUMS}; the release is incomplete, get it again.")
    stated = read_text(folder / CHECKSUMS, MOST_BYTES[CHECKSUMS]).splitlines(keepends=True)
    with_reports = any(line.endswith(f"  {REPORTS}\n") for line in stated)
    names = (*COMMON_FILES, *((REPORTS,) if with_reports else ()))
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing; get the release again.")
    if not (folder / SIGNATURE).is_file():
        raise UserError(
            f"{folder / SIGNATURE} is missing; get the release again. A release of format 1 has none: check it with "
            "the version of Privmix that made it."
        )
    if not with_reports and (folder / REPORTS).exists():
        raise UserError(f"{folder / REPORTS} is not part of the release; remove it.")
    expected = checksums(folder, names).splitlines(keepends=True)
    for line in expected:
        if line not in stated:
            name = line.split("  ", 1)[1].strip()
            raise UserError(f"{folder / name} was changed: its checksum differs; get the release again.")
    if stated != expected:
        raise UserError(f"{folder / CHECKSUMS} lists more than the files of the release; get it again.")
    return names


def _check_form(folder: Path, model: ReleasedModel) -> None:
    """Check all parts of the model whose form does not depend on the mechanism."""
    if model.privacy.mode != "release":
        raise UserError(f"{MODEL} has the mode {model.privacy.mode!r} and must not be published.")
    if model.notice != RELEASE_NOTICE:
        raise UserError(f"{MODEL} has another notice than the one of every release; do not publish it.")
    content = model.model_dump(mode="json")
    content["synthetic"].pop("seed")
    for key in _keys(content):
        if key in SECRET_KEYS:
            raise UserError(f"{MODEL} has the key {key!r}, which a release must not hold; do not publish it.")
    text = read_text(folder / MODEL, MOST_BYTES[MODEL])
    if text != model_text(model):
        raise UserError(
            f"{MODEL} is not written as Privmix writes it (order, spacing, digits, signs of zeros or repeated keys), "
            "which can hide data; do not publish it."
        )
    privacy = content["privacy"]
    written_by_hand = (
        "about",
        "domain",
        "mechanism",
        "method",
        "version",
        "parameters",
        "notes",
        "synthetic",
    )
    check_texts({"accountant": privacy["accountant"], **{name: content[name] for name in written_by_hand}})
    # The other parts hold numbers, and texts that follow from the plan.
    check_traces(
        model.model_dump_json(indent=1, exclude={**dict.fromkeys(MEASURED, True), "privacy": {"ledger"}})
    )
    if not FIRST_DAY <= model.made <= datetime.date.today() + datetime.timedelta(days=1):
        raise UserError(
            f"{MODEL} has the date {model.made}, which is before the first release or in the future; do not publish it."
        )
    installed = importlib.metadata.version("privmix")
    if model.version != installed:
        raise UserError(
            f"the release was made by Privmix {model.version[:20]}, and this is Privmix {installed}. Plans of "
            "mechanisms and texts of cards may differ between versions; verify it with the version that made it."
        )
    if not NAME.fullmatch(model.mechanism) or not NAME.fullmatch(model.domain.dataset):
        raise UserError(f"{MODEL}: the name of the mechanism or of the dataset is not valid.")
    if len(model.about.bound_reasons) != len(model.domain.axes):
        raise UserError(f"{MODEL}: about.bound_reasons does not have one reason for each coordinate.")
    check_domain(model)


def _check_ledger(model: ReleasedModel, plan: PublicPlan) -> None:
    """Compare the ledger and the guarantee with those that the public plan of the mechanism demands."""
    privacy = model.privacy
    if not privacy.ledger or not math.isfinite(privacy.epsilon):
        raise UserError(f"{MODEL} has no ledger that proves its claim; do not publish it.")
    demanded = to_rows(plan.events)
    same = len(demanded) == len(privacy.ledger)
    for one, other in zip(demanded, privacy.ledger, strict=False):
        same = same and tuple(one) == tuple(other)
        same = same and all(_agree(one[key], other[key]) for key in one)
    if not same:
        raise UserError(
            f"{MODEL}: the ledger is not the one that {model.method} has by its public plan at "
            f"ε = {privacy.budget_epsilon:g}, δ = {privacy.budget_delta:g}; do not publish it."
        )
    stated = plan.job.privacy_statement(model.domain, Claim(privacy.epsilon, privacy.delta), plan.events)
    for name in ("unit", "relation", "trust", "accountant", "within_m", "epsilon_anywhere"):
        if not _agree(getattr(stated, name), getattr(privacy, name)):
            raise UserError(
                f"{MODEL} states {name} = {getattr(privacy, name)}, but {model.method} guarantees "
                f"{getattr(stated, name)} for this dataset; do not publish it."
            )


def _agree(demanded: Any, stated: Any) -> bool:
    """Return whether two values are the same. Calibrated numbers may differ by the end of their search."""
    if isinstance(demanded, float):
        return type(stated) in (float, int) and math.isclose(demanded, stated, rel_tol=CALIBRATED)
    return type(demanded) is type(stated) and bool(demanded == stated)


def _check_claim(model: ReleasedModel) -> None:
    """Check that our accountant computes the claim from the ledger, and the second one no larger ε."""
    privacy = model.privacy
    events = from_rows(privacy.ledger)
    theorem: Any = privacy.accountant  # `account` refuses any other
    ours = compose_run(nearby_events(events), privacy.budget_delta, theorem)
    if abs(ours.epsilon - privacy.epsilon) > SAME * privacy.epsilon or ours.delta != privacy.delta:
        raise UserError(
            f"{MODEL} claims ε = {privacy.epsilon:.6g}, δ = {privacy.delta:g}, but its ledger adds up to "
            f"ε = {ours.epsilon:.6g}, δ = {ours.delta:g}; do not publish it."
        )
    for what, limit in (("ε", privacy.budget_epsilon), ("δ", privacy.budget_delta)):
        spent = privacy.epsilon if what == "ε" else privacy.delta
        if spent > limit * (1 + SAME):
            raise UserError(
                f"{MODEL} claims {what} = {spent:.6g}, more than its budget {limit:g}; do not publish it."
            )
    anywhere = account(events, privacy.delta, theorem).epsilon if claim_distance(events) else None
    if privacy.within_m != claim_distance(events) or not _same(privacy.epsilon_anywhere, anywhere):
        raise UserError(
            f"{MODEL} claims ε = {privacy.epsilon:.6g} within {privacy.within_m} m and {privacy.epsilon_anywhere} "
            f"anywhere, but its ledger gives {claim_distance(events)} m and {anywhere}; do not publish it."
        )
    theirs = second_accountant.exceeds(nearby_events(events), privacy.delta, privacy.epsilon)
    if theirs is not None:
        raise UserError(
            f"{MODEL} claims ε = {privacy.epsilon:.6g} at δ = {privacy.delta:g}, but the second accountant "
            f"({second_accountant.NAME}) finds at least ε = {theirs:.6g} for the same ledger; do not publish it."
        )


def _same(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= SAME * second


class _Comparison(io.TextIOBase):
    """A text stream that compares what is written to it with a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.same = True

    def write(self, text: str) -> int:
        content = text.encode()
        self.same = self.same and self._file.read(len(content)) == content
        if not self.same:
            raise _DifferentError
        return len(text)

    def close(self) -> None:
        self.same = self.same and not self._file.read(1)
        self._file.close()


class _DifferentError(Exception):
    pass


def _check_synthetic(folder: Path, model: ReleasedModel) -> None:
    """Draw the synthetic rows again, and compare the bytes of both files."""
    made, text, parquet = model.synthetic, folder / SYNTHETIC_CSV, folder / SYNTHETIC_PARQUET
    if text.stat().st_size < 2 * made.rows:
        raise UserError(f"the synthetic files do not hold the {made.rows} rows that {MODEL} states.")
    wrong = UserError(
        f"the synthetic rows are not those that the model and the seed in {MODEL} give; do not publish them."
    )
    stream = _Comparison(text)
    try:
        synthetic.write_csv(model, stream)
    except _DifferentError as error:
        raise wrong from error
    finally:
        stream.close()
    if not stream.same:
        raise wrong
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / SYNTHETIC_PARQUET
        synthetic.write_parquet(model, copy)
        if not is_same_file(parquet, copy):
            open_parquet(parquet, MOST_BYTES[SYNTHETIC_PARQUET], made.columns, made.rows, set())
            raise wrong


def _check_texts(folder: Path, model: ReleasedModel) -> None:
    """Compare the card and the page with those that the model gives."""
    if read_text(folder / CARD, MOST_BYTES[CARD]) != card.markdown(model):
        raise UserError(
            f"{CARD} is not the card that {MODEL} gives, so it may promise more or hold more; do not publish it. "
            f"{MODEL} guarantees {card.guarantee(model)}."
        )
    if read_text(folder / PAGE, MOST_BYTES[PAGE]) != page.render(model):
        raise UserError(f"{PAGE} is not the page that {MODEL} gives; do not publish it.")


def _keys(value: Any) -> Iterator[str]:
    """Yield all keys at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _count_check(model: ReleasedModel, plan: PublicPlan) -> str:
    """Say with what the counts of records in the transcript were compared."""
    public, complete = plan.mechanism.relation(plan.spec).size_is_public, not plan.mixture_spec.all_counted
    if model.method not in COUNTING:
        return "Not checked: whether the transcript is of the stated number of records."
    if not complete and public:
        return "The counts of the transcript add up to the public number of records, up to their noise."
    with_table = complete and plan.attributes is not None
    if with_table:
        most = ", and are no more than all records" if public else ""
        return (
            "The counts of the records that have all numbers add up to the number that the table of blanks and atoms "
            f"gives{most}, up to their noise."
        )
    if public:
        return (
            "The counts of the records that have all numbers add up to no more than all records, up to their noise. "
            "Not checked: how many these are; it is private, and no other part of the release counts them."
        )
    return (
        "Not checked: the number of records, which is private and which no other part of the release counts."
    )


def passed_checks(model: ReleasedModel, plan: PublicPlan, derived: Derived) -> tuple[str, ...]:
    """Describe the checks that a verified release has passed, and those that were not possible."""
    found = [
        f"The folder holds {len(model.files)} files, their checksums and a signature of these, and nothing else.",
        f"The ledger is the one that {model.method} has by its public plan at this budget, up to six digits.",
        "The ledger adds up to the claim, and the claim is within the budget, up to six digits.",
        f"A second accountant ({second_accountant.NAME}) finds no larger ε.",
        "The transcript has the form that the plan demands, and the notes are sentences of the mechanism.",
        "The model card and the page with its picture are those that model.json gives.",
        "The synthetic rows are drawn from the model with the published seed; CSV and Parquet hold the same rows.",
        "No path of a machine and no time of day was found in the texts.",
    ]
    if not model.local:
        found.insert(
            5,
            "All noisy numbers of the transcript lie on the lattice of releases. Tests of their sizes, sums and digits "
            "found no sign of missing noise.",
        )
    else:
        found.insert(
            5,
            "The reports have the columns and values of the mechanism. Tests of how often each answer occurs, or of "
            "the sizes of the numbers, found no sign of missing noise.",
        )
    table = any(row["label"] == ATTRIBUTE_COUNTS for row in model.privacy.ledger)
    reported = model.local and bool(model.domain.axes)
    if model.shares and derived == "weights" and not table:
        found.insert(
            6,
            "The shares of attributes are near those of the last measurements in the transcript, as every start of "
            "these demands.",
        )
    elif model.shares and (table or derived == "mixture" or reported):
        found.insert(
            6,
            f"The shares of attributes follow from {'the reports' if model.local else 'the transcript'}, up to one "
            "unit of their last digit.",
        )
    if model.labels is not None:
        found.insert(6, "The limits of the censored labels follow from the transcript.")
    if model.statistics:
        found.insert(
            6,
            "The statistics, their intervals and their accuracies follow from the transcript, up to their last digit.",
        )
    if derived == "mixture":
        found.insert(6, "The mixture follows from the transcript, up to six digits.")
    elif derived == "weights":
        found.insert(6, "The weights of the mixture follow from the transcript, up to six digits.")
        exact = table or not model.shares
        found.append(
            "Not checked: the means and covariances of the mixture start from a random search, so only their form was "
            "checked."
            + ("" if exact else " It also moves the shares of attributes, by less than their noise.")
        )
    else:
        known = table or reported or not model.shares
        what, its = (
            ("the mixture comes", "its")
            if known
            else ("the mixture and the shares of attributes come", "their")
        )
        found.append(f"Not checked: {what} from a random search, so only {its} form was checked.")
    if not model.local:
        found.append(_count_check(model, plan))
    free = {  # parts of a transcript that do not follow from its noisy numbers
        "dp_sgd": "the start",
        "output_noise": "the reference",
        "posterior_sample": "the reference, the intervals and the draws",
    }
    if model.method in free:
        found.append(
            f"Not checked: {free[model.method]} in the transcript; a random search or draw made them, so only their "
            "form was checked."
        )
    found.append(
        "Not checked: notes on the course of a random search (EM stopped early; components that are empty, narrow, or "
        "were moved or narrowed; what the aim at the worst group changes), of which only the form was checked."
    )
    found.append(
        "Not checked: attributes that a file system keeps beside the contents of files, such as times, owners and "
        "extended attributes. A copy of the contents leaves them behind."
    )
    look = "The last digits of noisy numbers"
    if model.local:
        look = "The last digits of noisy numbers, the numbers of hash functions and the order of the reports"
    found.append(
        "Not checked, because a folder cannot show it: that the noise was really drawn, independent and of the stated "
        "scale. Invented numbers that pass the tests look the same, and the tests notice noise that is several times "
        "too small only where there are many numbers. Nor that the records are those of the stated unit, relation and "
        "number, and that public texts, bounds, parameters and names, the published seed, and digits beyond the sixth "
        f"of numbers that follow from others hold no records. {look} look random, but they could be encrypted records. "
        "This needs trust in the signer."
    )
    return tuple(found)
