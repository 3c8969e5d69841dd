"""`privmix verify`: check that a folder is a complete release, that its ledger proves its claim, and nothing more.

Anyone who gets the release can run it without the records. The mechanism guarantees that the release exposes no single
record. This module checks that the files are unchanged and complete, that every file has the form of a release file and
no room for more, and that no byte shows a trace of the machine, a time of day or a seed.
"""

import getpass
import math
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privmix.artefacts.io import METADATA_KEY, parse_metadata, read_table
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, RELEASE_NOTICE
from privmix.artefacts.private import PrivateInfo
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.privacy.accounting import (
    Claim,
    Theorem,
    account,
    claim_distance,
    compose_after_selection,
    nearby_events,
)
from privmix.privacy.ledger import DECIDING, Event, from_rows
from privmix.release import card, second_accountant
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    MODEL,
    PAGE,
    REPORTS,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    TIMESTAMP,
    ReleasedModel,
    file_digest,
    read_release,
)

SAME = 1e-6  # relative to ε: two computations of the same number agree to this
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
PRIVATE_COLUMN = re.compile(r"person|split|x\d+|c_.*")
LEAST_NAME = 5  # letters; shorter host and user names occur by chance
TRACES = {
    "a path of a machine": rb"(?<![\w+/=.:-])/(?:home|root|tmp|Users|usr|var|mnt|opt|srv|scratch|work)/[\w.]"
    rb"|(?<!\w)[A-Z]:\\{1,2}(?:Users|Windows|Documents|Program|Temp|temp|data|home)",
    "a time of day": rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?<![\d:.])[0-2]?\d:[0-5]\d:[0-5]\d(?![\d:])",
    "a seed": rb"(?i)(?<![a-z])seed['\"]?\s*[:=]\s*\d",
}


