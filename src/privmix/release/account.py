"""The spending account: the cost of all releases of the same records, in an append-only file."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privmix.artefacts.io import atomic_write
from privmix.errors import UserError
from privmix.privacy.accounting import Claim, Theorem, account, claim_distance
from privmix.privacy.composition import ROUNDING, ReleaseCost, same_relation, total_cost
from privmix.privacy.ledger import Event, from_rows, to_rows


@dataclass(frozen=True)
class SpendingLimit:
    """The most that all releases together may cost."""

    epsilon: float
    delta: float


class Account:
    """The account of one raw file (by its content) and one unit."""

    def __init__(self, folder: Path, content: str, unit: str) -> None:
        if len(content) != 64:
            raise UserError(
                "the clean file does not name its raw file; delete it and clean the dataset again."
            )
        self.path = Path(folder) / f"{content[:32]}-{unit}.jsonl"
        self._seal = self.path.with_suffix(".seal")
        self._first = hashlib.sha256(f"privmix {content} {unit}".encode()).hexdigest()
        self._of_persons = None if unit == "person" else Account(folder, content, "person")

    def releases(self) -> list[ReleaseCost]:
        """Return all releases so far, in order."""
        with self._locked() as handle:
            return [*_releases(self._read(handle)[0]), *self._protecting_persons()]

    def _protecting_persons(self) -> list[ReleaseCost]:
        """Return the releases that protect persons. Each costs a single record as much as a person."""
        if self._of_persons is None or not self._of_persons.path.exists():
            return []
        return self._of_persons.releases()

    def begin(self, what: dict[str, Any], spent: ReleaseCost, limit: SpendingLimit) -> str:
        """Record that a release will spend at most this, and return its id. Refuse it above the limit.

        The line is on the disk when this returns.
        """
        with self._locked() as handle:
            entries, end = self._read(handle)
            before = [*_releases(entries), *self._protecting_persons()]
            check_limit(before, spent, limit, self.path)
            number = secrets.token_hex(8)
            entry = {
                "entry": "intent",
                "release": number,
                **what,
                "relation": spent.relation,
                "epsilon": spent.epsilon,
                "delta": spent.delta,
            }
            self._append(handle, entry, entries, end)
        return number

    def finish(self, number: str, epsilon: float, delta: float, events: Sequence[Event]) -> None:
        """Record what a release has spent."""
        with self._locked() as handle:
            entries, end = self._read(handle)
            entry = {
                "entry": "done",
                "release": number,
                "epsilon": epsilon,
                "delta": delta,
                "ledger": list(to_rows(events)),
            }
            self._append(handle, entry, entries, end)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UserError(
                f"the spending account {self.path} cannot be opened ({error.strerror}); fix its permissions. "
                "Nothing is released without it."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # the system releases the lock when the process ends
            yield handle
        finally:
            os.close(handle)

    def _read(self, handle: int) -> tuple[list[dict[str, Any]], int]:
        """Return the entries, each with the hash of its line, and the end of the last complete line."""
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        end = content.rfind(b"\n") + 1
        entries, before = [], self._first
        for number, line in enumerate(content[:end].splitlines(), start=1):
            try:
                entry = json.loads(line)
                sound = entry["previous"] == before and entry["entry"] in ("intent", "done")
            except (ValueError, KeyError, TypeError):
                sound = False
            if not sound:
                raise self._altered(f"line {number} does not match the hash of the line before it")
            before = hashlib.sha256(line).hexdigest()
            entries.append({**entry, "hash": before})
        self._check_seal(entries)
        return entries, end

    def _check_seal(self, entries: list[dict[str, Any]]) -> None:
        """Check the seal. It may be one line behind, if a release was killed between both writes, but never ahead."""
        if not self._seal.exists():
            if len(entries) > 1:
                raise self._altered(f"its seal {self._seal.name} is missing")
            return
        try:
            seal = json.loads(self._seal.read_text())
            lines, last = int(seal["lines"]), seal["last"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._altered(f"its seal {self._seal.name} cannot be read") from error
        if not 0 < lines <= len(entries) or entries[lines - 1]["hash"] != last:
            raise self._altered("earlier lines are gone or changed")

    def _altered(self, how: str) -> UserError:
        return UserError(
            f"the spending account {self.path} was altered: {how}; restore it from a backup. "
            "Nothing is released until then."
        )

    def _append(self, handle: int, entry: dict[str, Any], entries: list[dict[str, Any]], end: int) -> None:
        previous = entries[-1]["hash"] if entries else self._first
        line = json.dumps({**entry, "previous": previous}, allow_nan=False).encode()
        os.ftruncate(handle, end)
        try:
            if os.pwrite(handle, line + b"\n", end) != len(line) + 1:
                raise OSError(28, "No space left on device")
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, end)
            raise
        seal = {"lines": len(entries) + 1, "last": hashlib.sha256(line).hexdigest()}
        with atomic_write(self._seal) as temporary:
            temporary.write_text(json.dumps(seal))
        _sync(self.path.parent)


def check_limit(before: Sequence[ReleaseCost], spent: ReleaseCost, limit: SpendingLimit, path: Path) -> None:
    """Refuse a release that would exceed the limit; the message states the sum and what is left."""
    then = total_cost([*before, spent], limit.delta)
    if then.epsilon <= limit.epsilon * (1 + ROUNDING):
        return
    *earlier, this = same_relation([*before, spent])
    now = total_cost(earlier, limit.delta)
    left = max(limit.epsilon - now.epsilon, 0.0)
    mixed = len({release.relation for release in (*before, spent)}) > 1
    doubled = (
        " The account holds guarantees of both relations, so the ε of add_remove are doubled here, as for replace_one."
        if mixed
        else ""
    )
    raise UserError(
        f"this release would cost ε = {this.epsilon:.4g}, δ = {this.delta:.3g} ({this.relation}), and "
        f"{now.releases} {'release' if now.releases == 1 else 'releases'} of these records so far cost "
        f"ε = {now.epsilon:.4g}, δ = {now.delta:.3g}: together more than the limit ε = {limit.epsilon:g}, "
        f"δ = {limit.delta:g}.{doubled} ε = {left:.4g} is left. Choose a smaller ε, or raise release.limit_epsilon or "
        f"release.limit_delta in the configuration if you accept the larger privacy loss (account: {path})."
    )


def _releases(entries: Sequence[dict[str, Any]]) -> list[ReleaseCost]:
    """Return the cost of each intent: its ledger if the release is done, otherwise the most it may spend."""
    done = {entry["release"]: entry for entry in entries if entry["entry"] == "done"}
    found = []
    for entry in entries:
        if entry["entry"] == "intent":
            end = done.get(entry["release"])
            events = None if end is None else tuple(from_rows(end["ledger"]))
            cost = end or entry
            found.append(ReleaseCost(entry["relation"], cost["epsilon"], cost["delta"], events))
    return found


def epsilon_anywhere(claim: Claim, events: Sequence[Event], theorem: Theorem) -> float:
    """Return ε between any two records. It exceeds the claim if the claim holds only for nearby places."""
    if claim_distance(events) is None:
        return claim.epsilon
    return account(events, claim.delta, theorem).epsilon


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