def verify(folder: Path) -> ReleasedModel:
    """Verify a release folder and return its model. Raise a UserError for the first check that fails."""
    folder = Path(folder)
    _refuse_benchmark(folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give a folder that `privmix release` has written.")
    model = read_release(folder)
    _check_files(folder, model)
    _check_mode(model)
    _check_claim(model)
    _check_model(model)
    _check_synthetic(folder, model)
    if model.local:
        _check_reports(folder, model)
    for name in (CARD, PAGE):
        _check_statement(folder / name, model)
    for name in (*model.files, CHECKSUMS):
        _check_traces(folder / name)
    return model


def _refuse_benchmark(folder: Path) -> None:
    """Refuse benchmark files. They carry a notice, so they are recognised under any name."""
    candidates = [folder] if folder.is_file() else [folder / MODEL, folder / REPORTS]
    for path in candidates:
        if path.is_file() and (BENCHMARK_NOTICE.encode() in path.read_bytes()):
            raise UserError(
                f"{path} is a benchmark file: its noise comes from a known seed, so anyone can remove it. "
                "It must not be published; make a release with `privmix release`."
            )
    if folder.is_file():
        raise UserError(f"{folder} is a file; give a folder that `privmix release` has written.")


def _check_files(folder: Path, model: ReleasedModel) -> None:
    path = folder / CHECKSUMS
    if not path.is_file():
        raise UserError(f"{folder} has no file {CHECKSUMS}; the release is incomplete, get it again.")
    lines = [line.split("  ", 1) for line in path.read_text(errors="replace").splitlines() if "  " in line]
    listed = {name: digest for digest, name in lines}
    if set(listed) != set(model.files):
        raise UserError(
            f"{path} lists {sorted(listed)}, but a release of this kind has {sorted(model.files)}."
        )
    for entry in folder.iterdir():
        harmless = entry.name == TIMESTAMP and entry.stat().st_size == 0
        if entry.name not in (*listed, CHECKSUMS) and not harmless:
            raise UserError(f"{entry} is not part of the release; remove it.")
    for name, expected in listed.items():
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing; get the release again.")
        if file_digest(folder / name) != expected:
            raise UserError(f"{folder / name} was changed: its checksum differs; get the release again.")


def _check_mode(model: ReleasedModel) -> None:
    if model.privacy.mode != "release" or model.notice != RELEASE_NOTICE:
        raise UserError(f"{MODEL} has the mode {model.privacy.mode!r} and must not be published.")
    for key in _keys(model.model_dump(mode="json")):
        if key in SECRET_KEYS:
            raise UserError(f"{MODEL} has the key {key!r}, which a release must not hold; do not publish it.")


def _check_claim(model: ReleasedModel) -> None:
    """Check that our accountant computes the claim from the ledger, and the second one no larger ε."""
    privacy = model.privacy
    events = from_rows(privacy.ledger)
    if not events or not math.isfinite(privacy.epsilon):
        raise UserError(f"{MODEL} has no ledger that proves its claim; do not publish it.")
    theorem = cast(Theorem, privacy.accountant)  # `account` refuses any other
    ours = recompute_claim(nearby_events(events), privacy.budget_delta, theorem)
    if abs(ours.epsilon - privacy.epsilon) > SAME * privacy.epsilon or ours.delta > privacy.delta:
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


def recompute_claim(events: list[Event], delta: float, theorem: Theorem) -> Claim:
    """Return the claim of a ledger. The ε of a private choice at its start is added to that of the rest."""
    if isinstance(events[0], DECIDING) and len(events) > 1:
        return compose_after_selection(events[:1], account(events[1:], delta, theorem))
    return account(events, delta, theorem)


def _check_model(model: ReleasedModel) -> None:
    if model.method not in registry.METHODS or model.mechanism.startswith("."):
        raise UserError(
            f"{MODEL} names the method {model.method!r}, which this version of Privmix does not have; update Privmix."
        )
    centre, scale = (
        np.array([getattr(axis, name) for axis in model.domain.axes]) for name in ("centre", "scale")
    )
    back = model.normalised.mixture.restore(centre, scale)
    original = model.original.mixture
    for one, other in ((back.means, original.means), (back.covariances, original.covariances)):
        if one.shape != other.shape or not np.allclose(one, other, rtol=1e-6, atol=0):
            raise UserError(
                f"{MODEL}: the mixture in original units is not the mixture in the unit ball; do not publish it."
            )


def _check_synthetic(folder: Path, model: ReleasedModel) -> None:
    table = _table(folder / SYNTHETIC_PARQUET)
    with (folder / SYNTHETIC_CSV).open(encoding="utf-8", newline="") as stream:
        header = stream.readline().rstrip("\n").split(",")
        lines = sum(1 for _ in stream)
    made = model.synthetic
    if tuple(table.column_names) != made.columns or tuple(header) != made.columns:
        raise UserError(
            f"the synthetic rows do not have the columns that {MODEL} states: {', '.join(made.columns)}."
        )
    if {table.num_rows, lines} != {made.rows}:
        raise UserError(f"the synthetic files do not hold the {made.rows} rows that {MODEL} states.")
    for axis in model.domain.axes:
        values = table[axis.name].to_numpy()
        if not ((values >= axis.lower) & (values <= axis.upper)).all():
            raise UserError(
                f"synthetic {axis.name!r} exceeds its public bounds {axis.lower:g} to {axis.upper:g}."
            )
    for attribute in model.domain.attributes:
        if attribute.name not in made.columns:
            continue
        if not set(table[attribute.name].unique().to_pylist()) <= set(attribute.values):
            raise UserError(f"synthetic {attribute.name!r} has values that are not in its public list.")


def _check_reports(folder: Path, model: ReleasedModel) -> None:
    table = read_table(folder / REPORTS, sealed=False)  # releases of older versions have no seal
    info = parse_metadata(table, PrivateInfo, folder / REPORTS)
    if info.privacy != model.privacy or info.domain != model.domain or info.notice != RELEASE_NOTICE:
        raise UserError(f"{REPORTS} and {MODEL} do not state the same guarantee; do not publish them.")
    if info.seconds or info.replay is not None or info.reports != [table.num_rows]:
        raise UserError(f"{REPORTS} states more about its making than a release may; do not publish it.")
    for name in table.column_names:
        if PRIVATE_COLUMN.fullmatch(name):
            raise UserError(f"{REPORTS} has the column {name!r}, which is not a report; do not publish it.")


def _check_statement(path: Path, model: ReleasedModel) -> None:
    if card.guarantee(model) not in path.read_text(encoding="utf-8"):
        raise UserError(f"{path} does not state the guarantee of {MODEL}: {card.guarantee(model)}.")


def _check_traces(path: Path) -> None:
    content = path.read_bytes()
    for what, pattern in TRACES.items():
        found = re.search(pattern, content)
        if found:
            raise UserError(
                f"{path} holds {what} ({found[0].decode(errors='replace')!r}); do not publish it."
            )
    for name in _own_names():
        if re.search(rb"(?<![\w-])" + re.escape(name.encode()) + rb"(?![\w-])", content):
            raise UserError(f"{path} holds the name of this machine or user ({name!r}); do not publish it.")


def _own_names() -> Iterator[str]:
    """Yield the host and user names that would show where a release was made, except common words."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    for name in (platform.node(), user):
        if len(name) >= LEAST_NAME and name not in ("localhost", "runner", "ubuntu", "admin"):
            yield name


def _table(path: Path) -> pa.Table:
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); get the release again.") from error
    if METADATA_KEY in (table.schema.metadata or {}):
        raise UserError(f"{path} has metadata that synthetic rows must not have; do not publish it.")
    return table


def _keys(value: Any) -> Iterator[str]:
    """Yield all keys at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def passed_checks(model: ReleasedModel) -> tuple[str, ...]:
    """Describe the checks that a verified release has passed."""
    return (
        f"The folder holds {len(model.files)} files and their checksums, unchanged and nothing else.",
        "The ledger adds up to the claim, and the claim is within the budget.",
        f"A second accountant ({second_accountant.NAME}) finds no larger ε.",
        "The model card and the page state the same guarantee as the model.",
        "The synthetic rows stay within the public bounds and values.",
        "No exact statistic, machine path, name of this machine or user, time of day or seed was found in any file.",
    )
